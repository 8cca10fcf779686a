"""hemiola algorithms: the library, with cost cards."""

from __future__ import annotations

from inspect import Parameter, getmodule
from typing import Any

import click

from hemiola.algorithms.algorithm import Algorithm
from hemiola.algorithms.cost import CostCard
from hemiola.algorithms.library import ALGORITHMS, find
from hemiola.algorithms.shapes import require
from hemiola.cli import options
from hemiola.cli.output import make_table, print_json, print_table
from hemiola.language.parameters import read_parameters, written_default


@click.command("algorithms")
@click.argument("name", metavar="[NAME]", required=False)
@click.option(
    "--ranks", default="8", show_default=True, metavar="N", help="Ranks that the cost is given for."
)
@click.option(
    "--levels", metavar="N,L", help="Sizes of the levels, outermost first; by default 2 and the rest."
)
@options.as_json
def command(name: str | None, ranks: str, levels: str | None, as_json: bool) -> None:
    """List the library's algorithms and what each costs; with NAME, what it does and its parameters.

    Steps are the longest chain of messages that wait for each other. Bytes are those that leave and reach
    the busiest rank, and those of all ranks, in parts of S, the input of one rank.
    """
    chosen = [find(name)] if name else list(ALGORITHMS.values())
    cards = {one.name: _card(one, ranks, levels, strict=name is not None) for one in chosen}
    if as_json:
        print_json({"algorithms": [_fields(one, cards[one.name]) for one in chosen]})
    elif name:
        _print_one(chosen[0], cards[name])
    else:
        _print_all(cards)
        click.echo(
            f"\nAt {ranks} ranks, levels {levels or _two_levels(ranks)} where an algorithm has levels. S is the input of "
            "one rank;\nsent and received are those of the busiest rank. `hemiola algorithms NAME` says more."
        )


def _card(algorithm: Algorithm, ranks: str, levels: str | None, *, strict: bool) -> CostCard | str:
    """The cost card, or why there is none for these ranks."""
    wanted = {"ranks": ranks}
    if "levels" in algorithm.parameters:
        wanted["levels"] = levels or _two_levels(ranks)
    parameters = read_parameters(algorithm.build, wanted)
    refusal = algorithm.refusal(**parameters)
    if refusal is None:
        return algorithm.card(**parameters)
    if strict:
        require(algorithm.name, refusal)
    return refusal


def _two_levels(ranks: str) -> str:
    even = ranks.isdecimal() and int(ranks) % 2 == 0 and int(ranks) > 2
    return f"2,{int(ranks) // 2}" if even else f"1,{ranks}"


def _fields(algorithm: Algorithm, card: CostCard | str) -> dict[str, Any]:
    cost = None
    if isinstance(card, CostCard):
        sides = {f"{side}_fraction": str(getattr(card, side)) for side in ("sent", "received", "total")}
        cost = {"steps": card.steps, **sides}
    return {
        "name": algorithm.name,
        "collective": algorithm.kind,
        "summary": algorithm.summary,
        "parameters": {name: _default(parameter) for name, parameter in algorithm.parameters.items()},
        "cost": cost,
    }


def _default(parameter: Parameter) -> str | None:
    return None if parameter.default is Parameter.empty else written_default(parameter.default)


def _print_all(cards: dict[str, CostCard | str]) -> None:
    table = make_table(
        "algorithm", "steps", "sent", "received", "total", numbers=("steps", "sent", "received", "total")
    )
    for name, card in cards.items():
        if isinstance(card, str):
            table.add_row("", name, "-", "-", "-", "-")
        else:
            table.add_row(
                "", name, str(card.steps), f"{card.sent} S", f"{card.received} S", f"{card.total} S"
            )
    print_table(table)


def _print_one(algorithm: Algorithm, card: CostCard | str) -> None:
    module = getmodule(algorithm.build)
    click.echo(f"{algorithm.name}: {algorithm.summary}\n")
    click.echo(f"{((module and module.__doc__) or '').strip()}\n")
    click.echo(f"cost: {card}\n\nparameters:")
    for name, parameter in algorithm.parameters.items():
        default = _default(parameter)
        click.echo(
            f"  --{name.replace('_', '-'):<12} {'required' if default is None else f'default {default}'}"
        )
