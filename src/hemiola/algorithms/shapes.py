"""Shapes: for which parameters an algorithm can be built; each function gives the reason why not, or None."""

from __future__ import annotations

from math import prod

from hemiola.algorithms.exchanges import EXCHANGES
from hemiola.collectives import MAX_RANKS
from hemiola.errors import ProgramError


def require(algorithm: str, reason: str | None) -> None:
    """Raise if there is a reason why ``algorithm`` cannot be built."""
    if reason is not None:
        raise ProgramError(f"{algorithm}: {reason}")


def any_ranks(*, ranks: int) -> str | None:
    """Every number of ranks will do."""
    return None if 1 <= ranks <= MAX_RANKS else f"ranks is between 1 and {MAX_RANKS}, but is {ranks}"


def any_root(*, ranks: int, root: int) -> str | None:
    """Every rank may be the root."""
    return any_ranks(ranks=ranks) or _one_of("root", root, ranks)


def any_depth(*, ranks: int, chunks: int) -> str | None:
    """Every number of chunks will do."""
    return any_ranks(ranks=ranks) or (None if chunks >= 1 else f"chunks is at least 1, but is {chunks}")


def any_root_and_depth(*, ranks: int, root: int, chunks: int) -> str | None:
    """Every rank may be the root, with every number of chunks."""
    return any_root(ranks=ranks, root=root) or any_depth(ranks=ranks, chunks=chunks)


def any_ends(*, ranks: int, source: int, destination: int) -> str | None:
    """Every two ranks may be the ends."""
    reason = any_ranks(ranks=ranks) or _one_of("source", source, ranks)
    return reason or _one_of("destination", destination, ranks)


def any_levels(*, ranks: int, levels: tuple[int, ...]) -> str | None:
    """Every factorisation of the ranks will do."""
    if not levels or min(levels) < 1:
        return f"levels are sizes of at least 1, outermost first, such as 4,8; found {_listed(levels)}"
    if prod(levels) != ranks:
        found = f"levels {_listed(levels)} make {prod(levels)} ranks, but ranks is {ranks}"
        return f"{found}; give levels whose product is {ranks}"
    return any_ranks(ranks=ranks)


def any_levels_and_exchanges(*, ranks: int, levels: tuple[int, ...], inside: str, across: str) -> str | None:
    """Every factorisation will do, with every exchange of the table."""
    for what, name in (("inside", inside), ("across", across)):
        if name not in EXCHANGES:
            return f"{what} is one of {', '.join(EXCHANGES)}, but is '{name}'"
    return any_levels(ranks=ranks, levels=levels)


def nodes_by_local(*, ranks: int, levels: tuple[int, ...]) -> str | None:
    """Exactly two levels: nodes and ranks of a node."""
    if len(levels) != 2:
        return f"levels are two sizes, nodes and ranks of a node, such as 4,8; found {_listed(levels)}"
    return any_levels(ranks=ranks, levels=levels)


def _one_of(what: str, rank: int, ranks: int) -> str | None:
    return None if 0 <= rank < ranks else f"{what} is a rank between 0 and {ranks - 1}, but is {rank}"


def _listed(levels: tuple[int, ...]) -> str:
    return ",".join(map(str, levels)) or "none"
