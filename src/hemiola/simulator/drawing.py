"""draw: a timeline in the terminal, a line a rank: how much of the time it is sending, or working."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from hemiola.simulator.timeline import Timeline

SHADES = " ▁▂▃▄▅▆▇█"


def draw(timeline: Timeline, *, width: int = 60, most_rows: int = 16) -> list[str]:
    """A line for every rank that was simulated for itself or for others; needs records."""
    if not len(timeline.records) or timeline.seconds == 0:
        return []
    rows = list(_simulated_ranks(timeline).items())
    lines = []
    for (load, rank, alike), threadblocks in rows[:most_rows]:
        mine = timeline.records[np.isin(timeline.records["threadblock"], threadblocks)]
        sending = _covered(timeline.seconds, mine["depart"], mine["sent"], width)
        working = _covered(timeline.seconds, mine["begin"], mine["end"], width)
        busy = np.minimum(np.maximum(sending, working), 1)
        bar = "".join(SHADES[round(float(part) * (len(SHADES) - 1))] for part in busy)
        name = f"rank {rank}" + (f" of plan {load}" if len(timeline.loads) > 1 else "")
        lines.append(f"{name:>10} |{bar}|" + (f" and {alike} more alike" if alike else ""))
    if len(rows) > most_rows:
        lines.append(f"{'...':>10}  {len(rows) - most_rows} more")
    return lines


def _simulated_ranks(timeline: Timeline) -> dict[tuple[int, int, int], list[int]]:
    """Ranks whose threadblocks stand for themselves, with how many other ranks they stand for."""
    ranks: dict[tuple[int, ...], list[tuple[int, int]]] = {}
    for number, load in enumerate(timeline.loads):
        first = timeline.first_threadblocks[number]
        for rank in range(load.plan.num_ranks):
            rows = load.plan.threadblocks_of(rank)
            classes = timeline.threadblock_class[first + rows.start : first + rows.stop]
            ranks.setdefault(tuple(sorted(classes.tolist())), []).append((number, rank))
    return {
        (*alike[0], len(alike) - 1): list(classes)  # the first is the one that was simulated
        for classes, alike in ranks.items()
        if classes
    }


def _covered(
    seconds: float, begin: npt.NDArray[np.float64], end: npt.NDArray[np.float64], width: int
) -> npt.NDArray[np.float64]:
    """The part of each of ``width`` equal times that lies between begins and ends, counted as often as it does."""
    edges = np.linspace(0, seconds, width + 1)

    def passed(times: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """The sum over all times of how long ago each was, at every edge."""
        ordered = np.sort(times)
        sums = np.concatenate([[0.0], np.cumsum(ordered)])
        before = np.searchsorted(ordered, edges)
        ago: npt.NDArray[np.float64] = edges * before - sums[before]
        return ago

    covered: npt.NDArray[np.float64] = np.diff(passed(begin) - passed(end)) / (seconds / width)
    return np.clip(covered, 0, None)
