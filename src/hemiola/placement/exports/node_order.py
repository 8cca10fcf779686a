"""The order of hosts for launchers that number ranks host by host, so that rank r is on device r, as the meshes expect."""

from __future__ import annotations

from collections import Counter

from hemiola.placement.applied import AppliedPlacement


def torchrun_text(placement: AppliedPlacement) -> str:
    """The node rank of each host."""
    hosts = _hosts(placement)
    first, num_devices = next(iter(hosts.items()))
    lines = [
        "# node_rank host. On each host:",
        f"# torchrun --nnodes {len(hosts)} --nproc-per-node {num_devices} --node-rank NODE_RANK --master-addr {first} --master-port 29500 ...",
        "# Without --node-rank (c10d rendezvous) hosts get their numbers in the order in which they come, and the placement is lost.",
    ]
    lines += [f"{number} {host}" for number, host in enumerate(hosts)]
    return "\n".join(lines) + "\n"


def slurm_devices_text(placement: AppliedPlacement) -> str:
    """For ``SLURM_HOSTFILE`` with ``srun --distribution=arbitrary``: every host as often as it has devices, in order."""
    return "".join(f"{host}\n" * number for host, number in _hosts(placement).items())


def _hosts(placement: AppliedPlacement) -> Counter[str]:
    """Every host of the system with its number of devices, in the order of devices."""
    devices = sorted(placement.permutation)
    return Counter(placement.host_and_slot(device)[0] for device in devices)
