"""hemiola compile: a chunk program, an MSCCLang script or a library algorithm becomes a proven plan file."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click

from hemiola.cli import options
from hemiola.cli.compile_report import compiled_fields, print_compiled
from hemiola.cli.handover import hand_over
from hemiola.cli.output import print_json
from hemiola.cli.progress import working
from hemiola.cli.sources import find_source
from hemiola.compiler.compile import Compiled, compile_program
from hemiola.compiler.options import CompileOptions
from hemiola.ir.plan import Protocol
from hemiola.ir.proven_range import within_proven_range
from hemiola.ir.targets import TARGETS, Target, check_limits
from hemiola.ir.unfuse import is_plain, unfuse
from hemiola.ir.verify import verify
from hemiola.language.program import Program


@dataclass(frozen=True, slots=True, kw_only=True)
class CompileArguments:
    """Everything that was asked for; a field per option."""

    program: str
    args: tuple[str, ...]
    out: str | None
    target: str | None
    slots: int | None
    disable: tuple[str, ...]
    msccl: bool
    both_places: bool
    min_bytes: int | None
    max_bytes: int | None
    protocol: str | None
    name: str | None
    ranks: str | None
    levels: str | None
    instances: str | None
    as_json: bool


@click.command("compile")
@click.argument("program", metavar="PROGRAM.py|ALGORITHM")
@click.argument("args", nargs=-1, type=click.UNPROCESSED, metavar="[-- ARGS]")
@click.option("-o", "--out", metavar="OUT", help="The file to write; without it, only the report is printed.")
@options.target
@options.slots
@click.option("--disable", multiple=True, metavar="PASS", help="Leave a pass out; may be repeated.")
@click.option("--msccl", is_flag=True, help="PROGRAM.py is an MSCCLang script; ARGS are its own.")
@click.option("--both-places", is_flag=True, help="Write OUT.inplace and OUT.outofplace.")
@click.option(
    "--min-bytes", type=options.size, metavar="SIZE", help="The smallest size that the plan is meant for."
)
@click.option("--max-bytes", type=options.size, metavar="SIZE", help="The largest size; 0 is no end.")
@click.option("--protocol", type=click.Choice([p.value for p in Protocol], case_sensitive=False))
@click.option(
    "--name",
    metavar="NAME",
    help="Which program, where a script has several; of those with one name NAME#1, NAME#2.",
)
@click.option("--ranks", metavar="N", help="The same as -- --ranks=N.")
@click.option("--levels", metavar="A,B", help="The same as -- --levels=A,B.")
@click.option("--instances", metavar="N", help="The same as -- --instances=N.")
@options.as_json
def command(**given: Any) -> None:
    """Compile a program or a library algorithm into a proven plan.

    PROGRAM.py has a function marked with @program; an ALGORITHM is a name from `hemiola algorithms`. ARGS are
    their parameters: hemiola compile allreduce_ring -o ring.plan -- --ranks=8 --in-place

    Every file is read back and verified before it gets its name, and says for which sizes it is right (maxBytes). The
    default is --target plan --slots 2. rccl-xml has no fused operations, because RCCL is built without them.
    """
    request = CompileArguments(**given)
    target = TARGETS[request.target or "plan"]
    with working(f"compiling {request.program}"):
        notes, forms = _compile(request, target)
        files = _files(request, forms)
        hand_over({path: forms[place].plan for place, path in files.items()}, target, _slots(request))
    if request.as_json:
        print_json(_fields(forms, files, target, notes))
        return
    for place, compiled in forms.items():
        print_compiled(compiled, files.get(place), target)
    for note in notes:
        click.echo(f"note: {note}", err=True)


def _compile(request: CompileArguments, target: Target) -> tuple[tuple[str, ...], dict[str, Compiled]]:
    """What the person should know, and each form compiled within the target's limits."""
    given = {"ranks": request.ranks, "levels": request.levels, "instances": request.instances}
    given_options = {key: value for key, value in given.items() if value is not None}
    source = find_source(request.program, request.args, given_options, name=request.name, msccl=request.msccl)
    limits = target.limits
    asked = CompileOptions(
        slots=_slots(request),
        disabled=source.disabled | set(request.disable) | (set() if target.takes_fused else {"fuse"}),
        max_threadblocks=limits.threadblocks_per_rank if limits else None,
        max_threadblocks_per_channel=limits.peers_per_channel if limits else None,
    )
    forms, notes = {}, list(source.notes)
    for place, program in source.programs(both_places=request.both_places).items():
        _adjust(program, request)
        compiled = _plain(compile_program(program, asked), target)
        check_limits(compiled.plan, target)
        ranged = within_proven_range(compiled.plan, target)
        if ranged.plan is not compiled.plan:
            notes.append(
                f"maxBytes is {ranged.plan.max_bytes}: {ranged.runtime} would hang from {ranged.hangs_from_bytes} bytes on;"
                " fewer --slots or more chunks allow larger sizes"
            )
        forms[place] = replace(compiled, plan=ranged.plan)
    return tuple(notes), forms


def _plain(compiled: Compiled, target: Target) -> Compiled:
    """The plan that will be in the file, proven: without fused operations where the target has none."""
    if target.takes_fused or is_plain(compiled.plan):
        return compiled
    plan = unfuse(compiled.plan)
    verdict = verify(plan, slots=compiled.verdict.slots)
    assert verdict.ok, verdict.failures[0].message
    return replace(compiled, plan=plan, verdict=verdict)


def _slots(request: CompileArguments) -> int:
    return CompileOptions().slots if request.slots is None else request.slots


def _adjust(program: Program, request: CompileArguments) -> None:
    """Sizes and protocol of the command line go before those of the program."""
    if request.min_bytes is not None:
        program.min_bytes = request.min_bytes
    if request.max_bytes is not None:
        program.max_bytes = request.max_bytes
    if request.protocol is not None:
        program.protocol = next(p for p in Protocol if p.value.lower() == request.protocol.lower())
    if 0 < program.max_bytes < program.min_bytes:
        raise click.UsageError(f"max-bytes {program.max_bytes} is less than min-bytes {program.min_bytes}")


def _files(request: CompileArguments, forms: dict[str, Compiled]) -> dict[str, Path]:
    """Where each form goes: out.xml, or out.inplace.xml and out.outofplace.xml."""
    if request.out is None:
        return {}
    out = Path(request.out)
    return {place: out.with_name(f"{out.stem}.{place}{out.suffix}") if place else out for place in forms}


def _fields(
    forms: dict[str, Compiled], files: dict[str, Path], target: Target, notes: tuple[str, ...]
) -> dict[str, Any]:
    each = [compiled_fields(compiled, files.get(place), target) for place, compiled in forms.items()]
    return {"ok": True, "plans": each, "notes": list(notes)}
