"""hemiola simulate: how long a plan takes on a system, how far that is from the bound, and where the time goes."""

from __future__ import annotations

from typing import Any

import click

from hemiola.algorithms.library import ALGORITHMS
from hemiola.cli import options
from hemiola.cli.output import plan_fields, plan_line, print_facts, print_json
from hemiola.cli.plans import find_plan
from hemiola.cli.progress import working
from hemiola.cli.requests import placement_options
from hemiola.cost.bounds.lower_bound import Bound, lower_bound
from hemiola.cost.replay_seconds import Replayed, replay
from hemiola.cost.request import CollectiveRequest
from hemiola.cost.time_source import TimeSource
from hemiola.errors import LimitError
from hemiola.ir.plan import Plan
from hemiola.placement.requests import find_request, request_of_plan
from hemiola.runtime.bandwidth import algorithm_bandwidth, bus_bandwidth
from hemiola.simulator.drawing import draw
from hemiola.simulator.replay import ReplayOptions
from hemiola.simulator.runtimes.by_name import runtime_of, with_runtime
from hemiola.simulator.runtimes.hemiola import HEMIOLA, HemiolaRuntime
from hemiola.simulator.runtimes.runtime_model import RuntimeModel
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
    help="As nccl-tests counts them: a rank's input, and of an allgather its output.",
)  # fmt: skip
@click.option("--trace", metavar="T.json", help="Write what happens when, for ui.perfetto.dev.")
@click.option("--tile", type=options.size, metavar="BYTES", help="Bytes that a message has at most.")
@click.option("--slots", type=click.IntRange(1, options.MAX_SLOTS), metavar="K", help="Slots per connection.")
@options.runtime
@placement_options
@options.root
@options.as_json
def command(
    plan: str, args: tuple[str, ...], where: str, num_bytes: int, trace: str | None, tile: int | None, slots: int | None,
    runtime_name: str | None, axes_text: str | None, placement_text: str | None, over: str | None, root: int | None, as_json: bool,
) -> int:  # fmt: skip
    """Predict how long a plan takes on a system, say how far that is from the bound, and where the time goes.

    A plan is a native file or MSCCL XML, or an ALGORITHM from `hemiola algorithms`, by default for all ranks of
    the system, its levels being the hosts and the ranks of each: hemiola simulate allreduce_ring --system 2x4
    --bytes 64MiB --trace ring.json. With --axes and --over, it runs in all groups of a placement at once.
    """
    with working(f"simulating {plan}"):
        system = with_runtime(load_system(where), runtime_name)
        placed = {"axes": axes_text, "placement": placement_text, "over": over}
        found = find_plan(plan, args, _parameters(plan, args, system, placed), root=root)
        request = request_of_plan(found, system, **placed)
        runtime = _runtime(system, tile, slots)
        replayed = replay(
            found, num_bytes, request, runtime, ReplayOptions(record=True, most_recorded=MAX_RECORDED)
        )
        bound = lower_bound(found.collective, num_bytes, system, groups=request.table)
        if trace is not None:
            _trace(trace, found, request, num_bytes, runtime, replayed)
    if as_json:
        print_json(_fields(replayed, found, request, num_bytes, bound, trace))
    else:
        _print(replayed, found, request, num_bytes, bound, trace)
    return 0


def _runtime(system: System, tile: int | None, slots: int | None) -> RuntimeModel:
    """The system's runtime; our own one with the given messages and slots."""
    if system.runtime != "hemiola":
        if tile or slots:
            raise LimitError(
                f"--tile and --slots change our own runtime, but {system.runtime} has messages and slots of its own;"
                " leave them out, or take --runtime hemiola"
            )
        return runtime_of(system)
    return HemiolaRuntime(slots=slots, tile_bytes=tile or 0, slot_bytes=max(tile or 0, HEMIOLA.slot_bytes))


def _parameters(
    plan: str, args: tuple[str, ...], system: System, placed: dict[str, str | None]
) -> dict[str, str]:
    """An algorithm whose ranks are not given is for a whole group, and its levels are hosts and their ranks."""
    given = any(word.split("=")[0] in ("--ranks", "--levels") for word in args)
    if plan not in ALGORITHMS or given:
        return {}
    hosts = find_request(
        ALGORITHMS[plan].kind, system, axes=placed["axes"], placement=placed["placement"], over=placed["over"]
    ).hosts
    if len(hosts) > MOST_RANKS:
        raise LimitError(
            f"{system.name} has {len(hosts)} devices, and by itself {plan} is compiled for at most {MOST_RANKS} ranks; "
            "say for how many, as in -- --ranks=1024"
        )
    layout = layout_of(hosts)
    if "levels" not in ALGORITHMS[plan].parameters or layout.obstacle is not None:
        return {"ranks": str(len(hosts))}
    return {"ranks": str(len(hosts)), "levels": ",".join(map(str, layout.levels))}


def _trace(
    path: str,
    plan: Plan,
    request: CollectiveRequest,
    num_bytes: int,
    runtime: RuntimeModel,
    replayed: Replayed,
) -> None:
    from hemiola.simulator.trace import check_traceable, write_trace  # nobody else needs the formats of files

    check_traceable(replayed.timeline.num_steps)
    write_trace(
        path, replay(plan, num_bytes, request, runtime, ReplayOptions(record=True, fold=False)).timeline
    )


def _fields(
    replayed: Replayed,
    plan: Plan,
    request: CollectiveRequest,
    num_bytes: int,
    bound: Bound,
    trace: str | None,
) -> dict[str, Any]:
    timeline = replayed.timeline
    return {
        **plan_fields(plan),
        "system": timeline.system.name,
        "bytes": num_bytes,
        "seconds": replayed.seconds,
        "source": TimeSource.REPLAYED,
        "num_groups": len(request.groups),
        "num_idle_devices": request.system.num_ranks - request.table.size,
        "bound_seconds": bound.seconds,
        "bound": bound.why,
        "critical_path": [
            {"what": reason.words, "seconds": reason.seconds, "part": reason.part}
            for reason in timeline.reasons
        ],
        "rank_seconds": timeline.rank_seconds().tolist(),
        "num_tiles": replayed.num_tiles,
        "num_replayed_tiles": replayed.num_replayed_tiles,
        "num_simulated_steps": timeline.num_simulated,
        "trace": trace,
    }


def _print(
    replayed: Replayed,
    plan: Plan,
    request: CollectiveRequest,
    num_bytes: int,
    bound: Bound,
    trace: str | None,
) -> None:
    seconds, timeline = replayed.seconds, replayed.timeline
    click.echo(f"{plan.name} on {timeline.system.name}: {format_seconds(seconds)}")
    facts: dict[str, object] = {"plan": plan_line(plan), "data": format_bytes(num_bytes)}
    where = _where(request)
    if where:
        facts["devices"] = where
    ratio = f"; this is {seconds / bound.seconds:.2f} times that" if bound.seconds > 0 else ""
    facts["bound"] = f"{format_seconds(bound.seconds)}{ratio}"
    facts["what bounds it"] = bound.why
    if seconds < bound.seconds * (1 - TOLERANCE):
        facts["note"] = "faster than the bound: the model is wrong here; please report this"
    if seconds > 0:
        facts["algorithm bandwidth"] = format_bandwidth(algorithm_bandwidth(num_bytes, seconds))
        bus = bus_bandwidth(plan.collective.kind, plan.num_ranks, num_bytes, seconds)
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
    if replayed.num_replayed_tiles < replayed.num_tiles:
        facts["tiles"] = (
            f"{replayed.num_replayed_tiles} of {replayed.num_tiles} replayed, the others at the pace of the last of them"
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


def _where(request: CollectiveRequest) -> str:
    """Which devices the plan runs on, where that is not all of them in one group."""
    used, there = request.table.size, request.system.num_ranks
    if len(request.groups) > 1:
        return f"{len(request.groups)} groups of {request.num_ranks} at once, {used} of {there} devices"
    return f"0 to {used - 1}; the other {there - used} of {there} are idle" if used < there else ""
