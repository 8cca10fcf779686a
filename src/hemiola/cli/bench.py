"""hemiola bench: a collective by Hemiola, Gloo and MPI, side by side in one run."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

import click

from hemiola.cli import options
from hemiola.cli.output import make_table, print_json, print_table
from hemiola.cli.progress import working
from hemiola.collectives import CollectiveKind
from hemiola.errors import RunError, UnitError
from hemiola.integrations.bench.backend import IN_PLACE, Task
from hemiola.integrations.bench.backend_processes import BACKENDS, COMPARED_WITH, BackendProcesses, obstacle
from hemiola.integrations.bench.bound import FORMULAS, Rates, bound_seconds, measure_rates
from hemiola.integrations.bench.turns import Times, take_turns
from hemiola.runtime.communicator.numbers import NUMBERS
from hemiola.units import format_bandwidth, format_bytes, format_seconds, parse_bytes

Row = tuple[Task, Mapping[str, Times], float]
"""What was done, how long each backend took, and the memory estimate."""

Pair = tuple[str, ...]
"""Backends that are compared: one of Hemiola's and another library, or one of Hemiola's alone."""

FACTOR = 4
"""Between neighbouring sizes of a range."""
MEMORY_PART = 0.8
"""Of the memory that is free, at most this is taken."""


def _sizes(text: str) -> tuple[int, ...]:
    """``4KiB..64MiB``: powers of 4 from the first, and the last; ``4KiB,1MB``: these."""
    try:
        if ".." not in text:
            return tuple(parse_bytes(part) for part in text.split(","))
        first, last = (parse_bytes(part) for part in text.split("..", 1))
    except UnitError as error:
        raise click.BadParameter(str(error)) from None
    if not 0 < first <= last:
        raise click.BadParameter(f"a range begins above zero and ends no lower, but is {text}")
    sizes = [first]
    while sizes[-1] * FACTOR < last:
        sizes.append(sizes[-1] * FACTOR)
    return (*sizes, last) if last > sizes[-1] else tuple(sizes)


def _ranks(text: str) -> tuple[int, ...]:
    try:
        ranks = tuple(int(part) for part in text.split(","))
    except ValueError:
        raise click.BadParameter(f"numbers of ranks are written 2,4,8, but found {text}") from None
    if any(not 2 <= number <= 256 for number in ranks):
        raise click.BadParameter(f"a number of ranks is between 2 and 256, but found {text}")
    return ranks


def _rivals(text: str) -> tuple[str, ...]:
    rivals = tuple(dict.fromkeys(part for part in text.split(",") if part))
    for rival in rivals:
        if rival not in COMPARED_WITH:
            raise click.BadParameter(f"there is no backend '{rival}'; known are {', '.join(COMPARED_WITH)}")
    return rivals


@click.command("bench")
@click.argument(
    "collective", type=options.CollectiveName([kind.value for kind in IN_PLACE]), metavar="COLLECTIVE"
)
@click.option("--ranks", type=_ranks, default="2", show_default=True, metavar="N,N", help="Processes.")
@click.option(
    "--sizes", type=_sizes, default="4KiB..64MiB", show_default=True, metavar="A..B|A,B",
    help="Bytes as nccl-tests counts them: a range in steps of 4, or a list.",
)  # fmt: skip
@click.option(
    "--against", type=_rivals, metavar="gloo,mpi",
    help="Who takes part beside Hemiola; by default who is installed.",
)  # fmt: skip
@click.option(
    "--repeat", type=click.IntRange(1, 10_000), default=15, show_default=True, metavar="R", help="Rounds."
)
@click.option("--dtype", type=click.Choice(list(NUMBERS)), default="float32", show_default=True)
@click.option(
    "--timeout", type=click.FloatRange(1), default=300.0, show_default=True, metavar="S",
    help="Seconds that a block may take.",
)  # fmt: skip
@options.as_json
def command(
    collective: str,
    ranks: tuple[int, ...],
    sizes: tuple[int, ...],
    against: tuple[str, ...] | None,
    repeat: int,
    dtype: str,
    timeout: float,
    as_json: bool,
) -> None:
    """Time COLLECTIVE (allreduce, broadcast, allgather, reducescatter or alltoall) beside other libraries.

    One process a rank, all on this machine. Hemiola and Gloo are called through torch.distributed, Hemiola's
    Communicator and MPI on NumPy arrays. All are started once, and each pair takes turns, block by block, while
    the others sleep; shown is the median over the rounds, and how far the quickest or slowest was from it. Every
    result is checked before it is timed. The memory estimate is what the additions and copies take at the rates
    at which all cores together add and copy in memory; it is no bound, because data in caches can beat it.
    """
    tasks = {number: [_task(collective, number, size, dtype) for size in sizes] for number in ranks}
    pairs, notes = _choose(against, dtype)
    for number in ranks:
        _check_memory(max(tasks[number], key=lambda task: task.num_bytes), max(map(len, pairs)))
    with working("measuring how fast this machine adds and copies"):
        rates = measure_rates(dtype)
    rows = [row for number in ranks for row in _measure(tasks[number], pairs, rates, repeat, timeout)]
    if as_json:
        print_json({"collective": collective, "dtype": dtype, "machine": _machine(rates), "notes": notes,
                    "rows": [_fields(*row) for row in rows]})  # fmt: skip
    else:
        _print(collective, rows, rates, repeat, notes)


def _task(collective: str, ranks: int, size: int, dtype: str) -> Task:
    kind = CollectiveKind(collective)
    unit = NUMBERS[dtype].storage.itemsize * kind.buffer_shares(ranks)
    if size == 0 or size % unit:
        raise click.BadParameter(
            f"{collective} of {dtype} on {ranks} ranks takes a multiple of {unit} bytes, and not {size}",
            param_hint="--sizes",
        )
    return Task(kind, ranks, size, dtype)


def _choose(against: tuple[str, ...] | None, dtype: str) -> tuple[list[Pair], list[str]]:
    """The pairs of backends to measure, and notes for the user; a backend that was asked for must be installed."""
    obstacles = {rival: obstacle(rival, dtype) for rival in (COMPARED_WITH if against is None else against)}
    notes = [sentence for sentence in obstacles.values() if sentence is not None]
    if notes and against is not None:
        raise RunError(notes[0])
    pairs: list[Pair] = [(COMPARED_WITH[rival], rival) for rival in obstacles if obstacles[rival] is None]
    return pairs or [("communicator",)], notes


def _check_memory(task: Task, num_backends: int) -> None:
    """Both backends of a pair keep their buffers while they take turns."""
    buffers = task.trial().num_bytes() * num_backends
    free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if buffers > MEMORY_PART * free:
        raise RunError(
            f"{task.kind} of {format_bytes(task.num_bytes)} on {task.num_ranks} ranks needs {format_bytes(buffers)} for "
            f"{num_backends} backends, and {format_bytes(free)} are free; use smaller sizes or fewer ranks"
        )


def _measure(
    tasks: Sequence[Task], pairs: Sequence[Pair], rates: Rates, repeat: int, timeout: float
) -> Iterator[Row]:
    """A row per task, all of them by the same processes; those that are compared take turns."""
    number, names = tasks[0].num_ranks, [name for pair in pairs for name in pair]
    with ExitStack() as stack:
        with working(f"starting {len(names)} x {number} processes"):
            backends = {name: stack.enter_context(BackendProcesses(name, number, timeout)) for name in names}
            for backend in backends.values():
                backend.wait_for_ranks()
        for task in tasks:
            times: dict[str, Times] = {}
            with working(f"{task.kind} of {format_bytes(task.num_bytes)} on {number} ranks"):
                for pair in pairs:
                    times |= take_turns([backends[name] for name in pair], task, repeat)
            yield task, times, bound_seconds(task, rates)


def _machine(rates: Rates) -> dict[str, Any]:
    return {
        "num_cores": rates.num_cores,
        "add_bytes_per_second": rates.add_bytes_per_second,
        "copy_bytes_per_second": rates.copy_bytes_per_second,
    }


def _fields(task: Task, times: Mapping[str, Times], bound: float) -> dict[str, Any]:
    """Seconds of every backend, null where it did not run. Hemiola's are those through torch.distributed
    where it was called so, and the Communicator's otherwise."""
    found = {"hemiola": times.get("communicator"), **times}
    return {
        "bytes": task.num_bytes,
        "ranks": task.num_ranks,
        **{f"{name}_seconds": _median(found.get(name)) for name in BACKENDS},
        "bound_seconds": bound,
        "spread_seconds": {name: None if name not in found else _spread(found[name]) for name in BACKENDS},
    }


def _median(times: Times | None) -> float | None:
    return None if times is None else times.median


def _spread(times: Times | None) -> list[float] | None:
    return None if times is None else list(times.spread)


def _print(collective: str, rows: Sequence[Row], rates: Rates, repeat: int, notes: Sequence[str]) -> None:
    pairs: list[Pair] = [(ours, rival) for rival, ours in COMPARED_WITH.items() if rival in rows[0][1]]
    pairs = pairs or [("communicator",)]
    columns = ["ranks", "bytes", *(title for pair in pairs for title in _titles(pair)), "memory estimate"]
    table = make_table(*columns, numbers=columns)
    for task, times, bound in rows:
        cells = [cell for pair in pairs for cell in _cells([times[name] for name in pair])]
        table.add_row("", str(task.num_ranks), format_bytes(task.num_bytes), *cells, _three_digits(bound))
    print_table(table)
    click.echo(
        f"\nMedian of {repeat} rounds, and how far the quickest or slowest was from it. x: how many times as fast\n"
        f"Hemiola is. Memory estimate: {FORMULAS[CollectiveKind(collective)]}, S being the bytes and R the ranks;\n"
        f"with all {rates.num_cores} cores busy this machine adds {format_bandwidth(rates.add_bytes_per_second)} and copies "
        f"{format_bandwidth(rates.copy_bytes_per_second)} in memory. Data in caches can beat it."
    )
    for note in notes:
        click.echo(f"note: {note}", err=True)


def _titles(pair: Pair) -> list[str]:
    names = [name.replace("communicator", "Communicator") for name in pair]
    return [*names, *(f"x {rival}" for rival in pair[1:])]


def _cells(pair: Sequence[Times]) -> list[str]:
    ours, *rivals = pair
    return [*map(_with_spread, pair), *(f"{rival.median / ours.median:.2f}" for rival in rivals)]


def _with_spread(times: Times) -> str:
    off = max(abs(end - times.median) for end in times.spread) / times.median
    return f"{_three_digits(times.median)} ±{100 * off:.0f}%"


def _three_digits(seconds: float) -> str:
    return format_seconds(float(f"{seconds:.3g}"))
