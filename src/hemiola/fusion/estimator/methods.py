"""The methods that are compared, each learned from some labels: our network, and its rivals."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from hemiola.fusion.estimator.features import GroupFeatures
from hemiola.fusion.estimator.judge import Examples, Method
from hemiola.fusion.estimator.network import PartNetwork, part_times
from hemiola.fusion.estimator.operator_facts import Integers, Numbers
from hemiola.fusion.estimator.prior import PhysicalPrior, fit_prior, sum_by
from hemiola.fusion.estimator.rivals import fit_trees
from hemiola.fusion.estimator.train import TrainingOptions, train_networks
from hemiola.fusion.estimator.weights import EstimatorWeights


def learn_prior(examples: Examples, chosen: Integers) -> PhysicalPrior:
    """From some of the labels."""
    return fit_prior([examples.groups[one].amounts for one in chosen], examples.seconds[chosen])


def learn_weights(
    examples: Examples,
    chosen: Integers,
    options: TrainingOptions,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> EstimatorWeights:
    """The prior and the ensemble, from some of the labels."""
    prior = learn_prior(examples, chosen)
    groups = [examples.groups[one] for one in chosen]
    networks = train_networks(
        groups, examples.seconds[chosen], examples.spreads[chosen], prior, options, progress
    )
    return EstimatorWeights(prior, tuple(networks), examples.labels.machine)


def group_times(
    prior: PhysicalPrior, networks: Sequence[PartNetwork], groups: Sequence[GroupFeatures]
) -> Numbers:
    """Seconds of groups by the mean of the ensemble."""
    parts = [part for group in groups for part in group.parts]
    owner = np.repeat(np.arange(len(groups)), [len(group.parts) for group in groups])
    members = part_times(networks, prior, parts).mean(axis=0)
    seconds: Numbers = prior.calls(np.stack([group.call for group in groups])) + sum_by(
        members, owner, len(groups)
    )
    return seconds


def methods(options: TrainingOptions) -> Mapping[str, Method]:
    """By name; the sum of own times needs no learning and is not among them."""

    def prior_alone(examples: Examples, chosen: Integers) -> Callable[[Sequence[GroupFeatures]], Numbers]:
        prior = learn_prior(examples, chosen)
        return lambda groups: prior.groups([one.amounts for one in groups])

    def network(examples: Examples, chosen: Integers) -> Callable[[Sequence[GroupFeatures]], Numbers]:
        weights = learn_weights(examples, chosen, options)
        return lambda groups: group_times(weights.prior, weights.networks, groups)

    def trees(examples: Examples, chosen: Integers) -> Callable[[Sequence[GroupFeatures]], Numbers]:
        groups = [examples.groups[one] for one in chosen]
        prior = learn_prior(examples, chosen)
        return fit_trees(groups, examples.seconds[chosen], examples.spreads[chosen], prior)

    return {"network": network, "boosted trees": trees, "physical prior": prior_alone}
