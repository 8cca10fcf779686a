"""TensorCalls: every collective on tensors, which copies tensors to contiguous memory where the communicator needs it.

With ``wait=True`` a method runs in the caller's thread and returns a Call that has ended; only its ``finish`` is left.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor
from torch._C._distributed_c10d import ReduceOp

from hemiola.integrations.torch.checks import check_one_per_rank, check_shares, check_type, check_whole
from hemiola.integrations.torch.operators import operator_name
from hemiola.integrations.torch.packs import packs
from hemiola.integrations.torch.splits import split_lengths
from hemiola.integrations.torch.tensors import flat, joined, staged, staged_list, staged_outputs
from hemiola.integrations.torch.work import Call, together
from hemiola.runtime.communicator.communicator import Communicator


@dataclass(frozen=True, slots=True)
class TensorCalls:
    """Calls a communicator with tensors of any shape, stride and type; roots and peers are ranks of the communicator."""

    communicator: Communicator

    def all_reduce(self, tensor: Tensor, op: ReduceOp, *, wait: bool) -> Call:
        name = operator_name(op, tensor.dtype, "all_reduce")
        array, finish = staged(tensor, "all_reduce")
        return Call(self.communicator.all_reduce(array, op=name, wait=wait), finish)

    def all_reduce_list(self, tensors: Sequence[Tensor], op: ReduceOp, *, wait: bool) -> Call:
        return together([self._all_reduce_pack(pack, op, wait=wait) for pack in packs(tensors)])

    def _all_reduce_pack(self, pack: Sequence[Tensor], op: ReduceOp, *, wait: bool) -> Call:
        if len(pack) == 1:
            return self.all_reduce(pack[0], op, wait=wait)
        name = operator_name(op, pack[0].dtype, "all_reduce_coalesced")
        array, finish = staged_list(pack, "all_reduce_coalesced")
        return Call(self.communicator.all_reduce(array, op=name, wait=wait), finish)

    def broadcast(self, tensor: Tensor, root: int, *, wait: bool) -> Call:
        array, finish = staged(tensor, "broadcast")
        return Call(self.communicator.broadcast(array, root=root, wait=wait), finish)

    def reduce(self, tensor: Tensor, root: int, op: ReduceOp, *, wait: bool) -> Call:
        name = operator_name(op, tensor.dtype, "reduce")
        array, finish = staged(tensor, "reduce")
        return Call(self.communicator.reduce(array, root=root, op=name, wait=wait), finish)

    def all_gather(self, output: Tensor, tensor: Tensor, *, wait: bool) -> Call:
        check_whole(output, tensor, self.communicator.world_size, "all_gather_single")
        array, finish = staged(output, "all_gather_single")
        source = flat(tensor, "all_gather_single")
        return Call(self.communicator.all_gather(source, array, wait=wait), finish)

    def all_gather_list(self, outputs: Sequence[Tensor], tensor: Tensor, *, wait: bool) -> Call:
        """Gather into a list; outputs of different sizes are broadcast one by one, each by its rank."""
        check_one_per_rank(outputs, self.communicator.world_size, "all_gather")
        if len({output.numel() for output in outputs}) > 1:
            own = outputs[self.communicator.rank]
            check_shares([own], tensor, 1, "all_gather")
            own.detach().copy_(tensor.detach().reshape(own.shape))
            return together([self.broadcast(output, root, wait=wait) for root, output in enumerate(outputs)])
        check_shares(outputs, tensor, self.communicator.world_size, "all_gather")
        array, finish = staged_outputs(outputs, "all_gather")
        return Call(self.communicator.all_gather(flat(tensor, "all_gather"), array, wait=wait), finish)

    def reduce_scatter(self, output: Tensor, tensor: Tensor, op: ReduceOp, *, wait: bool) -> Call:
        name = operator_name(op, output.dtype, "reduce_scatter_single")
        check_whole(tensor, output, self.communicator.world_size, "reduce_scatter_single")
        array, finish = staged(output, "reduce_scatter_single")
        source = flat(tensor, "reduce_scatter_single")
        return Call(self.communicator.reduce_scatter(source, array, op=name, wait=wait), finish)

    def reduce_scatter_list(
        self, output: Tensor, tensors: Sequence[Tensor], op: ReduceOp, *, wait: bool
    ) -> Call:
        """Reduce and scatter a list; inputs of different sizes are reduced one by one, each to its rank."""
        name = operator_name(op, output.dtype, "reduce_scatter")
        check_one_per_rank(tensors, self.communicator.world_size, "reduce_scatter")
        array, finish = staged(output, "reduce_scatter")
        if len({tensor.numel() for tensor in tensors}) > 1:
            check_shares([tensors[self.communicator.rank]], output, 1, "reduce_scatter")
            sources = [flat(tensor, "reduce_scatter") for tensor in tensors]
            pending = [
                self.communicator.reduce(source, array, root=root, op=name, wait=wait)
                for root, source in enumerate(sources)
            ]
            return together([Call(one, None) for one in pending] + [Call(None, finish)])
        check_shares(tensors, output, self.communicator.world_size, "reduce_scatter")
        source = joined(tensors, "reduce_scatter")
        return Call(self.communicator.reduce_scatter(source, array, op=name, wait=wait), finish)

    def all_to_all(
        self,
        output: Tensor,
        tensor: Tensor,
        output_rows: Sequence[int],
        input_rows: Sequence[int],
        *,
        wait: bool,
    ) -> Call:
        """All-to-all of rows of the first dimension, with a number of rows per rank; empty lists mean equal parts."""
        check_type(output, tensor, "all_to_all_single")
        array, finish = staged(output, "all_to_all_single")
        source = flat(tensor, "all_to_all_single")
        lengths_in = split_lengths(tensor, source, input_rows, self.communicator.world_size, "input")
        lengths_out = split_lengths(output, array, output_rows, self.communicator.world_size, "output")
        if not input_rows and not output_rows:
            return Call(self.communicator.all_to_all(source, array, wait=wait), finish)
        pending = self.communicator.all_to_all(
            source, array, input_lengths=lengths_in, output_lengths=lengths_out, wait=wait
        )
        return Call(pending, finish)

    def all_to_all_list(self, outputs: Sequence[Tensor], tensors: Sequence[Tensor], *, wait: bool) -> Call:
        check_one_per_rank(outputs, self.communicator.world_size, "all_to_all")
        check_one_per_rank(tensors, self.communicator.world_size, "all_to_all")
        check_type(outputs[0], tensors[0], "all_to_all")
        array, finish = staged_outputs(outputs, "all_to_all")
        source = joined(tensors, "all_to_all")
        element_bytes = source.element_size()
        pending = self.communicator.all_to_all(
            source,
            array,
            input_lengths=[tensor.nbytes // element_bytes for tensor in tensors],
            output_lengths=[output.nbytes // element_bytes for output in outputs],
            wait=wait,
        )
        return Call(pending, finish)

    def gather(self, outputs: Sequence[Tensor] | None, tensor: Tensor, root: int, *, wait: bool) -> Call:
        """Gather on the root; ``outputs`` is None on all other ranks."""
        source = flat(tensor, "gather")
        if outputs is None:
            return Call(self.communicator.gather(source, root=root, wait=wait), None)
        check_shares(outputs, tensor, self.communicator.world_size, "gather")
        array, finish = staged_outputs(outputs, "gather")
        return Call(self.communicator.gather(source, array, root=root, wait=wait), finish)

    def scatter(self, output: Tensor, tensors: Sequence[Tensor] | None, root: int, *, wait: bool) -> Call:
        """Scatter from the root; ``tensors`` is None on all other ranks."""
        array, finish = staged(output, "scatter")
        if tensors is None:
            return Call(self.communicator.scatter(None, array, root=root, wait=wait), finish)
        check_shares(tensors, output, self.communicator.world_size, "scatter")
        source = joined(tensors, "scatter")
        return Call(self.communicator.scatter(source, array, root=root, wait=wait), finish)

    def send(self, tensor: Tensor, peer: int, tag: int) -> Call:
        return Call(self.communicator.send(flat(tensor, "send"), peer, tag=tag, wait=False), None)

    def recv(self, tensor: Tensor, peer: int, tag: int) -> Call:
        array, finish = staged(tensor, "recv")
        return Call(self.communicator.recv(array, peer, tag=tag, wait=False), finish)

    def barrier(self, *, wait: bool) -> Call:
        return Call(self.communicator.barrier(wait=wait), None)
