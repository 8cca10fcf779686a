"""Session: a lab with contestants in it, ready to measure plans against each other and against other libraries."""

from __future__ import annotations

import secrets
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from hemiola.integrations.bench.contestant import Task
from hemiola.integrations.bench.team import Team
from hemiola.ir.formats.native import write_native
from hemiola.ir.plan import Plan
from hemiola.lab.lab import Lab, Starter
from hemiola.lab.measure import Entrant, Measured, measure
from hemiola.lab.shape import Shape
from hemiola.lab.teams import team_in
from hemiola.simulator.load import busiest_link
from hemiola.topology.network import Network, network_of
from hemiola.topology.shapes import shape_text

OWN = "communicator"
OWN_CHOICE = "Hemiola's choice"
LABELS: Mapping[str, str] = {"gloo": "Gloo", "mpi": "Open MPI"}
ELEMENT = "float32"
TIMEOUT_SECONDS = 120.0


@dataclass(frozen=True)
class Session:
    """A lab with contestants in it."""

    lab: Lab
    network: Network
    teams: Mapping[str, Team]
    """By name; those of OWN run plans."""
    folder: Path

    def measure(
        self,
        kind: str,
        num_bytes: int,
        plans: Mapping[str, Plan],
        num_rounds: int,
        *,
        own_choice: bool = False,
        libraries: Sequence[str] = (),
    ) -> list[Measured]:
        """Plans by their labels, what a Communicator would choose, and libraries, in turns; ``num_bytes`` of input a rank."""
        entrants = [
            self._entrant(label, plan, kind, num_bytes, OWN, busiest_link(plan, num_bytes, self.network)[0])
            for label, plan in plans.items()
        ]
        task = Task(kind, self.network.system.num_ranks, num_bytes, ELEMENT)
        if own_choice:
            entrants.append(Entrant(OWN_CHOICE, self.teams[OWN], task))
        entrants += [Entrant(LABELS[name], self.teams[name], task) for name in libraries]
        return measure(entrants, num_rounds)

    def measure_groups(
        self, kind: str, num_bytes: int, plans: Mapping[str, Plan], num_rounds: int, team: str
    ) -> list[Measured]:
        """Plans that all groups of a team ``groups:K`` run at once."""
        return measure(
            [self._entrant(label, plan, kind, num_bytes, team, None) for label, plan in plans.items()],
            num_rounds,
        )

    def _entrant(
        self, label: str, plan: Plan, kind: str, num_bytes: int, team: str, wire_seconds: float | None
    ) -> Entrant:
        path = self.folder / f"{secrets.token_hex(8)}.plan"
        write_native(plan, path)
        task = Task(kind, plan.num_ranks, num_bytes, ELEMENT, str(path))
        return Entrant(label, self.teams[team], task, wire_seconds)


@contextmanager
def open_session(
    shape: str,
    *,
    delay: float | None = None,
    libraries: Sequence[str] = (),
    variables: Mapping[str, str] | None = None,
) -> Iterator[Session]:
    """Build a shape, start our own runtime with some variables and other libraries in it; all is gone afterwards."""
    wanted = Shape(Path(shape).stem, shape_text(shape), delay)
    with ExitStack() as stack:
        lab = stack.enter_context(Starter(f"session-{secrets.token_hex(4)}", wanted))
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="hemiola-lab-"))
        own = team_in(lab, OWN, timeout=TIMEOUT_SECONDS, variables=variables)
        teams = {OWN: stack.enter_context(own)}
        for name in libraries:
            teams[name] = stack.enter_context(team_in(lab, name, timeout=TIMEOUT_SECONDS))
        yield Session(lab, network_of(lab.system), teams, Path(folder))
