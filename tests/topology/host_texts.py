"""Small descriptions of hosts and networks, in the forms in which clusters give them."""

from __future__ import annotations

from collections.abc import Sequence


def bus(number: int) -> str:
    return f"0000:{number + 1:02x}:00.0"


def nvswitch_xml(num_devices: int = 4, *, sm: str = "80", speed: str = "200000", count: str = "6") -> str:
    """Devices behind NVSwitch, each with a NIC on its own PCI switch; one more NIC that is far from all."""
    lines = ['<system version="1">']
    for number in range(num_devices):
        lines += [
            f'<cpu numaid="{number}"><pci busid="ffff:{number:02x}:00.0" class="0x060400">',
            f'<pci busid="{bus(number)}" class="0x030200" link_speed="16.0 GT/s PCIe" link_width="16">',
            f'<gpu dev="{number}" sm="{sm}" rank="{number}">',
            f'<nvlink target="0000:c4:00.0" count="{count}" tclass="0x068000"/>' * 2,
            f'</gpu></pci><pci busid="eeee:{number:02x}:00.0" class="0x020700"><nic>',
            f'<net name="mlx5_{number}" dev="{number}" speed="{speed}"/></nic></pci></pci></cpu>',
        ]
    lines += ['<cpu numaid="99"><nic><net name="storage" speed="100000"/></nic></cpu></system>']
    return "\n".join(lines)


def mesh_xml(
    links: Sequence[tuple[int, int, int]], num_devices: int = 4, *, tag: str = "nvlink", kind: str = 'sm="70"'
) -> str:
    """Devices with direct links, one NIC for all of them."""
    lines = ['<system version="2"><cpu numaid="0">']
    for number in range(num_devices):
        lines.append(
            f'<pci busid="{bus(number)}" class="0x038000" link_speed="8 GT/s" link_width="16"><gpu dev="{number}" {kind}>'
        )
        ends = [(b, n) for a, b, n in links if a == number] + [(a, n) for a, b, n in links if b == number]
        lines += [f'<{tag} target="{bus(end)}" count="{num}" tclass="0x038000"/>' for end, num in ends]
        lines.append("</gpu></pci>")
    return "\n".join([*lines, '<nic><net name="eth" speed="100000"/></nic></cpu></system>'])


PCI_XML = """<system version="1">
  <cpu numaid="0"><pci busid="ffff:01" class="0x060400" link_speed="16 GT/s" link_width="16">
    <pci busid="0003:00:00.0" class="0x030200" link_speed="16 GT/s" link_width="16"/>
    <pci busid="0103:00:00.0" class="0x020700"/>
  </pci></cpu>
  <cpu numaid="1"><pci busid="ffff:02" class="0x060400" link_speed="16 GT/s" link_width="16">
    <pci busid="0001:00:00.0" class="0x030200" link_speed="16 GT/s" link_width="8"/>
    <pci busid="0101:00:00.0" class="0x020700"/>
  </pci></cpu>
</system>
"""
"""Only a tree of PCI: two devices and two NICs."""


def topo_text(
    words: Sequence[Sequence[str]], nics: Sequence[Sequence[str]] = (), names: Sequence[str] = ()
) -> str:
    """What nvidia-smi topo -m prints: the words between devices, those of devices to NICs, and what NICs are called."""
    columns = [f"GPU{n}" for n in range(len(words))] + [f"NIC{n}" for n in range(len(nics[0]) if nics else 0)]
    lines = ["\t\x1b[4m" + "\t".join(columns) + "\tCPU Affinity\tNUMA Affinity\x1b[0m"]
    for number, row in enumerate(words):
        far = nics[number] if nics else ()
        lines.append("\t".join([f"GPU{number}", *(f" {word} " for word in (*row, *far)), "0-23", "0"]))
    lines += ["\t".join([f"NIC{n}", *column, " X "]) for n, column in enumerate(zip(*nics, strict=True))]
    lines += ["", "Legend:", "", "  X    = Self", "  NV#  = a number of NVLinks", "", "NIC Legend:", ""]
    return "\n".join([*lines, *(f"  NIC{n}: {name}" for n, name in enumerate(names)), ""])


def every_pair(num_devices: int, word: str) -> list[list[str]]:
    return [["X" if a == b else word for b in range(num_devices)] for a in range(num_devices)]


TOPO_TEXT = topo_text(
    every_pair(8, "NV12"),
    [["PXB" if nic // 2 == gpu // 2 else "SYS" for nic in range(8)] + ["NODE"] for gpu in range(8)],
    [f"mlx5_{n}" for n in range(9)],
)
THREE_LEAVES = """# 64 hosts
SwitchName=leaf1 Nodes=gpu[001-021] LinkSpeed=900
switchname=leaf2 nodes=gpu[022-040],\\
gpu[041-043]
SwitchName=leaf3 Nodes=gpu[044-064]   # the last
SwitchName=spine Switches=leaf[1-3]
"""
