"""NCCL: its own algorithms, whose steps are compiled into a kernel."""

from hemiola.simulator.runtimes.gpu import GpuRuntime

NCCL = GpuRuntime(name="nccl", interprets=False)
