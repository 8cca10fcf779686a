"""The C++ core of Hemiola: the trace of chunk programs, the passes, the proof, the executor and the simulator."""

from typing import Any

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]
Column = npt.NDArray[np.uint32]
Runs = npt.NDArray[np.uint64]
Broken = list[tuple[int, int, bool, list[tuple[int, int]] | None]]

def version() -> str: ...
def keep_freed_memory() -> None: ...
def opcodes() -> list[tuple[str, bool, bool, bool, bool, bool]]: ...

class Fault:
    rank: int
    buffer: int
    index: int
    size: int
    line: int
    origin_rank: int
    origin_index: int

class Trace:
    def __init__(
        self,
        inputs: Column,
        outputs: Column,
        alias_source: int,
        alias_target: int,
        alias_offset: npt.NDArray[np.int32],
        held: Bytes,
    ) -> None: ...
    def chunk(self, rank: int, buffer: int, index: int, count: int, /) -> int: ...
    def record(
        self,
        kind: int,
        src_rank: int,
        src_buffer: int,
        src_index: int,
        src_stamp: int,
        dst_rank: int,
        dst_buffer: int,
        dst_index: int,
        dst_stamp: int,
        count: int,
        channel: int,
        send_threadblock: int,
        recv_threadblock: int,
        parallel: int,
        line: int,
        /,
    ) -> int: ...
    def record_moves(self, moves: Bytes, channel: int, parallel: int, line: int, /) -> tuple[int, int]: ...
    def check_fresh(self, rank: int, buffer: int, index: int, count: int, stamp: int, /) -> int: ...
    def size(self, rank: int, buffer: int, /) -> int: ...
    def broken_promises(self, held: Bytes, promised: Bytes, set_first: Column, runs: Runs, /) -> Broken: ...
    def contributions(self, rank: int, buffer: int, index: int, /) -> list[tuple[int, int]] | None: ...
    @property
    def fault(self) -> Fault: ...
    def finish(self) -> tuple[Column, Bytes]: ...

def order_operations(operations: Bytes, chunks: Column, /) -> Bytes: ...
def lower(operations: Bytes, /) -> Bytes: ...
def forward_copies(instructions: Bytes, chunks: Column, kept: Column, /) -> Bytes: ...
def fuse(instructions: Bytes, chunks: Column, kept: Column, slots: int, /) -> tuple[Bytes, int]: ...
def pair_connections(instructions: Bytes, /) -> Bytes: ...
def unfuse(instructions: Bytes, /) -> Bytes: ...
def assign_threadblocks(
    instructions: Bytes, chunks: Column, merge: bool, /
) -> tuple[Bytes, tuple[int, int, int, int, str] | None, int, int]: ...
def order_steps(instructions: Bytes, chunks: Column, num_operations: int, slots: int, /) -> Bytes: ...
def insert_dependencies(instructions: Bytes, chunks: Column, /) -> tuple[Column, Column]: ...
def drop_redundant_dependencies(
    instructions: Bytes, first: Column, on: Column, /
) -> tuple[Column, Column]: ...
def emit(
    instructions: Bytes, num_ranks: int, first: Column, on: Column, /
) -> tuple[Column, Bytes, Bytes, Bytes]: ...
def prove(
    ranks: Bytes,
    threadblocks: Bytes,
    steps: Bytes,
    dependencies: Bytes,
    chunks: Column,
    alias_source: int,
    alias_target: int,
    alias_offset: npt.NDArray[np.int32],
    held: Bytes,
    promised: Bytes,
    set_first: Column,
    runs: Runs,
    slots: int,
    limit: int,
    /,
) -> Any: ...
def run_operations(
    operations: Bytes, chunks: Column, held: Bytes, promised: Bytes, set_first: Column, runs: Runs, /
) -> Broken: ...
def run_instructions(
    instructions: Bytes,
    num_operations: int,
    chunks: Column,
    held: Bytes,
    promised: Bytes,
    set_first: Column,
    runs: Runs,
    /,
) -> tuple[int | None, Broken]: ...

RunFailure = tuple[int, int, str]
"""Kind, rank, text."""

class Part:
    def __init__(
        self,
        ranks: Bytes,
        threadblocks: Bytes,
        steps: Bytes,
        dependencies: Bytes,
        rank: int,
        block_chunks: int,
        alias_source: int,
        alias_offset: int,
    ) -> None: ...
    @property
    def sends(self) -> list[tuple[int, int]]: ...
    @property
    def receives(self) -> list[tuple[int, int]]: ...
    @property
    def max_count(self) -> int: ...

class Endpoint:
    def __init__(self, rank: int, num_ranks: int, num_slots: int, slot_bytes: int) -> None: ...
    @property
    def segment(self) -> int: ...
    @property
    def call(self) -> int: ...
    @property
    def is_forked(self) -> bool: ...
    def join_local(self, peer: int, fd: int, pid: int) -> None: ...
    def set_linking(self, peer: int) -> None: ...
    def open_pipe(self) -> int: ...
    def join_pipe(self, peer: int, fd: int) -> None: ...
    def join_socket(self, peer: int, index: int, fd: int) -> None: ...
    def offer_socket(self, peer: int, index: int, fd: int) -> None: ...
    def is_local(self, peer: int) -> bool: ...
    def has_link(self, peer: int, index: int) -> bool: ...
    def configure(
        self,
        workers: int,
        spins: int,
        yield_seconds: float,
        timeout_seconds: float,
        crowd_seconds: float,
        pin_core: int,
        ranks_per_core: int,
    ) -> None: ...
    def records(self) -> list[tuple[int, int, int, str]]: ...
    def failure(self) -> RunFailure | None: ...
    def fail(self, kind: int, rank: int, text: str) -> RunFailure: ...
    def check(self, peers: list[int]) -> RunFailure | None: ...
    def leave(self) -> None: ...

class Call:
    def __init__(
        self,
        endpoint: Endpoint,
        part: Part,
        type: int,
        op: int,
        elements: int,
        divide_elements: int,
        message_bytes: int,
        content: int,
        description: str,
        input_bytes: int,
        output_bytes: int,
        window: int | None,
        input_lengths: list[int],
        output_lengths: list[int],
    ) -> None: ...
    def run(self, input: object, output: object) -> RunFailure | None: ...
    def run_at(self, input: int, output: int) -> RunFailure | None: ...
    def trace_at(self, input: int, output: int) -> tuple[RunFailure | None, Bytes]: ...

def memory(array: object, writable: bool) -> tuple[int, int, int, int, bool]: ...
def reduce(out: object, a: object, b: object, type: int, op: int, stream: bool) -> None: ...
def copy(out: object, source: object, stream: bool) -> None: ...
def shared_cache_bytes() -> int: ...
def carry_frames(lines: list[tuple[int, int, float]], stop: int) -> tuple[int, int]: ...

Job = tuple[Bytes, Bytes, Bytes, Bytes, npt.NDArray[np.float64], float, float]
"""A plan's tables, the bytes of a chunk in every tile, seconds of a message, and a threadblock's bandwidth."""

def simulate(
    jobs: list[Job],
    capacities: npt.NDArray[np.float64],
    first_hop: npt.NDArray[np.int64],
    hops: npt.NDArray[np.int64],
    latencies: npt.NDArray[np.float64],
    work: npt.NDArray[np.int32],
    slots: int,
    fold: bool,
    most_records: int,
    events: bool,
    /,
) -> tuple[bool, float, npt.NDArray[np.float64], Column, Column, int, bool, Bytes, Bytes]: ...
