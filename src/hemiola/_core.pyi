"""
The C++ core of Hemiola: the trace of chunk programs, the passes, the proof, the executor, the simulator and the step model.
"""

from collections.abc import Sequence
import enum
from typing import Annotated

import numpy
from numpy.typing import NDArray

def version() -> str:
    """The version of the package this core was built for."""

def keep_freed_memory() -> None:
    """
    Lets this process keep the memory that it frees, for commands that allocate much and then end.
    """

NO_PEER: int = -1

AUTOMATIC: int = -1

NO_ROW: int = 4294967295

class Opcode(enum.IntEnum):
    """The type of a step, with the name that MSCCL's XML gives it."""

    NOP = 0
    """only waits for its dependencies"""

    S = 1
    """send source"""

    R = 2
    """receive into destination"""

    RCS = 3
    """receive into destination and send it on"""

    RRS = 4
    """receive, add source, send the sum on"""

    RRC = 5
    """receive, add source, store in destination"""

    RRCS = 6
    """receive, add source, store and send on"""

    CPY = 7
    """copy source to destination"""

    RE = 8
    """add source into destination"""

class OpcodeTraits:
    """What an opcode reads, writes, takes from and gives to the wire."""

    @property
    def name(self) -> str: ...
    @property
    def receives(self) -> bool: ...
    @property
    def reads_source(self) -> bool: ...
    @property
    def reads_destination(self) -> bool: ...
    @property
    def writes_destination(self) -> bool: ...
    @property
    def sends(self) -> bool: ...
    @property
    def meaning(self) -> str: ...
    @property
    def reduces(self) -> bool:
        """Whether two values are added."""

def opcode_traits() -> list[OpcodeTraits]:
    """What every opcode does, in the order of their numbers."""

class OperationKind(enum.IntEnum):
    """COPY: destination = source. REDUCE: destination += source."""

    COPY = 0

    REDUCE = 1

def layout(table: str) -> list[tuple[str, str]]:
    """Name and NumPy's format of every column of a table; there are no gaps."""

class PlanView:
    """The four tables of a plan, not copied."""

    def __init__(
        self,
        ranks: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order="C", device="cpu", writable=False)],
        threadblocks: Annotated[
            NDArray[numpy.uint8], dict(shape=(None,), order="C", device="cpu", writable=False)
        ],
        steps: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order="C", device="cpu", writable=False)],
        dependencies: Annotated[
            NDArray[numpy.uint8], dict(shape=(None,), order="C", device="cpu", writable=False)
        ],
    ) -> None: ...

class MeaningView:
    """What a collective starts from and promises, not copied."""

    def __init__(
        self,
        held: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order="C", device="cpu", writable=False)],
        promised: Annotated[
            NDArray[numpy.uint8], dict(shape=(None,), order="C", device="cpu", writable=False)
        ],
        set_first: Annotated[
            NDArray[numpy.uint32], dict(shape=(None,), order="C", device="cpu", writable=False)
        ],
        runs: Annotated[
            NDArray[numpy.uint64], dict(shape=(None, 2), order="C", device="cpu", writable=False)
        ],
    ) -> None: ...

class TraceFault(enum.IntEnum):
    """
    Why the trace refused an operation; returned where otherwise a stamp stands.
    """

    STALE = -1

    UNINITIALIZED = -2

    RANK = -3

    INDEX = -4

    COUNT = -5

    DOUBLE_COUNT = -6

    OVERLAP = -7

    TOO_LARGE = -8

class Fault:
    """Where the trace refused an operation."""

    @property
    def rank(self) -> int: ...
    @property
    def buffer(self) -> int: ...
    @property
    def index(self) -> int: ...
    @property
    def size(self) -> int: ...
    @property
    def line(self) -> int:
        """Of the operation that wrote the chunk last, 0 for none."""

    @property
    def origin_rank(self) -> int:
        """Of the contribution that is counted twice."""

    @property
    def origin_index(self) -> int: ...

class Trace:
    """
    Records a chunk program, and what every chunk holds after each operation.
    """

    def __init__(
        self,
        inputs: Annotated[
            NDArray[numpy.uint32], dict(shape=(None,), order="C", device="cpu", writable=False)
        ],
        outputs: Annotated[
            NDArray[numpy.uint32], dict(shape=(None,), order="C", device="cpu", writable=False)
        ],
        alias_source: int,
        alias_target: int,
        alias_offset: Annotated[
            NDArray[numpy.int32], dict(shape=(None,), order="C", device="cpu", writable=False)
        ],
        held: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order="C", device="cpu", writable=False)],
    ) -> None: ...
    def chunk(self, rank: int, buffer: int, index: int, count: int, /) -> int:
        """The stamp of a new reference, or a TraceFault."""

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
    ) -> int:
        """The stamp of what was written, or a TraceFault."""

    def record_moves(
        self,
        moves: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order="C", device="cpu", writable=False)],
        channel: int,
        parallel: int,
        line: int,
    ) -> tuple[int, int]:
        """
        How many rows of Move were recorded, and the TraceFault of the row behind them, or 0.
        """

    def check_fresh(self, rank: int, buffer: int, index: int, count: int, stamp: int) -> int: ...
    def size(self, rank: int, buffer: int) -> int: ...
    def broken_promises(self, meaning: MeaningView) -> list[BrokenPromise]:
        """At most one."""

    def contributions(self, rank: int, buffer: int, index: int) -> list[tuple[int, int]] | None:
        """
        (rank, input chunk) of what a chunk adds up; None where nothing was written.
        """

    @property
    def fault(self) -> Fault:
        """What was refused last."""

    def finish(
        self,
    ) -> tuple[
        Annotated[NDArray[numpy.uint32], dict(shape=(None,))],
        Annotated[NDArray[numpy.uint8], dict(shape=(None,))],
    ]:
        """Scratch chunks of every rank, and the operations."""

class Fused:
    @property
    def instructions(self) -> Annotated[NDArray[numpy.uint8], dict(shape=(None,))]: ...
    @property
    def left_apart(self) -> int:
        """Pairs that only the number of slots kept from being fused."""

class ThreadblockConflict:
    """Why threadblocks given by hand cannot be had."""

    @property
    def rank(self) -> int: ...
    @property
    def threadblock(self) -> int: ...
    @property
    def line(self) -> int: ...
    @property
    def other_line(self) -> int: ...
    @property
    def what(self) -> str: ...

class Threadblocks:
    @property
    def instructions(self) -> Annotated[NDArray[numpy.uint8], dict(shape=(None,))]: ...
    @property
    def conflict(self) -> ThreadblockConflict | None: ...
    @property
    def most(self) -> int:
        """Threadblocks of the rank that has most."""

    @property
    def most_per_channel(self) -> int:
        """Of one channel of a rank."""

class PlanTables:
    @property
    def first_threadblock(self) -> Annotated[NDArray[numpy.uint32], dict(shape=(None,))]:
        """Per rank."""

    @property
    def threadblocks(self) -> Annotated[NDArray[numpy.uint8], dict(shape=(None,))]: ...
    @property
    def steps(self) -> Annotated[NDArray[numpy.uint8], dict(shape=(None,))]: ...
    @property
    def dependencies(self) -> Annotated[NDArray[numpy.uint8], dict(shape=(None,))]: ...

def order_operations(
    operations: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order="C", device="cpu", writable=False)],
    chunks: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order="C", device="cpu", writable=False)],
) -> Annotated[NDArray[numpy.uint8], dict(shape=(None,))]: ...
def lower(
    operations: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order="C", device="cpu", writable=False)],
) -> Annotated[NDArray[numpy.uint8], dict(shape=(None,))]: ...
def forward_copies(
    instructions: Annotated[
        NDArray[numpy.uint8], dict(shape=(None,), order="C", device="cpu", writable=False)
    ],
    chunks: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order="C", device="cpu", writable=False)],
    kept: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order="C", device="cpu", writable=False)],
) -> Annotated[NDArray[numpy.uint8], dict(shape=(None,))]: ...
def fuse(
    instructions: Annotated[
        NDArray[numpy.uint8], dict(shape=(None,), order="C", device="cpu", writable=False)
    ],
    chunks: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order="C", device="cpu", writable=False)],
    kept: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order="C", device="cpu", writable=False)],
    slots: int,
) -> Fused: ...
def pair_connections(
    instructions: Annotated[
        NDArray[numpy.uint8], dict(shape=(None,), order="C", device="cpu", writable=False)
    ],
) -> Annotated[NDArray[numpy.uint8], dict(shape=(None,))]: ...
def unfuse(
    instructions: Annotated[
        NDArray[numpy.uint8], dict(shape=(None,), order="C", device="cpu", writable=False)
    ],
) -> Annotated[NDArray[numpy.uint8], dict(shape=(None,))]: ...
def assign_threadblocks(
    instructions: Annotated[
        NDArray[numpy.uint8], dict(shape=(None,), order="C", device="cpu", writable=False)
    ],
    chunks: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order="C", device="cpu", writable=False)],
    merge: bool,
) -> Threadblocks: ...
def order_steps(
    instructions: Annotated[
        NDArray[numpy.uint8], dict(shape=(None,), order="C", device="cpu", writable=False)
    ],
    chunks: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order="C", device="cpu", writable=False)],
    num_operations: int,
    slots: int,
) -> Annotated[NDArray[numpy.uint8], dict(shape=(None,))]: ...
def insert_dependencies(
    instructions: Annotated[
        NDArray[numpy.uint8], dict(shape=(None,), order="C", device="cpu", writable=False)
    ],
    chunks: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order="C", device="cpu", writable=False)],
) -> tuple[
    Annotated[NDArray[numpy.uint32], dict(shape=(None,))],
    Annotated[NDArray[numpy.uint32], dict(shape=(None,))],
]:
    """
    Row i waits for rows on[first[i] : first[i + 1]]; returns first and on.
    """

def drop_redundant_dependencies(
    instructions: Annotated[
        NDArray[numpy.uint8], dict(shape=(None,), order="C", device="cpu", writable=False)
    ],
    first: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order="C", device="cpu", writable=False)],
    on: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order="C", device="cpu", writable=False)],
) -> tuple[
    Annotated[NDArray[numpy.uint32], dict(shape=(None,))],
    Annotated[NDArray[numpy.uint32], dict(shape=(None,))],
]: ...
def emit(
    instructions: Annotated[
        NDArray[numpy.uint8], dict(shape=(None,), order="C", device="cpu", writable=False)
    ],
    num_ranks: int,
    first: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order="C", device="cpu", writable=False)],
    on: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order="C", device="cpu", writable=False)],
) -> PlanTables: ...

class ConnectionFaultKind(enum.Enum):
    """How the two ends of a connection fail to match."""

    TWO_SENDERS = 0

    TWO_RECEIVERS = 1

    MORE_SENT = 2

    MORE_RECEIVED = 3

    COUNTS = 4

class WaitKind(enum.Enum):
    """What a step that stands still waits for."""

    MESSAGE = 0

    SLOT = 1

    DEPENDENCY = 2

    RECEIPT = 3

class ConnectionFault:
    """Rows of the plan; NO_ROW where there is none."""

    @property
    def kind(self) -> ConnectionFaultKind: ...
    @property
    def block(self) -> int: ...
    @property
    def other_block(self) -> int: ...
    @property
    def step(self) -> int: ...
    @property
    def other_step(self) -> int: ...

class BlockedStep:
    """A step that waits forever, and for whom."""

    @property
    def step(self) -> int: ...
    @property
    def block(self) -> int: ...
    @property
    def kind(self) -> WaitKind: ...
    @property
    def awaited_block(self) -> int: ...

class Race:
    """Two accesses to a chunk of a rank that nothing orders."""

    @property
    def step(self) -> int: ...
    @property
    def other_step(self) -> int: ...
    @property
    def rank(self) -> int: ...
    @property
    def chunk(self) -> int: ...
    @property
    def writes(self) -> bool: ...
    @property
    def other_writes(self) -> bool: ...

class BrokenPromise:
    """A promised range that holds something else at the end."""

    @property
    def row(self) -> int:
        """Of the promises."""

    @property
    def offset(self) -> int:
        """The first chunk of the range that is wrong."""

    @property
    def garbage(self) -> bool:
        """It is built on a chunk that nothing has written."""

    @property
    def found(self) -> list[tuple[int, int]] | None:
        """
        (rank, input chunk) of what it holds; None where that is too long or others were listed before.
        """

    def __repr__(self) -> str: ...

class Proof:
    """What the proof of a plan found; numbers are rows of its tables."""

    @property
    def overlaps(self) -> list[int]:
        """Steps whose source and destination overlap without being the same."""

    @property
    def connection_faults(self) -> list[ConnectionFault]: ...
    @property
    def stuck(self) -> list[BlockedStep]:
        """A cycle of steps that wait for each other with any number of slots."""

    @property
    def stuck_by_step(self) -> list[BlockedStep]: ...
    @property
    def stuck_by_chunk(self) -> list[BlockedStep]: ...
    @property
    def races(self) -> list[Race]: ...
    @property
    def broken(self) -> list[BrokenPromise]: ...
    @property
    def same_expression(self) -> bool: ...
    @property
    def too_large(self) -> bool:
        """Ranges cut each other into more pieces than can be looked at."""

class PackedRun:
    """Neighbouring packings, under which every step is as many messages."""

    @property
    def least_packing(self) -> int: ...
    @property
    def most_packing(self) -> int: ...
    @property
    def cycle(self) -> list[BlockedStep]:
        """Steps that wait for each other; empty where the plan ends."""

class InstructionRun:
    @property
    def stuck(self) -> int | None:
        """The first row whose message was not sent before it."""

    @property
    def broken(self) -> list[BrokenPromise]: ...

def prove(
    plan: PlanView,
    meaning: MeaningView,
    *,
    chunks: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order="C", device="cpu", writable=False)],
    alias_source: int,
    alias_target: int,
    alias_offset: Annotated[
        NDArray[numpy.int32], dict(shape=(None,), order="C", device="cpu", writable=False)
    ],
    slots: int,
    limit: int,
) -> Proof: ...
def run_packings(plan: PlanView, *, slots: int, least: int, most: int) -> list[PackedRun]:
    """
    Whether a plan whose connections match ends, under every number of chunks in a message of a range.
    """

def run_operations(
    operations: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order="C", device="cpu", writable=False)],
    chunks: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order="C", device="cpu", writable=False)],
    meaning: MeaningView,
) -> list[BrokenPromise]:
    """
    Runs operations in their order; at most one promise that does not hold.
    """

def run_instructions(
    instructions: Annotated[
        NDArray[numpy.uint8], dict(shape=(None,), order="C", device="cpu", writable=False)
    ],
    num_operations: int,
    chunks: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order="C", device="cpu", writable=False)],
    meaning: MeaningView,
) -> InstructionRun: ...

class ElementType(enum.Enum):
    """What moves and adds, named as NumPy names it."""

    FLOAT16 = 0

    BFLOAT16 = 1

    FLOAT32 = 2

    FLOAT64 = 3

    INT8 = 4

    UINT8 = 5

    INT32 = 6

    INT64 = 7

    @property
    def num_bytes(self) -> int: ...

class Operator(enum.Enum):
    """How two contributions become one."""

    SUM = 0

    PROD = 1

    MIN = 2

    MAX = 3

class ArrayMemory:
    """Where an array on the CPU lies, and what lies there."""

    @property
    def address(self) -> int: ...
    @property
    def num_bytes(self) -> int: ...
    @property
    def type(self) -> ElementType | None:
        """None where no kernel knows the type."""

    @property
    def type_code(self) -> int:
        """DLPack's."""

    @property
    def bits(self) -> int: ...
    @property
    def in_order(self) -> bool:
        """Whether the elements follow each other."""

def memory(array: object, writable: bool) -> ArrayMemory: ...
def reduce(out: object, a: object, b: object, type: ElementType, op: Operator, stream: bool) -> None: ...
def copy(out: object, source: object, stream: bool) -> None: ...
def shared_cache_bytes() -> int:
    """The last cache that cores of this host share."""

LINE_BYTES: int = 64

class RanksOn(enum.Enum):
    """
    Where the ranks of a call are: on several hosts, on one whose cores they share, or on one with a core for each.
    """

    SEVERAL_HOSTS = 0

    SHARED_CORES = 1

    OWN_CORES = 2

def locate_ranks(num_ranks: int, num_local_ranks: int, ranks_per_core: int) -> RanksOn:
    """
    Where ranks are, of which so many are on this host and so many take turns on its most crowded core.
    """

class Cut:
    """What of a plan decides how its data is cut; the same for all ranks."""

    def __init__(self, block_chunks: int, max_count: int, max_sends: int) -> None: ...
    @staticmethod
    def of(plan: PlanView, block_chunks: int) -> Cut:
        """For a plan; how many chunks a share has is the collective's."""

    @property
    def block_chunks(self) -> int:
        """Chunks of one share."""

    @property
    def max_count(self) -> int:
        """Chunks of the largest message of any rank."""

    @property
    def max_sends(self) -> int:
        """The most connections over which any rank sends."""

class Tiles:
    """How the runtime cuts the shares of a call."""

    @property
    def num_tiles(self) -> int: ...
    @property
    def tile(self) -> int:
        """Elements of a chunk in a whole tile."""

    @property
    def chunk(self) -> int:
        """Elements of a chunk, without the remainder."""

    @property
    def remainder(self) -> int:
        """
        Elements of a chunk in the last tiles, which hold what does not divide, padded; 0 without such.
        """

    def lengths(self) -> Annotated[NDArray[numpy.uint64], dict(shape=(None,))]:
        """
        Elements of a chunk in every tile; ask num_tiles first, there may be many.
        """

def cut_into_tiles(
    cut: Cut, *, elements: int, element_bytes: int, message_bytes: int = 0, slot_bytes: int, ranks_on: RanksOn
) -> Tiles:
    """
    How the runtime cuts a call whose shares have so many elements. Messages are at most `message_bytes` long, and never longer than a slot; 0 lets the runtime choose.
    """

class Part:
    """One rank's part of a plan."""

    def __init__(
        self, plan: PlanView, *, rank: int, block_chunks: int, alias_source: int = -1, alias_offset: int = 0
    ) -> None:
        """
        In place, chunk i of buffer `alias_source` is chunk `alias_offset` + i of the other one; -1: not in place.
        """

    @property
    def sends(self) -> list[tuple[int, int]]:
        """(peer, index) of every connection."""

    @property
    def receives(self) -> list[tuple[int, int]]: ...
    @property
    def max_count(self) -> int:
        """Chunks of the largest message of any rank."""

class RunFailureKind(enum.Enum):
    """How a run can fail."""

    NONE = 0

    PEER_LOST = 1

    MISMATCH = 2

    INTERRUPTED = 3

    INTERNAL = 4

class RunFailure:
    """Why a run failed, and because of which rank."""

    def __init__(self, kind: RunFailureKind, rank: int, text: str) -> None: ...
    @property
    def kind(self) -> RunFailureKind: ...
    @property
    def rank(self) -> int:
        """Of the peer that was lost."""

    @property
    def text(self) -> str: ...

class CallRecord:
    """A call in the flight recorder."""

    @property
    def call(self) -> int: ...
    @property
    def begin(self) -> int:
        """Monotonic nanoseconds."""

    @property
    def end(self) -> int | None:
        """None while the call runs, and after it failed."""

    @property
    def description(self) -> str: ...

class Endpoint:
    """A rank's membership in a communicator."""

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
    def offer_socket(self, peer: int, index: int, fd: int) -> None: ...
    def is_local(self, peer: int) -> bool: ...
    def has_link(self, peer: int, index: int) -> bool: ...
    def configure(
        self,
        *,
        workers: int,
        spins: int,
        yield_seconds: float,
        timeout_seconds: float,
        crowd_seconds: float,
        pin_core: int,
        ranks_per_core: int,
    ) -> None: ...
    def records(self) -> list[CallRecord]:
        """The latest calls, the oldest first."""

    def failure(self) -> RunFailure | None: ...
    def fail(self, failure: RunFailure) -> RunFailure:
        """Ends the communicator; the first failure wins and is returned."""

    def check(self, peers: Sequence[int]) -> RunFailure | None: ...
    def finish_queued(self) -> None:
        """
        Waits for the calls that were started, and ends the thread that runs them.
        """

    def leave(self) -> None: ...

class StartedCall:
    """A call that the progress thread runs."""

    def done(self) -> bool: ...
    def wait(self, seconds: float | None, pays_attention: bool = True) -> bool:
        """
        Whether the call has ended; None waits without a limit. The thread hurries for those who pay attention.
        """

    def failure(self) -> RunFailure | None:
        """Why the call failed; None while it runs and where it did not fail."""

class CallShape:
    """How a call's data is cut, and what tells calls apart."""

    def __init__(
        self,
        *,
        type: ElementType,
        op: Operator,
        elements: int,
        divide_elements: int,
        message_bytes: int,
        content: int,
        description: str,
        input_lengths: Sequence[int],
        output_lengths: Sequence[int],
    ) -> None: ...

class CallMemory:
    """The memory of a call, and how input and output lie to each other."""

    def __init__(self, *, input_bytes: int, output_bytes: int, window: int | None) -> None:
        """In place, `window` is the input's address less the output's."""

class Call:
    """A part of a plan and a call's shape, to be run as often as wanted."""

    def __init__(self, endpoint: Endpoint, part: Part, shape: CallShape, memory: CallMemory) -> None: ...
    def run(self, input: object, output: object, /) -> RunFailure | None: ...
    def run_at(self, input: int, output: int, /) -> RunFailure | None: ...
    def start_at(self, input: int, output: int, owner: object, /) -> StartedCall:
        """
        Queues the call. `owner` keeps this call and its memory; it is held until the call has ended.
        """

    def trace_at(self, input: int, output: int, /) -> tuple[RunFailure | None, NDArray[numpy.uint8]]: ...

class Cause(enum.IntEnum):
    """What a step waited for last."""

    PREVIOUS = 0

    DEPENDENCY = 1

    MESSAGE = 2

    SLOT = 3

class PathPieceKind(enum.IntEnum):
    """What the critical path spends time on."""

    OVERHEAD = 0

    ADDING = 1

    COPYING = 2

    TRANSFER = 3

    LATENCY = 4

class SimulationResult:
    @property
    def ended(self) -> bool:
        """False where some threadblock waits forever."""

    @property
    def seconds(self) -> float: ...
    @property
    def threadblock_seconds(self) -> Annotated[NDArray[numpy.float64], dict(shape=(None,))]:
        """When each is done, of all jobs."""

    @property
    def threadblock_class(self) -> Annotated[NDArray[numpy.uint32], dict(shape=(None,))]:
        """The one that stands for each."""

    @property
    def resource_class(self) -> Annotated[NDArray[numpy.uint32], dict(shape=(None,))]: ...
    @property
    def num_simulated(self) -> int:
        """Steps of tiles."""

    @property
    def by_events(self) -> bool: ...
    @property
    def records(self) -> Annotated[NDArray[numpy.uint8], dict(shape=(None,))]:
        """Rows of Record."""

    @property
    def path(self) -> Annotated[NDArray[numpy.uint8], dict(shape=(None,))]:
        """Rows of PathPiece, from the end to the beginning."""

class Job:
    """A plan with the data that it moves."""

    def __init__(
        self,
        plan: PlanView,
        *,
        tile_bytes: Annotated[
            NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)
        ],
        step_seconds: float,
        threadblock_bandwidth: float,
        send_bandwidth: float,
        receive_bandwidth: float,
        launch_seconds: float,
        act_seconds: Annotated[
            NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)
        ],
    ) -> None:
        """
        Bytes of a chunk in every tile; seconds of a message beside its bytes; what a threadblock moves, sends where its sends are direct, and takes in; seconds before the first step, and of every step or of none.
        """

class Rehearsal:
    """
    Jobs that are wired and folded once, and then replayed with tiles of any number and size.
    """

    def __init__(
        self,
        jobs: Sequence[Job],
        *,
        tile_kinds: Annotated[
            NDArray[numpy.uint32], dict(shape=(None,), order="C", device="cpu", writable=False)
        ],
        capacities: Annotated[
            NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)
        ],
        first_hop: Annotated[
            NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu", writable=False)
        ],
        hops: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu", writable=False)],
        latencies: Annotated[
            NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)
        ],
        work: Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", device="cpu", writable=False)],
        message_bytes: Annotated[
            NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)
        ],
        direct: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order="C", device="cpu", writable=False)],
        slots: int,
    ) -> None:
        """
        Jobs with equal `tile_kinds` have the same tiles in every replay; those of the jobs are not read.
        """

    def seconds(
        self,
        tiles_of_kinds: Sequence[
            Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)]
        ],
    ) -> float:
        """
        Until the last threadblock ends; negative where some threadblock waits forever.
        """

    @property
    def num_steps(self) -> int:
        """Steps that are stepped for every tile."""

def simulate(
    jobs: Sequence[Job],
    *,
    capacities: Annotated[
        NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)
    ],
    first_hop: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    hops: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    latencies: Annotated[
        NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)
    ],
    work: Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", device="cpu", writable=False)],
    message_bytes: Annotated[
        NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)
    ],
    direct: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order="C", device="cpu", writable=False)],
    slots: int,
    fold: bool,
    most_records: int,
    events: bool,
) -> SimulationResult: ...

class MessageKind(enum.IntEnum):
    """What a message of a bucket does."""

    ALLREDUCE = 0

    REDUCE_SCATTER = 1

    ALL_GATHER = 2

class BucketMessage:
    """A part of a bucket on the communication stream."""

    @property
    def seconds(self) -> float:
        """Were it alone."""

    @property
    def share(self) -> float:
        """Of the core that computes, while it is under way."""

    @property
    def bytes(self) -> float: ...
    @property
    def bucket(self) -> int: ...
    @property
    def part(self) -> int: ...
    @property
    def kind(self) -> MessageKind: ...

class PriceTable:
    """Seconds by bytes: straight lines between sizes, and a slope beyond."""

    def __init__(
        self,
        sizes: Annotated[
            NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)
        ],
        seconds: Annotated[
            NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)
        ],
        slope: float,
    ) -> None: ...
    def __call__(self, num_bytes: float) -> float: ...

class StepCosts:
    """What messages, copies, calls and the optimizer take."""

    def __init__(
        self,
        allreduce: PriceTable,
        reduce_scatter: PriceTable,
        all_gather: PriceTable,
        *,
        contention: float,
        copy: float,
        call: float,
        optimizer: float,
        optimizer_call: float,
        shard: float,
    ) -> None: ...

class Merged:
    """The fastest cut of a row of gradients into buckets."""

    @property
    def seconds(self) -> float:
        """When the last optimizer ends."""

    @property
    def first(self) -> Annotated[NDArray[numpy.int32], dict(shape=(None,))]:
        """The first gradient of each bucket, and one more at the end."""

class MergedStep:
    """Buckets that are merged as fast as may be for given groups."""

    @property
    def seconds(self) -> float: ...
    @property
    def first(self) -> Annotated[NDArray[numpy.int32], dict(shape=(None,))]:
        """Where each bucket begins, and one more at the end."""

    @property
    def gradients(self) -> Annotated[NDArray[numpy.int32], dict(shape=(None,))]:
        """In the order in which they are made."""

class StepResult:
    """The steady state of a step."""

    @property
    def seconds(self) -> float: ...
    @property
    def compute(self) -> float: ...
    @property
    def communication(self) -> float: ...
    @property
    def exposed(self) -> float: ...
    @property
    def contended(self) -> float: ...
    @property
    def messages(self) -> list[BucketMessage]: ...
    @property
    def tasks(self) -> Annotated[NDArray[numpy.float64], dict(shape=(None,))]:
        """Begin and end of groups and optimizers, in turn."""

    @property
    def message_spans(self) -> Annotated[NDArray[numpy.float64], dict(shape=(None,))]:
        """Begin and end of messages, in turn."""

class StepModel:
    """Times of training steps of one graph."""

    def __init__(
        self,
        costs: StepCosts,
        gradient_bytes: Annotated[
            NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)
        ],
    ) -> None: ...
    def evaluate(
        self,
        seconds: Annotated[
            NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)
        ],
        ready: Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", device="cpu", writable=False)],
        read: Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", device="cpu", writable=False)],
        first: Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", device="cpu", writable=False)],
        gradients: Annotated[
            NDArray[numpy.int32], dict(shape=(None,), order="C", device="cpu", writable=False)
        ],
        split: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order="C", device="cpu", writable=False)],
        parts: Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", device="cpu", writable=False)],
        record: bool = False,
    ) -> StepResult:
        """
        Groups: seconds of each, and of every gradient the group that makes it and the first that reads its parameter. Buckets: where each begins among gradients, in which form it goes, and in how many parts.
        """

    def merge(
        self,
        ready: Annotated[
            NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)
        ],
        bytes: Annotated[
            NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)
        ],
        groups_end: float,
    ) -> Merged:
        """
        The fastest cut of a row of gradients, by the times at which they are ready, into buckets of neighbours.
        """

    def merge_step(
        self,
        seconds: Annotated[
            NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)
        ],
        ready: Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", device="cpu", writable=False)],
        read: Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", device="cpu", writable=False)],
        apart: bool = False,
    ) -> MergedStep:
        """
        The buckets of all-reduces that are fastest for these groups; gradients of one group stay together unless `apart`.
        """

class DelayLine:
    """Two devices between which frames pass both ways, each after a delay."""

    def __init__(self, near: int, far: int, seconds: float) -> None: ...

class DelayCounts:
    @property
    def carried(self) -> int: ...
    @property
    def lost(self) -> int:
        """Frames for which a device or the queue had no room."""

def carry_frames(lines: Sequence[DelayLine], stop: int) -> DelayCounts:
    """Carries frames between pairs of descriptors until `stop` can be read."""
