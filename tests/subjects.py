"""The plans whose mutants are judged: the library on few ranks, small plans by hand, random ones, and files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import count
from pathlib import Path
from random import Random

import hand_made
from hemiola.algorithms.library import ALGORITHMS, build
from hemiola.collectives import FACTS
from hemiola.compiler.compile import compile_program
from hemiola.compiler.options import CompileOptions
from hemiola.ir.formats import read_plan
from hemiola.ir.plan import Plan, Protocol
from reference import judge

FILES = Path(__file__).parents[2] / "shared" / "data" / "msccl-xml"
"""Files of real runtimes, where they are present."""

UNFUSED = CompileOptions(slots=1, disabled=frozenset({"fuse", "drop_redundant_dependencies"}))
NUM_RANDOM = 40
NARROW = CompileOptions(max_threadblocks=1)


def library_plans() -> dict[str, Plan]:
    """Every algorithm of the library on two to four ranks, in and out of place, compiled in three ways."""
    plans = {}
    for name, algorithm in ALGORITHMS.items():
        for number, arguments in enumerate(_argument_sets(name)):
            label = " ".join([name, *(f"{key}={value}" for key, value in arguments.items())])
            plans[label] = compile_program(build(name, arguments)).plan
            if number == 0:
                plans[f"{label} unfused"] = compile_program(build(name, arguments), UNFUSED).plan
            if number == 0 and algorithm.kind in ("allreduce", "alltoall"):
                plans[f"{label} narrow"] = compile_program(build(name, arguments), NARROW).plan
    return plans


def _argument_sets(name: str) -> Iterator[Mapping[str, str]]:
    algorithm = ALGORITHMS[name]
    shallow = {"chunks": "2"} if "chunks" in algorithm.parameters else {}
    shapes = (
        [{"ranks": "4", "levels": "2,2"}]
        if "levels" in algorithm.parameters
        else [{"ranks": "3"}, {"ranks": "2"}]
    )
    for shape in shapes:
        yield {**shape, **shallow}
    if FACTS[algorithm.kind].can_be_in_place:
        yield {**shapes[0], **shallow, "in-place": "true"}
    yield {**shapes[0], **shallow, "instances": "2", "protocol": "LL"}


def random_plans(number: int) -> dict[str, Plan]:
    """Plans of random steps that are correct because what they compute is what they promise."""
    plans: dict[str, Plan] = {}
    for seed in count():
        if len(plans) == number:
            break
        random = Random(seed)
        plan = hand_made.random_plan(random, random.choice([2, 3]), random.randrange(3, 7))
        promising = hand_made.promise_what_it_does(plan)
        if judge(promising, promising.protocol.slots).ok:
            plans[f"random {seed}"] = promising
    return plans


def file_plans() -> dict[str, Plan]:
    """The plans in the files of real runtimes; none where the files are not there."""
    return {path.stem: read_plan(path) for path in sorted(FILES.glob("*.xml"))}


def size_plans() -> dict[str, Plan]:
    """Plans whose deadlocks depend on the size of a call, with every protocol."""
    return {
        f"{name} {protocol.value}": replace(plan, protocol=protocol)
        for name, plan in hand_made.depending_on_size().items()
        for protocol in Protocol
    }


def all_plans() -> dict[str, Plan]:
    """All plans by name; each is correct with the slots of its protocol."""
    return file_plans() | library_plans() | hand_made.everything() | random_plans(NUM_RANDOM)
