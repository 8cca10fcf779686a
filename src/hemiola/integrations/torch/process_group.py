"""HemiolaProcessGroup: the process group that torch.distributed calls.

PyTorch calls a group from two sides. Its Python functions (``dist.all_reduce`` ...) call the methods below directly; its
C++ code (DDP, functional collectives, compiled graphs) calls those that its binding forwards. The names, the order of
arguments and the camel case are therefore PyTorch's. A call with ``asyncOp`` off runs in the caller's thread, which is
fastest; any other call is put into the communicator's queue. Roots and peers are ranks of this group.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, NoReturn

import torch
from torch import Tensor
from torch._C._distributed_c10d import (
    AllgatherOptions,
    AllreduceCoalescedOptions,
    AllreduceOptions,
    AllToAllOptions,
    BarrierOptions,
    BroadcastOptions,
    GatherOptions,
    ProcessGroup,
    ReduceOptions,
    ReduceScatterOptions,
    ScatterOptions,
    Store,
)

from hemiola.errors import CollectiveError
from hemiola.integrations.torch.calls import TensorCalls
from hemiola.integrations.torch.checks import check_pairs, only
from hemiola.integrations.torch.operators import operator_name
from hemiola.integrations.torch.tensors import needs_no_copy
from hemiola.integrations.torch.untraced import untraced
from hemiola.integrations.torch.work import NO_TIMEOUT, Call, CollectiveWork, together
from hemiola.runtime.communicator.communicator import Communicator

_ProcessGroup: Any = ProcessGroup
"""The base class without its types: they have overloads that nobody calls, and do not exist without PyTorch."""

_CPU = torch.device("cpu")
_ALL_REDUCE = AllreduceOptions()
_ALL_REDUCE_COALESCED = AllreduceCoalescedOptions()
_BROADCAST = BroadcastOptions()
_REDUCE = ReduceOptions()
_ALL_GATHER = AllgatherOptions()
_REDUCE_SCATTER = ReduceScatterOptions()
_ALL_TO_ALL = AllToAllOptions()
_GATHER = GatherOptions()
_SCATTER = ScatterOptions()
_BARRIER = BarrierOptions()


@untraced
class HemiolaProcessGroup(_ProcessGroup):  # type: ignore[misc]
    """A process group for tensors in CPU memory, on a communicator of the runtime."""

    supports_splitting = False
    supports_coalescing = False
    supports_time_estimate = False

    def __init__(self, communicator: Communicator, store: Store) -> None:
        super().__init__(communicator.rank, communicator.world_size)
        self._store = store
        self._communicator = communicator
        self._calls = TensorCalls(communicator)
        self._group_name = ""
        self._group_desc = ""
        self._coalesced: list[CollectiveWork] | None = None
        self._close = weakref.finalize(self, communicator.close)

    @property
    def communicator(self) -> Communicator:
        """The communicator of the group; its ``explain`` says which plan serves a size, and why."""
        return self._communicator

    def allreduce(
        self, tensors: Sequence[Tensor] | Tensor, opts: AllreduceOptions = _ALL_REDUCE
    ) -> CollectiveWork:
        """Reduce a tensor or a list of them: DDP's join passes one tensor, all other callers a list.

        A single tensor that needs no copy skips the generic path.
        """
        if isinstance(tensors, Tensor):
            tensors = [tensors]
        if len(tensors) != 1:
            return self.allreduce_coalesced(tensors, opts)
        tensor, op, wait = tensors[0], opts.reduceOp, not opts.asyncOp
        if wait and needs_no_copy(tensor):
            self._communicator.all_reduce(tensor, op=operator_name(op, tensor.dtype, "all_reduce"))
            return CollectiveWork.ended(tensors)
        return self._work(tensors, self._calls.all_reduce(tensor, op, wait=wait))

    def allreduce_coalesced(
        self, tensors: Sequence[Tensor], opts: AllreduceOptions = _ALL_REDUCE_COALESCED
    ) -> CollectiveWork:
        return self._work(tensors, self._calls.all_reduce_list(tensors, opts.reduceOp, wait=not opts.asyncOp))

    def broadcast(self, tensors: Sequence[Tensor], opts: BroadcastOptions = _BROADCAST) -> CollectiveWork:
        tensor = only(tensors, "broadcast")
        return self._work(tensors, self._calls.broadcast(tensor, opts.rootRank, wait=not opts.asyncOp))

    def reduce(self, tensors: Sequence[Tensor], opts: ReduceOptions = _REDUCE) -> CollectiveWork:
        tensor = only(tensors, "reduce")
        call = self._calls.reduce(tensor, opts.rootRank, opts.reduceOp, wait=not opts.asyncOp)
        return self._work(tensors, call)

    def allgather(
        self,
        output_tensors: Sequence[Sequence[Tensor]],
        input_tensors: Sequence[Tensor],
        opts: AllgatherOptions = _ALL_GATHER,
    ) -> CollectiveWork:
        outputs, tensor = only(output_tensors, "all_gather"), only(input_tensors, "all_gather")
        return self._work(outputs, self._calls.all_gather_list(outputs, tensor, wait=not opts.asyncOp))

    def allgather_coalesced(
        self,
        output_lists: Sequence[Sequence[Tensor]],
        input_list: Sequence[Tensor],
        opts: AllgatherOptions = _ALL_GATHER,
    ) -> CollectiveWork:
        """``output_lists[r][i]`` gets tensor ``i`` of rank ``r``."""
        for row in output_lists:
            check_pairs(row, input_list, "all_gather_coalesced")
        columns = zip(zip(*output_lists, strict=True), input_list, strict=True)
        calls = [self._calls.all_gather_list(outputs, t, wait=not opts.asyncOp) for outputs, t in columns]
        return self._work([tensor for row in output_lists for tensor in row], together(calls))

    def all_gather_single(
        self, output: Tensor, input_tensor: Tensor, opts: AllgatherOptions = _ALL_GATHER
    ) -> CollectiveWork:
        return self._work([output], self._calls.all_gather(output, input_tensor, wait=not opts.asyncOp))

    def all_gather_single_coalesced(
        self, outputs: Sequence[Tensor], inputs: Sequence[Tensor], opts: AllgatherOptions = _ALL_GATHER
    ) -> CollectiveWork:
        check_pairs(outputs, inputs, "all_gather_single_coalesced")
        pairs = zip(outputs, inputs, strict=True)
        calls = [self._calls.all_gather(output, t, wait=not opts.asyncOp) for output, t in pairs]
        return self._work(outputs, together(calls))

    def reduce_scatter(
        self,
        output_tensors: Sequence[Tensor],
        input_tensors: Sequence[Sequence[Tensor]],
        opts: ReduceScatterOptions = _REDUCE_SCATTER,
    ) -> CollectiveWork:
        output, inputs = only(output_tensors, "reduce_scatter"), only(input_tensors, "reduce_scatter")
        call = self._calls.reduce_scatter_list(output, inputs, opts.reduceOp, wait=not opts.asyncOp)
        return self._work(output_tensors, call)

    def reduce_scatter_single(
        self, output: Tensor, input_tensor: Tensor, opts: ReduceScatterOptions = _REDUCE_SCATTER
    ) -> CollectiveWork:
        call = self._calls.reduce_scatter(output, input_tensor, opts.reduceOp, wait=not opts.asyncOp)
        return self._work([output], call)

    def reduce_scatter_single_coalesced(
        self,
        outputs: Sequence[Tensor],
        inputs: Sequence[Tensor],
        opts: ReduceScatterOptions = _REDUCE_SCATTER,
    ) -> CollectiveWork:
        check_pairs(outputs, inputs, "reduce_scatter_single_coalesced")
        op, wait = opts.reduceOp, not opts.asyncOp
        pairs = zip(outputs, inputs, strict=True)
        return self._work(
            outputs, together([self._calls.reduce_scatter(output, t, op, wait=wait) for output, t in pairs])
        )

    def all_to_all_single(
        self,
        output: Tensor,
        input_tensor: Tensor,
        output_split_sizes: Sequence[int],
        input_split_sizes: Sequence[int],
        opts: AllToAllOptions = _ALL_TO_ALL,
    ) -> CollectiveWork:
        call = self._calls.all_to_all(
            output, input_tensor, output_split_sizes, input_split_sizes, wait=not opts.asyncOp
        )
        return self._work([output], call)

    def alltoall(
        self,
        output_tensors: Sequence[Tensor],
        input_tensors: Sequence[Tensor],
        opts: AllToAllOptions = _ALL_TO_ALL,
    ) -> CollectiveWork:
        call = self._calls.all_to_all_list(output_tensors, input_tensors, wait=not opts.asyncOp)
        return self._work(output_tensors, call)

    def gather(
        self,
        output_tensors: Sequence[Sequence[Tensor]],
        input_tensors: Sequence[Tensor],
        opts: GatherOptions = _GATHER,
    ) -> CollectiveWork:
        root, tensor = opts.rootRank, only(input_tensors, "gather")
        outputs = only(output_tensors, "gather") if self._communicator.rank == root else None
        return self._work(outputs or (), self._calls.gather(outputs, tensor, root, wait=not opts.asyncOp))

    def scatter(
        self,
        output_tensors: Sequence[Tensor],
        input_tensors: Sequence[Sequence[Tensor]],
        opts: ScatterOptions = _SCATTER,
    ) -> CollectiveWork:
        root, output = opts.rootRank, only(output_tensors, "scatter")
        inputs = only(input_tensors, "scatter") if self._communicator.rank == root else None
        return self._work(output_tensors, self._calls.scatter(output, inputs, root, wait=not opts.asyncOp))

    def send(self, tensors: Sequence[Tensor], dstRank: int, tag: int = 0) -> CollectiveWork:  # noqa: N803
        return self._work(tensors, self._calls.send(only(tensors, "send"), dstRank, tag))

    def recv(self, tensors: Sequence[Tensor], srcRank: int, tag: int = 0) -> CollectiveWork:  # noqa: N803
        return self._work(tensors, self._calls.recv(only(tensors, "recv"), srcRank, tag))

    def recv_anysource(self, tensors: Sequence[Tensor], tag: int = 0) -> NoReturn:
        raise CollectiveError(
            "recv got no source, and backend hemiola receives only from a rank that is named; pass src=..."
        )

    def barrier(self, opts: BarrierOptions = _BARRIER) -> CollectiveWork:
        """Wait for all ranks; only to this call does torch.distributed pass a timeout."""
        timeout = opts.timeout
        if timeout <= NO_TIMEOUT:
            return self._work((), self._calls.barrier(wait=not opts.asyncOp))
        work = self._work((), self._calls.barrier(wait=False))
        if not opts.asyncOp:
            work.wait(timeout)
        return work

    def monitored_barrier(self, *_: object, **__: object) -> NoReturn:
        raise CollectiveError(
            "monitored_barrier is Gloo's own; with backend hemiola any call that times out names the rank that "
            "was late: use barrier(timeout=...)"
        )

    _allgather_base = all_gather_single
    allgather_into_tensor_coalesced = all_gather_single_coalesced
    _reduce_scatter_base = reduce_scatter_single
    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced
    alltoall_base = all_to_all_single

    def _start_coalescing(self, device: torch.device) -> None:
        self._coalesced = []

    def _end_coalescing(self, device: torch.device) -> CollectiveWork:
        """One work for all calls since ``_start_coalescing``; they were not delayed until now."""
        works, self._coalesced = self._coalesced or [], None
        return self._work((), together([work.call for work in works]))

    def _work(self, tensors: Sequence[Tensor], call: Call) -> CollectiveWork:
        work = CollectiveWork.of(tensors, call)
        if self._coalesced is not None:
            self._coalesced.append(work)
        return work

    def rank(self) -> int:
        return self._communicator.rank

    def size(self) -> int:
        return self._communicator.world_size

    def get_group_store(self) -> Store:
        return self._store

    @property
    def _device_types(self) -> list[torch.device]:
        return [_CPU]

    def _get_backend(self, device: torch.device) -> HemiolaProcessGroup:
        """The backend of this group for a device, which PyTorch asks for: the group itself, for CPUs only."""
        if device.type != "cpu":
            raise CollectiveError(f"backend hemiola moves CPU memory only and has nothing for {device}")
        return self

    def set_timeout(self, timeout: timedelta) -> NoReturn:
        raise CollectiveError(
            f"a group of backend hemiola gets its timeout when it is made, and cannot change it to {timeout}; make "
            "one with new_group(timeout=...)"
        )

    def getBackendName(self) -> str:  # noqa: N802
        return "hemiola"

    def getGroupName(self) -> str:  # noqa: N802
        return self._group_name

    def setGroupName(self, name: str) -> None:  # noqa: N802
        self._group_name = name

    def getGroupDesc(self) -> str:  # noqa: N802
        return self._group_desc

    def setGroupDesc(self, desc: str) -> None:  # noqa: N802
        self._group_desc = desc

    def shutdown(self) -> None:
        """Close the communicator; calls that still run end with an error."""
        self._close()

    def abort(self) -> None:
        self._close()
