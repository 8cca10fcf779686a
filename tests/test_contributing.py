"""CONTRIBUTING names all places of a change: something of each kind that exists is found there, and nowhere else."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TITLE = "## Twelve changes, and all their places"
SEARCHED = ("src", "csrc", "docs")
LEFT_OUT = ("csrc/test", "csrc/bench")
"""Tests and benchmarks of the core."""
SUFFIXES = {".py", ".pyi", ".h", ".cc", ".def", ".inc", ".md", ".yaml"}
MEASURED = "it has the results of measurements"


@dataclass(frozen=True)
class Instance:
    """Something of a kind that exists, and who mentions it without being a place that a new one would touch."""

    name: str
    pattern: str
    only_use: Mapping[str, str] = field(default_factory=dict)
    """Files that need no change for another one of its kind, each with the reason."""


INSTANCES: Mapping[str, Instance] = {
    "opcode": Instance(
        "rrcs",
        r"(?i)\brrcs\b",
        {
            "csrc/passes/fuse.cc": "this pass makes it, and need not make another",
            "csrc/passes/passes.h": "a comment on that pass",
            "src/hemiola/compiler/passes/fuse.py": "the docstring of that pass",
            "src/hemiola/ir/dag_text.py": "an example in a docstring",
            "docs/compiler.md": "it explains that pass",
            "docs/language.md": "the output of an example",
            "docs/simulator.md": "it says which opcodes add",
        },
    ),
    "collective": Instance(
        "alltonext",
        r"(?i)\balltonext\b",
        {
            "src/hemiola/algorithms/alltonext_direct.py": "an algorithm for it",
            "src/hemiola/algorithms/alltonext_scattered.py": "an algorithm for it",
            "src/hemiola/cost/request.py": "it alone depends on the order of its ranks",
            "src/hemiola/tuning/candidate_space.py": "it alone depends on the order of its ranks",
            "src/hemiola/placement/derive_megatron.py": "this way of training asks for it",
            "src/hemiola/topology/parse/nccl_tests.py": "nccl-tests calls it sendrecv; others have their own names",
            "docs/results.md": MEASURED,
        },
    ),
    "algorithm": Instance("allgather_ring", r"\ballgather_ring\b"),
    "preset": Instance(
        "mi300x",
        r"(?i)\bmi300x\b",
        {
            "src/hemiola/cli/explain.py": "RCCL behaves differently on that machine",
            "src/hemiola/ir/selection.py": "RCCL behaves differently on that machine",
            "README.md": "public measurements of that machine",
            "docs/claims.md": "public measurements of that machine",
            "docs/numbers.md": "public measurements of that machine",
            "src/hemiola/topology/parse/nccl_xml.py": "the source of the speed of an xGMI link",
            "docs/targets.md": MEASURED,
        },
    ),
    "topology reader": Instance(
        "nvidia_topo",
        r"nvidia_topo|nvidia-smi topo -m",
        {"src/hemiola/language/msccl/topologies.py": "MSCCLang scripts may name the same text"},
    ),
    "plan format": Instance(
        "msccl_xml",
        r"(?i)msccl[-_]xml",
        {
            "src/hemiola/ir/formats/msccl_xml_tags.py": "a part of its reader",
            "docs/synthesis.md": "the target of an example",
            "src/hemiola/planner/write_job_plan.py": "the name of a variable of the runtime that reads it",
            "docs/tutorial/01_write_a_collective.py": "the target of an example",
        },
    ),
    "verb": Instance(
        "show",
        r"\"show\"|hemiola show",
        {
            "src/hemiola/cli/systems.py": "hemiola systems has a word of the same name",
            "docs/language.md": "an example",
            "docs/plan_format.md": "it says how to read a file",
        },
    ),
    "link-sharing rule": Instance(
        "max-min",
        r"max-min|\bSharing\b",
        {
            "csrc/simulator/events.cc": "it starts and stops flows, whatever their rates",
            "csrc/simulator/simulator.h": "a comment that says what the simulator is",
        },
    ),
    "traffic kind": Instance(
        "fsdp2",
        r"(?i)fsdp2",
        {
            "README.md": "PyTorch's FSDP2 runs on our backend",
            "docs/numbers.md": MEASURED,
            "docs/fusion.md": "plans for gradients are carried out by PyTorch's FSDP2",
            "src/hemiola/torch.py": "plans for gradients are carried out by PyTorch's FSDP2",
            "src/hemiola/integrations/torch/shard_by_plan.py": "plans for gradients are carried out by PyTorch's FSDP2",
        },
    ),
    "element type": Instance(
        "bfloat16",
        r"(?i)\b(bfloat16|bf16)\b",
        {
            "csrc/runtime/kernels.h": "a comment on rounding",
            "src/hemiola/fusion/trace_events.py": "types in traces of PyTorch, which need no runtime",
            "src/hemiola/ir/selection.py": "a rule of RCCL about it",
            "src/hemiola/placement/model.py": "types of models, which need no runtime",
            "src/hemiola/planner/accelerator.py": "precisions of training, which need no runtime",
            "src/hemiola/planner/training.py": "precisions of training, which need no runtime",
            "src/hemiola/planner/memory.py": "precisions of training, which need no runtime",
            "src/hemiola/planner/compute_time.py": "precisions of training, which need no runtime",
            "src/hemiola/planner/job_text.py": "precisions of training, which need no runtime",
            "src/hemiola/planner/job.py": "precisions of training, which need no runtime",
            "docs/planner.md": "precisions of training, which need no runtime",
        },
    ),
    "setting": Instance(
        "slots",
        r"HEMIOLA_SLOTS|[sS]ettings(\(\))?\.slots|_DEFAULTS\.slots",
        {
            "src/hemiola/cli/run.py": "it uses the setting",
            "src/hemiola/runtime/bootstrap/join.py": "it uses the setting, on which all ranks must agree",
            "src/hemiola/runtime/communicator/communicator.py": "it uses the setting",
            "src/hemiola/runtime/communicator/engine.py": "it uses the setting",
            "src/hemiola/simulator/runtimes/runtime_model.py": "the default of a model for tests",
        },
    ),
}
WITHOUT_INSTANCE = {"transport"}
"""It comes with a later issue; its row says so."""


def test_there_are_twelve_kinds() -> None:
    assert set(table()) == set(INSTANCES) | WITHOUT_INSTANCE
    assert len(table()) == 12


@pytest.mark.parametrize("kind", sorted(set(INSTANCES) | WITHOUT_INSTANCE))
def test_every_place_exists(kind: str) -> None:
    assert places(kind)
    assert [place for place in places(kind) if not (ROOT / place).is_file()] == []


def test_what_is_to_come_says_so() -> None:
    for kind in WITHOUT_INSTANCE:
        assert table()[kind].startswith("comes with a later issue")


@pytest.mark.parametrize("kind", sorted(INSTANCES))
def test_the_places_are_all_that_mention_what_exists(kind: str) -> None:
    instance = INSTANCES[kind]
    named, used, found = places(kind), set(instance.only_use), set(mentions(instance))
    assert found - named - used == set(), f"CONTRIBUTING names no such place for a new {kind}"
    assert named - found == set(), (
        f"CONTRIBUTING sends whoever adds a {kind} to places that {instance.name} does not need"
    )
    assert used - found == set(), f"the reasons for {instance.name} are about files that do not mention it"
    assert all(instance.only_use.values())


def table() -> dict[str, str]:
    """What CONTRIBUTING says of each kind."""
    text = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    section = text.partition(TITLE)[2].partition("\n## ")[0]
    rows = re.findall(r"^\| ([^|]+) \| (.*) \|$", section, re.MULTILINE)
    return {kind: said for kind, said in rows if kind != "new"}


def places(kind: str) -> set[str]:
    """The paths in a row, with the name of what exists for what stands in angle brackets."""
    name = INSTANCES[kind].name if kind in INSTANCES else ""
    paths = re.findall(r"`((?:[\w<>]+/)*[\w<>]+\.(?:py|pyi|h|cc|def|md|yaml))`", table()[kind])
    return {re.sub(r"<\w+>", name, path) for path in paths}


def mentions(instance: Instance) -> Iterator[str]:
    """The files that mention something, or are called so."""
    pattern = re.compile(instance.pattern)
    for path, text in texts().items():
        if pattern.search(text) or pattern.search(Path(path).stem):
            yield path


@cache
def texts() -> dict[str, str]:
    """The text of every file that is searched, by its path below the root."""
    files = [path for top in SEARCHED for path in sorted((ROOT / top).rglob("*")) if path.suffix in SUFFIXES]
    found = {
        path.relative_to(ROOT).as_posix(): path.read_text("utf-8") for path in [*files, ROOT / "README.md"]
    }
    return {path: text for path, text in found.items() if not path.startswith(LEFT_OUT)}
