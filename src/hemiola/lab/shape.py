"""Shape: the system that a lab builds, as text that processes can send to each other."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from hemiola.topology.parse.yaml_system import read_system
from hemiola.topology.system import System


@dataclass(frozen=True, slots=True)
class Shape:
    """A system in YAML, and the delay that the command line set."""

    name: str
    text: str
    delay_seconds: float | None = None
    """The delay from one host to another, half of it on the link of each host; None keeps that of the YAML."""

    def system(self) -> System:
        """The system with the delay that was set."""
        system = read_system(self.text, self.name)
        return system if self.delay_seconds is None else with_delay(system, self.delay_seconds)

    def as_json(self) -> dict[str, Any]:
        """The values to send to another process."""
        return {"name": self.name, "text": self.text, "delay_seconds": self.delay_seconds}

    @staticmethod
    def from_json(value: dict[str, Any]) -> Shape:
        """The shape that another process sent with ``as_json``."""
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
