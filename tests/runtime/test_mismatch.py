"""Ranks that call different things: every rank raises MismatchError, nothing wrong is returned, nobody hangs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from runtime.fault_crew import Crew
from runtime.fault_mismatches import MISMATCHES, Outcome, disagree_on_a_message, make_mismatches

LAYOUTS = {"shared memory": (0, 0, 0), "sockets": (0, 1, 2), "both": (0, 0, 1, 1)}


@pytest.fixture(scope="module", params=LAYOUTS)
def crew(request: pytest.FixtureRequest) -> Iterator[Crew]:
    with Crew(LAYOUTS[request.param], make_mismatches) as ranks:
        yield ranks


@pytest.mark.parametrize("name", MISMATCHES)
def test_all_ranks_raise(crew: Crew, name: str) -> None:
    """In the call that differs; a rank whose own part could end rightly raises in its next call at the latest."""
    for rank in range(crew.num_ranks):
        crew.tell(rank, name)
    outcomes = [crew.hear(rank, Outcome) for rank in range(crew.num_ranks)]
    for outcome in outcomes:
        print(outcome)
    assert [outcome.error for outcome in outcomes] == ["MismatchError"] * crew.num_ranks
    num_right = MISMATCHES[name].num_right
    assert all(num_right <= outcome.step <= num_right + 1 for outcome in outcomes)


@pytest.mark.parametrize("hosts", [(0, 0), (0, 1)], ids=["shared memory", "sockets"])
@pytest.mark.parametrize(("sent", "expected"), [(10, 20), (20, 10), (1_000_000, 10)])
def test_messages_of_different_lengths(hosts: tuple[int, ...], sent: int, expected: int) -> None:
    """The receiver raises, and after that the sender."""
    with Crew(hosts, disagree_on_a_message, sent, expected) as crew:
        assert crew.hear(1, Outcome).error == "MismatchError"
        crew.tell(0, "again")
        assert crew.hear(0, Outcome).error == "MismatchError"
