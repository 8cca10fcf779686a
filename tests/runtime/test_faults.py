"""Ranks that are killed, stopped, cut off or gone: every other rank learns who it was, in time, and goes on."""

from __future__ import annotations

import signal
import time

import pytest

from runtime.fault_crew import Crew
from runtime.fault_leftovers import holders_of, named_memory
from runtime.fault_ranks import (
    ON_ITS_OWN,
    WITHIN_TIMEOUT,
    AtWork,
    Fault,
    GoneOn,
    Happened,
    Raised,
    meet_fault,
)
from runtime.fault_scenes import (
    Failed,
    Ready,
    call_for_ever,
    fail_again_and_again,
    pass_messages,
    wait_for_others,
    work_in_peace,
)

DEATH_SECONDS = 2.0
"""Within which the end of a process or of a connection is known to all."""
SLACK_SECONDS = 1.0
"""Beyond the timeout, for machines with more to do."""
NUM_MANY = 16
LAYOUTS = {"shared memory": (0, 0, 0), "sockets": (0, 1, 2), "both": (0, 0, 1, 1)}
SIGNALS = {
    "kill": signal.SIGKILL,
    "stop": signal.SIGSTOP,
    "resume": signal.SIGSTOP,
    "interrupt": signal.SIGINT,
}

layouts = pytest.mark.parametrize("hosts", LAYOUTS.values(), ids=LAYOUTS.keys())


def cause(crew: Crew, fault: Fault) -> float:
    """Do it to the victim, and return when."""
    if fault.kind in ON_ITS_OWN:
        return crew.hear(fault.victim, Happened).at
    time.sleep(fault.delay)
    return crew.send_signal(fault.victim, SIGNALS[fault.kind])


def check_fault(fault: Fault) -> list[float]:
    """Everything that is promised about one fault; the seconds until each survivor knew of it."""
    print(fault)
    with Crew(fault.hosts, meet_fault, fault) as crew:
        segments = {segment for rank in range(crew.num_ranks) for segment in crew.hear(rank, AtWork).segments}
        begin = cause(crew, fault)
        raised = [crew.hear(rank, Raised) for rank in fault.survivors]
        for one in raised:
            print(f"  {one.at - begin:.3f} s", one)
        assert [(one.error, one.lost) for one in raised] == [("PeerLostError", fault.victim)] * len(raised)
        seconds = [one.at - begin for one in raised]
        limit = fault.timeout + SLACK_SECONDS if fault.kind in WITHIN_TIMEOUT else DEATH_SECONDS
        assert max(seconds) < limit, f"known only after {seconds}"
        for rank in fault.survivors:
            gone_on = crew.hear(rank, GoneOn)
            assert gone_on.after == gone_on.before
            assert crew.wait_for_end(rank) == 0
        check_victim(crew, fault)
    assert holders_of(segments) == []
    assert named_memory() == []
    return seconds


def check_victim(crew: Crew, fault: Fault) -> None:
    """A victim that lives learns that the others went on without it."""
    match fault.kind:
        case "kill":
            assert crew.wait_for_end(fault.victim) == -signal.SIGKILL
        case "exit":
            assert crew.wait_for_end(fault.victim) == 3
        case "interrupt":
            assert crew.hear(fault.victim, Raised).error == "KeyboardInterrupt"
        case "cut":
            assert crew.hear(fault.victim, Raised).error == "PeerLostError"
        case "resume":
            crew.send_signal(fault.victim, signal.SIGCONT)
            assert crew.hear(fault.victim, Raised).error == "PeerLostError"


@pytest.mark.parametrize("seed", range(20))
def test_a_lost_rank_is_known_to_all_others(seed: int) -> None:
    check_fault(Fault.draw(seed))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20, 200))
def test_a_lost_rank_is_known_to_all_others_again(seed: int) -> None:
    check_fault(Fault.draw(seed))


@layouts
def test_two_that_die_at_once(hosts: tuple[int, ...]) -> None:
    """One of them is named, the same or not, and nobody else."""
    with Crew((*hosts, 0), call_for_ever) as crew:
        for rank in range(crew.num_ranks):
            crew.hear(rank, Ready)
        begin = crew.send_signal(0, signal.SIGKILL)
        crew.send_signal(2, signal.SIGKILL)
        for rank in set(range(crew.num_ranks)) - {0, 2}:
            failed = crew.hear(rank, Failed)
            assert failed.error == "PeerLostError"
            assert failed.lost in (0, 2)
            assert failed.at - begin < DEATH_SECONDS


@layouts
@pytest.mark.parametrize(
    ("have_met", "victim", "last"), [(True, 0, -1), (True, 1, -1), (False, 1, 0), (False, -1, 0)]
)
def test_an_interrupt_ends_the_wait(hosts: tuple[int, ...], have_met: bool, victim: int, last: int) -> None:
    """Ctrl-C is a KeyboardInterrupt where it was pressed, and the loss of that rank to all others, now or later.

    Also where the ranks have not met before: the higher ranks wait for a link then, which the lowest makes.
    """
    victim, last = victim % len(hosts), last % len(hosts)
    late = frozenset({last})
    with Crew(hosts, wait_for_others, late, have_met) as crew:
        for rank in range(crew.num_ranks):
            crew.hear(rank, Ready)
        time.sleep(0.2)
        begin = crew.send_signal(victim, signal.SIGINT)
        assert crew.hear(victim, Failed).error == "KeyboardInterrupt"
        for rank in set(range(crew.num_ranks)) - late - {victim}:
            failed = crew.hear(rank, Failed)
            assert (failed.error, failed.lost) == ("PeerLostError", victim)
            assert failed.at - begin < DEATH_SECONDS
        for rank in late:
            crew.tell(rank, "enter")
            failed = crew.hear(rank, Failed)
            assert (failed.error, failed.lost) == ("PeerLostError", victim)


@layouts
def test_everything_fails_after_a_loss(hosts: tuple[int, ...]) -> None:
    """Calls under way and calls that are made later, all with the same rank."""
    with Crew(hosts, fail_again_and_again, 1) as crew:
        for rank in set(range(crew.num_ranks)) - {1}:
            for _ in range(8):
                failed = crew.hear(rank, Failed)
                assert (failed.error, failed.lost) == ("PeerLostError", 1)
            assert crew.wait_for_end(rank) == 0


@layouts
@pytest.mark.parametrize("first", [0, 3])
@pytest.mark.parametrize("victim", ["sender", "receiver"])
def test_messages_name_the_lost_rank(hosts: tuple[int, ...], first: int, victim: str) -> None:
    """By its number in the communicator, whether the two have met before or not."""
    source, target = 2, 0
    lost, other = (source, target) if victim == "sender" else (target, source)
    with Crew(hosts, pass_messages, source, target, first) as crew:
        crew.hear(source, Ready)
        crew.hear(target, Ready)
        begin = crew.send_signal(lost, signal.SIGKILL)
        failed = crew.hear(other, Failed)
        assert (failed.error, failed.lost) == ("PeerLostError", lost)
        assert failed.at - begin < DEATH_SECONDS


@layouts
def test_who_is_only_late_is_not_lost(hosts: tuple[int, ...]) -> None:
    """Neither a rank that comes late nor one that is stopped for a while, as long as it is within the timeout."""
    with Crew(hosts, work_in_peace, 12, 20.0, 0.1) as crew:
        for rank in range(crew.num_ranks):
            crew.hear(rank, Ready)
        for rank in range(crew.num_ranks):
            crew.send_signal(rank, signal.SIGSTOP)
            time.sleep(0.1)
            crew.send_signal(rank, signal.SIGCONT)
        for rank in range(crew.num_ranks):
            crew.hear(rank, Ready)
            assert crew.wait_for_end(rank) == 0


@pytest.mark.parametrize("num_hosts", [1, 4])
def test_many_ranks_on_few_cores_make_progress(num_hosts: int) -> None:
    hosts = tuple(rank * num_hosts // NUM_MANY for rank in range(NUM_MANY))
    with Crew(hosts, work_in_peace, 6, 20.0, 0.0) as crew:
        for rank in range(crew.num_ranks):
            crew.hear(rank, Ready)
        for rank in range(crew.num_ranks):
            crew.hear(rank, Ready)
            assert crew.wait_for_end(rank) == 0
