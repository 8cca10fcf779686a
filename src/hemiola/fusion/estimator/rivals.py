"""What the network must beat: the sum of the operators' own times, the physical prior, and boosted trees on its residual."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from hemiola.errors import FusionError
from hemiola.fusion.estimator.features import GroupFeatures
from hemiola.fusion.estimator.operator_facts import Numbers
from hemiola.fusion.estimator.prior import PhysicalPrior

NUM_TREES = 300


def group_columns(groups: Sequence[GroupFeatures], prior: PhysicalPrior) -> Numbers:
    """What trees see of a group: the prior's terms, in logarithms and as shares, and sums, means and maxima of the features."""
    return np.stack([_columns(group, prior) for group in groups])


def _columns(group: GroupFeatures, prior: PhysicalPrior) -> Numbers:
    amounts = group.amounts.total
    terms = amounts * np.concatenate((prior.call_costs, prior.operator_costs))
    features = np.concatenate([part.features for part in group.parts])
    sizes = [len(part.features) for part in group.parts]
    return np.concatenate(
        (
            np.log1p(amounts * 1e7),
            np.log1p(terms * 1e9),
            terms / max(terms.sum(), 1e-12),
            features.sum(axis=0),
            features.mean(axis=0),
            features.max(axis=0),
            [len(sizes), max(sizes), sum(sizes)],
        )
    )


def fit_trees(
    groups: Sequence[GroupFeatures], seconds: Numbers, spreads: Numbers, prior: PhysicalPrior
) -> Callable[[Sequence[GroupFeatures]], Numbers]:
    """Boosted trees on the logarithm of label over prior; gives a function from groups to seconds."""
    try:
        from sklearn.ensemble import HistGradientBoostingRegressor
    except ImportError:
        raise FusionError("scikit-learn is not installed; pip install 'hemiola[estimator]'") from None
    trees = HistGradientBoostingRegressor(
        loss="absolute_error", max_iter=NUM_TREES, learning_rate=0.06, min_samples_leaf=5, l2_regularization=0.1,
        random_state=0,
    )  # fmt: skip
    expected = prior.groups([one.amounts for one in groups])
    trees.fit(group_columns(groups, prior), np.log(seconds / expected), 1 / np.maximum(spreads, 0.03))

    def predict(others: Sequence[GroupFeatures]) -> Numbers:
        found: Numbers = prior.groups([one.amounts for one in others])
        found *= np.exp(trees.predict(group_columns(others, prior)))
        return found

    return predict
