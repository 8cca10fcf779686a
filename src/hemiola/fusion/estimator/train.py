"""train_networks: fits the ensemble with PyTorch and PyTorch Geometric, and gives it as NumPy arrays."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch_geometric.nn import SAGEConv

from hemiola.fusion.estimator.features import NUM_FEATURES, GroupFeatures
from hemiola.fusion.estimator.network import MAX_LOG_FACTOR, Layer, PartBatch, PartNetwork
from hemiola.fusion.estimator.operator_facts import Numbers
from hemiola.fusion.estimator.prior import PhysicalPrior

LEAST_SPREAD = 0.03
"""Labels that spread by less all count alike."""


@dataclass(frozen=True, slots=True)
class TrainingOptions:
    """How a network is fitted."""

    width: int = 48
    num_layers: int = 3
    num_epochs: int = 400
    learning_rate: float = 4e-3
    weight_decay: float = 1e-3
    hidden_kinds: float = 0.2
    """The part of the operators whose kind is hidden in an epoch, so that unknown kinds are no surprise."""
    shrink: float = 0.02
    """Price of a factor that is not one: what the labels do not say stays with the prior."""
    min_kind_count: int = 5
    """Operators of a kind with fewer labels have no column of their own."""
    num_networks: int = 5
    seed: int = 0


class TorchPartNetwork(nn.Module):
    """The same network as `PartNetwork`, to be trained."""

    def __init__(self, num_columns: int, options: TrainingOptions) -> None:
        super().__init__()
        width = options.width
        self.enter = nn.Linear(num_columns, width)
        self.sources = nn.ModuleList(SAGEConv(width, width) for _ in range(options.num_layers))
        self.readers = nn.ModuleList(
            SAGEConv(width, width, root_weight=False, bias=False) for _ in range(options.num_layers)
        )
        self.inner = nn.Linear(width, width)
        self.leave = nn.Linear(width, 1)
        nn.init.zeros_(self.leave.weight)
        nn.init.zeros_(self.leave.bias)

    def forward(self, table: Tensor, edges: Tensor) -> Tensor:
        """The log factor of every operator."""
        values = torch.relu(self.enter(table))
        back = edges.flip(0)
        for sources, readers in zip(self.sources, self.readers, strict=True):
            values = values + torch.relu(sources(values, edges) + readers(values, back))
        found = self.leave(torch.relu(self.inner(values)))[:, 0]
        return MAX_LOG_FACTOR * torch.tanh(found / MAX_LOG_FACTOR)

    def export(self, mean: Numbers, scale: Numbers, kinds: tuple[str, ...]) -> PartNetwork:
        """As arrays."""
        layers = tuple(
            Layer(
                _weight(sources, "lin_r.weight").T,
                _weight(sources, "lin_l.bias"),
                _weight(sources, "lin_l.weight").T,
                _weight(readers, "lin_l.weight").T,
            )
            for sources, readers in zip(self.sources, self.readers, strict=True)
        )
        return PartNetwork(
            mean, scale, kinds,
            _array(self.enter.weight).T, _array(self.enter.bias), layers,
            _array(self.inner.weight).T, _array(self.inner.bias),
            _array(self.leave.weight).T, _array(self.leave.bias),
        )  # fmt: skip


def _weight(module: nn.Module, name: str) -> Numbers:
    return _array(module.get_parameter(name))


def _array(value: Tensor) -> Numbers:
    array: Numbers = value.detach().double().numpy().copy()
    return array


@dataclass(frozen=True)
class _Samples:
    """All labels as tensors."""

    table: Tensor
    num_kinds: int
    edges: Tensor
    shares: Tensor
    group_of: Tensor
    calls: Tensor
    log_seconds: Tensor
    weights: Tensor


def train_networks(
    groups: Sequence[GroupFeatures],
    seconds: Numbers,
    spreads: Numbers,
    prior: PhysicalPrior,
    options: TrainingOptions,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> list[PartNetwork]:
    """The ensemble; its members differ in their first weights and in how much each label counts."""
    batch = PartBatch([part for group in groups for part in group.parts])
    mean, scale = batch.features.mean(axis=0), np.maximum(batch.features.std(axis=0), 0.05)
    kinds = _common_kinds(groups, options.min_kind_count)
    samples = _samples(batch, groups, seconds, spreads, prior, (batch.features - mean) / scale, kinds)
    networks = []
    for member in range(options.num_networks):
        network = _fit(samples, options, options.seed + member)
        networks.append(network.export(mean, scale, kinds))
        progress(member + 1, options.num_networks)
    return networks


def _common_kinds(groups: Sequence[GroupFeatures], least: int) -> tuple[str, ...]:
    counts = Counter(kind for group in groups for part in group.parts for kind in part.kinds)
    return tuple(sorted(kind for kind, count in counts.items() if count >= least))


def _samples(
    batch: PartBatch,
    groups: Sequence[GroupFeatures],
    seconds: Numbers,
    spreads: Numbers,
    prior: PhysicalPrior,
    features: Numbers,
    kinds: tuple[str, ...],
) -> _Samples:
    assert features.shape[1] == NUM_FEATURES
    group_of_part = np.repeat(np.arange(len(groups)), [len(group.parts) for group in groups])
    weights = 1 / np.maximum(spreads, LEAST_SPREAD)
    table = np.concatenate((features, batch.kind_columns(kinds)), axis=1)
    calls = prior.calls(np.stack([group.call for group in groups]))
    return _Samples(
        torch.tensor(table, dtype=torch.float32),
        len(kinds),
        torch.tensor(batch.edges),
        torch.tensor(batch.shares(prior), dtype=torch.float32),
        torch.tensor(group_of_part[batch.owner]),
        torch.tensor(calls, dtype=torch.float32),
        torch.tensor(np.log(seconds), dtype=torch.float32),
        torch.tensor(weights / weights.mean(), dtype=torch.float32),
    )


def _fit(samples: _Samples, options: TrainingOptions, seed: int) -> TorchPartNetwork:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = TorchPartNetwork(samples.table.shape[1], options)
        counts = torch.empty_like(samples.weights).exponential_()
        weights = samples.weights * (0.5 + 0.5 * counts)
        optimizer = torch.optim.AdamW(
            network.parameters(), options.learning_rate, weight_decay=options.weight_decay
        )
        schedule = torch.optim.lr_scheduler.OneCycleLR(
            optimizer, options.learning_rate, total_steps=options.num_epochs
        )
        for _ in range(options.num_epochs):
            optimizer.zero_grad()
            _loss(network, samples, weights, options).backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            schedule.step()
    return network


def _loss(network: TorchPartNetwork, samples: _Samples, weights: Tensor, options: TrainingOptions) -> Tensor:
    """Weighted absolute errors of logarithms, rounded off near zero, and the price of factors."""
    table = samples.table.clone()
    hidden = torch.rand(len(table)) < options.hidden_kinds
    table[hidden, table.shape[1] - samples.num_kinds :] = 0
    factors = network(table, samples.edges)
    sums = samples.calls.index_add(0, samples.group_of, samples.shares * torch.exp(factors))
    off = torch.log(sums) - samples.log_seconds
    errors = nn.functional.smooth_l1_loss(off, torch.zeros_like(off), beta=0.05, reduction="none")
    loss: Tensor = (errors * weights).mean() + options.shrink * (factors * factors).mean()
    return loss
