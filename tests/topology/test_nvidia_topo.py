"""Hosts from the text of nvidia-smi topo -m."""

from __future__ import annotations

import pytest

from hemiola.errors import TopologyError
from hemiola.topology.host_facts import Nic
from hemiola.topology.parse.nvidia_topo import read_nvidia_topo
from topology.host_texts import TOPO_TEXT, every_pair, topo_text

CUBE = """
        GPU0    GPU1    GPU2    GPU3    mlx5_0  mlx5_1  CPU Affinity
GPU0     X      NV1     NV2     NODE    PIX     SYS     0-19
GPU1    NV1      X      NODE    NV2     PIX     SYS     0-19
GPU2    NV2     NODE     X      NV1     SYS     PHB     20-39
GPU3    NODE    NV2     NV1      X      SYS     PHB     20-39
mlx5_0  PIX     PIX     SYS     SYS      X      SYS
mlx5_1  SYS     SYS     PHB     PHB     SYS      X
"""


def test_all_links_to_every_other_are_links_to_a_switch() -> None:
    host = read_nvidia_topo(TOPO_TEXT, "topo.txt")
    assert host.devices == tuple(f"GPU{n}" for n in range(8))
    assert host.nics == tuple(Nic(f"mlx5_{n}", None) for n in range(9))
    assert (host.switch_links, host.direct_links) == (12, {})
    assert [row.index(min(row)) for row in host.distances] == [0, 0, 2, 2, 4, 4, 6, 6]
    assert (host.link_bandwidth, host.pcie_bandwidth) == (None, None)


def test_direct_links_are_a_mesh() -> None:
    host = read_nvidia_topo(CUBE)
    assert host.direct_links == {(0, 1): 1, (0, 2): 2, (1, 3): 2, (2, 3): 1}
    assert host.nics == (Nic("mlx5_0", None), Nic("mlx5_1", None))
    assert host.distances == ((1, 5), (1, 5), (5, 3), (5, 3))


@pytest.mark.parametrize(
    ("num_devices", "links", "switched"),
    [(2, 12, 0), (4, 4, 0), (4, 6, 0), (4, 12, 12), (8, 18, 18), (16, 6, 6)],
)
def test_a_device_has_no_more_links_than_can_be(num_devices: int, links: int, switched: int) -> None:
    host = read_nvidia_topo(topo_text(every_pair(num_devices, f"NV{links}")))
    assert host.switch_links == switched
    assert len(host.direct_links) == (0 if switched else num_devices * (num_devices - 1) // 2)


def test_devices_without_links_and_one_alone() -> None:
    assert read_nvidia_topo(topo_text(every_pair(2, "SYS"))).direct_links == {}
    alone = read_nvidia_topo(topo_text([["X"]], [["PIX"]], ["eth"]))
    assert (alone.devices, alone.nics) == (("GPU0",), (Nic("eth", None),))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "",
            "t.txt: expected a head such as GPU0 GPU1 NIC0 CPU Affinity above a matrix, as nvidia-smi topo -m prints it",
        ),
        ("GPU0 GPU0 CPU", "t.txt: expected every name once in the head of the matrix, found 'GPU0 GPU0'"),
        ("GPU0 GPU1", "t.txt: expected a row for GPU0, which is in the head of the matrix, found none"),
        ("GPU0 GPU1\nGPU0 X", "t.txt: expected 2 words after GPU0, one for each of 'GPU0 GPU1', found 1"),
        (
            CUBE.replace("PHB", "FAR", 1),
            "t.txt: expected NV# or one of X, PIX, PXB, PHB, NODE, SYS, SOC from GPU2 to mlx5_1, found 'FAR'",
        ),
        (
            CUBE.replace("NV1", "NV3", 1),
            "t.txt: expected the same word from GPU0 to GPU1 as back, found NV3 and NV1",
        ),
        (" ".join(f"GPU{n}" for n in range(257)), "t.txt: a host has at most 256 devices and 256 NICs"),
        (" " * ((1 << 20) + 1), "t.txt: such a matrix has at most 1048576 characters"),
    ],
)
def test_what_is_no_matrix_is_named(text: str, message: str) -> None:
    with pytest.raises(TopologyError) as caught:
        read_nvidia_topo(text, "t.txt")
    assert str(caught.value) == message


def test_a_link_that_only_one_end_has_is_named() -> None:
    with pytest.raises(
        TopologyError, match="expected the same word from GPU0 to GPU1 as back, found NV1 and SYS"
    ):
        read_nvidia_topo("GPU0 GPU1\nGPU0 X NV1\nGPU1 SYS X")
