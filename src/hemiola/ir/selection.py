"""Would a runtime use this file for this call? Its own selection rules, replayed one by one.

What the rules rest on, read in the runtimes' public sources:

- **msccl** (microsoft/msccl, the NCCL fork): files are named in ``MSCCL_XML_FILES``; a file that its parser
  dislikes is ignored. An algorithm is taken when its collective and number of ranks are those of the call, the
  elements of the whole buffer divide by ``nchunksperloop``, and ``minBytes <= bytes < maxBytes`` (its all-to-all
  shows exactly this; for the others the same ends are assumed). ``maxBytes`` 0 is taken literally. For all-reduce,
  all-gather and reduce-scatter the algorithm MSCCL must be on in ``NCCL_ALGO`` (it is off by default) and the
  file's protocol in ``NCCL_PROTO``. Kernels for broadcast and reduce are empty, and never chosen. All-to-all
  in place is refused. The operator is not asked.
- **rccl** (ROCm/rccl, msccl_lifecycle.cc; the Azure executor is alike): MSCCL is compiled in and
  ``RCCL_MSCCL_ENABLE`` is 1 by default, but only some machines (MI300X) use it unasked, others with
  ``RCCL_MSCCL_FORCE_ENABLE=1``. All files of ``MSCCL_ALGO_DIR`` are read, and one bad file spoils them all. An
  external scheduler (``MSCCL_SCHEDULER``) replaces all rules. The operator must be sum, prod, max or min;
  ``minBytes <= bytes <= maxBytes`` (0 is no end), where bytes are the count times the ranks for all-gather,
  reduce-scatter and all-to-all; elements divide by ``nchunksperloop``; ``inplace`` or ``outofplace`` is 1. All-reduce
  of fp8 never comes here, nor of bf16 above 8 MiB. More channels than ``NCCL_MAX_NCHANNELS`` disable the file, and so do
  more than the communicator has. Its build has no kernels for fused operations: a file with one of
  them is taken, and then the call ends with ncclInternalError.

A broken limit of the target is a rule too: the file would be dropped in silence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum

from hemiola.ir.plan import Plan
from hemiola.ir.targets import MSCCL_XML, OPERATION, RCCL_XML, Target, broken_limits, chunks_per_loop
from hemiola.units import format_bytes

DTYPE_BYTES: Mapping[str, int] = {
    "int8": 1, "uint8": 1, "fp8_e4m3": 1, "fp8_e5m2": 1,
    "fp16": 2, "bf16": 2,
    "int32": 4, "uint32": 4, "fp32": 4,
    "int64": 8, "uint64": 8, "fp64": 8,
}  # fmt: skip
"""Bytes of an element."""

_DTYPE_SPELLINGS = {
    "char": "int8", "half": "fp16", "float16": "fp16", "bfloat16": "bf16", "int": "int32", "float": "fp32",
    "float32": "fp32", "double": "fp64", "float64": "fp64", "fp8": "fp8_e4m3", "float8_e4m3": "fp8_e4m3",
    "float8_e4m3fn": "fp8_e4m3", "float8_e5m2": "fp8_e5m2",
}  # fmt: skip

OPERATORS = ("sum", "prod", "max", "min", "avg", "premulsum")
_PLAIN_OPERATORS = OPERATORS[:4]
_BF16_ALLREDUCE_BYTES = 8 << 20


class Runtime(Enum):
    """Whose rules are replayed; the value is the name on the command line."""

    MSCCL = "msccl"
    RCCL = "rccl"

    @property
    def target(self) -> Target:
        """The kind of file that it reads."""
        return MSCCL_XML if self is Runtime.MSCCL else RCCL_XML


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectionRequest:
    """One call of a collective, and the environment of the process that makes it."""

    runtime: Runtime
    num_ranks: int
    bytes: int
    """Of the larger of a rank's two buffers: what nccl-tests and rccl-tests print as size."""
    dtype: str = "fp32"
    op: str = "sum"
    in_place: bool = False
    environment: Mapping[str, str] = field(default_factory=dict)
    on_by_default: bool = True
    """Whether the machine is one on which rccl uses MSCCL unasked."""
    single_process: bool = False
    """Whether one process drives several ranks."""
    num_channels: int | None = None
    """Channels of the communicator, which NCCL_DEBUG=INFO prints; None where that is not known."""


@dataclass(frozen=True, slots=True)
class RuleResult:
    """One rule: what it needs, what it found."""

    name: str
    passed: bool
    found: str
    needed: str
    variable: str = ""
    """The environment variable that decides; "" when none does."""


@dataclass(frozen=True, slots=True)
class Selection:
    """Whether the file is used, and every rule with its result."""

    used: bool
    rules: tuple[RuleResult, ...]

    @property
    def obstacles(self) -> tuple[RuleResult, ...]:
        """The rules that stand in the way."""
        return tuple(rule for rule in self.rules if not rule.passed)


def explain_selection(plan: Plan, request: SelectionRequest) -> Selection:
    """Replay the runtime's rules for one call; the plan is what its file says."""
    judges = _MSCCL_RULES if request.runtime is Runtime.MSCCL else _RCCL_RULES
    rules = tuple(rule for judge in judges for rule in judge(plan, request))
    return Selection(all(rule.passed for rule in rules), rules)


Rules = Iterator[RuleResult]


def _dtype(request: SelectionRequest) -> str:
    return _DTYPE_SPELLINGS.get(request.dtype.lower(), request.dtype.lower())


def _load(plan: Plan, request: SelectionRequest) -> Rules:
    broken = [limit for limit in broken_limits(plan, request.runtime.target) if limit.limit != OPERATION]
    found = "; ".join(limit.message for limit in broken) or "all limits kept"
    yield RuleResult("file loads", not broken, found, f"every limit of {request.runtime.target.name} kept")


def _rccl_operations(plan: Plan, request: SelectionRequest) -> Rules:
    lacking = [limit for limit in broken_limits(plan, RCCL_XML) if limit.limit == OPERATION]
    found = "; ".join(limit.message for limit in lacking) or "kernels for all of them"
    yield RuleResult("operations", not lacking, found, "only operations that the build has kernels for")


def _rccl_channels(plan: Plan, request: SelectionRequest) -> Rules:
    if request.num_channels is None:
        return
    yield RuleResult(
        "channels of the communicator",
        plan.num_channels <= request.num_channels,
        f"{plan.num_channels} in the file",
        f"at most the {request.num_channels} that the communicator has",
    )


def _ranks(plan: Plan, request: SelectionRequest) -> Rules:
    yield RuleResult(
        "ranks",
        plan.num_ranks == request.num_ranks,
        f"{request.num_ranks} in the call",
        f"{plan.num_ranks}, as in the file",
    )


def _place(plan: Plan, request: SelectionRequest) -> Rules:
    serves_in = plan.collective.in_place or plan.both_places
    serves_out = not plan.collective.in_place or plan.both_places
    words = ["in place"] * serves_in + ["out of place"] * serves_out
    found = "in place" if request.in_place else "out of place"
    if request.runtime is Runtime.MSCCL:
        words = words[:1]
        if plan.collective.kind == "alltoall":
            words = ["out of place"]
    yield RuleResult("place", found in words, f"a call {found}", f"a call {' or '.join(words)}")


def _elements(plan: Plan, request: SelectionRequest) -> Rules:
    dtype = _dtype(request)
    size = DTYPE_BYTES.get(dtype)
    yield RuleResult("data type", size is not None, request.dtype, f"one of {', '.join(DTYPE_BYTES)}")
    yield RuleResult("operator known", request.op in OPERATORS, request.op, f"one of {', '.join(OPERATORS)}")
    if size is None:
        return
    loop = chunks_per_loop(plan.collective, shares_of_all=request.runtime is Runtime.MSCCL)
    num_bytes = _counted_bytes(plan, request)
    whole = num_bytes > 0 and num_bytes % (size * loop) == 0
    yield RuleResult(
        "divisible",
        whole,
        f"{num_bytes} bytes, {size} per element of {dtype}",
        f"a positive multiple of the {loop} chunks per loop, {size * loop} bytes",
    )


def _counted_bytes(plan: Plan, request: SelectionRequest) -> int:
    """The bytes that the runtime compares: rccl counts one rank's share of a gather or a scatter."""
    shares = request.runtime is Runtime.RCCL and plan.collective.kind in ("gather", "scatter")
    return request.bytes // request.num_ranks if shares and request.num_ranks > 0 else request.bytes


def _size_inclusive(plan: Plan, request: SelectionRequest) -> Rules:
    num_bytes = _counted_bytes(plan, request)
    passed = plan.min_bytes <= num_bytes and (plan.max_bytes == 0 or num_bytes <= plan.max_bytes)
    end = f"up to {format_bytes(plan.max_bytes)}" if plan.max_bytes else "without end"
    needed = f"from minBytes {format_bytes(plan.min_bytes)}, {end}"
    yield RuleResult("size", passed, format_bytes(num_bytes), needed)


def _size_exclusive(plan: Plan, request: SelectionRequest) -> Rules:
    passed = plan.min_bytes <= request.bytes < plan.max_bytes
    needed = (
        f"from minBytes {format_bytes(plan.min_bytes)} to less than maxBytes {format_bytes(plan.max_bytes)}"
    )
    if plan.max_bytes == 0:
        needed += ", which msccl takes literally; write the file with --target msccl-xml"
    yield RuleResult("size", passed, format_bytes(request.bytes), needed)


def _msccl_files(plan: Plan, request: SelectionRequest) -> Rules:
    value = request.environment.get("MSCCL_XML_FILES", "")
    yield RuleResult(
        "file named", bool(value.strip()), _setting(request, "MSCCL_XML_FILES"),
        "the file's path, one of at most four between colons", "MSCCL_XML_FILES",
    )  # fmt: skip


def _msccl_collective(plan: Plan, request: SelectionRequest) -> Rules:
    kind = plan.collective.kind
    never = ("broadcast", "reduce")
    needed = "a collective that msccl runs from files: not broadcast, not reduce"
    yield RuleResult("collective", kind not in never and kind in MSCCL_XML.collectives, kind, needed)


def _msccl_algorithm(plan: Plan, request: SelectionRequest) -> Rules:
    """All-to-all and custom collectives take their file without asking NCCL's tuner."""
    if MSCCL_XML.collectives.get(plan.collective.kind) in ("alltoall", "custom"):
        return
    yield RuleResult(
        "algorithm on", _listed(request, "NCCL_ALGO", "MSCCL", default=False), _setting(request, "NCCL_ALGO"),
        "a list with MSCCL in it, such as MSCCL,RING,TREE", "NCCL_ALGO",
    )  # fmt: skip
    protocol = plan.protocol.value
    yield RuleResult(
        "protocol on", _listed(request, "NCCL_PROTO", protocol, default=True), _setting(request, "NCCL_PROTO"),
        f"unset, or a list with {protocol} in it", "NCCL_PROTO",
    )  # fmt: skip


def _listed(request: SelectionRequest, variable: str, word: str, *, default: bool) -> bool:
    """Whether NCCL's list in a variable turns a word on; a list that begins with ^ turns its words off."""
    value = request.environment.get(variable)
    if value is None:
        return default
    words = {entry.lower() for entry in value.removeprefix("^").split(",")}
    return (word.lower() in words) != value.startswith("^")


def _setting(request: SelectionRequest, variable: str) -> str:
    value = request.environment.get(variable)
    return "not set" if value is None else f'"{value}"'


def _rccl_collective(plan: Plan, request: SelectionRequest) -> Rules:
    kind = plan.collective.kind
    yield RuleResult(
        "collective", kind in RCCL_XML.collectives, kind, f"one of {', '.join(RCCL_XML.collectives)}"
    )


def _rccl_operator(plan: Plan, request: SelectionRequest) -> Rules:
    needed = f"one of {', '.join(_PLAIN_OPERATORS)}"
    yield RuleResult("operator", request.op in _PLAIN_OPERATORS, request.op, needed)


def _rccl_dtype(plan: Plan, request: SelectionRequest) -> Rules:
    if plan.collective.kind != "allreduce":
        return
    dtype = _dtype(request)
    too_large = dtype == "bf16" and request.bytes > _BF16_ALLREDUCE_BYTES
    yield RuleResult(
        "data type for all-reduce",
        not (dtype.startswith("fp8") or too_large),
        f"{dtype}, {format_bytes(request.bytes)}",
        f"not fp8, and bf16 only up to {format_bytes(_BF16_ALLREDUCE_BYTES)}",
    )


def _rccl_switches(plan: Plan, request: SelectionRequest) -> Rules:
    on = _number(request, "RCCL_MSCCL_ENABLE", 1) != 0
    yield _switch(request, "MSCCL on", on, "unset or 1", "RCCL_MSCCL_ENABLE")
    forced = request.on_by_default or _number(request, "RCCL_MSCCL_FORCE_ENABLE", 0) != 0
    needed = "1, except on machines such as MI300X where MSCCL is used unasked"
    yield _switch(request, "machine", forced, needed, "RCCL_MSCCL_FORCE_ENABLE")
    apart = not request.single_process or _number(request, "RCCL_MSCCL_ENABLE_SINGLE_PROCESS", 1) != 0
    needed = "1, or a process for each rank"
    yield _switch(request, "processes", apart, needed, "RCCL_MSCCL_ENABLE_SINGLE_PROCESS")
    yield _switch(request, "scheduler", "MSCCL_SCHEDULER" not in request.environment, "unset, because another scheduler has rules of its own", "MSCCL_SCHEDULER")  # fmt: skip
    yield _switch(
        request, "file found", bool(request.environment.get("MSCCL_ALGO_DIR")),
        "a folder with this file and no file that is no MSCCL XML; or the file lies in share/rccl/msccl-algorithms",
        "MSCCL_ALGO_DIR",
    )  # fmt: skip
    enough = _number(request, "NCCL_MAX_NCHANNELS", plan.num_channels) >= plan.num_channels
    yield _switch(
        request, "channels", enough, f"unset, or at least {plan.num_channels}", "NCCL_MAX_NCHANNELS"
    )


def _switch(request: SelectionRequest, name: str, passed: bool, needed: str, variable: str) -> RuleResult:
    return RuleResult(name, passed, _setting(request, variable), needed, variable)


def _number(request: SelectionRequest, variable: str, default: int) -> int:
    """A variable as NCCL reads it: what is no number counts as not set."""
    try:
        return int(request.environment[variable], 0)
    except (KeyError, ValueError):
        return default


_Judge = Callable[[Plan, SelectionRequest], Rules]
_MSCCL_RULES: tuple[_Judge, ...] = (
    _msccl_files, _load, _msccl_collective, _ranks, _place, _size_exclusive, _elements, _msccl_algorithm,
)  # fmt: skip
_RCCL_RULES: tuple[_Judge, ...] = (
    _rccl_switches, _load, _rccl_operations, _rccl_channels, _rccl_collective, _ranks, _place, _size_inclusive, _elements, _rccl_operator, _rccl_dtype,
)  # fmt: skip
