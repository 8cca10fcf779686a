"""Open MPI and Slurm: rank n is coordinate n, the last axis counting fastest, on the device of the placement."""

from __future__ import annotations

from hemiola.placement.applied import AppliedPlacement


def rankfile_text(placement: AppliedPlacement) -> str:
    """For ``mpirun --rankfile``: the host and slot of each rank."""
    places = (placement.host_and_slot(device) for device in placement.permutation)
    return "".join(f"rank {rank}={host} slot={slot}\n" for rank, (host, slot) in enumerate(places))


def hostfile_text(placement: AppliedPlacement) -> str:
    """For ``mpirun --hostfile``: each host once, with its slots, in the order in which ranks first need it."""
    hosts = [placement.host_and_slot(device)[0] for device in placement.permutation]
    return "".join(f"{host} slots={hosts.count(host)}\n" for host in dict.fromkeys(hosts))


def slurm_text(placement: AppliedPlacement) -> str:
    """For ``SLURM_HOSTFILE`` with ``srun --distribution=arbitrary``: the host of each rank, one a line."""
    return "".join(f"{placement.host_and_slot(device)[0]}\n" for device in placement.permutation)
