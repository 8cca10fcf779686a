"""Open MPI and Slurm, rank n on the device of coordinate n: the last axis counts fastest."""

from __future__ import annotations

from collections import Counter

from hemiola.placement.applied import AppliedPlacement
from hemiola.placement.host_cpus import assumed_host_cpus


def rankfile_text(placement: AppliedPlacement) -> str:
    """For ``mpirun --rankfile``: the host of each rank, and the cores of its device's NUMA node."""
    lines = [
        f"# mpirun -np {len(placement.permutation)} --rankfile rankfile ...",
        "# Every rank may use all cores of the NUMA node that its device is next to; ranks.txt has the device.",
    ]
    if placement.host_cpus is None:
        lines.append(
            "# The sockets were assumed, two in hosts of four devices or more: 1:* is every core of socket 1. hemiola place --host-cpus 2x64 says"
            " how many NUMA nodes and cores a host has."
        )
    devices = Counter(placement.system.host_of_rank)
    for rank, device in enumerate(placement.permutation):
        host, slot = placement.host_and_slot(device)
        num_devices = devices[placement.system.host_of_rank[device]]
        cpus = placement.host_cpus or assumed_host_cpus(num_devices)
        lines.append(f"rank {rank}={host} slot={cpus.slot(slot, num_devices)}")
    return "\n".join(lines) + "\n"


def ranks_text(placement: AppliedPlacement) -> str:
    """The host and the device there of each rank, for jobs whose rank n is coordinate n."""
    lines = [
        "# rank host device; rank n is coordinate n, the last axis fastest. Use the device, not the local rank:",
        "# CUDA_VISIBLE_DEVICES=$(awk -v r=$RANK '$1 == r {print $3}' ranks.txt)",
    ]
    for rank, device in enumerate(placement.permutation):
        host, slot = placement.host_and_slot(device)
        lines.append(f"{rank} {host} {slot}")
    return "\n".join(lines) + "\n"


def hostfile_text(placement: AppliedPlacement) -> str:
    """For ``mpirun --hostfile``: each host once, with its slots, in the order in which ranks first need it."""
    hosts = Counter(placement.host_and_slot(device)[0] for device in placement.permutation)
    about = (
        "# mpirun --hostfile hostfile, where the rankfile does not name the hosts as your allocation does\n"
    )
    return about + "".join(f"{host} slots={number}\n" for host, number in hosts.items())


def slurm_text(placement: AppliedPlacement) -> str:
    """For ``SLURM_HOSTFILE`` with ``srun --distribution=arbitrary``: the host of each rank, one a line."""
    return "".join(f"{placement.host_and_slot(device)[0]}\n" for device in placement.permutation)
