"""Reads MSCCL XML of both dialects: that of msccl (the NCCL fork) and that of rccl and the Azure executor.

A file may come from a stranger. It is streamed through expat; document types and entities are refused, only
``algo > gpu > tb > step`` and ``gpu > copy`` may appear, every attribute has a range, memory grows with the file and not with
what it claims, and every error is one FormatError "file:line: what was found, what was expected".

A custom collective that says ``inplace="1"`` although a rank has an input and an output of its own (msccl-tools writes
all-to-next so, with the sizes that steps of each rank use) has its buffers apart, and is read as out of place. In place,
where each rank has one of the two, both names stand for the longer one.

What the file does not say: the root of a broadcast, reduce, gather or scatter (``root=``, or an attribute
``root`` that this project writes), and the meaning of ``custom`` (``collective=``).
"""

from __future__ import annotations

import os

import numpy as np
import numpy.typing as npt

from hemiola.collectives import MAX_CHUNKS, Collective, CollectiveKind, Custom
from hemiola.errors import CollectiveError, FormatError, PlanError
from hemiola.ir.form import check_plausible_size, first_fault
from hemiola.ir.formats.files import read_regular_file
from hemiola.ir.formats.msccl_xml_tags import Document, feed
from hemiola.ir.opcodes import Opcode
from hemiola.ir.plan import DEPENDENCY, RANK, STEP, THREADBLOCK, Plan, Protocol
from hemiola.units import LARGEST

DEFAULT_MAX_BYTES = 1 << 27
"""Where msccl's dialect leaves maxBytes out."""

KIND_BY_NAME = {
    "allreduce": "allreduce",
    "allgather": "allgather",
    "reduce_scatter": "reducescatter",
    "reducescatter": "reducescatter",
    "alltoall": "alltoall",
    "alltoallv": "alltoall",
    "broadcast": "broadcast",
    "reduce": "reduce",
    "gather": "gather",
    "scatter": "scatter",
    "send": "custom",
    "recv": "custom",
    "custom": "custom",
}
"""What each dialect's name of a collective means; send and recv do not say between whom."""


def read_msccl_xml(
    path: str | os.PathLike[str], *, collective: Collective | None = None, root: int | None = None
) -> Plan:
    """The plan in an XML file; ``collective`` and ``root`` say what the file does not."""
    return parse_msccl_xml(read_regular_file(path), str(path), collective=collective, root=root)


def parse_msccl_xml(
    data: bytes, name: str = "plan.xml", *, collective: Collective | None = None, root: int | None = None
) -> Plan:
    """The plan in the bytes of an XML file that is called ``name`` in errors."""
    document = Document(name)
    feed(document, data)
    return _Assembly(document).plan(collective, root)


class _Assembly:
    """Makes the plan of a whole document: rows in the order of ranks, threadblocks and steps."""

    def __init__(self, document: Document) -> None:
        assert document.algo is not None
        self._document = document
        self._algo = document.algo
        self._gpus = [document.gpus[number] for number in range(document.num_ranks)]
        self._blocks = [
            (gpu, gpu.threadblocks[k]) for gpu in self._gpus for k in range(len(gpu.threadblocks))
        ]
        self._num_steps = np.array([block.num_steps for _, block in self._blocks], np.int64)
        self._first_step = np.cumsum(self._num_steps) - self._num_steps
        in_file = np.array([block.first_step for _, block in self._blocks], np.int64)
        order = np.arange(int(self._num_steps.sum())) + np.repeat(in_file - self._first_step, self._num_steps)
        self._steps = {name: np.array(column, np.int64)[order] for name, column in document.steps.items()}

    def plan(self, collective: Collective | None, root: int | None) -> Plan:
        algo = self._algo
        in_place, out_of_place = self._places()
        if in_place and not out_of_place and self._has_buffers_apart(collective):
            in_place, out_of_place = False, True
        depends = self._steps["depid"] >= 0
        plan = Plan(
            name=algo.text("name"),
            collective=self._collective(collective, root, in_place and not out_of_place),
            protocol=algo.choice("proto", {protocol.value: protocol for protocol in Protocol}),
            ranks=self._ranks(one_memory=collective is None and in_place and not out_of_place),
            threadblocks=self._threadblocks(),
            steps=self._step_rows(depends),
            dependencies=self._dependencies(depends),
            min_bytes=algo.integer("minBytes", 0, LARGEST, 0),
            max_bytes=self._max_bytes(),
            both_places=in_place and out_of_place,
        )
        self._check(plan)
        self._check_signals(plan, depends)
        return plan

    def _places(self) -> tuple[bool, bool]:
        in_place = self._algo.integer("inplace", 0, 1) == 1
        out_of_place = self._algo.integer("outofplace", 0, 1, int(not in_place)) == 1
        if not (in_place or out_of_place):
            raise self._algo.error('inplace="0" and outofplace="0" were found, at least one must be 1')
        return in_place, out_of_place

    def _max_bytes(self) -> int:
        is_msccl = "outofplace" not in self._algo.attributes
        return self._algo.integer("maxBytes", 0, LARGEST, DEFAULT_MAX_BYTES if is_msccl else None)

    def _is_custom(self) -> bool:
        return self._algo.choice("coll", KIND_BY_NAME) == "custom"

    def _has_buffers_apart(self, given: Collective | None) -> bool:
        """Whether a custom collective has a rank with two buffers; where they were one, only one would have chunks."""
        if not self._is_custom() or (given is not None and given.kind.facts.can_be_in_place):
            return False
        return any(gpu.sizes[0] and gpu.sizes[1] for gpu in self._gpus)

    def _ranks(self, *, one_memory: bool) -> npt.NDArray[np.void]:
        ranks = np.zeros(len(self._gpus), RANK)
        counts = np.array([len(gpu.threadblocks) for gpu in self._gpus], np.int64)
        for column, name in enumerate(("input_chunks", "output_chunks", "scratch_chunks")):
            ranks[name] = [gpu.sizes[column] for gpu in self._gpus]
        if one_memory and self._is_custom():
            ranks["input_chunks"] = np.maximum(ranks["input_chunks"], ranks["output_chunks"])
            ranks["output_chunks"] = 0
        ranks["first_threadblock"] = np.cumsum(counts) - counts
        return ranks

    def _threadblocks(self) -> npt.NDArray[np.void]:
        rows = [
            (gpu.number, block.send_peer, block.recv_peer, block.channel, first)
            for (gpu, block), first in zip(self._blocks, self._first_step.tolist(), strict=True)
        ]
        return np.array(rows, THREADBLOCK)

    def _step_rows(self, depends: npt.NDArray[np.bool_]) -> npt.NDArray[np.void]:
        steps = np.zeros(len(depends), STEP)
        for name in ("opcode", "src_buffer", "dst_buffer", "src_index", "dst_index", "count"):
            steps[name] = self._steps[name]
        steps["first_dependency"] = np.cumsum(depends) - depends
        return steps

    def _dependencies(self, depends: npt.NDArray[np.bool_]) -> npt.NDArray[np.void]:
        dependencies = np.zeros(int(depends.sum()), DEPENDENCY)
        dependencies["threadblock"] = self._steps["depid"][depends]
        dependencies["step"] = self._steps["deps"][depends]
        return dependencies

    def _collective(self, given: Collective | None, root: int | None, in_place: bool) -> Collective:
        algo, num_ranks = self._algo, self._document.num_ranks
        try:
            if given is None:
                return self._collective_of_file(root, in_place)
            if given.num_ranks != num_ranks:
                raise algo.error(f'ngpus="{num_ranks}" was found, {given.num_ranks} was expected')
            return given if given.in_place == in_place else given.with_place(in_place=in_place)
        except CollectiveError as error:
            raise algo.error(str(error)) from None

    def _collective_of_file(self, root: int | None, in_place: bool) -> Collective:
        algo, num_ranks = self._algo, self._document.num_ranks
        kind = algo.choice("coll", KIND_BY_NAME)
        loop = algo.integer("nchunksperloop", 1, MAX_CHUNKS)
        if kind == "custom":
            inputs, outputs, _ = zip(*(gpu.sizes for gpu in self._gpus), strict=True)
            return Custom(input_chunks=inputs, output_chunks=outputs, promises={}, in_place=in_place)
        if kind in ("gather", "scatter"):
            loop = max(max(gpu.sizes[:2]) for gpu in self._gpus)
        if kind in ("allgather", "reducescatter", "alltoall", "gather", "scatter"):
            if loop % num_ranks:
                raise algo.error(
                    f"{loop} chunks per loop of {kind} were found, a multiple of the {num_ranks} ranks was expected"
                )
            loop //= num_ranks
        root = algo.integer("root", 0, num_ranks - 1, 0) if root is None else root
        return Collective(CollectiveKind(kind), num_ranks, loop, in_place, root)

    def _check(self, plan: Plan) -> None:
        fault = first_fault(plan)
        if fault is not None:
            line = self._line_of(fault.rank, fault.threadblock, fault.step)
            raise FormatError(f"{self._document.where(line)}: {fault.message}")
        try:
            check_plausible_size(plan)
        except PlanError as error:
            raise self._algo.error(str(error)) from None

    def _line_of(self, rank: int | None, threadblock: int | None, step: int | None) -> int:
        if rank is None:
            return int(self._algo.where.rpartition(":")[2])
        gpu = self._gpus[rank]
        if threadblock is None:
            return gpu.line
        block = gpu.threadblocks[threadblock]
        return block.line if step is None else self._document.steps["line"][block.first_step + step]

    def _check_signals(self, plan: Plan, depends: npt.NDArray[np.bool_]) -> None:
        """A runtime waits for ever for a step that does not announce its end."""
        signals = (self._steps["hasdep"] == 1) & (self._steps["opcode"] != Opcode.NOP)
        rank = np.repeat(plan.threadblocks["rank"], self._num_steps)[depends]
        block = plan.ranks["first_threadblock"][rank] + plan.dependencies["threadblock"]
        silent = np.flatnonzero(~signals[self._first_step[block] + plan.dependencies["step"]])
        if len(silent):
            dependency = plan.dependencies[silent[0]]
            line = self._steps["line"][depends][silent[0]]
            raise FormatError(
                f"{self._document.where(line)}: this step waits for step {dependency['step']} of tb "
                f'{dependency["threadblock"]}, which is a nop or has hasdep="0" and so never says that it is done; '
                'hasdep="1" was expected there'
            )
