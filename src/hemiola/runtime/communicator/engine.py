"""Engine: prepares and runs the calls of one group of ranks, and raises the failures that the C++ core reports."""

from __future__ import annotations

import time
from typing import NoReturn

import numpy as np
import numpy.typing as npt

from hemiola import _core
from hemiola._core import RunFailure, RunFailureKind
from hemiola.errors import (
    CollectiveError,
    HemiolaError,
    MismatchError,
    PeerLostError,
    RunError,
    VerificationError,
)
from hemiola.ir.plan import Plan
from hemiola.runtime.bootstrap.membership import Membership
from hemiola.runtime.communicator.arrays import Array, address_of
from hemiola.runtime.communicator.call_queue import CallQueue
from hemiola.runtime.communicator.callback_thread import CallbackThread
from hemiola.runtime.communicator.calls import CallShape, make_call, take_part
from hemiola.runtime.communicator.handle import Handle
from hemiola.runtime.plans.judge import judge
from hemiola.runtime.settings import Settings

TRACE = np.dtype(_core.layout("TraceEvent"))
"""One step of one tile as it happened; times are monotonic nanoseconds, the same clock for all ranks of a host."""

Key = tuple[object, ...]

SLICE_SECONDS = 0.25
"""How long a rank tries to make a link before it checks whether the peer is alive."""


class Engine:
    """The engine of one rank in one group; all ranks must make their calls in the same order."""

    def __init__(
        self, membership: Membership, settings: Settings, callbacks: CallbackThread | None = None
    ) -> None:
        self.membership = membership
        self.settings = settings
        self.queue = CallQueue(
            membership.endpoint, callbacks or CallbackThread(membership.group), self.error_of
        )
        self.calls: dict[Key, _core.Call] = {}
        """The prepared calls, kept by whoever asks for them."""
        self._parts: dict[bytes, _core.Part] = {}
        self._judged: set[bytes] = set()
        self._finishes = False
        self._closed = False
        self._left = False

    def prepare(self, plan: Plan, digest: bytes, shape: CallShape, *, proven: bool) -> _core.Call:
        """A call that is ready to run, with its links made; the plan is proven first unless ``proven`` says that it is."""
        self.check_open()
        if not proven:
            self._judge(plan, digest)
        part = self._parts.get(digest)
        if part is None:
            part = take_part(plan, self.membership.rank)
            self._parts[digest] = part
        try:
            self._reach(part)
        except KeyboardInterrupt:
            self._tell_of_interrupt()
            raise
        return make_call(
            self.membership.endpoint, part, plan, digest, self.membership.rank, shape, self.settings
        )

    def start(self, call: _core.Call, input: Array, output: Array, *, wait: bool) -> Handle | None:
        """Run a call after the earlier ones: in this thread where none is pending, otherwise in the progress thread."""
        if wait and self.queue.is_empty():
            self.run(call, input, output)
            return None
        self.check_open()
        source = address_of(input, writable=output is input)
        target = source if output is input else address_of(output, writable=True)
        try:
            handle = self.queue.put(call, source, target, (input, output))
        except ValueError as error:
            raise CollectiveError(str(error)) from None
        except RuntimeError as error:
            raise RunError(str(error)) from None
        if not wait:
            return handle
        handle.wait()
        return None

    def run(self, call: _core.Call, input: Array, output: Array) -> None:
        """Run a call in this thread; it does not hold the GIL while data moves."""
        if isinstance(input, np.ndarray) and isinstance(output, np.ndarray):
            try:
                failure = call.run(input, output)
            except (BufferError, ValueError) as error:
                self.refuse(input, output, error)
        else:
            source = address_of(input, writable=output is input)
            target = source if output is input else address_of(output, writable=True)
            try:
                failure = call.run_at(source, target)
            except ValueError as error:
                raise CollectiveError(str(error)) from None
        if failure is not None:
            self.fail(failure)

    def trace(self, call: _core.Call, input: Array, output: Array) -> npt.NDArray[np.void]:
        """Run a call in this thread and return its steps as rows of TRACE, in the order in which they ended."""
        failure, events = call.trace_at(address_of(input, writable=False), address_of(output, writable=True))
        if failure is not None:
            self.fail(failure)
        return events.view(TRACE)

    def check_open(self) -> None:
        """Raise RunError if the communicator was closed, or belongs to the parent of this forked process."""
        if self.membership.endpoint.is_forked:
            raise RunError("this communicator belongs to the parent process; make a new one after the fork")
        if self._closed:
            raise RunError(f"the communicator {self.membership.group!r} is closed")

    def fail(self, failure: RunFailure) -> NoReturn:
        """Raise what the core reports."""
        raise self.error_of(failure)

    def error_of(self, failure: RunFailure) -> HemiolaError:
        """The error for what the core reports; ranks that cannot have heard of it otherwise are told."""
        self.membership.note_failure(failure)
        if failure.kind is RunFailureKind.PEER_LOST:
            return PeerLostError(failure.rank, failure.text)
        if failure.kind is RunFailureKind.MISMATCH:
            return MismatchError(failure.text)
        return RunError(failure.text)

    def finish(self) -> None:
        """Take no more calls, and wait for those under way and for their callbacks."""
        if not self._finishes and not self.membership.endpoint.is_forked:
            self._finishes = True
            self.queue.close()
            self._closed = True

    def close(self) -> None:
        """Wait for the calls under way, tell the peers that this rank leaves, and release all resources."""
        self.finish()
        if not self._left and not self.membership.endpoint.is_forked:
            self._left = True
            self.membership.leave()

    def _reach(self, part: _core.Part) -> None:
        """Make the links that a part of a plan needs; raises when a peer has failed or the timeout has passed."""
        deadline = time.monotonic() + self.settings.timeout
        endpoint = self.membership.endpoint
        missing = self.membership.missing_links(part.sends + part.receives)
        for peer, index in missing:
            # Published before the first attempt, which may take long: other ranks read for whom this one waits.
            endpoint.set_linking(peer)
            if self.membership.try_link(peer, index, SLICE_SECONDS):
                continue
            self.membership.note_waiting(peer, begin=True)
            while not self.membership.try_link(peer, index, SLICE_SECONDS):
                endpoint.set_linking(peer)
                self.check_peer(peer)
                if time.monotonic() > deadline:
                    late = self.membership.awaited_in_the_end(peer)
                    words = f"rank {late} did not connect within {self.settings.timeout:g} s: it has not made this call"
                    self.fail(endpoint.fail(RunFailure(RunFailureKind.PEER_LOST, late, words)))
            self.membership.note_waiting(peer, begin=False)
        if missing:
            endpoint.set_linking(-1)

    def _tell_of_interrupt(self) -> None:
        """The others would wait for links that this rank no longer makes."""
        failure = RunFailure(RunFailureKind.INTERRUPTED, self.membership.rank, "it was interrupted")
        self.membership.note_failure(self.membership.endpoint.fail(failure))

    def check_peer(self, peer: int) -> None:
        """The liveness check outside a call: raise the failure of the group, or that of a peer that this rank waits for."""
        links = self.membership.links
        gone = links is not None and not self.membership.endpoint.is_local(peer) and links.is_gone(peer)
        failure = self.membership.endpoint.check([peer]) or self.membership.noted_failure()
        if failure is None and gone:
            words = f"rank {peer} is gone: nobody listens at its address any more"
            failure = RunFailure(RunFailureKind.PEER_LOST, peer, words)
        if failure is not None:
            self.fail(self.membership.endpoint.fail(failure))  # and the others hear it, too

    def _judge(self, plan: Plan, digest: bytes) -> None:
        if digest in self._judged:
            return
        verdict = judge(plan, slots=self.settings.slots)
        if not verdict.ok:
            raise VerificationError(f"plan {plan.name} is not run, because it is not right:\n{verdict}")
        self._judged.add(digest)

    def refuse(self, input: Array, output: Array, error: Exception) -> NoReturn:
        """Raise the error for arrays that the core refused."""
        address_of(input, writable=False)
        address_of(output, writable=True)
        raise CollectiveError(str(error)) from None
