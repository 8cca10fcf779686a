"""Reads a host from NCCL's or RCCL's topology XML: what NCCL_TOPO_DUMP_FILE writes, or a file with only a PCI tree.

Document types are refused, entities are not expanded, and sizes and depths are limited. Unknown tags are skipped, so
that files of newer versions can be read.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from xml.parsers import expat

from hemiola.errors import TopologyError
from hemiola.topology.host_facts import MAX_DEVICES_OF_A_HOST, MAX_NICS_OF_A_HOST, HostFacts, Nic
from hemiola.topology.parse.fields import is_short, shown

MAX_BYTES = 1 << 22
MAX_TAGS = 50_000
MAX_DEPTH = 64

NVLINK_BANDWIDTHS = {"60": 20e9, "70": 25e9, "80": 25e9, "90": 25e9, "100": 50e9, "103": 50e9}
"""Bytes per second of one NVLink each way, by compute capability; from the data sheets of P100, V100, A100, H100, B200, B300."""
XGMI_BANDWIDTHS = {
    "906": 46e9, "908": 46e9, "90a": 50e9, "910": 50e9, "940": 64e9, "941": 64e9, "942": 64e9, "950": 76.8e9,
}  # fmt: skip
"""Bytes per second of one xGMI link each way, by architecture; from the data sheets of MI50, MI300X and MI350X and ROCm's pages on
MI100 and MI250. RCCL writes gfx90a as 910 in older files, and 940 and 941 are early MI300."""

NVSWITCH_CLASS = "0x068000"
GPU_CLASSES = ("0x03", "0x12")
NIC_CLASSES = ("0x02",)


@dataclass(slots=True)
class Tag:
    """An element of the file and the elements inside it."""

    name: str
    attributes: dict[str, str]
    line: int
    path: tuple[int, ...]
    """The position in the tree: the number of each enclosing element, and the own number."""
    parent: Tag | None = None
    children: list[Tag] = field(default_factory=list)

    def inside(self) -> Iterator[Tag]:
        """All elements inside, in the order of the file."""
        for child in self.children:
            yield child
            yield from child.inside()

    def pci(self) -> Tag | None:
        """The PCI device that this element is, or that encloses it."""
        tag: Tag | None = self
        while tag is not None and tag.name != "pci":
            tag = tag.parent
        return tag


def read_nccl_xml(text: str, name: str = "topology") -> HostFacts:
    """The host that a topology file describes."""
    root = _parse(text, name)
    tags = list(root.inside())
    gpus = [tag for tag in tags if tag.name == "gpu"]
    knows_links = bool(gpus)
    devices = _in_order(gpus or _leaves(tags, GPU_CLASSES))
    nets = [tag for tag in tags if tag.name == "net"] or _leaves(tags, NIC_CLASSES)
    if not devices:
        raise TopologyError(
            f"{name}: there is no device in it: expected <gpu> tags, or <pci> tags with class 0x0302 or 0x1200"
        )
    if len(devices) > MAX_DEVICES_OF_A_HOST or len(nets) > MAX_NICS_OF_A_HOST:
        raise TopologyError(
            f"{name}: a host has at most {MAX_DEVICES_OF_A_HOST} devices and {MAX_NICS_OF_A_HOST} NICs"
        )
    direct, switched = _links(devices, name)
    return HostFacts(
        source=name,
        devices=tuple(_name(tag, number) for number, tag in enumerate(devices)),
        nics=tuple(Nic(_nic_name(tag, number), _nic_bandwidth(tag, name)) for number, tag in enumerate(nets)),
        distances=tuple(tuple(_distance(device, net) for net in nets) for device in devices),
        knows_links=knows_links,
        direct_links=direct,
        switch_links=switched,
        link_bandwidth=_link_bandwidth(devices),
        pcie_bandwidth=_pcie_bandwidth(devices),
    )


def _parse(text: str, name: str) -> Tag:
    """The root of the tree of elements; TopologyError where the text is no topology."""
    if len(text) > MAX_BYTES:
        raise TopologyError(f"{name}: a topology file has at most {MAX_BYTES} characters")
    parser = expat.ParserCreate(encoding="utf-8")
    top = Tag("", {}, 0, ())
    open_tags = [top]
    num_tags = 0

    def start(tag_name: str, attributes: dict[str, str]) -> None:
        nonlocal num_tags
        num_tags += 1
        if num_tags > MAX_TAGS or len(open_tags) > MAX_DEPTH:
            raise TopologyError(
                f"{name}:{parser.CurrentLineNumber}: a topology has at most {MAX_TAGS} tags, {MAX_DEPTH} inside each other"
            )
        parent = open_tags[-1]
        path = (*parent.path, len(parent.children))
        tag = Tag(tag_name, attributes, parser.CurrentLineNumber, path, parent)
        parent.children.append(tag)
        open_tags.append(tag)

    def refuse(*_: object) -> None:
        raise TopologyError(
            f"{name}:{parser.CurrentLineNumber}: a document type was found, which no topology needs"
        )

    parser.StartElementHandler = start
    parser.EndElementHandler = lambda _: open_tags.pop()
    parser.StartDoctypeDeclHandler = refuse
    try:
        parser.Parse(text.encode("utf-8", "surrogatepass"), True)
    except expat.ExpatError as error:
        raise TopologyError(
            f"{name}:{error.lineno}: this is no well-formed XML: {expat.ErrorString(error.code)}"
        ) from None
    (root,) = top.children
    if root.name != "system":
        raise TopologyError(
            f"{name}:{root.line}: expected the tag <system>, found <{shown(root.name)[1:-1]}>"
        )
    return root


def _leaves(tags: list[Tag], classes: tuple[str, ...]) -> list[Tag]:
    """The PCI devices of some classes; bridges have other classes."""
    return [tag for tag in tags if tag.name == "pci" and tag.attributes.get("class", "").startswith(classes)]


def _in_order(devices: list[Tag]) -> list[Tag]:
    """Devices in the order of CUDA and HIP: by rank, or else by device number, or else by bus."""
    for key in ("rank", "dev"):
        numbers = [tag.attributes.get(key, "") for tag in devices]
        if all(re.fullmatch("[0-9]{1,6}", number, re.ASCII) for number in numbers) and len(
            set(numbers)
        ) == len(numbers):
            return sorted(devices, key=lambda tag: int(tag.attributes[key]))
    return sorted(devices, key=lambda tag: (_bus(tag), tag.path))


def _bus(tag: Tag) -> str:
    pci = tag.pci()
    return pci.attributes.get("busid", "").lower() if pci else ""


def _name(tag: Tag, number: int) -> str:
    bus = _bus(tag)
    return f"{number} ({bus})" if is_short(bus) else f"{number}"


def _nic_name(tag: Tag, number: int) -> str:
    name = tag.attributes.get("name") or _bus(tag)
    return name if is_short(name) else f"NIC {number}"


def _nic_bandwidth(tag: Tag, name: str) -> float | None:
    """The speed of an interface, which the file gives in Mbit/s; 0 and absent mean that NCCL does not know it."""
    speed = tag.attributes.get("speed")
    if speed is None or re.fullmatch("-?0*", speed):
        return None
    if not re.fullmatch("[0-9]{1,9}", speed, re.ASCII):
        raise TopologyError(
            f'{name}:{tag.line}: speed="{shown(speed)[1:-1]}" was found, a number of Mbit/s such as 200000 was expected'
        )
    return int(speed) * 1e6 / 8


def _distance(device: Tag, net: Tag) -> int:
    """The number of steps through the tree; a path through a processor counts more, and one between processors most."""
    common = 0
    while common < min(len(device.path), len(net.path)) and device.path[common] == net.path[common]:
        common += 1
    steps = len(device.path) + len(net.path) - 2 * common
    return steps + (10_000 if common <= 1 else 1_000 if common == 2 else 0)


def _links(devices: list[Tag], name: str) -> tuple[dict[tuple[int, int], int], int]:
    """The number of links between each pair of devices, and the number of links of every device to switches."""
    number_of = {_bus(tag): number for number, tag in enumerate(devices)}
    direct: Counter[tuple[int, int]] = Counter()
    switched: Counter[int] = Counter()
    for first, tag in enumerate(devices):
        for link in (child for child in tag.children if child.name in ("nvlink", "xgmi")):
            count = _count(link, name)
            second = number_of.get(link.attributes.get("target", "").lower())
            if link.attributes.get("tclass", "").startswith(NVSWITCH_CLASS):
                switched[first] += count
            elif second is not None and second != first:
                # Both ends list their links; where their numbers differ, the larger one is used.
                pair = (min(first, second), max(first, second))
                direct[pair] = max(direct[pair], count)
    totals = {switched[number] for number in range(len(devices))}
    if switched and (direct or len(totals) > 1):
        raise TopologyError(
            f"{name}: some of its devices are joined by a switch and others not, or with other numbers of links; "
            "describe such a host in YAML, see docs/systems.md"
        )
    return dict(direct), max(totals)


def _count(link: Tag, name: str) -> int:
    count = link.attributes.get("count", "1")
    if not re.fullmatch("[1-9][0-9]{0,2}", count, re.ASCII):
        raise TopologyError(
            f'{name}:{link.line}: count="{shown(count)[1:-1]}" was found, a number of links such as 2 was expected'
        )
    return int(count)


def _link_bandwidth(devices: list[Tag]) -> float | None:
    """The bandwidth of one link; None where devices differ or their kind is not known."""
    found = {_bandwidth_by_kind(tag) for tag in devices}
    return found.pop() if len(found) == 1 else None


def _bandwidth_by_kind(tag: Tag) -> float | None:
    if "gcn" in tag.attributes:
        return XGMI_BANDWIDTHS.get(tag.attributes["gcn"].removeprefix("gfx"))
    return NVLINK_BANDWIDTHS.get(tag.attributes.get("sm", ""))


def _pcie_bandwidth(devices: list[Tag]) -> float | None:
    """The PCIe bandwidth of the slowest device; None where the file lacks that of a device."""
    found = [_lanes(tag) for tag in devices]
    known = [one for one in found if one is not None]
    return min(known) if len(known) == len(found) else None


def _lanes(tag: Tag) -> float | None:
    """The PCIe bandwidth of a device: transfers per second, times lanes, times the fraction of bits that are data.

    That fraction is 8/10 in old generations and 128/130 since 3.0. Four digits are kept, as in data sheets.
    """
    pci = tag.pci()
    speed = re.match(
        r"([0-9]{1,3}(?:\.[0-9]{1,3})?) GT/s", pci.attributes.get("link_speed", "") if pci else ""
    )
    width = re.fullmatch("[1-9][0-9]?", pci.attributes.get("link_width", "") if pci else "", re.ASCII)
    if speed is None or width is None or float(speed[1]) == 0:
        return None
    rate = float(speed[1])
    bandwidth = rate * 1e9 * int(width[0]) / 8 * (0.8 if rate <= 5 else 128 / 130)
    return float(f"{bandwidth:.4g}")
