"""plain_system: a preset as an example of a topology, with our own runtime and messages that cost a latency and a part of a link.

Closed forms, estimates and prices are tested on these: presets themselves name the runtime of their machine, whose launches,
slots and threadblocks are another subject (tests/simulator/test_gpu_runtimes.py, tests/cost/vendor).
"""

from __future__ import annotations

from dataclasses import replace

from hemiola.topology.presets import load_system
from hemiola.topology.system import ProtocolCosts, System

NVIDIA = {
    "Simple": ProtocolCosts(latency=3.4e-6),
    "LL": ProtocolCosts(efficiency=0.5, latency=0.6e-6),
    "LL128": ProtocolCosts(efficiency=0.9375, latency=1.9e-6),
}
AMD = {"Simple": ProtocolCosts(latency=3.6e-6), "LL": ProtocolCosts(efficiency=0.5, latency=0.8e-6)}


def plain_system(name: str) -> System:
    """The system of a name; a preset without what its vendor's runtime costs."""
    system = load_system(name)
    if system.runtime == "hemiola":
        return system
    compute = replace(system.compute, threadblocks=None)
    protocols = AMD if system.runtime == "rccl" else NVIDIA
    return replace(system, runtime="hemiola", protocols=protocols, compute=compute)
