"""Accelerator: how fast a device computes and how much memory it has, by data sheet.

Figures are dense operations per second, from the vendors' data sheets: NVIDIA V100, A100 (SXM and PCIe), H100 SXM, H200, HGX B200 and GB200
NVL72; AMD Instinct MI300X. The memory of a preset's machine is that of its variant.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from hemiola.errors import JobError
from hemiola.topology.parse.fields import Fields
from hemiola.units import parse_bytes

GB = 10**9


@dataclass(frozen=True, slots=True)
class Accelerator:
    """One device."""

    name: str
    flops: float
    """Operations per second on matrices of 16-bit elements, by data sheet."""
    float8_flops: float
    """The same of 8-bit elements; 0 where the device has none."""
    memory_bytes: int
    memory_bandwidth: float
    """Bytes per second."""

    def peak(self, precision: str) -> float:
        """Operations per second of matrix products in a precision."""
        if precision == "float8" and not self.float8_flops:
            raise JobError(f"precision: {self.name} has no 8-bit matrix products; take bf16")
        return self.float8_flops if precision == "float8" else self.flops


_V100 = Accelerator("V100", 125e12, 0.0, 32 * GB, 0.9e12)
_A100 = Accelerator("A100", 312e12, 0.0, 80 * GB, 2.039e12)
_H100 = Accelerator("H100", 989.4e12, 1978.9e12, 80 * GB, 3.35e12)

ACCELERATORS: Mapping[str, Accelerator] = {
    "dgx1-v100": _V100,
    "azure-ndv2": _V100,
    "p2-v100": _V100,
    "dgx-a100": _A100,
    "azure-ncv4": replace(_A100, name="A100 PCIe", memory_bandwidth=1.935e12),
    "azure-ndv4": replace(_A100, name="A100 40GB", memory_bytes=40 * GB, memory_bandwidth=1.555e12),
    "p2-a100": replace(_A100, name="A100 40GB", memory_bytes=40 * GB, memory_bandwidth=1.555e12),
    "hgx-h100": _H100,
    "azure-ndv5": _H100,
    "hgx-h200": replace(_H100, name="H200", memory_bytes=141 * GB, memory_bandwidth=4.8e12),
    "hgx-b200": Accelerator("B200", 2250e12, 4500e12, 180 * GB, 8e12),
    "gb200-nvl72": Accelerator("GB200", 2500e12, 5000e12, 186 * GB, 8e12),
    "mi300x": Accelerator("MI300X", 1307.4e12, 2614.9e12, 192 * GB, 5.3e12),
}
"""By preset."""

EXAMPLE = "{flops: 989e12, float8_flops: 1979e12, memory: 80GB, memory_bandwidth: 3.35TB/s}"


def find_accelerator(system_name: str, fields: Fields) -> Accelerator:
    """The device of a preset, changed by what the job says of it; a job on another system says everything."""
    fields.only("like", "flops", "float8_flops", "memory", "memory_bandwidth")
    known = ACCELERATORS.get(fields.text("like", "hgx-h100", system_name.partition(":")[0]))
    if known is None and not {"flops", "memory", "memory_bandwidth"} <= set(fields.values):
        raise JobError(
            f"device: how fast a device of system {system_name!r} computes is not known; say device: {EXAMPLE}, or device:"
            f" {{like: hgx-h100}} with one of {', '.join(ACCELERATORS)}"
        )
    start = known or Accelerator("device", 1.0, 0.0, 1, 1.0)
    return Accelerator(
        start.name,
        fields.number("flops", start.flops),
        fields.number("float8_flops", start.float8_flops),
        fields.read("memory", parse_bytes, "80GB", start.memory_bytes),
        fields.bandwidth("memory_bandwidth", start.memory_bandwidth),
    )
