"""Every exception that Hemiola raises on purpose, one sentence each.

A message says where, what was expected, what was found, and the way out. Mistakes of a user raise from
here; a broken invariant of our own is an ``assert`` (or ``ENFORCE`` in C++) instead.
"""


class HemiolaError(Exception):
    """Anything that Hemiola refuses on purpose; the command line prints its message and exits with 2."""


class UnitError(HemiolaError):
    """A size, a time or a bandwidth that cannot be read."""


class TopologyError(HemiolaError):
    """A description of a machine that contradicts itself or cannot be read."""


class PlacementError(HemiolaError):
    """Axes, traffic or a placement that fit neither each other nor the system."""


class JobError(HemiolaError):
    """A description of a whole job that contradicts itself, cannot be read, or asks for what no device can hold."""


class FusionError(HemiolaError):
    """A training step, an operator graph or a fusion plan that cannot be captured, read or carried out as asked."""


class CollectiveError(HemiolaError):
    """A collective whose parameters contradict each other."""


class ProgramError(HemiolaError):
    """A chunk program that does something impossible; the base of the mistakes below."""


class StaleReferenceError(ProgramError):
    """A reference to a chunk that has been overwritten since the reference was taken."""


class UninitializedChunkError(ProgramError):
    """A chunk that nothing has written yet is read."""


class ChunkIndexError(ProgramError):
    """A chunk outside its buffer, a rank outside the program, or a buffer that does not exist."""


class GroupError(ProgramError):
    """References that cannot be grouped or split, because chunks between them are missing or left over."""


class CountError(ProgramError):
    """Two operands of one operation that have different numbers of chunks."""


class DoubleCountError(ProgramError):
    """A reduction that would add a contribution that is already in the sum."""


class PostconditionError(ProgramError):
    """A program that ends without what its collective promises."""


class ThreadblockError(ProgramError):
    """Threadblocks placed by hand in a way that no runtime can run."""


class CompileError(HemiolaError):
    """A program that is right but cannot be compiled as asked."""


class LimitError(CompileError):
    """A plan that is right but breaks a limit of the runtime it is meant for."""


class PlanError(HemiolaError):
    """A plan whose tables break a law of the plan's form."""


class FormatError(HemiolaError):
    """A file that is not what it says it is: broken, hostile, truncated, or of an unknown version."""


class VerificationError(HemiolaError):
    """A plan that was to be handed over but failed its proof."""


class ReductionError(HemiolaError):
    """A reduction, its axes or its program that cannot be carried out as asked."""


class ScriptError(HemiolaError):
    """A script given to the command line that cannot be run or holds no program."""


class LabError(HemiolaError):
    """A lab that cannot be built, found or used."""


class RunError(HemiolaError):
    """A run that could not be finished; the base of the faults below."""


class NoPlanError(RunError):
    """A call for which no source has a plan."""


class PeerLostError(RunError):
    """A rank that died, left or did not answer in time while others needed it."""

    def __init__(self, rank: int, message: str) -> None:
        super().__init__(message)
        self.rank = rank

    def __reduce__(self) -> tuple[type["PeerLostError"], tuple[int, str]]:
        return PeerLostError, (self.rank, str(self))


class MismatchError(RunError):
    """Ranks that called different collectives, or the same one with different sizes, types or plans."""


class ConnectError(RunError):
    """A peer, a store or an interface that could not be reached, or that did not prove that it belongs."""


class RefusedError(ConnectError):
    """A process that answered, but did not admit this one or did not prove that it belongs: no time heals that."""
