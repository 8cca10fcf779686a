"""hemiola simulate: how long a plan takes on a system, how far that is from the bound, and where the time goes."""

from __future__ import annotations

from typing import Any

import click

from hemiola.algorithms.library import ALGORITHMS
from hemiola.cli import options
from hemiola.cli.output import plan_fields, plan_line, print_facts, print_json
from hemiola.cli.plans import find_plan
from hemiola.cli.progress import working
from hemiola.errors import LimitError
from hemiola.ir.plan import Plan
from hemiola.runtime.bandwidth import algorithm_bandwidth, bus_bandwidth
from hemiola.simulator.bounds import Bound, lower_bound
from hemiola.simulator.drawing import draw
from hemiola.simulator.replay import ReplayOptions, simulate
from hemiola.simulator.tiling import Tiling
from hemiola.simulator.timeline import Timeline
from hemiola.simulator.trace import check_traceable, write_trace
from hemiola.topology.presets import load_system
from hemiola.topology.system import System
from hemiola.tuning.layout import layout_of
from hemiola.units import format_bandwidth, format_bytes, format_seconds

MAX_RECORDED = 10_000_000
"""Steps that are kept for the critical path; more would take too much memory."""
MOST_REASONS = 5
MOST_RANKS = 2048
"""A ring of so many is compiled in a minute; beyond, a person should know what is asked for."""
TOLERANCE = 1e-9
"""Rounding of the replay and of the bound."""


@click.command("simulate")
@click.argument("plan", metavar="PLAN|ALGORITHM")
@click.argument("args", nargs=-1, type=click.UNPROCESSED, metavar="[-- ARGS]")
@click.option("--system", "where", required=True, metavar="S", help="The system: a name or a YAML file.")
@click.option(
    "--bytes", "num_bytes", type=options.size, default="1MiB", show_default=True, metavar="N",
    help="Input of a rank; of the root, where only the root has one.",
)  # fmt: skip
@click.option("--trace", metavar="T.json", help="Write what happens when, for ui.perfetto.dev.")
@click.option("--tile", type=options.size, metavar="BYTES", help="Bytes that a message has at most.")
@click.option("--slots", type=click.IntRange(1, options.MAX_SLOTS), metavar="K", help="Slots per connection.")
@options.root
@options.as_json
def command(
    plan: str,
    args: tuple[str, ...],
    where: str,
    num_bytes: int,
    trace: str | None,
    tile: int | None,
    slots: int | None,
    root: int | None,
    as_json: bool,
) -> int:
    """Predict how long a plan takes on a system, say how far that is from the bound, and where the time goes.

    A plan is a native file or MSCCL XML, or an ALGORITHM from `hemiola algorithms`, by default for all ranks of
    the system, its levels being the hosts and the ranks of each: hemiola simulate allreduce_ring --system 2x4
    --bytes 64MiB --trace ring.json
    """
    with working(f"simulating {plan}"):
        system = load_system(where)
        found = find_plan(plan, args, _ranks(plan, args, system), root=root)
        tiling = Tiling(slots=slots, tile_bytes=tile or 0, slot_bytes=max(tile or 0, Tiling().slot_bytes))
        timeline = _simulate(found, system, num_bytes, tiling)
        bound = lower_bound(found.collective, num_bytes, system)
        if trace is not None:
            _trace(trace, found, system, num_bytes, tiling, timeline)
    if as_json:
        print_json(_fields(timeline, found, num_bytes, bound, trace))
    else:
        _print(timeline, found, num_bytes, bound, trace)
    return 0


def _ranks(plan: str, args: tuple[str, ...], system: System) -> dict[str, str]:
    """An algorithm whose ranks are not given is for all of the system, and its levels are hosts and their ranks."""
    given = any(word.split("=")[0] in ("--ranks", "--levels") for word in args)
    if plan not in ALGORITHMS or given:
        return {}
    if system.num_ranks > MOST_RANKS:
        raise LimitError(
            f"{system.name} has {system.num_ranks} devices, and by itself {plan} is compiled for at most {MOST_RANKS} ranks; "
            "say for how many, as in -- --ranks=1024"
        )
    layout = layout_of(system.host_of_rank)
    if "levels" not in ALGORITHMS[plan].parameters or layout.obstacle is not None:
        return {"ranks": str(system.num_ranks)}
    return {"ranks": str(system.num_ranks), "levels": ",".join(map(str, layout.levels))}


def _simulate(plan: Plan, system: System, num_bytes: int, tiling: Tiling) -> Timeline:
    """With its critical path, unless that takes too much memory."""
    recorded = ReplayOptions(record=True, most_recorded=MAX_RECORDED)
    return simulate(plan, system, num_bytes, tiling=tiling, options=recorded)


def _trace(path: str, plan: Plan, system: System, num_bytes: int, tiling: Tiling, timeline: Timeline) -> None:
    check_traceable(timeline.num_steps)
    every = ReplayOptions(record=True, fold=False)
    write_trace(path, simulate(plan, system, num_bytes, tiling=tiling, options=every))


def _larger_bytes(plan: Plan, num_bytes: int) -> int:
    """The larger of input and output, of the rank that has most; that is what bandwidths count."""
    inputs, outputs = (int(chunks.max()) for chunks in plan.collective.named_chunks())
    return num_bytes if inputs == 0 else num_bytes * max(inputs, outputs) // inputs


def _fields(
    timeline: Timeline, plan: Plan, num_bytes: int, bound: Bound, trace: str | None
) -> dict[str, Any]:
    return {
        **plan_fields(plan),
        "system": timeline.system.name,
        "bytes": num_bytes,
        "seconds": timeline.seconds,
        "bound_seconds": bound.seconds,
        "bound": bound.why,
        "critical_path": [
            {"what": reason.words, "seconds": reason.seconds, "part": reason.part}
            for reason in timeline.reasons
        ],
        "rank_seconds": timeline.rank_seconds().tolist(),
        "num_tiles": len(timeline.chunk_bytes[0]),
        "num_simulated_steps": timeline.num_simulated,
        "trace": trace,
    }


def _print(timeline: Timeline, plan: Plan, num_bytes: int, bound: Bound, trace: str | None) -> None:
    seconds = timeline.seconds
    click.echo(f"{plan.name} on {timeline.system.name}: {format_seconds(seconds)}")
    facts: dict[str, object] = {"plan": plan_line(plan), "data": f"{format_bytes(num_bytes)} per rank"}
    ratio = f"; this is {seconds / bound.seconds:.2f} times that" if bound.seconds > 0 else ""
    facts["bound"] = f"{format_seconds(bound.seconds)}{ratio}"
    facts["what bounds it"] = bound.why
    if seconds < bound.seconds * (1 - TOLERANCE):
        facts["note"] = "faster than the bound: the model is wrong here; please report this"
    if seconds > 0:
        larger = _larger_bytes(plan, num_bytes)
        facts["algorithm bandwidth"] = format_bandwidth(algorithm_bandwidth(larger, seconds))
        bus = bus_bandwidth(plan.collective.kind, plan.num_ranks, larger, seconds)
        if bus is not None:
            facts["bus bandwidth"] = format_bandwidth(bus)
        busiest = int(timeline.link_use.argmax())
        facts["busiest link"] = (
            f"{timeline.network.name(busiest)}, {timeline.link_use[busiest]:.0%} of the time"
        )
    folded = timeline.num_steps - timeline.num_simulated
    facts["simulated"] = f"{timeline.num_simulated} steps" + (
        f", which stand for {timeline.num_steps}" if folded else ""
    )
    if trace is not None:
        facts["trace"] = trace
    print_facts(facts)
    if timeline.reasons:
        click.echo("where the time goes:")
        for reason in timeline.reasons[:MOST_REASONS]:
            click.echo(f"  {reason.part:4.0%}  {reason.words}")
    for line in draw(timeline):
        click.echo(line)
