"""Vendors' algorithms: as plans they are proven, their choices are those of NCCL's table, and their times those of a replay."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hemiola.algorithms.vendor.rings import disjoint_rings, ring_orders, vendor_rings
from hemiola.algorithms.vendor.tree import vendor_tree
from hemiola.collectives import CollectiveKind
from hemiola.compiler.compile import compile_program
from hemiola.cost.bounds.lower_bound import lower_bound
from hemiola.cost.replay_seconds import replay_seconds
from hemiola.cost.request import CollectiveRequest
from hemiola.cost.time_source import TimeSource
from hemiola.cost.vendor.gpu_generation import Generation, generation_of
from hemiola.cost.vendor.nccl_model import VendorAlgorithm, nccl_estimates
from hemiola.cost.vendor.nvls import CHANNELS, NVLS, nvls_seconds
from hemiola.cost.vendor.vendor_choice import nccl_shape, used_channels, vendor_choice
from hemiola.cost.vendor.vendor_seconds import has_vendor, vendor_time
from hemiola.errors import ProgramError
from hemiola.ir.plan import Protocol
from hemiola.simulator.runtimes.nccl import NCCL
from hemiola.topology.presets import load_system

RINGS = (CollectiveKind.ALLREDUCE, CollectiveKind.ALLGATHER, CollectiveKind.REDUCESCATTER)


@pytest.mark.parametrize("levels", [(1, 2), (1, 8), (2, 4), (4, 2), (3, 3)])
@pytest.mark.parametrize("kind", RINGS)
def test_rings_are_proven(kind: CollectiveKind, levels: tuple[int, int]) -> None:
    compiled = compile_program(vendor_rings(kind, levels=levels))
    assert compiled.verdict.ok
    assert compiled.plan.collective.in_place


@pytest.mark.parametrize("levels", [(1, 2), (1, 8), (2, 4), (5, 2), (8, 1)])
@pytest.mark.parametrize("chunks", [1, 3])
def test_trees_are_proven(levels: tuple[int, int], chunks: int) -> None:
    assert compile_program(vendor_tree(levels=levels, chunks=chunks)).verdict.ok


def test_every_ring_leaves_a_host_at_another_device() -> None:
    orders = ring_orders(2, 4, mesh=False)
    assert len({order[-1] for order in orders}) == 4
    assert ring_orders(1, 4, mesh=False) == ((0, 1, 2, 3),)


@pytest.mark.parametrize("num", [2, 3, 5, 7, 8, 9])
def test_rings_of_a_mesh_use_every_link_once(num: int) -> None:
    rings = disjoint_rings(num)
    links = [(ring[k], ring[(k + 1) % num]) for ring in rings for k in range(num)]
    assert len(links) == len(set(links)) == num * (num - 1)


def test_meshes_without_such_rings_and_kinds_without_rings() -> None:
    assert disjoint_rings(4) == disjoint_rings(6) == ()
    with pytest.raises(ProgramError, match="but not a broadcast"):
        vendor_rings(CollectiveKind.BROADCAST, levels=(1, 2))


def request_of(name: str, kind: CollectiveKind = CollectiveKind.ALLREDUCE) -> CollectiveRequest:
    return CollectiveRequest.of_system(kind, load_system(name))


@pytest.mark.parametrize(
    ("system", "num_bytes", "algorithm", "protocol"),
    [
        ("dgx-a100", 32 << 10, "ring", "LL"),
        ("dgx-a100", 4 << 20, "ring", "LL128"),
        ("dgx-a100", 1 << 30, "ring", "Simple"),
        ("hgx-h200", 32 << 10, "ring", "LL"),
        ("hgx-h200", 1 << 30, "nvls", "Simple"),
        ("dgx-a100:16", 1 << 20, "tree", "LL128"),
        ("mi300x", 1 << 30, "ring", "Simple"),
    ],
)
def test_choices(system: str, num_bytes: int, algorithm: str, protocol: str) -> None:
    choice = vendor_choice(request_of(system), num_bytes)
    assert (choice.algorithm.value, choice.protocol.value) == (algorithm, protocol)
    assert str(choice).startswith("RCCL" if system == "mi300x" else "NCCL")


def test_the_choice_is_the_least_of_the_estimates() -> None:
    request = request_of("dgx-a100:4")
    shape = nccl_shape(request)
    for exponent in range(10, 34, 3):
        found = list(nccl_estimates(request.kind, shape, 1 << exponent))
        best = min(found, key=lambda one: one.seconds)
        choice = vendor_choice(request, 1 << exponent)
        assert (choice.algorithm, choice.protocol) == (best.algorithm, best.protocol)


def test_channels_have_enough_bytes_for_their_threads() -> None:
    shape = nccl_shape(request_of("hgx-h200"))
    assert used_channels(VendorAlgorithm.RING, Protocol.SIMPLE, shape, 1) == 1
    assert used_channels(VendorAlgorithm.RING, Protocol.SIMPLE, shape, 3 * 512 * 64) == 3
    assert used_channels(VendorAlgorithm.RING, Protocol.SIMPLE, shape, 1 << 40) == shape.channels


def test_times_are_those_of_the_plan() -> None:
    request = request_of("dgx-a100")
    own = vendor_time(request, 1 << 26)
    assert own.plan is not None
    assert own.source is TimeSource.REPLAYED
    assert own.seconds == replay_seconds(own.plan, 1 << 26, request, NCCL)
    assert has_vendor(request)
    assert not has_vendor(CollectiveRequest.of_system(request.kind, load_system("2x4")))


@pytest.mark.parametrize("kind", [kind for kind in CollectiveKind if kind is not CollectiveKind.CUSTOM])
def test_every_collective_has_a_time_that_no_bound_forbids(kind: CollectiveKind) -> None:
    system = load_system("dgx-a100:2")
    request = CollectiveRequest.of_system(kind, system, peer=15)
    own = vendor_time(request, 1 << 22)
    assert own.seconds >= lower_bound(request.collective, 1 << 22, system).seconds * (1 - 1e-9)


def test_nvls_moves_the_data_once_and_a_part_once_more() -> None:
    system = load_system("hgx-h200")
    costs = replace(system.protocols[NVLS], efficiency=1.0, step_seconds=1e-6, launch_seconds=2e-6)
    machine = replace(system, protocols={NVLS: costs})
    found = nvls_seconds(machine, 8, 1 << 30)
    rounds = (1 << 30) // (CHANNELS * 8 * (128 << 10))
    assert found.num_rounds == rounds
    assert found.link_bytes == (1 << 30) * 9 / 8
    fill = CHANNELS * 8 * (128 << 10) / 450e9
    assert found.seconds == pytest.approx(2e-6 + rounds * 1e-6 + found.link_bytes / 450e9 + fill)


def test_generations_by_their_links() -> None:
    names = {"dgx1-v100": "VOLTA", "dgx-a100": "AMPERE", "hgx-h200": "HOPPER", "hgx-b200": "BLACKWELL"}
    for name, generation in names.items():
        assert generation_of(load_system(name)) is Generation[generation]


@pytest.mark.parametrize("name", ["dgx-a100:2", "dgx-a100:4", "hgx-h100:4"])
def test_rings_over_several_hosts_use_all_their_nics(name: str) -> None:
    system = load_system(name)
    request = CollectiveRequest.of_system(CollectiveKind.ALLREDUCE, system)
    size, ranks = 1 << 32, system.num_ranks
    seconds = vendor_time(request, size).seconds
    host = system.levels[0].link
    assert host is not None
    nics = host.bandwidth_out * host.num
    busbw = size * 2 * (ranks - 1) / ranks / seconds
    assert 0.6 * nics < busbw < nics
