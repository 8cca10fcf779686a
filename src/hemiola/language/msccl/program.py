"""MSCCLProgram and the verbs that a script calls inside its ``with`` block."""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
from contextvars import ContextVar
from io import StringIO
from operator import index as as_int
from typing import Any

from hemiola.errors import PostconditionError, ProgramError, UninitializedChunkError
from hemiola.ir.chunk_dag import AUTOMATIC
from hemiola.ir.plan import Protocol
from hemiola.language.msccl.collectives import Collective
from hemiola.language.msccl.contents import Contents, Place, RankContents
from hemiola.language.msccl.enums import Buffer, ReplicationPolicy, ThreadblockPolicy
from hemiola.language.msccl.memory import Memory
from hemiola.language.msccl.promise import promised_collective
from hemiola.language.msccl.reference import UNSET, Ref, script_frame
from hemiola.language.program import INPUT, OUTPUT, Program

CURRENT: ContextVar[MSCCLProgram] = ContextVar("CURRENT")
"""The program whose ``with`` block runs."""

ENTERED: ContextVar[list[MSCCLProgram]] = ContextVar("ENTERED")
"""Every program of the running script, in the order of the ``with`` blocks."""


class MSCCLProgram:
    """A program in the words of a script, recorded in a native one."""

    def __init__(
        self, name: str, topo: Any, collective: Collective, instances: int, protocol: str = "Simple",
        threadblock_policy: ThreadblockPolicy = ThreadblockPolicy.auto, interleaved_replication: bool = True,
        instr_fusion: bool = True, check_xml: bool = True, dependence_nop: bool = False,
        replication_policy: ReplicationPolicy | None = None,
    ) -> None:  # fmt: skip
        self.name = name
        self.topo = topo
        self.collective = collective
        self.num_ranks = topo.num_nodes()
        self.instances = as_int(instances)
        self.protocol = protocol
        self.threadblock_policy = threadblock_policy
        self.interleaved_replication = interleaved_replication
        self.instr_fusion = instr_fusion
        self.check_xml = check_xml
        self.dependence_nop = dependence_nop
        self.replication_policy = replication_policy
        self.wanted = False
        self.where = ("", 0)
        if self.num_ranks != collective.num_ranks:
            raise ProgramError(
                f"{name}: the topology has {self.num_ranks} nodes, but the collective {collective.num_ranks} ranks; "
                "make them agree"
            )
        self.memory = Memory(collective)
        self.native = Program(
            str(name), self.memory.native, instances=self.instances, protocol=_protocol(protocol)
        )
        self._scratch_names: dict[Any, str] = {}
        self.contents = Contents(self.memory, self.native, self._scratch_names)

    def __enter__(self) -> MSCCLProgram:
        frame = script_frame()
        self.where = (frame.f_code.co_filename, frame.f_lineno)
        self._token = CURRENT.set(self)
        if self not in ENTERED.get():
            ENTERED.get().append(self)
        return self

    def __exit__(self, *exception: object) -> None:
        CURRENT.reset(self._token)

    @property
    def buffers(self) -> list[RankContents]:
        """Per rank what the buffers hold now."""
        return [self.contents.rank(rank) for rank in range(self.num_ranks)]

    def reference(self, rank: int, buffer: Any, index: int, size: int) -> Ref:
        """A reference to chunks that hold something."""
        rank, index, size = as_int(rank), as_int(index), as_int(size)
        if buffer is Buffer.input or buffer is Buffer.output:
            located, name, at = self.memory.place(rank, buffer, index, size)
        else:
            located, name, at = self.scratch_place(rank, buffer, index)
        chunk = self.native.chunk(rank, name, at, size)
        self._refuse_blank(rank, name, at, size)
        return Ref(self, located, chunk)

    def scratch_place(self, rank: int, buffer: Any, index: int | None) -> tuple[Any, str, int]:
        """The native name and index of a scratch chunk; its end without an index."""
        self.memory.check_rank(rank)
        name = self._scratch_name(buffer)
        return buffer, name, self.native.next_scratch_index(rank, name) if index is None else index

    def by_hand(self, ch: int, sendtb: int, recvtb: int, *, local: bool) -> tuple[int, int, int]:
        """Channel and threadblocks as the policy lets a script choose; a local step is on ``sendtb``."""
        channel, send, recv = (AUTOMATIC if n == UNSET else as_int(n) for n in (ch, sendtb, recvtb))
        if self.threadblock_policy is not ThreadblockPolicy.manual:
            return channel, AUTOMATIC, AUTOMATIC
        return channel, send, send if local else recv

    def check_link(self, src: int, dst: int) -> None:
        """Raise unless the topology lets ``src`` send to ``dst``."""
        if src != dst and not self.topo.link(src, dst):
            raise ProgramError(
                f"rank {src} sends to rank {dst}, but {getattr(self.topo, 'name', 'the topology')} has no link "
                "there; go through a neighbour, or use a topology that has the link, such as fully_connected"
            )

    def check(self) -> bool:
        """True when the program does what its collective asks; raises otherwise."""
        if self.memory.standard is not None:
            self.native.check()
        else:
            self._ask_collective()
        return True

    def finish(self) -> Program:
        """The native program, with its collective in full."""
        if self.memory.standard is None:
            self.native.collective = promised_collective(self.contents, self._ask_collective())
        self.native.check()
        return self.native

    def _ask_collective(self) -> set[Place]:
        """Run the script's own check; the places it looked at, or all results if it has none."""
        self.contents.seen.clear()
        said = StringIO()
        try:
            with redirect_stdout(said):
                verdict = self.collective.check(self)
        finally:
            sys.stderr.write(said.getvalue())
        if not verdict and verdict is not None:
            reason = ": " + said.getvalue().strip() if said.getvalue().strip() else ""
            raise PostconditionError(
                f"{self.name} does not do what it should: the check of {type(self.collective).__name__} "
                f"gives {verdict!r}{reason}"
            )
        if type(self.collective).check is Collective.check:
            self._look_at_results()
        return set(self.contents.seen)

    def _look_at_results(self) -> None:
        for row in self.buffers:
            list(row[Buffer.output])
            list(row[Buffer.input])

    def _scratch_name(self, buffer: Any) -> str:
        """A native name for any value that a script uses as one."""
        known = self._scratch_names.get(buffer)
        if known is None:
            known = buffer.name if isinstance(buffer, Buffer) else str(buffer)
            taken = {INPUT, OUTPUT, *self._scratch_names.values()}
            while not known or known in taken:
                known += "'"
            self._scratch_names[buffer] = known
        return known

    def _refuse_blank(self, rank: int, name: str, index: int, size: int) -> None:
        if name == INPUT and self.memory.blank:
            for at in range(index, index + size):
                if not self.contents.origins((rank, name, at)):
                    self._raise_blank(rank, at)

    def _raise_blank(self, rank: int, at: int) -> None:
        raise UninitializedChunkError(
            f"input[{at}] of rank {rank} is read, but init_buffers of {type(self.collective).__name__} puts no chunk "
            "there and nothing has been copied to it"
        )


def _protocol(name: str) -> Protocol:
    known = {protocol.value: protocol for protocol in Protocol}
    if name not in known:
        raise ProgramError(f"protocol is one of {', '.join(known)}, not {name!r}")
    return known[name]


def current() -> MSCCLProgram:
    """The program whose ``with`` block runs."""
    program = CURRENT.get(None)
    if program is None:
        raise ProgramError("no program is being recorded here; do this inside 'with MSCCLProgram(...):'")
    return program


def chunk(rank: int, buffer: Any, index: int, size: int = 1) -> Ref:
    """A reference to ``size`` chunks from ``index`` on, as they are now."""
    return current().reference(rank, buffer, index, size)


def create_scratch(rank: int, name: Any) -> None:
    """Make a scratch buffer known; the first copy to it would do that, too."""
    current().scratch_place(as_int(rank), name, None)


def XML() -> None:  # noqa: N802, the published name
    """Say that this program is to be compiled."""
    current().wanted = True


def Check() -> bool:  # noqa: N802, the published name
    """True when the program so far does what its collective asks; raises otherwise."""
    return current().check()
