"""The library: every algorithm in one table, and how one is built by name.

A new algorithm is a file ``<collective>_<shape>.py`` with a builder and a cost, and a row here.
"""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches

from hemiola.algorithms import (
    allgather_allpairs,
    allgather_hierarchical,
    allgather_recursive_doubling,
    allgather_ring,
    allreduce_allpairs,
    allreduce_double_binary_tree,
    allreduce_halving_doubling,
    allreduce_hierarchical,
    allreduce_one_step,
    allreduce_ring,
    alltoall_allpairs,
    alltoall_three_step,
    alltoall_two_step,
    alltonext_direct,
    alltonext_scattered,
    broadcast_chain,
    broadcast_tree,
    gather_direct,
    gather_tree,
    reduce_chain,
    reduce_tree,
    reducescatter_allpairs,
    reducescatter_hierarchical,
    reducescatter_recursive_halving,
    reducescatter_ring,
    scatter_direct,
    scatter_tree,
    sendrecv,
)
from hemiola.algorithms.algorithm import Algorithm
from hemiola.algorithms.cost import CostCard
from hemiola.algorithms.shapes import (
    any_depth,
    any_ends,
    any_levels_and_exchanges,
    any_ranks,
    any_root,
    any_root_and_depth,
    nodes_by_local,
    require,
)
from hemiola.errors import ProgramError
from hemiola.language.parameters import read_parameters
from hemiola.language.program import Program

_ROWS = (
    (allreduce_ring.allreduce_ring, allreduce_ring.cost, any_ranks),
    (allreduce_allpairs.allreduce_allpairs, allreduce_allpairs.cost, any_ranks),
    (allreduce_one_step.allreduce_one_step, allreduce_one_step.cost, any_ranks),
    (
        allreduce_double_binary_tree.allreduce_double_binary_tree,
        allreduce_double_binary_tree.cost,
        any_depth,
    ),
    (allreduce_halving_doubling.allreduce_halving_doubling, allreduce_halving_doubling.cost, any_ranks),
    (allreduce_hierarchical.allreduce_hierarchical, allreduce_hierarchical.cost, any_levels_and_exchanges),
    (allgather_ring.allgather_ring, allgather_ring.cost, any_ranks),
    (allgather_allpairs.allgather_allpairs, allgather_allpairs.cost, any_ranks),
    (allgather_recursive_doubling.allgather_recursive_doubling, allgather_recursive_doubling.cost, any_ranks),
    (allgather_hierarchical.allgather_hierarchical, allgather_hierarchical.cost, any_levels_and_exchanges),
    (reducescatter_ring.reducescatter_ring, reducescatter_ring.cost, any_ranks),
    (reducescatter_allpairs.reducescatter_allpairs, reducescatter_allpairs.cost, any_ranks),
    (
        reducescatter_recursive_halving.reducescatter_recursive_halving,
        reducescatter_recursive_halving.cost,
        any_ranks,
    ),
    (
        reducescatter_hierarchical.reducescatter_hierarchical,
        reducescatter_hierarchical.cost,
        any_levels_and_exchanges,
    ),
    (alltoall_allpairs.alltoall_allpairs, alltoall_allpairs.cost, any_ranks),
    (alltoall_two_step.alltoall_two_step, alltoall_two_step.cost, nodes_by_local),
    (alltoall_three_step.alltoall_three_step, alltoall_three_step.cost, nodes_by_local),
    (alltonext_direct.alltonext_direct, alltonext_direct.cost, any_ranks),
    (alltonext_scattered.alltonext_scattered, alltonext_scattered.cost, nodes_by_local),
    (broadcast_tree.broadcast_tree, broadcast_tree.cost, any_root_and_depth),
    (broadcast_chain.broadcast_chain, broadcast_chain.cost, any_root_and_depth),
    (reduce_tree.reduce_tree, reduce_tree.cost, any_root_and_depth),
    (reduce_chain.reduce_chain, reduce_chain.cost, any_root_and_depth),
    (gather_direct.gather_direct, gather_direct.cost, any_root),
    (gather_tree.gather_tree, gather_tree.cost, any_root),
    (scatter_direct.scatter_direct, scatter_direct.cost, any_root),
    (scatter_tree.scatter_tree, scatter_tree.cost, any_root),
    (sendrecv.sendrecv, sendrecv.cost, any_ends),
)

ALGORITHMS: Mapping[str, Algorithm] = {
    build.__name__: Algorithm.of(build, cost, shapes) for build, cost, shapes in _ROWS
}
"""Every algorithm by name."""


def find(name: str) -> Algorithm:
    """The algorithm of that name; the error for an unknown one suggests those that are spelt like it."""
    if name in ALGORITHMS:
        return ALGORITHMS[name]
    near = get_close_matches(name, ALGORITHMS, n=3) or [other for other in ALGORITHMS if name in other]
    hint = f"did you mean {' or '.join(near)}?" if near else f"known are {', '.join(ALGORITHMS)}"
    raise ProgramError(f"there is no algorithm '{name}' in the library; {hint}")


def build(name: str, arguments: Mapping[str, str]) -> Program:
    """The traced program of an algorithm, its parameters written as on a command line."""
    algorithm = find(name)
    parameters = read_parameters(algorithm.build, arguments)
    require(name, algorithm.refusal(**parameters))
    return algorithm.build(**parameters)


def card(name: str, arguments: Mapping[str, str]) -> CostCard:
    """The cost card of an algorithm, its parameters written as on a command line."""
    algorithm = find(name)
    parameters = read_parameters(algorithm.build, arguments)
    require(name, algorithm.refusal(**parameters))
    return algorithm.card(**parameters)
