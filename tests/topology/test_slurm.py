"""Slurm's node lists and topology.conf."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hemiola.errors import TopologyError
from hemiola.topology.parse.slurm import Switch, expand_hosts, read_topology_conf
from topology.host_texts import THREE_LEAVES


@settings(deadline=None)
@given(st.text("abz-_.", min_size=1, max_size=5), st.integers(0, 500), st.integers(0, 300), st.integers(1, 5))
def test_a_range_names_its_numbers(stem: str, first: int, more: int, width: int) -> None:
    names = expand_hosts(f"{stem}[{first:0{width}d}-{first + more}]")
    assert len(names) == more + 1
    assert [int(name.removeprefix(stem)) for name in names] == list(range(first, first + more + 1))
    assert all(len(name) >= len(stem) + max(width, len(str(first))) for name in names)


@settings(deadline=None)
@given(st.sets(st.text("abc012.-", min_size=1, max_size=6), min_size=1, max_size=6))
def test_names_without_brackets_stay(names: set[str]) -> None:
    assert expand_hosts(" , ".join(sorted(names))) == tuple(sorted(names))


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("gpu[001-003,5]", ["gpu001", "gpu002", "gpu003", "gpu5"]),
        ("r[0-1]n[8-9]x", ["r0n8x", "r0n9x", "r1n8x", "r1n9x"]),
        ("a,b[1],", ["a", "b1"]),
        ("n[099-101]", ["n099", "n100", "n101"]),
    ],
)
def test_a_list_is_expanded(text: str, names: list[str]) -> None:
    assert expand_hosts(text) == tuple(names)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "hosts: expected a node list such as gpu[001-064], found nothing"),
        ("a[1-2", "hosts: expected brackets in pairs, as in gpu[001-064], found 'a[1-2'"),
        ("a]1", "hosts: expected brackets in pairs, as in gpu[001-064], found 'a]1'"),
        ("a[[1]]", "hosts: expected brackets in pairs, as in gpu[001-064], found 'a[[1]]'"),
        ("a[3-1]", "hosts: expected numbers and ranges in brackets, as in gpu[001-064,070], found 'a[3-1]'"),
        ("a[x]", "hosts: expected numbers and ranges in brackets, as in gpu[001-064,070], found 'a[x]'"),
        ("a[]", "hosts: expected numbers and ranges in brackets, as in gpu[001-064,070], found 'a[]'"),
        ("a b", "hosts: expected a name such as gpu[001-064], found 'a b'"),
        ("a\x00", "hosts: expected a name such as gpu001, found 'a\\x00'"),
        ("a[1-3],a2", "hosts: 'a2' is named 2 times; name every host once"),
        ("a[0-131072]", "hosts: a node list names at most 131072 hosts, found 'a[0-131072]'"),
        ("a[0-999][0-999]", "hosts: a node list names at most 131072 hosts, found 'a[0-999][0-999]'"),
        ("a[0-99999],b[0-99999]", "hosts: a node list names at most 131072 hosts"),
    ],
)
def test_what_is_no_list_is_named(text: str, message: str) -> None:
    with pytest.raises(TopologyError) as caught:
        expand_hosts(text)
    assert str(caught.value) == message


def test_a_tree_of_switches() -> None:
    (spine,) = read_topology_conf(THREE_LEAVES)
    assert (spine.name, spine.hosts) == ("spine", ())
    assert [leaf.name for leaf in spine.switches] == ["leaf1", "leaf2", "leaf3"]
    assert [len(leaf.hosts) for leaf in spine.switches] == [21, 22, 21]
    assert list(spine.all_hosts()) == list(expand_hosts("gpu[001-064]"))


def test_switches_that_nothing_joins_stay_apart() -> None:
    assert read_topology_conf("SwitchName=a Nodes=x\nSwitchName=b Nodes=y") == (
        Switch("a", hosts=("x",)),
        Switch("b", hosts=("y",)),
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("# nothing", "t.conf: expected lines such as SwitchName=leaf1 Nodes=gpu[001-032], found none"),
        ("a b", "t.conf:1: expected a switch such as SwitchName=leaf1 Nodes=gpu[001-032], found 'a'"),
        (
            "BlockName=a",
            "t.conf:1: expected a switch such as SwitchName=leaf1 Nodes=gpu[001-032], found 'BlockName=a'",
        ),
        (
            "\nSwitchName=a",
            "t.conf:2: expected a switch and what hangs on it, such as SwitchName=leaf1 Nodes=gpu[001-032]",
        ),
        ("SwitchName=a Nodes=x\nSwitchName=a Nodes=y", "t.conf:2: the switch 'a' is described twice"),
        ("SwitchName=a Switches=b", "t.conf: the switch 'b' hangs on 'a', but no line describes it"),
        (
            "SwitchName=a Nodes=x\nSwitchName=b Nodes=x",
            "t.conf: the host 'x' hangs on 'a' and on 'b'; expected one switch above each",
        ),
        (
            "SwitchName=a Switches=b\nSwitchName=b Switches=a",
            "t.conf: some switches hang on each other in a circle; expected a tree",
        ),
        ("SwitchName=a Nodes=x[", "t.conf:1: expected brackets in pairs, as in gpu[001-064], found 'x['"),
        (
            "\n".join(f"SwitchName=s{n} Switches=s{n + 1}" for n in range(12)) + "\nSwitchName=s12 Nodes=a",
            "t.conf: switches hang on each other at most 12 deep",
        ),
    ],
)
def test_what_is_no_topology_is_named(text: str, message: str) -> None:
    with pytest.raises(TopologyError) as caught:
        read_topology_conf(text, "t.conf")
    assert str(caught.value) == message


def test_a_line_with_many_switches_is_expanded_once() -> None:
    """Once for every switch would take hours."""
    with pytest.raises(TopologyError):
        read_topology_conf(f"SwitchName=s[1-100000] Nodes=a{',' * 20_000}\n")
