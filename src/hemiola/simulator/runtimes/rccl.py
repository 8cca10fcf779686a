"""RCCL: plans that its MSCCL interpreter reads, and its own algorithms, whose steps are compiled into a kernel."""

from hemiola.simulator.runtimes.gpu import GpuRuntime

RCCL = GpuRuntime(name="rccl", interprets=True, most_threadblocks=64)
RCCL_OWN = GpuRuntime(name="rccl", interprets=False)
