"""The C++ core of Hemiola: the trace of chunk programs, the passes and the proof."""

from typing import Any

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]
Column = npt.NDArray[np.uint32]
Runs = npt.NDArray[np.uint64]
Broken = list[tuple[int, int, bool, list[tuple[int, int]] | None]]

def version() -> str: ...
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
