"""The library by name, as the command line uses it."""

from __future__ import annotations

from pathlib import Path

import pytest

from hemiola.algorithms.library import ALGORITHMS, build, card, find
from hemiola.collectives import KINDS
from hemiola.errors import ProgramError
from hemiola.language.parameters import split_words

DOCS = Path(__file__).parents[2] / "docs" / "algorithms.md"
FOLDER = Path(__file__).parents[2] / "src" / "hemiola" / "algorithms"


def test_every_row_says_what_it_is() -> None:
    for name, algorithm in ALGORITHMS.items():
        assert algorithm.name == name
        assert algorithm.kind in KINDS
        assert algorithm.summary.endswith(".")
        assert {"ranks", "instances", "in_place", "protocol"} <= set(algorithm.parameters)
        assert (FOLDER / f"{name}.py").exists()


def test_every_collective_has_an_algorithm() -> None:
    assert {algorithm.kind for algorithm in ALGORITHMS.values()} == set(KINDS) - {"custom"}


def test_the_documentation_lists_the_library() -> None:
    rows = [line.split("`")[1] for line in DOCS.read_text("utf-8").splitlines() if line.startswith("| `")]
    assert rows == list(ALGORITHMS)


def test_a_command_line_builds_a_program() -> None:
    words = ["--ranks=16", "--levels", "2,8", "--instances=2", "--in-place", "--inside=allpairs"]
    program = build("allreduce_hierarchical", split_words(words))
    assert program.num_ranks == 16
    assert program.instances == 2
    assert program.collective.in_place
    program.finish()


@pytest.mark.parametrize(("text", "in_place"), [("", True), ("true", True), ("No", False), ("0", False)])
def test_a_switch_may_have_a_value(text: str, in_place: bool) -> None:
    assert build("allreduce_ring", {"ranks": "2", "in-place": text}).collective.in_place == in_place


def test_levels_alone_say_how_many_ranks_there_are() -> None:
    assert build("alltoall_two_step", {"levels": "3,4"}).num_ranks == 12
    assert card("alltoall_two_step", {"levels": "3,4"}).steps == 2


@pytest.mark.parametrize(
    ("name", "suggestion"),
    [
        ("allreduce_rign", "allreduce_ring"),
        ("alltoall", "alltoall_allpairs"),
        ("allgather-ring", "allgather_ring"),
    ],
)
def test_an_unknown_name_suggests_near_ones(name: str, suggestion: str) -> None:
    with pytest.raises(ProgramError, match=rf"no algorithm '{name}' .*did you mean .*{suggestion}"):
        find(name)


def test_a_strange_name_lists_all() -> None:
    with pytest.raises(ProgramError, match=r"known are allreduce_ring, .*, sendrecv"):
        find("quicksort")


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("allreduce_ring", {"ranks": "8", "level": "2"}, "has no parameter 'level'; its parameters are --ranks, "),
        ("allreduce_ring", {"ranks": "8", "level": "2"}, r"--instances \(1\), --in-place \(false\)"),
        ("allreduce_ring", {"ranks": "eight"}, "ranks is a whole number, but is 'eight'"),
        ("allreduce_ring", {"ranks": "0"}, "ranks is between 1 and [0-9]+, but is 0"),
        ("allreduce_ring", {}, "allreduce_ring needs ranks; its parameters are"),
        ("allreduce_ring", {"ranks": "2", "in-place": "maybe"}, "in_place is true or false, but is 'maybe'"),
        ("allreduce_ring", {"in-place": "", "in_place": ""}, "in_place is given twice"),
        ("allreduce_ring", {"ranks": "2", "instances": "0"}, "instances is between 1 and 1024, but is 0"),
        ("allreduce_hierarchical", {"ranks": "8"}, "needs levels"),
        ("allreduce_hierarchical", {"levels": "4,x"}, "levels is whole numbers with commas .*, but is '4,x'"),
        ("allreduce_hierarchical", {"ranks": "8", "levels": "4,3"}, "levels 4,3 make 12 ranks, but ranks is 8"),
        ("allreduce_hierarchical", {"ranks": "8", "levels": "8,0"}, "sizes of at least 1.*found 8,0"),
        ("allreduce_hierarchical", {"levels": "2,2", "inside": "star"}, "inside is one of ring, allpairs, halving"),
        ("alltoall_two_step", {"levels": "2,2,2"}, "levels are two sizes, nodes and ranks of a node"),
        ("broadcast_chain", {"ranks": "4", "root": "4"}, "root is a rank between 0 and 3, but is 4"),
        ("broadcast_chain", {"ranks": "4", "chunks": "0"}, "chunks is at least 1, but is 0"),
        ("sendrecv", {"ranks": "1"}, "destination is a rank between 0 and 0, but is 1"),
    ],
)  # fmt: skip
def test_a_wrong_parameter_is_explained(name: str, arguments: dict[str, str], message: str) -> None:
    with pytest.raises(ProgramError, match=message):
        build(name, arguments)


def test_a_wrong_shape_is_refused_without_the_library_too() -> None:
    with pytest.raises(ProgramError, match="alltonext_scattered: levels 2,3 make 6 ranks, but ranks is 8"):
        ALGORITHMS["alltonext_scattered"].build(ranks=8, levels=(2, 3))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["ranks=8"], "'ranks=8' is not a parameter; write --name=value"),
        (["--ranks=8", "9"], "'9' is not a parameter"),
        (["--ranks=8", "--ranks", "9"], "--ranks is given twice"),
    ],
)
def test_words_that_are_no_parameters_are_refused(words: list[str], message: str) -> None:
    with pytest.raises(ProgramError, match=message):
        split_words(words)
