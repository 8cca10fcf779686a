"""Tables are kept, and made anew where the kept one is not whole."""

from pathlib import Path

import numpy as np
import pytest

from hemiola.cache import cache_folder
from hemiola.collectives import CollectiveKind
from hemiola.errors import ReductionError
from hemiola.synthesis.table import Table, table_of


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return cache_folder()


def fresh(depth: int) -> Table:
    return table_of.__wrapped__(depth, CollectiveKind.ALLREDUCE)


def test_a_table_is_read_back_as_it_was_made(folder: Path) -> None:
    made = fresh(3)
    (file,) = folder.glob("*.npz")
    before = file.stat().st_mtime_ns
    kept = fresh(3)
    assert file.stat().st_mtime_ns == before
    assert (kept.num_states, kept.num_explored, kept.first_goal) == (258, 735, made.first_goal)
    assert (kept.edges == made.edges).all()


@pytest.mark.parametrize("damage", ["cut", "changed", "empty"])
def test_a_damaged_file_is_made_anew(folder: Path, damage: str) -> None:
    made = fresh(2)
    (file,) = folder.glob("*.npz")
    if damage == "changed":
        with np.load(file) as kept:
            parts = dict(kept)
        parts["edges"]["target"][0] = 1 + parts["edges"]["target"][0]
        np.savez(file, **parts)
    else:
        file.write_bytes(file.read_bytes()[:200] if damage == "cut" else b"")
    assert (fresh(2).edges == made.edges).all()


def test_steps_lead_to_higher_states_and_goals_come_last() -> None:
    table = table_of(3)
    assert (table.edges["source"] < table.edges["target"]).all()
    assert (table.edges["source"] < table.first_goal).all()
    assert set(range(1, table.num_states)) == set(table.edges["target"].tolist())


@pytest.mark.parametrize("depth", [0, 5])
def test_depths_without_a_table_are_refused(depth: int) -> None:
    with pytest.raises(ReductionError, match="1 to 4"):
        table_of(depth)
