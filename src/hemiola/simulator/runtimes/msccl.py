"""MSCCL: the fork of NCCL with an interpreter of plans."""

from hemiola.simulator.runtimes.gpu import GpuRuntime

MSCCL = GpuRuntime(name="msccl", interprets=True, most_threadblocks=216)
