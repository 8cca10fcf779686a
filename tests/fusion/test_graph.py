"""Steps as values: what an OpGraph refuses, who reads a parameter, and its file."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given

from fusion.steps import chain, graphs, unhurried
from hemiola.errors import FusionError
from hemiola.fusion.graph import OpGraph, graph_from_json
from hemiola.fusion.synthetic.models import MODELS, large_step


@unhurried
@given(graphs())
def test_a_graph_is_the_same_after_its_file(graph: OpGraph) -> None:
    again = graph_from_json(json.loads(json.dumps(graph.to_json())))
    assert again == graph
    assert again.digest == graph.digest


def test_readers_of_a_parameter_are_known() -> None:
    graph = chain([1, 1, 1], [(1, 0, 8), (2, 2, 8)])
    assert graph.readers == ((0,), (2,))
    tied = replace(
        graph.gradients[0], parameter_tensors=tuple(one.parameter_tensors[0] for one in graph.gradients)
    )
    assert replace(graph, gradients=(tied,)).readers == ((0, 2),)


def test_a_parameter_that_an_operator_makes_is_refused() -> None:
    graph = chain([1, 1], [(1, 0, 8)])
    with pytest.raises(FusionError, match="parameters are given to the step"):
        replace(graph, gradients=(replace(graph.gradients[0], parameter_tensors=(0,)),))


@pytest.mark.parametrize("name", MODELS)
def test_synthetic_models_are_steps(name: str) -> None:
    graph = MODELS[name]()
    assert graph.name == name
    assert all(graph.readers), "every parameter is read"
    assert len({one.parameter for one in graph.gradients}) == len(graph.gradients)


def test_the_large_step_is_as_large_as_is_said() -> None:
    assert 2400 <= len(large_step().operators) <= 2700
