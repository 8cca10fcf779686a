"""Commands: the lines for ``ip -batch`` and ``tc -batch`` that build a wiring."""

from __future__ import annotations

import math
from collections.abc import Iterator

from hemiola.lab.wiring import PREFIX_LENGTH, Cable, LabNic, Wiring

MTU = 9000
"""The MTU of most networks between accelerators; with 1500 bytes the headers alone take 4 % of the rate."""
BURST_SECONDS = 2.5e-3
"""The time at full rate that ``tbf`` may send at once. With less its timer limits the throughput, and not the rate."""
MIN_BURST_BYTES = 2 * (MTU + 14)
QUEUE_SECONDS = 0.2
MIN_QUEUE_BYTES = 2 << 20
"""The queue at a cable before packets are lost: enough for many ranks that send to one rank at the same time."""
TAP_PACKETS = 20_000


def fabric_commands(wiring: Wiring, host_namespaces: list[str]) -> Iterator[str]:
    """Lines for ``ip -batch`` in the namespace of the switches; ``host_namespaces`` are paths."""
    for switch in wiring.switches:
        yield from _bridge(switch)
    for nic in wiring.nics:
        port, name = port_of(nic.cable), nic.interface
        yield f"link add {port} mtu {MTU} type veth peer name {name} mtu {MTU} netns {host_namespaces[nic.host]}"
        yield from _plug_in(port, nic.cable)
    for uplink in wiring.uplinks:
        lower, port = lower_end_of(uplink.cable), port_of(uplink.cable)
        yield f"link add {lower} mtu {MTU} type veth peer name {port} mtu {MTU}"
        yield from _join(lower, uplink.switch)
        yield from _plug_in(port, uplink.cable)


def host_commands(nics: tuple[LabNic, ...]) -> Iterator[str]:
    """Lines for ``ip -batch`` in the namespace of a host, to run after those of the switches."""
    yield "link set lo up"
    for nic in nics:
        yield f"link set {nic.interface} addrgenmode none"
        yield f"address add {nic.address}/{PREFIX_LENGTH} dev {nic.interface}"
        yield f"link set {nic.interface} up"


def host_shaping(nics: tuple[LabNic, ...]) -> Iterator[str]:
    """Lines for ``tc -batch`` in the namespace of a host, which limit the rate of what leaves it."""
    for nic in nics:
        yield _shape(nic.interface, nic.cable.rate_up)


def fabric_shaping(wiring: Wiring) -> Iterator[str]:
    """Lines for ``tc -batch`` in the namespace of the switches: the rates down all cables, and up those of racks."""
    for cable in wiring.cables:
        yield _shape(port_of(cable), cable.rate_down)
    for uplink in wiring.uplinks:
        yield _shape(lower_end_of(uplink.cable), uplink.cable.rate_up)


def port_of(cable: Cable) -> str:
    """The name of the device at the upper end of a cable."""
    return f"p-{cable.name}"


def lower_end_of(cable: Cable) -> str:
    """The name of the device at the lower end of a rack's cable."""
    return f"u-{cable.name}"


def taps_of(cable: Cable) -> tuple[str, str]:
    """The names of the two TAP devices between which frames are delayed, the one nearer to the lower end first."""
    return f"a-{cable.name}", f"b-{cable.name}"


def delayed_cables(wiring: Wiring) -> tuple[Cable, ...]:
    """The cables with a delay; their TAP devices must exist before the commands run."""
    return tuple(cable for cable in wiring.cables if cable.delay_seconds > 0)


def _plug_in(port: str, cable: Cable) -> Iterator[str]:
    """Connect the upper end with its switch, through a pair of TAP devices where the cable has a delay."""
    if cable.delay_seconds == 0:
        yield from _join(port, cable.switch)
        return
    near, far = taps_of(cable)
    middle = f"m-{cable.name}"
    yield from _bridge(middle)
    yield from _join(port, middle)
    for tap, switch in ((near, middle), (far, cable.switch)):
        yield f"link set {tap} mtu {MTU} txqueuelen {TAP_PACKETS}"
        yield from _join(tap, switch)


def _bridge(name: str) -> Iterator[str]:
    yield f"link add {name} mtu {MTU} type bridge forward_delay 0 stp_state 0 mcast_snooping 0"
    yield f"link set {name} addrgenmode none"
    yield f"link set {name} up"


def _join(device: str, switch: str) -> Iterator[str]:
    yield f"link set {device} addrgenmode none"
    yield f"link set {device} master {switch}"
    yield f"link set {device} up"


def _shape(device: str, bytes_per_second: float) -> str:
    burst = max(MIN_BURST_BYTES, math.ceil(bytes_per_second * BURST_SECONDS))
    queue = max(MIN_QUEUE_BYTES, math.ceil(bytes_per_second * QUEUE_SECONDS))
    bits = round(bytes_per_second * 8)
    return f"qdisc add dev {device} root tbf rate {bits}bit burst {burst} limit {burst + queue}"
