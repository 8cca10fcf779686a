"""What stays behind: nothing after close, nothing after the end of the processes however they end, nothing in children."""

from __future__ import annotations

import os
import signal

import pytest

from runtime.fault_crew import Crew
from runtime.fault_leftovers import holders_of, named_memory, segments_of
from runtime.fault_scenes import (
    Failed,
    Held,
    Ready,
    call_for_ever,
    come_and_go,
    disagree,
    exchange_messages,
    fork_once,
    hurry_away,
    start_program,
)

LAYOUTS = {"shared memory": (0, 0, 0), "sockets": (0, 1, 2), "both": (0, 0, 1, 1)}
DEATH_SECONDS = 2.0

layouts = pytest.mark.parametrize("hosts", LAYOUTS.values(), ids=LAYOUTS.keys())


@layouts
def test_close_gives_back_everything(hosts: tuple[int, ...]) -> None:
    """Descriptors, threads and memory, even while the closed communicators are kept."""
    with Crew(hosts, come_and_go, 5) as crew:
        for rank in range(crew.num_ranks):
            held = crew.hear(rank, Held)
            assert held.after == held.before


@layouts
def test_close_gives_back_what_messages_took(hosts: tuple[int, ...]) -> None:
    with Crew(hosts, exchange_messages) as crew:
        for rank in range(crew.num_ranks):
            held = crew.hear(rank, Held)
            assert held.after == held.before


@layouts
def test_a_communicator_that_cannot_be_made_gives_back_everything(hosts: tuple[int, ...]) -> None:
    with Crew(hosts, disagree) as crew:
        for rank in range(crew.num_ranks):
            assert crew.hear(rank, Failed).error == "ConnectError"
            held = crew.hear(rank, Held)
            assert held.after == held.before


@layouts
def test_nothing_is_left_when_all_are_killed_at_once(hosts: tuple[int, ...]) -> None:
    with Crew(hosts, call_for_ever) as crew:
        segments = {segment for rank in range(crew.num_ranks) for segment in crew.hear(rank, Ready).segments}
        assert len(segments) == len(hosts)
        assert sorted(holders_of(segments)) == sorted(crew.pid(rank) for rank in range(crew.num_ranks))
        for rank in range(crew.num_ranks):
            crew.send_signal(rank, signal.SIGKILL)
    assert holders_of(segments) == []
    assert named_memory() == []


@layouts
def test_who_closes_early_takes_nothing_away(hosts: tuple[int, ...]) -> None:
    """What a rank has sent arrives, although the rank has left long before it is taken."""
    with Crew(hosts, hurry_away, 4) as crew:
        for rank in range(crew.num_ranks):
            crew.hear(rank, Ready)
            assert crew.wait_for_end(rank) == 0


@layouts
def test_a_program_that_is_started_inherits_nothing(hosts: tuple[int, ...]) -> None:
    with Crew(hosts, start_program) as crew:
        for rank in range(crew.num_ranks):
            ready = crew.hear(rank, Ready)
            assert ready.segments
            assert segments_of(ready.child) == frozenset()
            assert set(os.listdir(f"/proc/{ready.child}/fd")) == {"0", "1", "2"}
            crew.tell(rank, "end")
            assert crew.wait_for_end(rank) == 0


@layouts
@pytest.mark.parametrize("workers", [1, 2])
def test_a_forked_child_has_no_part_in_the_communicator(hosts: tuple[int, ...], workers: int) -> None:
    """It neither disturbs its parent nor hides its parent's end, and it cannot call."""
    forker = 1
    with Crew(hosts, fork_once, forker, workers) as crew:
        tried = crew.hear(forker, Failed)
        assert (tried.error, "new one after the fork" in tried.text) == ("RunError", True), tried
        assert crew.hear(forker, Ready).segments == frozenset()
        child = crew.hear(forker, Ready).child
        try:
            for rank in range(crew.num_ranks):
                crew.tell(rank, "go on")
            for rank in range(crew.num_ranks):
                crew.hear(rank, Ready)
            begin = crew.send_signal(forker, signal.SIGKILL)
            for rank in set(range(crew.num_ranks)) - {forker}:
                failed = crew.hear(rank, Failed)
                assert (failed.error, failed.lost) == ("PeerLostError", forker)
                assert failed.at - begin < DEATH_SECONDS
            os.kill(child, 0)
        finally:
            os.kill(child, signal.SIGKILL)
