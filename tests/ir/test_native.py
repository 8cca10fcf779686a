"""The native plan file: whole round trips, and nothing but FormatError for everything else."""

from __future__ import annotations

import json
import os
import random
import struct
import time
import tracemalloc
import zlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given

from hemiola.collectives import AllReduce, Custom
from hemiola.errors import FormatError, PlanError
from hemiola.ir.form import check_form
from hemiola.ir.formats import read_plan
from hemiola.ir.formats.native import MAGIC, VERSION, from_bytes, read_native, to_bytes, write_native
from hemiola.ir.plan import DEPENDENCY, RANK, STEP, THREADBLOCK, Plan, Protocol
from strategies import plans

HEADER_AT = 24


def ring(num_ranks: int, num_steps: int) -> Plan:
    """A threadblock per rank that receives, adds and sends on; step k waits for step k - 1 of its own."""
    ranks = np.zeros(num_ranks, RANK)
    ranks["input_chunks"] = num_ranks
    ranks["first_threadblock"] = np.arange(num_ranks)
    blocks = np.zeros(num_ranks, THREADBLOCK)
    blocks["rank"] = np.arange(num_ranks)
    blocks["send_peer"] = (np.arange(num_ranks) + 1) % num_ranks
    blocks["recv_peer"] = (np.arange(num_ranks) - 1) % num_ranks
    blocks["first_step"] = np.arange(num_ranks) * num_steps
    steps = np.zeros(num_ranks * num_steps, STEP)
    number = np.arange(len(steps)) % num_steps
    steps["opcode"] = np.where(number == 0, 1, 6)
    steps["count"] = 1
    steps["src_index"] = steps["dst_index"] = number % num_ranks
    waits = number > 0
    steps["first_dependency"] = np.cumsum(waits) - waits
    dependencies = np.zeros(int(waits.sum()), DEPENDENCY)
    dependencies["step"] = number[waits] - 1
    collective = AllReduce(num_ranks, num_ranks, in_place=True)
    return Plan("ring", collective, Protocol.SIMPLE, ranks, blocks, steps, dependencies, lines=("ring.py:3",))


def assert_same(one: Plan, other: Plan) -> None:
    for name in ("ranks", "threadblocks", "steps", "dependencies"):
        left, right = getattr(one, name), getattr(other, name)
        assert left.dtype == right.dtype
        assert left.tobytes() == right.tobytes(), name
    rest = ("name", "collective", "protocol", "lines", "min_bytes", "max_bytes", "both_places")
    assert [getattr(one, name) for name in rest] == [getattr(other, name) for name in rest]


def with_checksum(data: bytes) -> bytes:
    checksum = zlib.crc32(data[HEADER_AT:], zlib.crc32(data[8:16]))
    return data[:16] + struct.pack("<I", checksum) + data[20:]


def with_header(data: bytes, **changes: object) -> bytes:
    length = struct.unpack_from("<I", data, 12)[0]
    header = json.loads(data[HEADER_AT : HEADER_AT + length])
    for path, value in changes.items():
        *outer, last = path.split("__")
        part = header
        for key in outer:
            part = part[key]
        part[last] = value
    text = json.dumps(header).encode()
    new = data[:12] + struct.pack("<I", len(text)) + data[16:HEADER_AT] + text + data[HEADER_AT + length :]
    return with_checksum(new)


@given(plans())
def test_a_plan_comes_back_whole(plan: Plan) -> None:
    check_form(plan)
    data = to_bytes(plan)
    assert_same(plan, from_bytes(data))
    assert to_bytes(from_bytes(data)) == data


def test_flags_and_empty_tables_come_back() -> None:
    nothing = Plan(
        "", AllReduce(1), Protocol.LL128, np.array([(1, 1, 0, 0)], RANK), np.empty(0, THREADBLOCK),
        np.empty(0, STEP), np.empty(0, DEPENDENCY), min_bytes=3, max_bytes=9, both_places=True,
    )  # fmt: skip
    assert_same(nothing, from_bytes(to_bytes(nothing)))


def test_the_file_is_replaced_whole_and_leaves_nothing_behind(tmp_path: Path) -> None:
    path = tmp_path / "a.plan"
    path.write_bytes(b"old")
    write_native(ring(2, 2), path)
    assert os.listdir(tmp_path) == ["a.plan"]
    assert_same(ring(2, 2), read_plan(path))
    with pytest.raises(FormatError, match="cannot be written: No such file"):
        write_native(ring(2, 2), tmp_path / "missing" / "a.plan")


def test_two_million_steps_load_in_a_second(tmp_path: Path) -> None:
    write_native(ring(1024, 2048), tmp_path / "big.plan")
    seconds = []
    for _ in range(3):
        start = time.process_time()
        plan = read_native(tmp_path / "big.plan")
        seconds.append(time.process_time() - start)
    assert plan.num_steps == 1024 * 2048
    assert min(seconds) < 1.0


@pytest.mark.parametrize(
    ("path", "reason"), [("missing.plan", "No such file"), (".", "no plain file"), ("nul\0.plan", "null")]
)
def test_what_is_no_file_is_refused(tmp_path: Path, path: str, reason: str) -> None:
    with pytest.raises(FormatError, match=reason):
        read_native(str(tmp_path / path))


def test_a_pipe_is_refused_without_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(FormatError, match="no plain file"):
        read_plan(tmp_path / "pipe")


def test_other_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.plan").write_bytes(b"name: job\n")
    with pytest.raises(FormatError, match="neither a native plan file nor MSCCL XML"):
        read_plan(tmp_path / "a.plan")


def test_a_newer_version_is_refused_by_both_numbers() -> None:
    data = to_bytes(ring(2, 2))
    newer = data[:8] + struct.pack("<I", VERSION + 1) + data[12:]
    with pytest.raises(
        FormatError, match=r"x\.plan: the file has format version 2, but .* reads versions 1 to 1"
    ):
        from_bytes(newer, "x.plan")


HOSTILE = [
    ({"name": 3}, "the header's name is 3, but must be a text"),
    ({"protocol": "LL256"}, "protocol is 'LL256', but must be one of Simple, LL, LL128"),
    ({"min_bytes": -1}, "min_bytes is -1"),
    ({"max_bytes": 1.5}, "max_bytes is 1.5"),
    ({"both_places": 1}, "both_places is 1, but must be true or false"),
    ({"collective": []}, r"collective is \[\], but must be an object"),
    ({"collective__kind": "allreduc"}, "there is no collective 'allreduc'"),
    ({"collective__kind": "custom"}, "the custom collective has sizes of 0 ranks, but 2 ranks"),
    ({"collective__num_ranks": 10**9}, "needs between 1 and"),
    ({"collective__num_ranks": 3}, "the plan has 2 ranks, but its collective has 3"),
    ({"collective__chunks": 1 << 28}, "rank 0: the input has 2 chunks, but allreduce needs 268435456"),
    ({"collective__root": 5}, "root 5 of allreduce is not one of 2 ranks"),
    ({"rows__steps": 1 << 31}, "the tables need 51539607653 bytes after the header, but the file has"),
    ({"rows__steps": 1 << 40}, "steps is 1099511627776, but must be from 0 to"),
    ({"rows__lines": 0}, "the tables need"),
]


@pytest.mark.parametrize(("changes", "message"), HOSTILE)
def test_a_hostile_header_is_refused(changes: dict[str, object], message: str) -> None:
    data = with_header(to_bytes(ring(2, 2)), **changes)
    tracemalloc.start()
    try:
        with pytest.raises(FormatError, match=message):
            from_bytes(data)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("text", [b"[" * 60000, b"1", b"{", b"\xff", b'{"name":' + b"9" * 5000 + b"}"])
def test_a_header_that_is_no_json_is_refused(text: bytes) -> None:
    data = MAGIC + struct.pack("<III", VERSION, len(text), 0) + bytes(4) + text
    with pytest.raises(FormatError, match="header"):
        from_bytes(with_checksum(data))


def test_a_plan_with_absurd_buffers_is_refused() -> None:
    plan = ring(2, 2)
    plan.ranks["scratch_chunks"] = 1 << 30
    with pytest.raises(
        FormatError, match="buffers have 2147483652 chunks, but a plan of 4 steps may have 4210688"
    ):
        from_bytes(to_bytes(plan))


def test_broken_tables_are_not_written() -> None:
    plan = ring(2, 2)
    plan.steps["opcode"][3] = 9
    with pytest.raises(PlanError, match="rank 1, threadblock 0, step 1: has opcode 9"):
        to_bytes(plan)
    with pytest.raises(PlanError, match="too many for a file; shorten it"):
        to_bytes(replace(ring(2, 2), name="x" * 70000))


def test_custom_promises_must_be_sorted_and_exist() -> None:
    promises = {(0, 0): [(0, 0), (1, 0)], (1, 0): [(0, 0)]}
    custom = Custom(input_chunks=[1, 1], output_chunks=[1, 1], promises=promises)
    ranks = np.array([(1, 1, 0, 0), (1, 1, 0, 0)], RANK)
    empty = (np.empty(0, THREADBLOCK), np.empty(0, STEP), np.empty(0, DEPENDENCY))
    data = to_bytes(Plan("custom", custom, Protocol.LL, ranks, *empty))
    assert from_bytes(data).collective == custom
    sizes_at, promises_at, origins_at = len(data) - 64, len(data) - 48, len(data) - 24
    for position, value, message in (
        (sizes_at + 8, 0, "rank 0: the output has 1 chunks|a promise of the custom collective names a chunk"),
        (promises_at, 2, "a promise of the custom collective names a chunk that does not exist"),
        (promises_at, 1, "promises are not sorted, or one comes twice"),
        (promises_at + 16, 1, "do not share out its contributions"),
        (origins_at, 2, "a contribution of the custom collective names a chunk that does not exist"),
        (origins_at + 4, 0, "promises are not sorted, or one comes twice"),
    ):
        broken = data[:position] + struct.pack("<I", value) + data[position + 4 :]
        with pytest.raises(FormatError, match=message):
            from_bytes(with_checksum(broken))


def test_every_truncation_and_every_flip_is_noticed() -> None:
    data = to_bytes(ring(3, 4))
    for length in range(len(data)):
        with pytest.raises(FormatError):
            from_bytes(data[:length])
    for position in range(len(data) * 8):
        flipped = bytearray(data)
        flipped[position // 8] ^= 1 << position % 8
        with pytest.raises(FormatError):
            from_bytes(bytes(flipped))


def test_mutations_with_a_right_checksum_give_a_good_plan_or_one_error() -> None:
    data = to_bytes(ring(3, 4))
    rng = random.Random(2)
    accepted = 0
    for _ in range(4000):
        broken = bytearray(data)
        for _ in range(rng.randint(1, 3)):
            position = rng.randrange(8, len(data))
            broken[position] = rng.choice([0, 1, 2, 3, 127, 128, 255, rng.randrange(256)])
        try:
            plan = from_bytes(with_checksum(bytes(broken)))
        except FormatError:
            continue
        accepted += 1
        check_form(plan)
        assert_same(plan, from_bytes(to_bytes(plan)))
    assert 0 < accepted < 4000
