"""runtime_named, runtime_of: the model of a runtime by its name, and that of the runtime which a system has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from hemiola.errors import LimitError
from hemiola.simulator.runtimes.hemiola import HEMIOLA
from hemiola.simulator.runtimes.msccl import MSCCL
from hemiola.simulator.runtimes.nccl import NCCL
from hemiola.simulator.runtimes.rccl import RCCL
from hemiola.simulator.runtimes.runtime_model import RuntimeModel
from hemiola.topology.system import System

RUNTIME_MODELS: Mapping[str, RuntimeModel] = {"hemiola": HEMIOLA, "nccl": NCCL, "rccl": RCCL, "msccl": MSCCL}
"""The names are those of ``--runtime`` and of a system's ``runtime``."""


def runtime_named(name: str) -> RuntimeModel:
    """A runtime by its name."""
    if name not in RUNTIME_MODELS:
        raise LimitError(f"expected one of {', '.join(RUNTIME_MODELS)} as the runtime, but found {name!r}")
    return RUNTIME_MODELS[name]


def runtime_of(system: System) -> RuntimeModel:
    """The runtime that a system names."""
    return runtime_named(system.runtime)


def with_runtime(system: System, name: str | None) -> System:
    """The system with plans carried out by another runtime; None leaves it as it is."""
    return system if name is None else replace(system, runtime=name)
