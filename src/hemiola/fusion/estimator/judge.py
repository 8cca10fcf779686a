"""judge: how well estimates of groups fit their labels, by random split, by leaving models out, and in the order of groupings."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import numpy.typing as npt

from hemiola.fusion.estimator.features import FeatureMaker, GroupFeatures
from hemiola.fusion.estimator.labels import LabelSet
from hemiola.fusion.estimator.operator_facts import Integers, Numbers
from hemiola.fusion.plan import Group

WITHIN = 0.14
"""The paper counts predictions that are off by no more."""
NUM_FOLDS = 5
ORDER_NOISE = 1.0
"""Two groupings differ where their measured times are further apart than so many times the sum of their spreads."""

Flags = npt.NDArray[np.bool_]

Method = Callable[["Examples", Integers], Callable[[Sequence[GroupFeatures]], Numbers]]
"""From examples and those of them to learn from to a function from groups to seconds."""


@dataclass(frozen=True)
class Examples:
    """Labels with their features, in the order of the labels."""

    labels: LabelSet
    makers: tuple[FeatureMaker, ...]
    groups: tuple[GroupFeatures, ...]
    seconds: Numbers
    spreads: Numbers
    own_seconds: Numbers
    """The sum of the operators' own times."""
    models: tuple[str, ...]
    is_clean: Flags


def make_examples(labels: LabelSet) -> Examples:
    """All labels; isomorphic groups are one label, so nothing is in two parts of a split."""
    makers = tuple(FeatureMaker(one.graph, one.operator_times) for one in labels.graphs)
    own = [makers[one.graph].facts.own_seconds[list(one.group)].sum() for one in labels.labels]
    return Examples(
        labels,
        makers,
        tuple(makers[one.graph].of_group(one.group) for one in labels.labels),
        np.array([one.seconds for one in labels.labels]),
        np.array([one.spread for one in labels.labels]),
        np.array(own),
        tuple(labels.graphs[one.graph].model for one in labels.labels),
        np.array([one.is_clean for one in labels.labels]),
    )


@dataclass(frozen=True, slots=True)
class Accuracy:
    """Relative errors against the labels."""

    median_clean: float
    median_all: float
    within: float
    """The part of the clean labels that is off by at most `WITHIN`."""
    ninetieth_clean: float


def accuracy(predicted: Numbers, seconds: Numbers, is_clean: Flags) -> Accuracy:
    """Of predictions in the order of the labels."""
    off = np.abs(predicted / seconds - 1)
    clean = off[is_clean] if is_clean.any() else off
    return Accuracy(
        float(np.median(clean)),
        float(np.median(off)),
        float((clean <= WITHIN).mean()),
        float(np.quantile(clean, 0.9)),
    )


def predict_random_split(examples: Examples, method: Method, seed: int = 0) -> Numbers:
    """Every label predicted by what was learned from the four fifths of the labels that it is not in."""
    order = np.random.default_rng(seed).permutation(len(examples.seconds))
    folds = [order[at::NUM_FOLDS] for at in range(NUM_FOLDS)]
    return _predict_folds(examples, method, folds)


def predict_left_out(examples: Examples, method: Method) -> Numbers:
    """Every label predicted by what was learned from the other models."""
    models = np.array(examples.models)
    return _predict_folds(examples, method, [np.flatnonzero(models == one) for one in sorted(set(models))])


def _predict_folds(examples: Examples, method: Method, folds: Sequence[Integers]) -> Numbers:
    found = np.zeros(len(examples.seconds))
    for fold in folds:
        learned = method(examples, np.setdiff1d(np.arange(len(found)), fold))
        found[fold] = learned([examples.groups[one] for one in fold])
    return found


@dataclass(frozen=True, slots=True)
class OrderedPairs:
    """Pairs of groupings of the same operators."""

    num_pairs: int
    """Whose measured times differ beyond noise."""
    right: float
    """The part of them that the predictions order as the measurements do."""


def ordered_pairs(examples: Examples, predicted: Numbers) -> OrderedPairs:
    """Over all families of which every group is a label or a single operator."""
    num = right = 0
    for graph, labelled in enumerate(examples.labels.graphs):
        for family in labelled.families:
            ways = [_grouping(examples, graph, way, predicted) for way in family.groupings]
            known = [one for one in ways if one is not None]
            for one, other in combinations(known, 2):
                if abs(one.seconds - other.seconds) > ORDER_NOISE * (one.noise + other.noise):
                    num += 1
                    right += (one.seconds < other.seconds) == (one.predicted < other.predicted)
    return OrderedPairs(num, right / num if num else 0.0)


@dataclass(frozen=True, slots=True)
class _Grouping:
    """Several groups one after another."""

    seconds: float
    noise: float
    predicted: float


def _grouping(
    examples: Examples, graph: int, groups: Sequence[Group], predicted: Numbers
) -> _Grouping | None:
    seconds = noise = guess = 0.0
    labels, labelled = examples.labels, examples.labels.graphs[graph]
    for group in groups:
        if len(group) == 1:
            own = labelled.operator_times.by_signature[labelled.graph.operators[group[0]].signature]
            seconds, noise, guess = (
                seconds + own.seconds,
                noise + own.spread * own.seconds,
                guess + own.seconds,
            )
            continue
        at = labels.by_hash.get(labelled.hasher.hash(group))
        if at is None:
            return None
        seconds += examples.seconds[at]
        noise += examples.spreads[at] * examples.seconds[at]
        guess += predicted[at]
    return _Grouping(float(seconds), float(noise), float(guess))


def noise_floor(labels: LabelSet) -> Mapping[str, float]:
    """What no estimator can beat: how far one process is from the median of the others."""
    off = [
        abs(one.processes[at] / float(np.median([*one.processes[:at], *one.processes[at + 1 :]])) - 1)
        for one in labels.labels
        for at in range(len(one.processes))
        if len(one.processes) > 1
    ]
    clean = [one.is_clean for one in labels.labels]
    return {
        "median_error": float(np.median(off)),
        "ninetieth_error": float(np.quantile(off, 0.9)),
        "clean_part": float(np.mean(clean)),
    }
