"""Tables are made in a folder of the test run, so that none from before can hide a change of the rules."""

from collections.abc import Iterator

import pytest

from hemiola.synthesis.table import table_of


@pytest.fixture(scope="session", autouse=True)
def fresh_tables(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A cache folder of this session's own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        table_of.cache_clear()
        yield
        table_of.cache_clear()
