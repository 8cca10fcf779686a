"""Communicator: the collectives of one group of ranks, on arrays, through plans.

Every rank makes the same calls in the same order. A call returns when this rank's part is done; with
``wait=False`` it returns a handle at once. Arrays are NumPy arrays or anything with the buffer protocol or
DLPack, in order in memory, and are never copied.
"""

from __future__ import annotations

from collections.abc import Sequence
from ctypes import memmove
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from numpy import ndarray

from hemiola import _core
from hemiola.collectives import KINDS
from hemiola.errors import CollectiveError
from hemiola.ir.plan import Plan
from hemiola.runtime.arrays import Array, address_of, as_array, element_of
from hemiola.runtime.calls import CallShape, Shares
from hemiola.runtime.engine import Engine
from hemiola.runtime.environment import read_environment
from hemiola.runtime.handle import Handle
from hemiola.runtime.join import join
from hemiola.runtime.meeting_place import meeting_place
from hemiola.runtime.numbers import NUMBERS
from hemiola.runtime.pairs import Pairs
from hemiola.runtime.plan_source import (
    Choice,
    Explanation,
    PlanRequest,
    PlanSource,
    default_plans,
    plan_digest,
)
from hemiola.runtime.settings import Settings
from hemiola.runtime.store import Store

Key = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class Flight:
    """One call in the flight record."""

    number: int
    description: str
    begin: float
    """Seconds of the monotonic clock."""
    seconds: float | None
    """How long it took; None while it runs and when it failed."""


class Communicator:
    """One rank's membership in a group of ranks, with all collectives."""

    def __init__(
        self,
        rank: int | None = None,
        world_size: int | None = None,
        *,
        store: Store | None = None,
        plans: PlanSource | None = None,
        timeout: float | None = None,
        name: str = "world",
        same_expression: bool = False,
        settings: Settings | None = None,
    ) -> None:
        """Meet the other ranks; returns when all are there.

        Rank, size and meeting place come from the environment where they are not given (torchrun, mpirun and
        srun set it); ``store`` is any object with ``set``, ``get`` and ``add``, such as PyTorch's. ``timeout`` is in
        seconds without progress. ``same_expression`` takes only plans that give the same bits on every rank.
        """
        environment = read_environment(rank=rank, world_size=world_size)
        settings = settings or Settings.from_environment()
        if timeout is not None:
            settings = replace(settings, timeout=timeout)
        self._store = meeting_place(environment, store)
        self._plans = plans or default_plans(settings.slots)
        self._same_expression = same_expression
        self._engine = Engine(join(environment, self._store, name, settings), settings)
        self._queue = self._engine.queue
        self._calls: dict[Key, _core.Call] = {}
        self._in_place: dict[Key, _core.Call] = {}
        """All-reduces in place, which are the most frequent calls."""
        self._digests: dict[int, tuple[Plan, bytes]] = {}
        self._pairs = Pairs(self._engine, self._store, environment, self._plans)
        self.name = name
        self.rank = environment.rank
        self.world_size = environment.world_size
        self.hosts = self._engine.membership.hosts
        """Host number of every rank."""

    def run(
        self,
        plan: Plan,
        input: object,
        output: object = None,
        *,
        op: str = "sum",
        wait: bool = True,
    ) -> Handle | None:
        """Run a plan of the user's own, proven first. Without an output it runs in place on ``input``."""
        call, source, target = self._bind(plan, input, output, op)
        return self._engine.start(call, source, target, wait=wait)

    def trace(
        self, plan: Plan, input: object, output: object = None, *, op: str = "sum"
    ) -> npt.NDArray[np.void]:
        """Run a plan and return what happened when, rows of ``engine.TRACE``."""
        call, source, target = self._bind(plan, input, output, op)
        return self._engine.trace(call, source, target)

    def all_reduce(
        self, array: Any, output: object = None, *, op: str = "sum", wait: bool = True
    ) -> Handle | None:
        """The sum (or another operator) of all ranks' arrays on every rank; in place without an output."""
        if output is None:
            try:
                call = self._in_place[array.dtype, array.nbytes, op]
            except (KeyError, AttributeError, TypeError):
                array = as_array(array)
                call = self._call("allreduce", array, array, in_place=True, op=op)
                self._in_place[array.dtype, array.nbytes, op] = call
            if wait and not self._queue.num_pending:
                # The shortest way for the most frequent call; every tenth of a microsecond counts here.
                if type(array) is not ndarray:
                    self._engine.run(call, array, array)
                    return None
                try:
                    failure = call.run(array, array)
                except (BufferError, ValueError) as error:
                    self._engine.refuse(array, array, error)
                if failure is not None:
                    self._engine.fail(failure)
                return None
            return self._engine.start(call, array, array, wait=wait)
        source, target = self._two(array, output)
        call = self._call("allreduce", source, target, in_place=_same_memory(source, target), op=op)
        return self._engine.start(call, source, target, wait=wait)

    def all_gather(self, input: object, output: object, *, wait: bool = True) -> Handle | None:
        """The arrays of all ranks, one after another, on every rank; in place where input is its part of output."""
        source, target = self._two(input, output)
        in_place = (
            address_of(source, writable=False)
            == address_of(target, writable=True) + self.rank * source.nbytes
        )
        call = self._call("allgather", source, target, in_place=in_place and source.nbytes > 0)
        return self._engine.start(call, source, target, wait=wait)

    def reduce_scatter(
        self,
        input: object,
        output: object,
        *,
        op: str = "sum",
        wait: bool = True,
    ) -> Handle | None:
        """The sum of all ranks' inputs, a share to each rank; in place where output is its share of input."""
        source, target = self._two(input, output)
        in_place = address_of(source, writable=False) + self.rank * target.nbytes == address_of(
            target, writable=True
        )
        call = self._call("reducescatter", source, target, in_place=in_place and target.nbytes > 0, op=op)
        return self._engine.start(call, source, target, wait=wait)

    def all_to_all(
        self,
        input: object,
        output: object,
        *,
        input_lengths: Sequence[int] | None = None,
        output_lengths: Sequence[int] | None = None,
        wait: bool = True,
    ) -> Handle | None:
        """A share of the input to each rank, and one from each. Lengths, in elements, are for shares that differ."""
        source, target = self._two(input, output)
        if input_lengths is None and output_lengths is None:
            in_place = _same_memory(source, target)
            call = self._call("alltoall", source, target, in_place=in_place)
        else:
            call = self._uneven_call(source, target, input_lengths, output_lengths)
        return self._engine.start(call, source, target, wait=wait)

    def broadcast(self, array: object, *, root: int = 0, wait: bool = True) -> Handle | None:
        """The root's array on every rank, in place."""
        target = as_array(array)
        call = self._call("broadcast", target, target, in_place=True, root=root)
        return self._engine.start(call, target, target, wait=wait)

    def reduce(
        self,
        input: object,
        output: object = None,
        *,
        root: int = 0,
        op: str = "sum",
        wait: bool = True,
    ) -> Handle | None:
        """The sum of all ranks' arrays on the root, in its output or, without one, in place; others keep their input."""
        source = as_array(input)
        if self.rank == root and output is not None:
            # Whether the root has an output is its own affair: all ranks run the same plan, in place.
            target = as_array(output)
            if target.nbytes != source.nbytes or element_of(target) != element_of(source):
                raise CollectiveError(
                    f"the output of reduce is like its input, {source.nbytes} bytes of {element_of(source)}, but has "
                    f"{target.nbytes} bytes of {element_of(target)}"
                )
            memmove(address_of(target, writable=True), address_of(source, writable=False), source.nbytes)
            source = target
        call = self._call("reduce", source, source, in_place=True, root=root, op=op)
        return self._engine.start(call, source, source, wait=wait)

    def gather(
        self,
        input: object,
        output: object = None,
        *,
        root: int = 0,
        wait: bool = True,
    ) -> Handle | None:
        """The arrays of all ranks, one after another, on the root; others give no output."""
        source = as_array(input)
        target = self._on_root(output, root, "gather", "output", source)
        call = self._call("gather", source, target, in_place=False, root=root)
        return self._engine.start(call, source, target, wait=wait)

    def scatter(
        self,
        input: object,
        output: object,
        *,
        root: int = 0,
        wait: bool = True,
    ) -> Handle | None:
        """A share of the root's input to each rank; others give no input."""
        target = as_array(output)
        source = self._on_root(input, root, "scatter", "input", target)
        call = self._call("scatter", source, target, in_place=False, root=root)
        return self._engine.start(call, source, target, wait=wait)

    def send(self, array: object, peer: int, *, tag: int = 0, wait: bool = True) -> Handle | None:
        """Send to one rank, which calls ``recv``; messages with one tag keep their order."""
        return self._pairs.send(as_array(array), self._peer(peer), tag, wait=wait)

    def recv(self, array: object, peer: int, *, tag: int = 0, wait: bool = True) -> Handle | None:
        """Receive from one rank, which calls ``send``."""
        return self._pairs.recv(as_array(array), self._peer(peer), tag, wait=wait)

    def barrier(self, *, wait: bool = True) -> Handle | None:
        """Return when all ranks have called it."""
        return self.all_reduce(np.zeros(1, np.uint8), wait=wait)

    def explain(
        self, kind: str, num_bytes: int, *, in_place: bool = False, root: int = 0, uneven: bool = False
    ) -> Explanation:
        """Which plan runs for a size, and why every other one does not."""
        return self._plans.explain(
            self._request(kind, num_bytes, in_place=in_place, root=root, uneven=uneven)
        )

    def flight_record(self) -> list[Flight]:
        """The latest calls of this rank, oldest first."""
        return [
            Flight(
                record.call,
                record.description,
                record.begin * 1e-9,
                None if record.end is None else (record.end - record.begin) * 1e-9,
            )
            for record in self._engine.membership.endpoint.records()
        ]

    def close(self) -> None:
        """Wait for the calls under way and leave the group; a second call does nothing."""
        self._pairs.close()
        self._engine.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _call(
        self, kind: str, source: Array, target: Array, *, in_place: bool, op: str = "sum", root: int = 0
    ) -> _core.Call:
        key = (kind, source.dtype, target.dtype, source.nbytes, target.nbytes, op, in_place, root)
        call = self._calls.get(key)
        if call is not None:
            return call
        if not 0 <= root < self.world_size:
            raise CollectiveError(f"the root is a rank from 0 to {self.world_size - 1}, but is {root}")
        element = element_of(source)
        if element_of(target) != element:
            raise CollectiveError(
                f"input and output are of one type, but are {element} and {element_of(target)}"
            )
        wide_input = kind in ("reducescatter", "alltoall", "scatter")
        share_bytes = target.nbytes if kind in ("reducescatter", "scatter") else source.nbytes
        if kind == "alltoall":
            share_bytes, rest = divmod(source.nbytes, self.world_size)
            if rest or share_bytes % NUMBERS[element].storage.itemsize:
                raise CollectiveError(
                    f"all_to_all of {source.nbytes} bytes cannot be cut into {self.world_size} equal shares; give "
                    "input_lengths and output_lengths"
                )
        num_bytes = share_bytes * self.world_size if wide_input else share_bytes
        choice = self._plans.choose(self._request(kind, num_bytes, in_place=in_place, root=root))
        shape = CallShape(element, op, share_bytes // NUMBERS[element].storage.itemsize)
        self._check_sizes(kind, choice.plan, source, target, share_bytes)
        return self._remember(key, choice, shape)

    def _uneven_call(
        self,
        source: Array,
        target: Array,
        input_lengths: Sequence[int] | None,
        output_lengths: Sequence[int] | None,
    ) -> _core.Call:
        element = element_of(source)
        if element_of(target) != element:
            raise CollectiveError(
                f"input and output are of one type, but are {element} and {element_of(target)}"
            )
        lengths = [
            self._lengths(array, given, what)
            for array, given, what in ((source, input_lengths, "input"), (target, output_lengths, "output"))
        ]
        if lengths[0][self.rank] != lengths[1][self.rank]:
            raise CollectiveError(
                f"rank {self.rank} sends {lengths[0][self.rank]} elements to itself, but expects {lengths[1][self.rank]}"
            )
        choice = self._plans.choose(self._request("alltoall", 0, in_place=False, uneven=True))
        shape = CallShape(element, "sum", 0, lengths[0], lengths[1])
        return self._engine.prepare(choice.plan, choice.digest, shape, proven=True)

    def _lengths(self, array: Array, given: Sequence[int] | None, what: str) -> tuple[int, ...]:
        elements = array.nbytes // NUMBERS[element_of(array)].storage.itemsize
        lengths = tuple(given) if given is not None else (elements // self.world_size,) * self.world_size
        if (
            len(lengths) != self.world_size
            or any(length < 0 for length in lengths)
            or sum(lengths) != elements
        ):
            raise CollectiveError(
                f"{what}_lengths has a length for each of the {self.world_size} ranks, in all {elements} elements, but "
                f"is {list(lengths)}"
            )
        return lengths

    def _remember(self, key: Key, choice: Choice, shape: CallShape) -> _core.Call:
        call = self._engine.prepare(choice.plan, choice.digest, shape, proven=True)
        if len(self._calls) >= 4096:  # programs with ever new sizes
            self._calls.clear()
            self._in_place.clear()
        self._calls[key] = call
        return call

    def _request(
        self, kind: str, num_bytes: int, *, in_place: bool, root: int = 0, uneven: bool = False
    ) -> PlanRequest:
        same = self._same_expression and kind in KINDS and KINDS[kind].sums
        return PlanRequest(
            kind,
            self.world_size,
            self.hosts,
            num_bytes,
            in_place,
            root=root,
            same_expression=same,
            uneven=uneven,
        )

    def _check_sizes(self, kind: str, plan: Plan, source: Array, target: Array, share_bytes: int) -> None:
        shares = Shares.of(plan, self.rank)
        for what, array, num_shares in (("input", source, shares.input), ("output", target, shares.output)):
            if num_shares and array.nbytes != num_shares * share_bytes:
                raise CollectiveError(
                    f"the {what} of {kind} on rank {self.rank} has {array.nbytes} bytes, but {num_shares} x "
                    f"{share_bytes} were expected for {self.world_size} ranks"
                )

    def _bind(
        self,
        plan: Plan,
        input: object,
        output: object,
        op: str,
    ) -> tuple[_core.Call, Array, Array]:
        if plan.num_ranks != self.world_size:
            raise CollectiveError(
                f"plan {plan.name} is for {plan.num_ranks} ranks, but {self.world_size} are here"
            )
        source = as_array(input if input is not None else output)
        target = source if output is None else as_array(output)
        if plan.both_places:
            plan = plan.for_place(in_place=output is None)
        element = element_of(source)
        shares = Shares.of(plan, self.rank)
        share = self._share_of(plan, shares, source, target, element, alone=output is None)
        digest = self._digest(plan)
        key = ("run", digest, element, share, op)
        call = self._calls.get(key)
        if call is None:
            call = self._engine.prepare(plan, digest, CallShape(element, op, share), proven=False)
            self._calls[key] = call
        if output is None and shares.window is not None and shares.input != shares.output:
            source, target = _windows(source, shares, share)
        size = NUMBERS[element].storage.itemsize
        self._check_sizes(plan.collective.kind, plan, source, target, share * size)
        return call, source, target

    def _digest(self, plan: Plan) -> bytes:
        """The digest of a plan, remembered while the plan is the same object."""
        known = self._digests.get(id(plan))
        if known is None or known[0] is not plan:
            if len(self._digests) >= 256:
                self._digests.clear()
            known = self._digests[id(plan)] = (plan, plan_digest(plan))
        return known[1]

    def _share_of(
        self, plan: Plan, shares: Shares, source: Array, target: Array, element: str, *, alone: bool
    ) -> int:
        """Elements of one share, from the sizes of the arrays of a plan's call."""
        if element_of(target) != element:
            raise CollectiveError(
                f"input and output are of one type, but are {element} and {element_of(target)}"
            )
        array, num_shares = (source, shares.input) if shares.input else (target, shares.output)
        if plan.collective.in_place and alone:
            num_shares = max(shares.input, shares.output)
        size = NUMBERS[element].storage.itemsize
        share, rest = divmod(array.nbytes, num_shares * size) if num_shares else (0, 0)
        if rest:
            raise CollectiveError(
                f"the data of plan {plan.name} is {num_shares} shares of {element} on rank {self.rank}, and "
                f"{array.nbytes} bytes cannot be cut so"
            )
        return share

    def _two(self, input: object, output: object) -> tuple[Array, Array]:
        source = as_array(input)
        return source, source if output is input else as_array(output)

    def _on_root(self, array: object, root: int, kind: str, what: str, other: Array) -> Array:
        if self.rank != root:
            return other
        if array is None:
            raise CollectiveError(f"{kind} needs an {what} on its root, rank {root}")
        return as_array(array)

    def _peer(self, peer: int) -> int:
        if not 0 <= peer < self.world_size or peer == self.rank:
            raise CollectiveError(
                f"a peer of rank {self.rank} is another rank from 0 to {self.world_size - 1}, but {peer} was given"
            )
        return peer


def _same_memory(a: Array, b: Array) -> bool:
    return a is b or (
        a.nbytes == b.nbytes
        and address_of(a, writable=False) == address_of(b, writable=True)
        and a.nbytes > 0
    )


def _windows(array: Array, shares: Shares, share: int) -> tuple[Array, Array]:
    """Input and output of a call in place that is given the larger of the two alone."""
    if not isinstance(array, np.ndarray):
        raise CollectiveError("give input and output; one of them alone is enough for NumPy arrays only")
    assert shares.window is not None
    flat = array.reshape(-1)
    first, length = abs(shares.window) * share, min(shares.input, shares.output) * share
    window = flat[first : first + length]
    return (window, array) if shares.input < shares.output else (array, window)
