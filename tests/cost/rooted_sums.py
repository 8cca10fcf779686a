"""RootedSums: the best rate of an all-reduce on a graph whose every element is summed at some rank and sent out from there.

Rank v is the root of y(v) bytes a second. Links are shared between sums on their way in and results on their way out. Results
spread over trees where the flow out of all roots can bring all of them to each rank in turn, and sums likewise backwards; a
switch passes on as much as it gets, because it neither copies nor adds. That is a linear program with one flow for each rank
and direction, and its best value is the rate: on a switch n / (2 (n - 1)) of a link, around one fast root almost a whole one.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.optimize import linprog
from scipy.sparse import coo_array, csr_array, eye_array, hstack, kron, vstack

from hemiola.cost.bounds.throughput import Graph
from hemiola.errors import LimitError, TopologyError

MOST_VARIABLES = 50_000
"""A program of this size takes some seconds."""


def allreduce_rate(graph: Graph) -> float:
    """Bytes of a rank's input per second, at best."""
    n, num_links = len(graph.ranks), len(graph.capacities)
    if n < 2:
        raise TopologyError(f"a rate is that of two ranks or more, and there are {n}")
    if 2 * n * num_links > MOST_VARIABLES:
        raise LimitError(
            f"the best rate of an all-reduce is computed for up to {MOST_VARIABLES} ranks times links, and there are {2 * n * num_links}"
        )
    unit = float(graph.capacities.max(initial=0.0))
    if unit == 0:
        return 0.0
    limits, most = _limits(graph, unit)
    balances = _balances(graph)
    gains = np.zeros(limits.shape[1])
    gains[:n] = -1.0
    result = linprog(gains, A_ub=limits, b_ub=most, A_eq=balances, b_eq=np.zeros(balances.shape[0]))
    assert result.success, result.message
    return -float(result.fun) * unit


# The unknowns, in this order: y of each rank; of each link what results get, then what sums get; and for each rank the
# flow of results to it over each link, then the flow of sums from it.


def _limits(graph: Graph, unit: float) -> tuple[csr_array, npt.NDArray[np.float64]]:
    """The two parts of a link are no more than it has, and no flow is more than its part."""
    n, num_links = len(graph.ranks), len(graph.capacities)
    one = eye_array(num_links)
    parts = hstack([coo_array((num_links, n)), one, one, coo_array((num_links, 2 * n * num_links))])
    every = np.ones((n, 1))
    nothing = coo_array((n * num_links, num_links))
    flows = eye_array(2 * n * num_links)
    shares = vstack([hstack([-kron(every, one), nothing]), hstack([nothing, -kron(every, one)])])
    within = hstack([coo_array((2 * n * num_links, n)), shares, flows])
    most = np.concatenate([graph.capacities / unit, np.zeros(2 * n * num_links)])
    return csr_array(vstack([parts, within])), most


def _balances(graph: Graph) -> csr_array:
    """At every vertex but its own end a flow takes up y of the rank there; switches pass on what they get."""
    n, num_links, num_vertices = len(graph.ranks), len(graph.capacities), graph.num_vertices
    ones, links = np.ones(num_links), np.arange(num_links)
    shape = (num_vertices, num_links)
    out = coo_array((ones, (graph.sources, links)), shape) - coo_array(
        (ones, (graph.destinations, links)), shape
    )
    roots = coo_array((np.ones(n), (graph.ranks, np.arange(n))), (num_vertices, n)).tocsr()
    out = out.tocsr()
    rows = []
    for way, sign in enumerate((1.0, -1.0)):
        for number, end in enumerate(graph.ranks):
            others = np.delete(np.arange(num_vertices), end)
            before = num_links * (2 + way * n + number)
            after = 2 * n * num_links + 2 * num_links - before - num_links
            here = [
                -roots[others],
                coo_array((len(others), before)),
                sign * out[others],
                coo_array((len(others), after)),
            ]
            rows.append(hstack(here))
    switches = np.setdiff1d(np.arange(num_vertices), graph.ranks)
    if len(switches):
        rest = coo_array((2 * len(switches), 2 * n * num_links))
        both = kron(np.eye(2), out[switches])
        rows.append(hstack([coo_array((2 * len(switches), n)), both, rest]))
    return csr_array(vstack(rows))
