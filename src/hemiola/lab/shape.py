"""Shape: the system that a lab is built as, as text that processes can hand to each other."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from hemiola.topology.parse.yaml_system import read_system
from hemiola.topology.system import System


@dataclass(frozen=True, slots=True)
class Shape:
    """A system in YAML, and what was changed on the command line."""

    name: str
    text: str
    delay_seconds: float | None = None
    """From one host to another where it is given; half of it on every host's link."""

    def system(self) -> System:
        """The system, changed as asked."""
        system = read_system(self.text, self.name)
        return system if self.delay_seconds is None else with_delay(system, self.delay_seconds)

    def as_json(self) -> dict[str, Any]:
        """For another process."""
        return {"name": self.name, "text": self.text, "delay_seconds": self.delay_seconds}

    @staticmethod
    def from_json(value: dict[str, Any]) -> Shape:
        """From another process."""
        return Shape(value["name"], value["text"], value["delay_seconds"])


def with_delay(system: System, seconds: float) -> System:
    """The same system with hosts that are ``seconds`` away from each other."""
    depth = system.host_depth
    levels = tuple(
        replace(level, link=replace(level.link, latency=seconds / 2))
        if number == depth and level.link
        else level
        for number, level in enumerate(system.levels, 1)
    )
    exceptions = {
        path: replace(link, latency=seconds / 2) if len(path) == depth else link
        for path, link in system.exceptions.items()
    }
    return replace(system, levels=levels, exceptions=exceptions)
