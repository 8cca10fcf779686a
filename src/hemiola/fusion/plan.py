"""FusionPlan: which operators are compiled together and which gradients travel together, the same on every rank."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Any

from hemiola.errors import FusionError
from hemiola.fusion.graph import OpGraph, WorkKind

VERSION = 1
"""Of the JSON document."""

Group = tuple[int, ...]
"""Operators that are compiled as one, by number, ascending."""


class BucketForm(StrEnum):
    """How the gradients of a bucket are averaged."""

    ALLREDUCE = "allreduce"
    """One all-reduce in the backward pass."""
    SPLIT = "split"
    """A reduce-scatter in the backward pass, and an all-gather of the new parameters in the next forward pass."""


@dataclass(frozen=True, slots=True)
class Bucket:
    """Gradients that travel together."""

    gradients: tuple[int, ...]
    """Their numbers in the graph, in the order in which they lie in the bucket's memory."""
    form: BucketForm = BucketForm.ALLREDUCE
    num_parts: int = 1
    """Messages of equal length into which the bucket's memory is cut, sent one after another."""


@dataclass(frozen=True)
class FusionPlan:
    """The whole choice for one graph."""

    graph_name: str
    graph_digest: str
    """Of the graph that it was made for; it fits no other."""
    gradients: tuple[tuple[str, int], ...]
    """Parameter and bytes of each gradient of the graph, so that buckets can be used without it."""
    groups: tuple[Group, ...]
    """In the order in which they run. An operator in several groups is computed in each, and read by others from the first."""
    buckets: tuple[Bucket, ...]
    """In the order in which they are sent."""

    @staticmethod
    def of(graph: OpGraph, groups: Iterable[Group], buckets: Iterable[Bucket]) -> FusionPlan:
        """A plan for a graph, checked."""
        gradients = tuple((one.parameter, one.num_bytes) for one in graph.gradients)
        plan = FusionPlan(graph.name, graph.digest, gradients, tuple(groups), tuple(buckets))
        plan.check(graph)
        return plan

    def check(self, graph: OpGraph) -> None:
        """Raise where the plan is not one of this graph, or breaks a law of docs/fusion.md."""
        if graph.digest != self.graph_digest:
            raise FusionError(
                f"the plan was made for graph {self.graph_name!r} with digest {self.graph_digest}; this is graph {graph.name!r} with"
                f" digest {graph.digest}: the model, its shapes, its settings or PyTorch's version differ; run hemiola fuse again"
            )
        check_groups(graph, self.groups)
        check_buckets(graph, self.buckets)

    @cached_property
    def digest(self) -> str:
        """Ranks compare it before the first step."""
        text = json.dumps(self.to_json(), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:32]

    def to_json(self) -> dict[str, Any]:
        """For files; `plan_from_json` reads it back."""
        return {
            "format": "hemiola-fusion-plan",
            "version": VERSION,
            "graph": {"name": self.graph_name, "digest": self.graph_digest},
            "gradients": [list(one) for one in self.gradients],
            "groups": [list(group) for group in self.groups],
            "buckets": [
                {"gradients": list(one.gradients), "form": one.form.value, "num_parts": one.num_parts}
                for one in self.buckets
            ],
        }


def plan_from_json(document: Any) -> FusionPlan:
    """The inverse of `FusionPlan.to_json`; a document that is none gives one sentence."""
    if not isinstance(document, dict) or document.get("format") != "hemiola-fusion-plan":
        raise FusionError("this is no fusion plan: its field 'format' is not 'hemiola-fusion-plan'")
    if document.get("version") != VERSION:
        raise FusionError(
            f"fusion plan of version {document.get('version')!r}; this Hemiola reads version {VERSION}"
        )
    try:
        return FusionPlan(
            str(document["graph"]["name"]),
            str(document["graph"]["digest"]),
            tuple((str(name), int(size)) for name, size in document["gradients"]),
            tuple(tuple(int(one) for one in group) for group in document["groups"]),
            tuple(
                Bucket(
                    tuple(int(gradient) for gradient in one["gradients"]),
                    BucketForm(one["form"]),
                    int(one["num_parts"]),
                )
                for one in document["buckets"]
            ),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise FusionError(f"fusion plan: a field is missing or has the wrong form ({error!r})") from None


def check_groups(graph: OpGraph, groups: Sequence[Group]) -> None:
    """Laws 1 to 3: every operator is computed, nothing is read before it is there, and random numbers are drawn once."""
    known, number = set[int](), 0
    for number, group in enumerate(groups):
        members = set(group)
        strange = [one for one in group if not 0 <= one < len(graph.operators)]
        if strange or len(members) != len(group) or not group:
            raise FusionError(
                f"group {number} names operators {list(group)[:8]}; a group has at least one operator, each once, of the"
                f" {len(graph.operators)} of graph {graph.name!r}"
            )
        for one in group:
            late = [
                before for before in graph.predecessors[one] if before not in members and before not in known
            ]
            if late:
                raise FusionError(_too_early(graph, number, one, late[0]))
        drawn = [one for one in group if graph.operators[one].work is WorkKind.RANDOM]
        again = [one for one in drawn if one in known]
        if again:
            raise FusionError(
                f"group {number} draws the random numbers of {graph.operators[again[0]].name!r} a second time; they would differ"
            )
        known |= members
    if len(known) != len(graph.operators):
        missing = next(one for one in range(len(graph.operators)) if one not in known)
        raise FusionError(
            f"operator {graph.operators[missing].name!r} of graph {graph.name!r} is in none of the {number + 1} groups"
        )


def _too_early(graph: OpGraph, number: int, one: int, late: int) -> str:
    """Why group ``number`` may not compute an operator before another that no earlier group has computed."""
    name, before = graph.operators[one].name, graph.operators[late].name
    if all(graph.producers.get(tensor) != late for tensor in graph.operators[one].inputs):
        return (
            f"group {number} draws the random numbers of {name!r} before those of {before!r}; they are drawn in the order of the"
            " graph, because they depend on it"
        )
    return (
        f"group {number} computes {name!r}, which reads {before!r}; that is neither in the group nor in an earlier one, so the"
        " groups cannot run in this order (they are not convex)"
    )


def check_buckets(graph: OpGraph, buckets: Sequence[Bucket]) -> None:
    """Law 4: every gradient travels once."""
    sent = [gradient for bucket in buckets for gradient in bucket.gradients]
    if sorted(sent) != list(range(len(graph.gradients))):
        raise FusionError(
            f"the buckets hold {len(sent)} gradients, {len(set(sent))} of them different; graph {graph.name!r} has"
            f" {len(graph.gradients)}, and each is in exactly one bucket"
        )
    for number, bucket in enumerate(buckets):
        if not bucket.gradients or bucket.num_parts < 1:
            raise FusionError(
                f"bucket {number} is empty or has {bucket.num_parts} parts; both are at least one"
            )
