"""compare: the network beside all its rivals, by random split and by leaving every model out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from hemiola.fusion.estimator.judge import (
    Examples,
    accuracy,
    make_examples,
    noise_floor,
    ordered_pairs,
    predict_left_out,
    predict_random_split,
)
from hemiola.fusion.estimator.labels import LabelSet
from hemiola.fusion.estimator.methods import methods
from hemiola.fusion.estimator.operator_facts import Numbers
from hemiola.fusion.estimator.train import TrainingOptions

RANDOM, LEFT_OUT = "random split", "leave one model out"


@dataclass(frozen=True, slots=True)
class MethodScore:
    """One method under one split; errors are relative."""

    median_clean: float
    median_all: float
    within: float
    """The part of the clean labels that is off by at most 14 %."""
    ninetieth_clean: float
    num_pairs: int
    """Pairs of groupings of the same operators that differ beyond noise."""
    ordered_right: float
    median_by_model: Mapping[str, float]
    """Over clean labels, where a model has any."""


@dataclass(frozen=True, slots=True)
class EstimatorComparison:
    """All methods under both splits."""

    machine: str
    num_labels: int
    noise: Mapping[str, float]
    splits: Mapping[str, Mapping[str, MethodScore]]


def compare(
    labels: LabelSet,
    options: TrainingOptions,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> EstimatorComparison:
    """Train and judge all methods; the sum of the operators' own times learns nothing."""
    examples, known = make_examples(labels), methods(options)
    splits: dict[str, dict[str, MethodScore]] = {}
    done, total = 0, 2 * len(known)
    for split, predict in ((RANDOM, predict_random_split), (LEFT_OUT, predict_left_out)):
        splits[split] = {}
        for name, method in known.items():
            splits[split][name] = score(examples, predict(examples, method))
            done += 1
            progress(done, total)
        splits[split]["sum of own times"] = score(examples, examples.own_seconds)
    return EstimatorComparison(labels.machine, len(labels.labels), noise_floor(labels), splits)


def score(examples: Examples, predicted: Numbers) -> MethodScore:
    """Of predictions in the order of the labels."""
    found = accuracy(predicted, examples.seconds, examples.is_clean)
    pairs = ordered_pairs(examples, predicted)
    by_model = {}
    for model in sorted(set(examples.models)):
        chosen = [at for at, one in enumerate(examples.models) if one == model]
        part = accuracy(predicted[chosen], examples.seconds[chosen], examples.is_clean[chosen])
        by_model[model] = part.median_clean
    return MethodScore(
        found.median_clean, found.median_all, found.within, found.ninetieth_clean, pairs.num_pairs, pairs.right, by_model
    )  # fmt: skip
