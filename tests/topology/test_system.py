"""Systems: units, devices, hosts, links, and what cannot be."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hemiola.errors import TopologyError
from hemiola.topology.system import Edge, Fabric, Level, Link, Path, System
from topology.systems import systems

LINK = Link(25e9, 25e9)
PAIR = Fabric("mesh", edges=(Edge(0, 1, 25e9),))


def machine(*counts: int, missing: frozenset[Path] = frozenset()) -> System:
    names = ("rack", "host", "gpu")[-len(counts) :]
    return System(
        "machine", tuple(Level(n, c, LINK) for n, c in zip(names, counts, strict=True)), missing=missing
    )


@settings(deadline=None)
@given(st.lists(st.integers(1, 5), min_size=1, max_size=3))
def test_a_uniform_system_has_the_product_of_its_counts(counts: list[int]) -> None:
    system = machine(*counts)
    assert system.is_uniform
    assert system.num_ranks == math.prod(counts)
    assert list(system.devices) == sorted(system.devices)


@settings(deadline=None)
@given(systems())
def test_units_are_there_when_none_around_them_is_missing(system: System) -> None:
    outside: set[Path] = {()}
    for depth in range(1, len(system.levels) + 1):
        units = set(system.units(depth))
        assert {path[:-1] for path in units} <= outside
        assert not units & system.missing
        count = system.levels[depth - 1].count
        assert len(units) == len(outside) * count - sum(
            len(path) == depth and path[:-1] in outside for path in system.missing
        )
        outside = units
    assert system.devices == tuple(sorted(outside))


@settings(deadline=None)
@given(systems())
def test_every_rank_lies_in_its_host(system: System) -> None:
    for device, host in zip(system.devices, system.host_of_rank, strict=True):
        assert device[: system.host_depth] == system.hosts[host]
    assert list(system.host_of_rank) == sorted(system.host_of_rank)


@settings(deadline=None)
@given(systems())
def test_every_device_has_one_link_of_each_unit_around_it(system: System) -> None:
    for device in system.devices:
        for depth in range(1, len(device) + 1):
            if system.levels[depth - 1].link is None:
                continue
            number = system.link_number(device[:depth], device)
            assert 0 <= number < system.link_of(device[:depth]).num


def test_devices_share_links_by_their_unit_unless_it_is_said_behind_which_they_are() -> None:
    levels = (Level("host", 2, Link(1.0, 1.0, num=2)), Level("socket", 2, LINK), Level("gpu", 2, LINK))
    system = System("plain", levels)
    assert [system.link_number((1,), device) for device in system.devices[4:]] == [0, 0, 1, 1]
    behind = Link(1.0, 1.0, num=4, behind=(3, 2, 1, 0))
    system = System("told", (Level("host", 2, behind), *levels[1:]))
    assert [system.link_number((1,), device) for device in system.devices[4:]] == [3, 2, 1, 0]
    assert behind.scaled(2) == Link(2.0, 2.0, num=4, behind=(3, 2, 1, 0))


def test_an_exception_has_its_own_link() -> None:
    slow = Link(1e9, 1e9)
    system = System("slow", (Level("host", 2, LINK), Level("gpu", 2, LINK)), exceptions={(1,): slow})
    assert (system.link_of((0,)), system.link_of((1,))) == (LINK, slow)
    assert not system.is_uniform


def test_missing_units_take_their_devices_along() -> None:
    system = machine(3, 2, missing=frozenset({(1,), (2, 0)}))
    assert system.devices == ((0, 0), (0, 1), (2, 1))
    assert (system.hosts, system.host_of_rank) == (((0,), (2,)), (0, 0, 1))
    assert not system.is_uniform


@pytest.mark.parametrize(
    ("names", "depth"),
    [
        (["gpu"], 0),
        (["box", "gpu"], 1),
        (["pod", "node", "gpu"], 2),
        (["node", "socket", "gpu"], 1),
        (["server"], 1),
    ],
)
def test_hosts_are_found_by_name_or_lie_around_the_devices(names: list[str], depth: int) -> None:
    system = System("x", tuple(Level(name, 2, LINK) for name in names))
    assert system.host_depth == depth
    assert system.num_hosts == 2**depth


def test_host_names_and_words() -> None:
    system = System("x", machine(2, 2, 2).levels, host_names=("a", "b", "c", "d"))
    assert system.host_name(2) == "c"
    assert machine(2, 2).host_name(1) == "host1"
    assert system.describe((1, 0)) == "host 0 of rack 1"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: System("x", ()), "system 'x' has no levels; a machine of two devices has one, of count 2"),
        (
            lambda: System("x", (Level("gpu", 2, LINK), Level("gpu", 2, LINK))),
            "system 'x' has two levels called 'gpu'; every level has its own name",
        ),
        (lambda: machine(0), "level 'gpu' of system 'machine' has count 0; expected 1 or more"),
        (
            lambda: System("x", (Level("gpu", 2, None, Fabric("mesh", edges=(Edge(0, 2, 1.0),))),)),
            "level 'gpu' of system 'x' has Edge(first=0, second=2, bandwidth=1.0, latency=0.0); expected two different ends "
            "from 0 to 1, a bandwidth above 0 and a latency of 0 or more",
        ),
        (
            lambda: System("x", (Level("gpu", 2, Link(1.0, 0.0)),)),
            "a gpu of system 'x' has Link(bandwidth_out=1.0, bandwidth_in=0.0, latency=0.0, num=1, behind=()); expected "
            "bandwidths above 0, a latency of 0 or more and num of 1 or more",
        ),
        (
            lambda: machine(2, missing=frozenset({(0,), (1,)})),
            "system 'machine' has no devices: all of its units are missing",
        ),
        (
            lambda: machine(2, missing=frozenset({(5,)})),
            "there is no gpu 5 in system 'machine': they are numbered 0 to 1",
        ),
        (
            lambda: machine(2, missing=frozenset({(0, 0)})),
            "unit (0, 0) of system 'machine' does not say its number at each level",
        ),
        (
            lambda: System("x", machine(2, 2).levels, host_names=("a",)),
            "system 'x' has 2 hosts, but 1 host names",
        ),
        (
            lambda: System("x", (Level("gpu", 2, None, PAIR),), exceptions={(0,): LINK}),
            "gpu 0 of system 'x' is joined by a mesh and cannot have a link of its own",
        ),
        (
            lambda: System(
                "x", (Level("host", 2, Link(1.0, 1.0, num=2, behind=(0, 1))), Level("gpu", 4, LINK))
            ),
            "the links of a host of system 'x' say behind which of them its devices are: expected 4 numbers from 0 "
            "to 1, found [0, 1]",
        ),
        (
            lambda: System("x", (Level("gpu", 2, None, PAIR),)).link_of((0,)),
            "gpu 0 of system 'x' is joined by a mesh and has no link",
        ),
    ],
)
def test_what_cannot_be_is_said_in_a_sentence(make: object, message: str) -> None:
    assert callable(make)
    with pytest.raises(TopologyError) as caught:
        make()
    assert str(caught.value) == message
