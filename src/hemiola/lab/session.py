"""Session: a lab with running backends, which measures plans against each other and against other libraries."""

from __future__ import annotations

import secrets
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from hemiola.collectives import CollectiveKind
from hemiola.cost.estimates.wire_time import busiest_link
from hemiola.integrations.bench.backend import Task
from hemiola.integrations.bench.backend_processes import BackendProcesses
from hemiola.ir.formats.native import write_native
from hemiola.ir.plan import Plan
from hemiola.lab.backends import backend_in
from hemiola.lab.lab import Lab, Starter
from hemiola.lab.measure import BenchCase, Measured, measure
from hemiola.lab.shape import Shape
from hemiola.topology.network import Network, network_of
from hemiola.topology.shapes import shape_text

OWN = "communicator"
OWN_CHOICE = "Hemiola's choice"
LABELS: Mapping[str, str] = {"gloo": "Gloo", "mpi": "Open MPI"}
ELEMENT = "float32"
TIMEOUT_SECONDS = 120.0


@dataclass(frozen=True)
class Session:
    """A lab with running backends."""

    lab: Lab
    network: Network
    backends: Mapping[str, BackendProcesses]
    """The backends by name; the one called OWN runs plans."""
    folder: Path

    def measure(
        self,
        kind: CollectiveKind,
        num_bytes: int,
        plans: Mapping[str, Plan],
        num_rounds: int,
        *,
        own_choice: bool = False,
        libraries: Sequence[str] = (),
    ) -> list[Measured]:
        """Measure plans by their labels, the Communicator's own choice, and libraries in turns, for ``num_bytes``."""
        cases = [
            self._case(label, plan, kind, num_bytes, OWN, busiest_link(plan, num_bytes, self.network)[0])
            for label, plan in plans.items()
        ]
        task = Task(kind, self.network.system.num_ranks, num_bytes, ELEMENT)
        if own_choice:
            cases.append(BenchCase(OWN_CHOICE, self.backends[OWN], task))
        cases += [BenchCase(LABELS[name], self.backends[name], task) for name in libraries]
        return measure(cases, num_rounds)

    def measure_groups(
        self, kind: CollectiveKind, num_bytes: int, plans: Mapping[str, Plan], num_rounds: int, backend: str
    ) -> list[Measured]:
        """Measure plans that all groups of the backend ``groups:K`` run at once."""
        return measure(
            [self._case(label, plan, kind, num_bytes, backend, None) for label, plan in plans.items()],
            num_rounds,
        )

    def _case(
        self,
        label: str,
        plan: Plan,
        kind: CollectiveKind,
        num_bytes: int,
        backend: str,
        wire_seconds: float | None,
    ) -> BenchCase:
        path = self.folder / f"{secrets.token_hex(8)}.plan"
        write_native(plan, path)
        task = Task(kind, plan.num_ranks, num_bytes, ELEMENT, str(path))
        return BenchCase(label, self.backends[backend], task, wire_seconds)


@contextmanager
def open_session(
    shape: str,
    *,
    delay: float | None = None,
    libraries: Sequence[str] = (),
    variables: Mapping[str, str] | None = None,
) -> Iterator[Session]:
    """Build a lab, start Hemiola's communicator (with ``variables``) and other libraries on its hosts; it ends with the block."""
    wanted = Shape(Path(shape).stem, shape_text(shape), delay)
    with ExitStack() as stack:
        lab = stack.enter_context(Starter(f"session-{secrets.token_hex(4)}", wanted))
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="hemiola-lab-"))
        own = backend_in(lab, OWN, timeout=TIMEOUT_SECONDS, variables=variables)
        backends = {OWN: stack.enter_context(own)}
        for name in libraries:
            backends[name] = stack.enter_context(backend_in(lab, name, timeout=TIMEOUT_SECONDS))
        yield Session(lab, network_of(lab.system), backends, Path(folder))
