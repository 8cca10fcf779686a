"""Reads Slurm's node lists, such as ``gpu[001-064]``, and its topology.conf, which says how switches connect hosts."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

from hemiola.errors import TopologyError
from hemiola.topology.parse.fields import is_short, shown

MAX_HOSTS = 1 << 17
MAX_CHARACTERS = 1 << 22
MOST_BRACKETS = 8
"""The most pairs of brackets in one name."""
MAX_SWITCH_LEVELS = 12

EXAMPLE = "SwitchName=leaf1 Nodes=gpu[001-032]"
_PIECE = re.compile(r"\[([^\[\]]*)\]|([^\[\],\s]+)")
_RANGE = re.compile("([0-9]{1,9})(?:-([0-9]{1,9}))?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Switch:
    """A switch, and the switches and hosts that are connected below it."""

    name: str
    switches: tuple[Switch, ...] = ()
    hosts: tuple[str, ...] = ()

    def all_hosts(self) -> Iterator[str]:
        """The hosts below the switch, at any depth."""
        yield from self.hosts
        for switch in self.switches:
            yield from switch.all_hosts()


def expand_hosts(text: str, where: str = "hosts") -> tuple[str, ...]:
    """The names of a node list, in order.

    >>> expand_hosts("login,gpu[08-10,12]")
    ('login', 'gpu08', 'gpu09', 'gpu10', 'gpu12')
    """
    if len(text) > MAX_CHARACTERS:
        raise TopologyError(f"{where}: a node list has at most {MAX_CHARACTERS} characters")
    names: list[str] = []
    for word in _words(text, where):
        for name in _expand(word, where):
            names.append(name)
            if len(names) > MAX_HOSTS:
                raise TopologyError(f"{where}: a node list names at most {MAX_HOSTS} hosts")
    if not names:
        raise TopologyError(f"{where}: expected a node list such as gpu[001-064], found nothing")
    twice, times = Counter(names).most_common(1)[0]
    if times > 1:
        raise TopologyError(f"{where}: {shown(twice)} is named {times} times; name every host once")
    return tuple(names)


def _words(text: str, where: str) -> Iterator[str]:
    """The parts of a list between commas outside of brackets."""
    begin = depth = 0
    for position, character in enumerate(f"{text},"):
        depth += (character == "[") - (character == "]")
        if not 0 <= depth <= 1:
            break
        if character == "," and depth == 0:
            if word := text[begin:position].strip():
                yield word
            begin = position + 1
    if depth:
        raise TopologyError(f"{where}: expected brackets in pairs, as in gpu[001-064], found {shown(text)}")


def _expand(word: str, where: str) -> Iterator[str]:
    """The names of one word: every combination of the numbers in its brackets."""
    pieces: list[list[str]] = []
    size, position = 1, 0
    while position < len(word):
        match = _PIECE.match(word, position)
        if match is None:
            raise TopologyError(f"{where}: expected a name such as gpu[001-064], found {shown(word)}")
        position = match.end()
        pieces.append([match[2]] if match[2] is not None else _numbers(match[1], word, where))
        size *= len(pieces[-1])
        if size > MAX_HOSTS or len(pieces) > 2 * MOST_BRACKETS:
            raise TopologyError(f"{where}: a node list names at most {MAX_HOSTS} hosts, found {shown(word)}")
    for combination in product(*pieces):
        name = "".join(combination)
        if not is_short(name):
            raise TopologyError(f"{where}: expected a name such as gpu001, found {shown(name)}")
        yield name


def _numbers(text: str, word: str, where: str) -> list[str]:
    """The numbers of a bracket, with the zeros in front that its first numbers have."""
    numbers: list[str] = []
    for part in text.split(","):
        match = _RANGE.fullmatch(part.strip())
        if match is None or (match[2] is not None and int(match[2]) < int(match[1])):
            raise TopologyError(
                f"{where}: expected numbers and ranges in brackets, as in gpu[001-064,070], found {shown(word)}"
            )
        first, last = int(match[1]), int(match[2] or match[1])
        if last - first + len(numbers) >= MAX_HOSTS:
            raise TopologyError(f"{where}: a node list names at most {MAX_HOSTS} hosts, found {shown(word)}")
        numbers += [f"{number:0{len(match[1])}d}" for number in range(first, last + 1)]
    return numbers


def read_topology_conf(text: str, name: str = "topology.conf") -> tuple[Switch, ...]:
    """The topmost switches of a topology.conf, with all switches and hosts below them."""
    if len(text) > MAX_CHARACTERS:
        raise TopologyError(f"{name}: a topology.conf has at most {MAX_CHARACTERS} characters")
    children: dict[str, tuple[str, ...]] = {}
    hosts: dict[str, tuple[str, ...]] = {}
    total = 0
    for where, line in _lines(text, name):
        below = expand_hosts(line["switches"], where) if "switches" in line else ()
        nodes = expand_hosts(line["nodes"], where) if "nodes" in line else ()
        for switch in expand_hosts(line["switchname"], where):
            if switch in children:
                raise TopologyError(f"{where}: the switch {shown(switch)} is described twice")
            children[switch], hosts[switch] = below, nodes
            total += len(children[switch]) + len(hosts[switch])
            if total > 2 * MAX_HOSTS:
                raise TopologyError(f"{where}: a topology has at most {MAX_HOSTS} hosts")
    if not children:
        raise TopologyError(f"{name}: expected lines such as {EXAMPLE}, found none")
    return _trees(children, hosts, name)


def _lines(text: str, name: str) -> Iterator[tuple[str, dict[str, str]]]:
    """The position, and the keys and values, of every line that describes a switch; a backslash continues a line."""
    begun, first = "", 0
    for number, raw in enumerate(text.splitlines(), 1):
        line = raw.partition("#")[0].rstrip()
        first = first if begun else number
        begun += line.removesuffix("\\")
        if line.endswith("\\"):
            continue
        words, begun = begun.split(), ""
        if words:
            yield f"{name}:{first}", _pairs(words, f"{name}:{first}")
    if begun.strip():
        yield f"{name}:{first}", _pairs(begun.split(), f"{name}:{first}")


def _pairs(words: list[str], where: str) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for word in words:
        key, equals, value = word.partition("=")
        key = key.lower()
        if not equals or key not in ("switchname", "switches", "nodes", "linkspeed") or key in pairs:
            raise TopologyError(f"{where}: expected a switch such as {EXAMPLE}, found {shown(word)}")
        pairs[key] = value
    if "switchname" not in pairs or not ("switches" in pairs or "nodes" in pairs):
        raise TopologyError(f"{where}: expected a switch and what hangs on it, such as {EXAMPLE}")
    return pairs


def _trees(
    children: dict[str, tuple[str, ...]], hosts: dict[str, tuple[str, ...]], name: str
) -> tuple[Switch, ...]:
    """The switches as trees; every switch and host may be below one switch only, and never below itself."""
    above: dict[tuple[str, str], str] = {}
    for kind, table in (("switch", children), ("host", hosts)):
        for switch, inside in table.items():
            for one in inside:
                if kind == "switch" and one not in children:
                    raise TopologyError(
                        f"{name}: the switch {shown(one)} hangs on {shown(switch)}, but no line describes it"
                    )
                if (place := above.setdefault((kind, one), switch)) != switch:
                    raise TopologyError(
                        f"{name}: the {kind} {shown(one)} hangs on {shown(place)} and on {shown(switch)}; expected one switch "
                        "above each"
                    )
    roots = [switch for switch in children if ("switch", switch) not in above]
    built = tuple(_tree(root, children, hosts, name, 1) for root in roots)
    if sum(map(_size, built)) < len(children):
        raise TopologyError(f"{name}: some switches hang on each other in a circle; expected a tree")
    return built


def _tree(
    switch: str,
    children: dict[str, tuple[str, ...]],
    hosts: dict[str, tuple[str, ...]],
    name: str,
    depth: int,
) -> Switch:
    if depth > MAX_SWITCH_LEVELS:
        raise TopologyError(f"{name}: switches hang on each other at most {MAX_SWITCH_LEVELS} deep")
    below = tuple(_tree(child, children, hosts, name, depth + 1) for child in children[switch])
    return Switch(switch, below, hosts[switch])


def _size(switch: Switch) -> int:
    return 1 + sum(map(_size, switch.switches))
