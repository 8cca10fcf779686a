"""hemiola show: a plan, readable."""

from __future__ import annotations

from typing import Any

import click

from hemiola.cli import options
from hemiola.cli.output import plan_fields, print_json
from hemiola.collectives import Buffer
from hemiola.ir.formats import read_plan
from hemiola.ir.opcodes import TRAITS
from hemiola.ir.plan import NO_PEER, Plan
from hemiola.ir.text import plan_text


@click.command("show")
@click.argument("plan", metavar="PLAN")
@click.option(
    "--rank", "ranks", type=int, multiple=True, metavar="R", help="Only this rank; may be repeated."
)
@options.root
@options.as_json
def command(plan: str, ranks: tuple[int, ...], root: int | None, as_json: bool) -> None:
    """Print a plan: every rank, its threadblocks, and their steps with what they wait for."""
    found = read_plan(plan, root=root)
    for rank in ranks:
        if not 0 <= rank < found.num_ranks:
            raise click.BadParameter(
                f"there are ranks 0 to {found.num_ranks - 1}, not {rank}", param_hint="--rank"
            )
    chosen = ranks or range(found.num_ranks)
    if as_json:
        print_json({**plan_fields(found), "ranks": [_rank_fields(found, rank) for rank in chosen]})
    else:
        click.echo(plan_text(found, chosen), nl=False)


def _rank_fields(plan: Plan, rank: int) -> dict[str, Any]:
    names = ("input_chunks", "output_chunks", "scratch_chunks")
    return {
        "rank": rank,
        **{name: int(plan.ranks[name][rank]) for name in names},
        "threadblocks": [_threadblock_fields(plan, row) for row in plan.threadblocks_of(rank)],
    }


def _threadblock_fields(plan: Plan, row: int) -> dict[str, Any]:
    block = plan.threadblocks[row]
    peers = {name: int(block[name]) for name in ("send_peer", "recv_peer")}
    return {
        "channel": int(block["channel"]),
        **{name: None if peer == NO_PEER else peer for name, peer in peers.items()},
        "steps": [_step_fields(plan, step) for step in plan.steps_of(row)],
    }


def _step_fields(plan: Plan, row: int) -> dict[str, Any]:
    step = plan.steps[row]
    traits = TRAITS[int(step["opcode"])]
    sides = (
        ("source", "src", traits.reads_source),
        ("destination", "dst", traits.reads_destination or traits.writes_destination),
    )
    waits = [plan.dependencies[k] for k in plan.dependencies_of(row)]
    return {
        "opcode": traits.name,
        **{name: _chunks(step, side) if used else None for name, side, used in sides},
        "count": int(step["count"]),
        "after": [{"threadblock": int(d["threadblock"]), "step": int(d["step"])} for d in waits],
        "line": plan.line_of(row),
    }


def _chunks(step: Any, side: str) -> dict[str, Any]:
    return {
        "buffer": Buffer(int(step[f"{side}_buffer"])).name.lower(),
        "index": int(step[f"{side}_index"]),
    }
