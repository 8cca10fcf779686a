"""Reads a host from the output of ``nvidia-smi topo -m``, a matrix of the connections between devices and interfaces."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import combinations

from hemiola.errors import TopologyError
from hemiola.topology.host_facts import MAX_DEVICES_OF_A_HOST, MAX_NICS_OF_A_HOST, HostFacts, Nic
from hemiola.topology.parse.fields import shown

MAX_BYTES = 1 << 20
DISTANCES = {"X": 0, "PIX": 1, "PXB": 2, "PHB": 3, "NODE": 4, "SYS": 5, "SOC": 5}
"""The words of the matrix, with a number that grows with the distance they mean."""
MOST_NVLINKS = 18
"""The most NVLinks of one device in any generation so far."""

_ESCAPE = re.compile("\x1b\\[[0-9;]*[A-Za-z]")
_DEVICE = re.compile("GPU[0-9]{1,4}", re.ASCII)
_NVLINKS = re.compile("NV([1-9][0-9]?)", re.ASCII)


def read_nvidia_topo(text: str, name: str = "topology") -> HostFacts:
    """The host that a matrix describes."""
    if len(text) > MAX_BYTES:
        raise TopologyError(f"{name}: such a matrix has at most {MAX_BYTES} characters")
    lines = [_ESCAPE.sub("", line).split() for line in text.splitlines()]
    # The head of the matrix and its rows begin with a device, but only a row contains X, its distance to itself.
    start = next(
        (n for n, words in enumerate(lines) if words and _DEVICE.fullmatch(words[0]) and "X" not in words),
        None,
    )
    if start is None:
        raise TopologyError(
            f"{name}: expected a head such as GPU0 GPU1 NIC0 CPU Affinity above a matrix, as nvidia-smi topo -m prints it"
        )
    columns = _columns(lines[start], name)
    rows = _rows(lines[start + 1 :], columns, name)
    devices = [column for column in columns if _DEVICE.fullmatch(column)]
    nics = [column for column in columns if column not in devices]
    called = _legend(lines)
    direct, switched = _links(devices, rows, name)
    return HostFacts(
        source=name,
        devices=tuple(devices),
        nics=tuple(Nic(called.get(nic, nic), None) for nic in nics),
        distances=tuple(
            tuple(_distance(rows[device][nic], device, nic, name) for nic in nics) for device in devices
        ),
        direct_links=direct,
        switch_links=switched,
    )


def _columns(head: list[str], name: str) -> list[str]:
    """The columns of the matrix that are devices or interfaces; the columns of affinities follow them."""
    end = head.index("CPU") if "CPU" in head else len(head)
    columns = head[:end]
    devices = [column for column in columns if _DEVICE.fullmatch(column)]
    if len(set(columns)) < len(columns):
        raise TopologyError(
            f"{name}: expected every name once in the head of the matrix, found {shown(' '.join(columns))}"
        )
    if len(devices) > MAX_DEVICES_OF_A_HOST or len(columns) - len(devices) > MAX_NICS_OF_A_HOST:
        raise TopologyError(
            f"{name}: a host has at most {MAX_DEVICES_OF_A_HOST} devices and {MAX_NICS_OF_A_HOST} NICs"
        )
    return columns


def _rows(lines: list[list[str]], columns: list[str], name: str) -> dict[str, dict[str, str]]:
    """The words of the rows of devices, by device and by column."""
    rows: dict[str, dict[str, str]] = {}
    for words in lines:
        if not words or not _DEVICE.fullmatch(words[0]) or words[0] in rows:
            continue
        if words[0] not in columns or len(words) <= len(columns):
            raise TopologyError(
                f"{name}: expected {len(columns)} words after {words[0]}, one for each of {shown(' '.join(columns))}, "
                f"found {len(words) - 1}"
            )
        rows[words[0]] = dict(zip(columns, words[1:], strict=False))
    missing = next((column for column in columns if _DEVICE.fullmatch(column) and column not in rows), None)
    if missing is not None:
        raise TopologyError(
            f"{name}: expected a row for {missing}, which is in the head of the matrix, found none"
        )
    return rows


def _legend(lines: list[list[str]]) -> Mapping[str, str]:
    """The names of interfaces by their columns, from lines such as ``NIC0: mlx5_0``."""
    return {
        words[0][:-1]: words[1][:60]
        for words in lines
        if len(words) == 2 and re.fullmatch("NIC[0-9]+:", words[0])
    }


def _links(
    devices: list[str], rows: Mapping[str, Mapping[str, str]], name: str
) -> tuple[dict[tuple[int, int], int], int]:
    """The number of direct links by pair of devices, or the number of links of a device to a switch.

    The matrix does not distinguish the two. With a switch, it lists all links of a device for every pair, so all
    numbers are equal, and their sum over the other devices is more links than a device can have.
    """
    counts: dict[tuple[int, int], int] = {}
    for (first, device), (second, other) in combinations(enumerate(devices), 2):
        there, back = rows[device][other], rows[other][device]
        found = _NVLINKS.fullmatch(there)
        if found is None:
            _distance(there, device, other, name)
        else:
            counts[first, second] = int(found[1])
        if there != back:
            raise TopologyError(
                f"{name}: expected the same word from {device} to {other} as back, found {there} and {shown(back)[1:-1]}"
            )
    pairs = len(devices) * (len(devices) - 1) // 2
    if len(counts) == pairs > 0 and len(set(counts.values())) == 1:
        each = next(iter(counts.values()))
        if each * (len(devices) - 1) > MOST_NVLINKS:
            return {}, each
    return counts, 0


def _distance(word: str, row: str, column: str, name: str) -> int:
    if word not in DISTANCES:
        raise TopologyError(
            f"{name}: expected NV# or one of {', '.join(DISTANCES)} from {row} to {column}, found {shown(word)}"
        )
    return DISTANCES[word]
