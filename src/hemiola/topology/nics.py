"""``nic_link``: the links of a host to the network, with the interfaces of each and the devices that use it."""

from __future__ import annotations

from dataclasses import dataclass

from hemiola.errors import TopologyError
from hemiola.topology.host_facts import HostFacts
from hemiola.topology.inside_host import Given, HostLevels, ImportReport
from hemiola.topology.system import Link


@dataclass(frozen=True, slots=True)
class NicUse:
    """The links of a host: each bundles one or several interfaces, and each device uses one link."""

    link_of_device: tuple[int, ...]
    bundles: tuple[tuple[int, ...], ...]
    """The interfaces of every link; all links have the same number of them."""


def nic_link(host: HostFacts, inside: HostLevels, given: Given, report: ImportReport) -> Link:
    """The links of a host: from the distances in the file, or, where the user gives a number of interfaces, spread evenly."""
    use = nearest_nics(host) if given.num_nics is None else spread_nics(len(host.devices), given.num_nics)
    together = len(use.bundles[0])
    known = _common_bandwidth(host, use) if given.num_nics is None else None
    bandwidth = together * report.need(known, given.nic_bandwidth, _question(host, use, given))
    if together > 1:
        report.notes.append(f"each link of a host to the network is {together} NICs together")
    used = {nic for bundle in use.bundles for nic in bundle}
    if given.num_nics is None and (left := [nic.name for n, nic in enumerate(host.nics) if n not in used]):
        report.notes.append(f"left out, because every device uses another NIC: {', '.join(left[:8])}")
    num = len(use.bundles)
    behind = tuple(use.link_of_device[device] for device in inside.order)
    flat = len(inside.levels) == 1 and behind == tuple(number % num for number in range(len(behind)))
    return Link(bandwidth, bandwidth, given.nic_latency or 0.0, num, () if flat or num == 1 else behind)


def nearest_nics(host: HostFacts) -> NicUse:
    """Give every device the nearest interface; among equally near ones, the one with the fewest devices.

    Devices that have an interface nearby choose first, and those that are far from all of them take what is left.
    Interfaces that nobody chose are bundled with the chosen interface of a device that is equally near to them, if all
    links then get the same number: 8 devices with 4 near interfaces each have 8 links of 4 interfaces.
    """
    if not host.nics:
        return NicUse((0,) * len(host.devices), ((0,),))
    chosen = [0] * len(host.devices)
    load = [0] * len(host.nics)
    for device in sorted(range(len(chosen)), key=lambda one: (min(host.distances[one]), one)):
        distances = host.distances[device]
        chosen[device] = min(range(len(load)), key=lambda nic: (distances[nic], load[nic], nic))
        load[chosen[device]] += 1
    bundles = {nic: [nic] for nic in sorted(set(chosen))}
    for nic in range(len(host.nics)):
        near = [device for device, row in enumerate(host.distances) if row[nic] == min(row)]
        if nic not in bundles and near:
            min((bundles[chosen[device]] for device in near), key=len).append(nic)
    if len(set(map(len, bundles.values()))) > 1:
        bundles = {nic: [nic] for nic in bundles}
    number = {nic: link for link, nic in enumerate(bundles)}
    return NicUse(tuple(number[nic] for nic in chosen), tuple(map(tuple, bundles.values())))


def spread_nics(num_devices: int, num_nics: int) -> NicUse:
    """Spread interfaces evenly: neighbouring devices share one, or every device has the same number of them."""
    if num_nics <= num_devices:
        shared = tuple(device * num_nics // num_devices for device in range(num_devices))
        return NicUse(shared, tuple((nic,) for nic in range(num_nics)))
    if num_nics % num_devices:
        raise TopologyError(
            f"--nics {num_nics} cannot be shared out evenly among the {num_devices} devices of a host; expected up to "
            f"{num_devices} or a multiple of it, such as {2 * num_devices}"
        )
    each = num_nics // num_devices
    bundles = tuple(tuple(range(first, first + each)) for first in range(0, num_nics, each))
    return NicUse(tuple(range(num_devices)), bundles)


def _common_bandwidth(host: HostFacts, use: NicUse) -> float | None:
    """The bandwidth of the used interfaces; None where it differs between them or the file does not give it."""
    found = {host.nics[nic].bandwidth for bundle in use.bundles for nic in bundle} if host.nics else {None}
    return found.pop() if len(found) == 1 else None


def _question(host: HostFacts, use: NicUse, given: Given) -> str:
    if given.num_nics is None and not host.nics:
        return f"no NIC is in {host.source}: give --nic-bandwidth, such as 200Gbit/s, and --nics where there are several"
    if (
        given.num_nics is None
        and len({host.nics[nic].bandwidth for bundle in use.bundles for nic in bundle}) > 1
    ):
        return f"the NICs in {host.source} have different bandwidths: give --nic-bandwidth, one for all, such as 200Gbit/s"
    return f"the NIC's bandwidth is not in {host.source}: give --nic-bandwidth, such as 200Gbit/s"
