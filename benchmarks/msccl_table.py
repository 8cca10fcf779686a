"""The MSCCLang paper's three gains, simulated on Azure NDv4 with calibrated constants: all-reduce, all-to-all at many nodes, all-to-next.

Needs ../shared. All-reduce: constants of one node fitted to every second row of a public table. All-to-all: of 64 nodes two sizes are public; the time of
a message at the NIC is fitted to NCCL's smaller one, and the three others are predicted. All-to-next: the gain of scattering over the
node's NICs, which the number of NICs bounds.
"""

from __future__ import annotations

import json
from dataclasses import replace

import click
from gpu_accuracy import fitted, ndv4_runs, table  # type: ignore[import-not-found]

from hemiola.algorithms.library import ALGORITHMS
from hemiola.collectives import CollectiveKind
from hemiola.compiler.compile import compile_program
from hemiola.compiler.options import CompileOptions
from hemiola.cost.replay_seconds import replay_seconds
from hemiola.cost.request import CollectiveRequest
from hemiola.cost.vendor.vendor_seconds import vendor_time
from hemiola.ir.plan import Plan
from hemiola.simulator.runtimes.msccl import MSCCL
from hemiola.topology.presets import load_system
from hemiola.topology.system import System

NODES, LOCAL = 64, 8
LL128_END = 32_000_000
"""Up to here msccl-tools registers the two-step all-to-all with LL128, then the three-step one with Simple."""
NEXT_NODES, NEXT_BYTES = 3, (1 << 20, 16 << 20, 256 << 20)


def calibrated_node() -> System:
    """One NDv4 node, fitted to the odd rows of NCCL and MSCCL."""
    nccl, msccl = ndv4_runs()
    system, _ = fitted([*nccl[::2], *msccl[::2]], [*nccl, *msccl], load_system("azure-ndv4"))
    assert isinstance(system, System)
    return system


def with_nodes(system: System, nodes: int, nic_seconds: float | None = None) -> System:
    """So many of them; every message of a NIC takes so long beside its bytes."""
    levels = (replace(system.levels[0], count=nodes), *system.levels[1:])
    protocols = {
        name: costs if nic_seconds is None else replace(costs, nic_seconds=nic_seconds)
        for name, costs in system.protocols.items()
    }
    return replace(system, levels=levels, protocols=protocols)


def all_to_all(node: System, nodes: int) -> list[dict[str, object]]:
    """NCCL's sends against the two-step program, with a message's time at the NIC that explains NCCL's smallest row."""
    rows = table("ndv4_64_alltoall.csv")
    direct = _compiled("alltoall_allpairs", nodes, "Simple")
    size, row = rows[0]

    def seconds(plan: Plan, num_bytes: int, nic: float, runtime: object = None) -> float:
        system = with_nodes(node, nodes, nic)
        request = CollectiveRequest.of_system(CollectiveKind.ALLTOALL, system)
        return replay_seconds(plan, num_bytes * nodes // NODES, request, runtime)  # type: ignore[arg-type]

    per_message, low, high = float(row["nccl_us"]) * 1e-6 * nodes / NODES, 0.0, 1e-3
    for _ in range(20):
        middle = (low + high) / 2
        low, high = (low, middle) if seconds(direct, size, middle) > per_message else (middle, high)
    nic = (low + high) / 2
    found: list[dict[str, object]] = []
    for num_bytes, measured in rows:
        small = num_bytes <= LL128_END
        name, protocol = ("alltoall_two_step", "LL128") if small else ("alltoall_three_step", "Simple")
        theirs = seconds(direct, num_bytes, nic)
        ours = seconds(_compiled(name, nodes, protocol), num_bytes, nic, MSCCL)
        found.append({"what": "alltoall", "nodes": nodes, "bytes_at_64_nodes": num_bytes, "nic_seconds": nic,
                      "nccl_seconds": theirs, "msccl_seconds": ours, "gain": theirs / ours,
                      "measured_gain_at_64_nodes": float(measured["nccl_us"]) / float(measured["msccl_us"])})  # fmt: skip
    return found


def all_to_next(node: System) -> list[dict[str, object]]:
    system = with_nodes(node, NEXT_NODES)
    request = CollectiveRequest.of_system(CollectiveKind.ALLTONEXT, system)
    found: list[dict[str, object]] = []
    for size in NEXT_BYTES:
        theirs = vendor_time(request, size).seconds
        plans = [
            _compiled("alltonext_scattered", NEXT_NODES, protocol, instances)
            for protocol in ("Simple", "LL128")
            for instances in (1, 4)
        ]
        ours = min(replay_seconds(plan, size, request, MSCCL) for plan in plans)
        found.append({"what": "alltonext", "nodes": NEXT_NODES, "bytes": size, "nccl_seconds": theirs,
                      "msccl_seconds": ours, "gain": theirs / ours})  # fmt: skip
    return found


def all_reduce(node: System) -> list[dict[str, object]]:
    nccl, msccl = ndv4_runs()
    return [
        {"what": "allreduce", "nodes": 1, "bytes": one.num_bytes, "nccl_seconds": one.predict(node),
         "msccl_seconds": other.predict(node), "gain": one.predict(node) / other.predict(node),
         "measured_gain": one.seconds / other.seconds}
        for one, other in zip(nccl, msccl, strict=True)
    ]  # fmt: skip


def _compiled(name: str, nodes: int, protocol: str, instances: int = 1) -> Plan:
    algorithm = ALGORITHMS[name]
    levels = {"levels": (nodes, LOCAL)} if "levels" in algorithm.parameters else {}
    program = algorithm.build(ranks=nodes * LOCAL, instances=instances, protocol=protocol, **levels)
    return compile_program(program, CompileOptions(slots=2)).plan


@click.command()
@click.option("--nodes", default=16, show_default=True, help="Of the all-to-all; 64 takes minutes.")
@click.option("--json", "as_json", is_flag=True)
def main(nodes: int, as_json: bool) -> None:
    """Gains of MSCCL's programs over NCCL's own algorithms: simulated with calibrated constants."""
    node = calibrated_node()
    rows = [*all_reduce(node), *all_to_all(node, nodes), *all_to_next(node)]
    if as_json:
        print(json.dumps({"rows": rows}))
        return
    for row in rows:
        words = [
            f"{key} {value:.4g}" if isinstance(value, float) else f"{key} {value}"
            for key, value in row.items()
        ]
        print("; ".join(words).removeprefix("what "))


if __name__ == "__main__":
    main()
