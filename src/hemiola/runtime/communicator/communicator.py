"""Communicator: the collectives of one group of ranks, on arrays, through plans.

Every rank makes the same calls in the same order. A call returns when this rank's part of it is done; with
``wait=False`` it returns a handle at once. Arrays are NumPy arrays or any object with the buffer protocol or
DLPack. They must be contiguous, and are never copied.
"""

from __future__ import annotations

from collections.abc import Sequence
from ctypes import memmove
from dataclasses import replace
from types import TracebackType
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from numpy import ndarray

from hemiola import _core
from hemiola.collectives import CollectiveKind, parse_kind
from hemiola.errors import CollectiveError
from hemiola.ir.plan import Plan
from hemiola.runtime.bootstrap.environment import read_environment
from hemiola.runtime.bootstrap.join import join
from hemiola.runtime.bootstrap.rendezvous import rendezvous_store
from hemiola.runtime.bootstrap.store import Store
from hemiola.runtime.communicator.arrays import Array, address_of, as_array, element_of
from hemiola.runtime.communicator.callback_thread import RUNNING
from hemiola.runtime.communicator.calls import CallShape, Shares
from hemiola.runtime.communicator.engine import Engine, Key
from hemiola.runtime.communicator.flight import Flight
from hemiola.runtime.communicator.handle import Handle
from hemiola.runtime.communicator.lanes import Lanes
from hemiola.runtime.communicator.numbers import NUMBERS
from hemiola.runtime.communicator.point_to_point import PointToPoint
from hemiola.runtime.plans.plan_source import (
    Choice,
    Explanation,
    PlanRequest,
    PlanSource,
    default_plans,
    plan_digest,
)
from hemiola.runtime.settings import Settings


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
        """Find the other ranks and connect to them; returns when all ranks have joined.

        Rank, size and the address of the store come from the environment where they are not given (torchrun, mpirun
        and srun set it). ``store`` is any object with ``set``, ``get`` and ``add``, such as PyTorch's. A call fails after
        ``timeout`` seconds without progress. ``same_expression`` allows only plans that give the same bits on every rank.
        """
        environment = read_environment(rank=rank, world_size=world_size)
        settings = settings or Settings.from_environment()
        if timeout is not None:
            settings = replace(settings, timeout=timeout)
        self._store = rendezvous_store(environment, store)
        self._plans = plans or default_plans(settings.slots)
        self._same_expression = same_expression
        self._engine = Engine(join(environment, self._store, name, settings), settings)
        self._lanes = Lanes(self._engine, self._store, environment)
        self._queue = self._engine.queue
        self._in_place: dict[Key, _core.Call] = {}
        """The prepared all-reduces in place of the program. They have a table of their own because they are the most
        frequent calls."""
        self._digests: dict[int, tuple[Plan, bytes]] = {}
        self._point_to_point = PointToPoint(self._engine, self._store, environment, self._plans)
        self.name = name
        self.rank = environment.rank
        self.world_size = environment.world_size
        self.hosts = self._engine.membership.hosts
        """The host number of every rank."""

    def run(
        self,
        plan: Plan,
        input: object,
        output: object = None,
        *,
        op: str = "sum",
        wait: bool = True,
    ) -> Handle | None:
        """Prove a plan of the user and run it. Without an output it runs in place on ``input``."""
        engine = self._lanes.current()
        call, source, target = self._bind(engine, plan, input, output, op)
        return engine.start(call, source, target, wait=wait)

    def trace(
        self, plan: Plan, input: object, output: object = None, *, op: str = "sum"
    ) -> npt.NDArray[np.void]:
        """Run a plan and return the begin and end of every step, as rows of ``engine.TRACE``."""
        engine = self._lanes.current()
        call, source, target = self._bind(engine, plan, input, output, op)
        return engine.trace(call, source, target)

    def all_reduce(
        self, array: Any, output: object = None, *, op: str = "sum", wait: bool = True
    ) -> Handle | None:
        """Reduce the arrays of all ranks with an operator; every rank gets the result. Without an output it runs in place."""
        if output is None and not RUNNING:
            try:
                call = self._in_place[array.dtype, array.nbytes, op]
            except (KeyError, AttributeError, TypeError):
                array = as_array(array)
                call = self._call(self._engine, "allreduce", array, array, in_place=True, op=op)
                self._in_place[array.dtype, array.nbytes, op] = call
            if wait and not self._queue.pending:
                # This is the most frequent call, so it skips the queue and the generic path of the engine.
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
        source, target = self._two(array, array if output is None else output)
        return self._start(
            "allreduce", source, target, in_place=_same_memory(source, target), op=op, wait=wait
        )

    def all_gather(self, input: object, output: object, *, wait: bool = True) -> Handle | None:
        """Concatenate the arrays of all ranks on every rank; in place where ``input`` is this rank's part of ``output``."""
        source, target = self._two(input, output)
        in_place = (
            address_of(source, writable=False)
            == address_of(target, writable=True) + self.rank * source.nbytes
        )
        return self._start("allgather", source, target, in_place=in_place and source.nbytes > 0, wait=wait)

    def reduce_scatter(
        self,
        input: object,
        output: object,
        *,
        op: str = "sum",
        wait: bool = True,
    ) -> Handle | None:
        """Reduce the inputs of all ranks and give each rank one share of the result.

        It runs in place where ``output`` is this rank's share of ``input``.
        """
        source, target = self._two(input, output)
        in_place = address_of(source, writable=False) + self.rank * target.nbytes == address_of(
            target, writable=True
        )
        return self._start(
            "reducescatter", source, target, in_place=in_place and target.nbytes > 0, op=op, wait=wait
        )

    def all_to_all(
        self,
        input: object,
        output: object,
        *,
        input_lengths: Sequence[int] | None = None,
        output_lengths: Sequence[int] | None = None,
        wait: bool = True,
    ) -> Handle | None:
        """Send a share of the input to each rank and receive one from each; lengths in elements for shares that differ."""
        source, target = self._two(input, output)
        if input_lengths is None and output_lengths is None:
            return self._start("alltoall", source, target, in_place=_same_memory(source, target), wait=wait)
        engine = self._lanes.current()
        call = self._uneven_call(engine, source, target, input_lengths, output_lengths)
        return engine.start(call, source, target, wait=wait)

    def broadcast(self, array: object, *, root: int = 0, wait: bool = True) -> Handle | None:
        """Copy the root's array to every rank, in place."""
        target = as_array(array)
        return self._start("broadcast", target, target, in_place=True, root=root, wait=wait)

    def reduce(
        self,
        input: object,
        output: object = None,
        *,
        root: int = 0,
        op: str = "sum",
        wait: bool = True,
    ) -> Handle | None:
        """Reduce the arrays of all ranks; the root gets the result, in ``output`` or else in place. Others keep their input."""
        source = as_array(input)
        if self.rank == root and output is not None:
            # Only the root knows whether it has an output, so all ranks run the same plan, which is in place.
            target = as_array(output)
            if target.nbytes != source.nbytes or element_of(target) != element_of(source):
                raise CollectiveError(
                    f"the output of reduce is like its input, {source.nbytes} bytes of {element_of(source)}, but has "
                    f"{target.nbytes} bytes of {element_of(target)}"
                )
            memmove(address_of(target, writable=True), address_of(source, writable=False), source.nbytes)
            source = target
        return self._start("reduce", source, source, in_place=True, root=root, op=op, wait=wait)

    def gather(
        self,
        input: object,
        output: object = None,
        *,
        root: int = 0,
        wait: bool = True,
    ) -> Handle | None:
        """Concatenate the arrays of all ranks on the root; the other ranks give no output."""
        source = as_array(input)
        target = self._on_root(output, root, "gather", "output", source)
        return self._start("gather", source, target, in_place=False, root=root, wait=wait)

    def scatter(
        self,
        input: object,
        output: object,
        *,
        root: int = 0,
        wait: bool = True,
    ) -> Handle | None:
        """Send a share of the root's input to each rank; the other ranks give no input."""
        target = as_array(output)
        source = self._on_root(input, root, "scatter", "input", target)
        return self._start("scatter", source, target, in_place=False, root=root, wait=wait)

    def send(self, array: object, peer: int, *, tag: int = 0, wait: bool = True) -> Handle | None:
        """Send an array to one rank, which calls ``recv``; messages with the same tag arrive in order."""
        return self._point_to_point.send(as_array(array), self._peer(peer), tag, wait=wait)

    def recv(self, array: object, peer: int, *, tag: int = 0, wait: bool = True) -> Handle | None:
        """Receive an array from one rank, which calls ``send``."""
        return self._point_to_point.recv(as_array(array), self._peer(peer), tag, wait=wait)

    def barrier(self, *, wait: bool = True) -> Handle | None:
        """Return after all ranks have called it."""
        return self.all_reduce(np.zeros(1, np.uint8), wait=wait)

    def explain(
        self, kind: str, num_bytes: int, *, in_place: bool = False, root: int = 0, uneven: bool = False
    ) -> Explanation:
        """The plan that runs for a collective and a size, and why every other candidate does not."""
        return self._plans.explain(
            self._request(kind, num_bytes, in_place=in_place, root=root, uneven=uneven)
        )

    def flight_record(self) -> list[Flight]:
        """The latest calls of this rank, the oldest first."""
        return [Flight.of(record) for record in self._engine.membership.endpoint.records()]

    def close(self) -> None:
        """Wait for the calls under way and leave the group; a second call does nothing."""
        self._point_to_point.close()
        self._lanes.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _start(
        self,
        kind: str,
        source: Array,
        target: Array,
        *,
        in_place: bool,
        op: str = "sum",
        root: int = 0,
        wait: bool,
    ) -> Handle | None:
        engine = self._lanes.current()
        call = self._call(engine, kind, source, target, in_place=in_place, op=op, root=root)
        return engine.start(call, source, target, wait=wait)

    def _call(
        self,
        engine: Engine,
        kind: str,
        source: Array,
        target: Array,
        *,
        in_place: bool,
        op: str = "sum",
        root: int = 0,
    ) -> _core.Call:
        key = (kind, source.dtype, target.dtype, source.nbytes, target.nbytes, op, in_place, root)
        call = engine.calls.get(key)
        if call is not None:
            return call
        if not 0 <= root < self.world_size:
            raise CollectiveError(f"the root is a rank from 0 to {self.world_size - 1}, but is {root}")
        element = element_of(source)
        if element_of(target) != element:
            raise CollectiveError(
                f"input and output are of one type, but are {element} and {element_of(target)}"
            )
        share_bytes = target.nbytes if kind in ("reducescatter", "scatter") else source.nbytes
        if kind == "alltoall":
            share_bytes, remainder = divmod(source.nbytes, self.world_size)
            if remainder or share_bytes % NUMBERS[element].storage.itemsize:
                raise CollectiveError(
                    f"all_to_all of {source.nbytes} bytes cannot be cut into {self.world_size} equal shares; give "
                    "input_lengths and output_lengths"
                )
        num_bytes = share_bytes * CollectiveKind(kind).buffer_shares(self.world_size)
        choice = self._plans.choose(self._request(kind, num_bytes, in_place=in_place, root=root))
        shape = CallShape(element, op, share_bytes // NUMBERS[element].storage.itemsize)
        self._check_sizes(kind, choice.plan, source, target, share_bytes)
        return self._remember(engine, key, choice, shape)

    def _uneven_call(
        self,
        engine: Engine,
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
        return engine.prepare(choice.plan, choice.digest, shape, proven=True)

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

    def _remember(self, engine: Engine, key: Key, choice: Choice, shape: CallShape) -> _core.Call:
        call = engine.prepare(choice.plan, choice.digest, shape, proven=True)
        if len(engine.calls) >= 4096:  # bounds the memory of programs that call with ever new sizes
            engine.calls.clear()
            self._in_place.clear()
        engine.calls[key] = call
        return call

    def _request(
        self, kind: str, num_bytes: int, *, in_place: bool, root: int = 0, uneven: bool = False
    ) -> PlanRequest:
        named = parse_kind(kind)
        same = self._same_expression and named.facts.sums
        return PlanRequest(
            named,
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
        engine: Engine,
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
        call = engine.calls.get(key)
        if call is None:
            call = engine.prepare(plan, digest, CallShape(element, op, share), proven=False)
            engine.calls[key] = call
        if output is None and shares.window is not None and shares.input != shares.output:
            source, target = _windows(source, shares, share)
        size = NUMBERS[element].storage.itemsize
        self._check_sizes(plan.collective.kind, plan, source, target, share * size)
        return call, source, target

    def _digest(self, plan: Plan) -> bytes:
        """The digest of a plan, cached by the identity of the object."""
        known = self._digests.get(id(plan))
        if known is None or known[0] is not plan:
            if len(self._digests) >= 256:
                self._digests.clear()
            known = self._digests[id(plan)] = (plan, plan_digest(plan))
        return known[1]

    def _share_of(
        self, plan: Plan, shares: Shares, source: Array, target: Array, element: str, *, alone: bool
    ) -> int:
        """The number of elements of one share, from the sizes of the arrays that a plan is run on."""
        if element_of(target) != element:
            raise CollectiveError(
                f"input and output are of one type, but are {element} and {element_of(target)}"
            )
        array, num_shares = (source, shares.input) if shares.input else (target, shares.output)
        if plan.collective.in_place and alone:
            num_shares = max(shares.input, shares.output)
        size = NUMBERS[element].storage.itemsize
        share, remainder = divmod(array.nbytes, num_shares * size) if num_shares else (0, 0)
        if remainder:
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
    """The input and the output of a call in place that was given only the larger of the two arrays."""
    if not isinstance(array, np.ndarray):
        raise CollectiveError("give input and output; one of them alone is enough for NumPy arrays only")
    assert shares.window is not None
    flat = array.reshape(-1)
    first, length = abs(shares.window) * share, min(shares.input, shares.output) * share
    window = flat[first : first + length]
    return (window, array) if shares.input < shares.output else (array, window)
