"""hemiola run: a plan on random data, on all its ranks on this machine, every element checked."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import click

from hemiola.cli import options
from hemiola.cli.output import plan_fields, plan_line, print_facts, print_json, print_wrapped, verdict_fields
from hemiola.cli.plans import find_plan
from hemiola.cli.progress import working
from hemiola.collectives import FACTS
from hemiola.ir.plan import Plan
from hemiola.ir.verdict import Verdict
from hemiola.runtime.bandwidth import algorithm_bandwidth, bus_bandwidth
from hemiola.runtime.checking.exercise import Exercise, Outcome, run_exercise
from hemiola.runtime.checking.trial import Trial, fit_share
from hemiola.runtime.communicator.numbers import NUMBERS, OPERATORS
from hemiola.runtime.launch import RankKind
from hemiola.runtime.perfetto import write_trace
from hemiola.runtime.plans.judge import judge
from hemiola.runtime.settings import Settings
from hemiola.units import format_bandwidth, format_bytes, format_seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class RunArguments:
    """Everything that was asked for; a field per option."""

    plan: str
    args: tuple[str, ...]
    num_bytes: int
    dtype: str
    op: str
    kind: RankKind
    in_place: bool
    repeat: int
    trace: str | None
    tile: int | None
    timeout: float
    seed: int
    root: int | None
    ranks: str | None
    levels: str | None
    instances: str | None
    as_json: bool


@click.command("run")
@click.argument("plan", metavar="PLAN|ALGORITHM")
@click.argument("args", nargs=-1, type=click.UNPROCESSED, metavar="[-- ARGS]")
@click.option(
    "--bytes", "num_bytes", type=options.size, default="1MiB", show_default=True, metavar="N",
    help="Input of a rank; of the root, where only the root has one.",
)  # fmt: skip
@click.option("--dtype", type=click.Choice(list(NUMBERS)), default="float32", show_default=True)
@click.option("--op", type=click.Choice(OPERATORS), default="sum", show_default=True)
@click.option(
    "--as", "kind", type=click.Choice(["threads", "processes"]), default="threads", show_default=True,
    help="What a rank is.",
)  # fmt: skip
@click.option("--in-place", is_flag=True, help="In place, where the plan file serves both.")
@click.option("--repeat", type=click.IntRange(1, 100_000), default=5, show_default=True, metavar="R", help="Runs that are timed.")  # fmt: skip
@click.option("--trace", metavar="T.json", help="Write what happened when, for ui.perfetto.dev.")
@click.option("--tile", type=options.size, metavar="BYTES", help="Bytes that a message has at most.")
@click.option(
    "--timeout", type=click.FloatRange(0.001), default=60.0, show_default=True, metavar="S",
    help="Seconds without progress after which it fails.",
)  # fmt: skip
@click.option("--seed", type=click.IntRange(0, 1 << 63), default=0, help="Other random data.")
@options.root
@click.option("--ranks", metavar="N", help="The same as -- --ranks=N.")
@click.option("--levels", metavar="A,B", help="The same as -- --levels=A,B.")
@click.option("--instances", metavar="N", help="The same as -- --instances=N.")
@options.as_json
def command(**given: Any) -> int:
    """Run a plan on this machine on random data, check every element, and say how fast it was.

    A plan is a native file or MSCCL XML, or an ALGORITHM from `hemiola algorithms`, compiled as `hemiola compile`
    does: hemiola run allreduce_ring --bytes 64MiB --as processes -- --ranks=8 --in-place

    Exits with 1 when the plan is not correct, in which case it is not run, or when a result is wrong.
    """
    request = RunArguments(**given)
    with working(f"reading {request.plan}"):
        plan = _find(request)
        settings = _settings(request, plan)
        verdict = judge(plan, slots=settings.slots)
    if not verdict.ok:
        _refuse(request, plan, verdict)
        return 1
    exercise = _exercise(request, plan, settings, verdict)
    with working(f"running {plan.name}"):
        outcome = run_exercise(exercise, kind=request.kind)
    if request.trace is not None:
        write_trace(request.trace, plan, outcome.events)
    if request.as_json:
        print_json(_fields(request, exercise, outcome))
    else:
        _print(request, exercise, outcome)
    return 0 if outcome.wrong is None else 1


def _find(request: RunArguments) -> Plan:
    """The plan for one place; one that serves both runs out of place unless asked otherwise."""
    given = {"ranks": request.ranks, "levels": request.levels, "instances": request.instances}
    written = {key: value for key, value in given.items() if value is not None}
    plan = find_plan(request.plan, request.args, written, root=request.root)
    if plan.both_places:
        return plan.for_place(in_place=request.in_place)
    if request.in_place and not plan.collective.in_place:
        raise click.UsageError(f"{request.plan} is a plan for calls out of place only; leave --in-place out")
    return plan


def _settings(request: RunArguments, plan: Plan) -> Settings:
    """What the environment says, with at least the slots that the plan's protocol counts on."""
    settings = Settings.from_environment()
    tile = settings.tile_bytes if request.tile is None else request.tile
    return replace(
        settings, slots=max(settings.slots, plan.protocol.slots), timeout=request.timeout, tile_bytes=tile
    )


def _exercise(request: RunArguments, plan: Plan, settings: Settings, verdict: Verdict) -> Exercise:
    size = NUMBERS[request.dtype].storage.itemsize
    elements, rest = divmod(request.num_bytes, size)
    if rest:
        raise click.BadParameter(
            f"an element of {request.dtype} has {size} bytes, and {request.num_bytes} bytes are no whole number of them",
            param_hint="--bytes",
        )
    trial = Trial(
        plan.collective, fit_share(plan.collective, elements), request.dtype, request.op, request.seed
    )
    keeps_input = verdict.preserves_input and not plan.collective.in_place
    return Exercise(plan, trial, settings, request.repeat, keeps_input, traced=request.trace is not None)


def _refuse(request: RunArguments, plan: Plan, verdict: Verdict) -> None:
    """Say why the plan is not run."""
    if request.as_json:
        nothing = {"seconds": None, "algbw_bytes_per_second": None}
        print_json({**plan_fields(plan), **verdict_fields(verdict), **nothing})
        return
    number = len(verdict.failures)
    click.echo(f"{request.plan}: not run, because it is not correct, {number} failure{'s' * (number > 1)}")
    for failure in verdict.failures:
        first, *others = failure.message.splitlines()
        print_wrapped(f"{failure.kind.value}: ", first)
        for line in others:
            print_wrapped("  ", line.strip())


def _collective_bytes(exercise: Exercise) -> int:
    trial = exercise.trial
    return trial.collective.num_shares() * trial.share * trial.number.storage.itemsize


def _fields(request: RunArguments, exercise: Exercise, outcome: Outcome) -> dict[str, Any]:
    wrong, plan = outcome.wrong, exercise.plan
    where = (plan.collective.kind, plan.num_ranks, outcome.num_bytes, outcome.median)
    return {
        **plan_fields(plan),
        "ok": wrong is None,
        "seconds": outcome.median,
        "min_seconds": min(outcome.seconds),
        "max_seconds": max(outcome.seconds),
        "algbw_bytes_per_second": algorithm_bandwidth(outcome.num_bytes, outcome.median),
        "busbw_bytes_per_second": bus_bandwidth(*where),
        "bytes": _collective_bytes(exercise),
        "dtype": request.dtype,
        "op": request.op,
        "as": request.kind,
        "repeat": request.repeat,
        "num_checked": outcome.num_checked,
        "wrong": None if wrong is None else _wrong_fields(wrong),
        "trace": request.trace,
    }


def _wrong_fields(wrong: Any) -> dict[str, Any]:
    return {name: getattr(wrong, name) for name in ("rank", "buffer", "index", "expected", "found")}


def _print(request: RunArguments, exercise: Exercise, outcome: Outcome) -> None:
    plan, trial = exercise.plan, exercise.trial
    said = "right" if outcome.wrong is None else "WRONG"
    click.echo(f"{plan.name}: {said}")
    bus = bus_bandwidth(plan.collective.kind, plan.num_ranks, outcome.num_bytes, outcome.median)
    operator = f", {request.op}" if FACTS[plan.collective.kind].sums else ""
    checked = f"{outcome.num_checked} elements in each of {1 + request.repeat + exercise.traced} runs"
    facts = {
        "plan": plan_line(plan),
        "data": f"{_said_bytes(request, exercise)} per rank, {trial.element}{operator}, ranks are {request.kind}",
        "checked": checked if outcome.num_checked else "nothing: the plan promises nothing",
        "time": f"{format_seconds(outcome.median)}, median of {request.repeat} "
                f"({format_seconds(min(outcome.seconds))} to {format_seconds(max(outcome.seconds))})",
        "algorithm bandwidth": format_bandwidth(algorithm_bandwidth(outcome.num_bytes, outcome.median)),
        **({} if bus is None else {"bus bandwidth": format_bandwidth(bus)}),
        **({} if request.trace is None else {"trace": request.trace}),
    }  # fmt: skip
    print_facts(facts)
    if outcome.wrong is not None:
        print_wrapped("wrong: ", str(outcome.wrong))


def _said_bytes(request: RunArguments, exercise: Exercise) -> str:
    """The size, and why it is not the one that was asked for."""
    found = _collective_bytes(exercise)
    if found == request.num_bytes:
        return format_bytes(found)
    shares = exercise.plan.collective.num_shares()
    return f"{format_bytes(found)} ({format_bytes(request.num_bytes)} rounded up to {shares} equal shares)"
