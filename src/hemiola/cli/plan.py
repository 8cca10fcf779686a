"""hemiola plan: a whole job: its degrees, its placement and its collectives, with what they gain."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from hemiola.cli import options
from hemiola.cli.output import make_table, print_json, print_table, print_wrapped
from hemiola.cli.progress import counting
from hemiola.planner.collective_choice import CollectiveChoice
from hemiola.planner.job import Job, read_job
from hemiola.planner.job_plan import DegreesResult, JobPlan
from hemiola.planner.plan_job import plan_job
from hemiola.planner.score_degrees import DegreesScore
from hemiola.planner.step_time import JobStepTime
from hemiola.planner.trust import COMMUNICATION_BAND, COMPUTE_BAND, Gain, GainVerdict, compare
from hemiola.planner.what_if import what_if
from hemiola.planner.write_job_plan import job_plan_fields, write_job_plan
from hemiola.report.page import write_page
from hemiola.units import format_seconds

if TYPE_CHECKING:
    from rich.table import Table


@click.command("plan")
@click.argument("path", metavar="JOB.yaml")
@click.option(
    "-o", "output", type=click.Path(path_type=Path), metavar="DIR",
    help="Write the plan here: JSON, files of the placement and of collectives, and how to apply them.",
)  # fmt: skip
@click.option("--what-if", "changes", multiple=True, metavar="WORDS", help='A changed machine: "64 nodes", "host 3 lost" or "800Gb/s".')  # fmt: skip
@click.option("--quick", is_flag=True, help="Estimates only: no collective is replayed.")
@click.option("--top", type=click.IntRange(1, 1000), default=5, show_default=True, metavar="K", help="Degrees to print.")  # fmt: skip
@options.as_json
def command(
    path: str, output: Path | None, changes: tuple[str, ...], quick: bool, top: int, as_json: bool
) -> None:
    """Answer a whole job: which degrees of parallelism, where their axes go, which collectives carry the traffic, and what that gains."""
    begin = time.monotonic()
    job = read_job(path)
    with counting("replaying the collectives of the job") as progress:
        plan = plan_job(job, quick=quick, progress=progress)
        changed = {words: plan_job(what_if(job, words), quick=True) for words in changes}
    files = [] if output is None else [*write_job_plan(plan, output, changed), write_page(output)]
    if as_json:
        print_json({**job_plan_fields(plan, changed), "files": [str(file) for file in files]})
        return
    _print(plan, top)
    for words, one in changed.items():
        _print_change(plan, words, one)
    if output is not None:
        click.echo(f"\nwrote   {len(files)} files to {output}; README.md says how to apply and undo each")
        click.echo(f"page    {files[-1]}")
    click.echo(f"\n{_counts(plan)}, {time.monotonic() - begin:.1f} s")


def _print(plan: JobPlan, top: int) -> None:
    job = plan.job
    click.echo(f"job     {_describe(job)}")
    if plan.degrees is not None:
        print_wrapped(
            "trust   ",
            f"computation ±{COMPUTE_BAND:.0%} (a roofline; two constants fitted on H100); communication ±{COMMUNICATION_BAND:.0%} (estimates on"
            " the system's figures; hemiola calibrate narrows it)",
        )
        _print_degrees(plan.degrees, top)
    else:
        print_wrapped(
            "trust   ",
            f"communication ±{COMMUNICATION_BAND:.0%} (the system's figures; hemiola calibrate narrows it)",
        )
    _print_parts(plan)


def _describe(job: Job) -> str:
    where = f"{job.system.name} ({job.system.num_ranks} devices)"
    if job.trained is None:
        return f"{job.name}, {where}"
    model, training = job.trained.model, job.trained.training
    return (
        f"{job.name}, {model.global_batch} x {model.seq} tokens, {training.precision}, {training.framework}, recompute"
        f" {training.recompute}, {where}"
    )


def _print_degrees(found: DegreesResult, top: int) -> None:
    click.echo()
    columns = ("step", "compute", "exposed", "bubble", "memory", "bound")
    table = make_table("", "degrees", "micro", *columns, numbers=("micro", *columns))
    if found.yours is not None:
        _add_row(table, "yours", found.yours, found.yours.default_step)
    for number, score in enumerate(found.ranked[:top]):
        _add_row(table, "best" if number == 0 else "", score, score.step)
    print_table(table)
    click.echo(
        "\nThe bound is the same step with every collective at its lower bound. Yours is in the framework's order of devices."
    )
    if found.gain is None:
        return
    if not found.yours_fits:
        click.echo("\nyours   does NOT fit into the memory of a device")
        return
    kept = "" if found.chosen is not found.yours else "; yours is kept"
    click.echo(f"\ngain    {_gain(found.gain)}{kept}")


def _add_row(table: Table, title: str, score: DegreesScore, step: JobStepTime) -> None:
    table.add_row(
        "",
        title,
        score.degrees.text,
        str(score.degrees.micro_batch),
        format_seconds(step.seconds),
        format_seconds(step.compute.seconds),
        format_seconds(step.exposed),
        f"{step.bubble:.0%}",
        f"{score.memory.num_bytes / 1e9:.1f} GB",
        format_seconds(score.bound.seconds),
    )


def _gain(gain: Gain) -> str:
    if gain.verdict is GainVerdict.NONE:
        return "none"
    return f"{gain.share:.1%} ({gain.least:.1%} to {gain.most:.1%}, errors of both sides cancelled): {gain.verdict}"


def _print_parts(plan: JobPlan) -> None:
    """Every decision, with what it gains and what is done."""
    click.echo()
    if plan.degrees is not None and plan.degrees.yours is not None:
        before, after = plan.degrees.yours, plan.degrees.chosen
        words = (
            f"{before.degrees.text} -> {after.degrees.text}"
            if after is not before
            else f"{before.degrees.text} stays"
        )
        saved = before.default_step.seconds - after.default_step.seconds
        if not plan.degrees.yours_fits:
            fix = (
                "apply"
                if after is not before
                else "say degrees: auto, or take more devices or training: {recompute: full}"
            )
            click.echo(f"degrees      {words}: what is run today does not fit, {fix}")
        else:
            click.echo(f"degrees      {words}: {_saved(saved)}")
    print_wrapped("placement    ", _placement_words(plan))
    print_wrapped("collectives  ", _collective_words(plan))
    for choice in _slowest(plan):
        click.echo(
            f"             {format_seconds(choice.seconds * choice.request.per_step)} in all: {choice.request.name}, {choice.request.collective} of"
            f" {_about(choice.request.num_bytes)} x {choice.request.per_step:g}"
        )


def _saved(seconds: float) -> str:
    return "0, keep" if seconds <= 0 else f"-{format_seconds(seconds)}, apply"


def _placement_words(plan: JobPlan) -> str:
    ranking = plan.placement.ranking
    number = "" if ranking is None else f", best of {ranking.num_placements}"
    if plan.placement_is_applied:
        default = plan.placement.default_seconds or 0.0
        matrix = plan.applied.matrix
        return f"{matrix.text if matrix else 'a permutation'}{number}: -{format_seconds(default - plan.placement.seconds)} of exposed communication, apply"
    if plan.degrees is not None:
        gain = compare(plan.degrees.chosen.default_step, plan.degrees.chosen.step)
        if gain.verdict is GainVerdict.TOSS_UP:
            return f"the framework's order{number}: {_gain(gain)}, so the order is kept"
    return f"the framework's order{number}: 0, keep"


def _collective_words(plan: JobPlan) -> str:
    if plan.collectives is None or plan.vendor_seconds is None or plan.chosen_seconds is None:
        return f"not replayed (--quick, or too many devices); {format_seconds(plan.exposed_seconds)} stay exposed by estimate"
    better, exposed = plan.applied_collectives, format_seconds(plan.vendor_seconds)
    if not better:
        return f"nothing shortens the step over the vendor's, {exposed} of which stay exposed, replayed: keep"
    return (
        f"{len(better)} of {len(plan.collectives)} requests have a faster plan: -{format_seconds(plan.saved_by_collectives)} of {exposed} exposed,"
        " replayed; measure before you apply them"
    )


def _slowest(plan: JobPlan) -> list[CollectiveChoice]:
    choices = plan.collectives or ()
    return sorted(choices, key=lambda one: -one.seconds * one.request.per_step)[:3]


def _about(num_bytes: int) -> str:
    """Bytes to three digits."""
    unit, name = (1 << 30, "GiB") if num_bytes >= 1 << 30 else (1 << 20, "MiB")
    return f"{num_bytes / unit:.3g} {name}"


def _print_change(plan: JobPlan, words: str, changed: JobPlan) -> None:
    if plan.degrees is None or changed.degrees is None:
        before, after = plan.exposed_seconds, changed.exposed_seconds
        what = "exposed communication"
    else:
        before, after = plan.degrees.chosen.seconds, changed.degrees.chosen.seconds
        what = f"{changed.degrees.chosen.degrees.text}, a step"
    ratio = f"{after / before:.2f}x" if before else "-"
    print_wrapped(
        "what if ",
        f"{words}: {what} of {format_seconds(after)} instead of {format_seconds(before)} ({ratio})",
    )


def _counts(plan: JobPlan) -> str:
    if plan.degrees is None:
        return f"{plan.placement.ranking.num_placements if plan.placement.ranking else 0} placements"
    return f"{len(plan.degrees.ranked) + plan.degrees.num_too_large} degrees ({plan.degrees.num_too_large} do not fit)"
