"""The prior is physical, NumPy says what PyTorch says, and estimates are memoised by what groups are."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings

from fusion.estimator.graphs import operator_times, random_graph, renumbered, seeds
from hemiola.errors import FormatError, FusionError
from hemiola.fusion.estimator.features import NUM_FEATURES, FeatureMaker, GroupFeatures
from hemiola.fusion.estimator.judge import accuracy, make_examples, noise_floor, ordered_pairs
from hemiola.fusion.estimator.labels import GroupLabel, LabelledGraph, LabelSet, read_labels, write_labels
from hemiola.fusion.estimator.learned_times import LearnedTimes
from hemiola.fusion.estimator.network import PartBatch, part_times
from hemiola.fusion.estimator.operator_facts import Numbers
from hemiola.fusion.estimator.prior import GroupAmounts, PhysicalPrior, fit_prior, part_seconds
from hemiola.fusion.estimator.sample_groups import sample_families
from hemiola.fusion.estimator.weights import EstimatorWeights, read_weights, write_weights
from hemiola.fusion.graph import OpGraph
from hemiola.fusion.operator_times import OperatorTimes
from hemiola.fusion.plan import Group

torch = pytest.importorskip("torch")
pytest.importorskip("torch_geometric")

from hemiola.fusion.estimator.train import (  # noqa: E402
    TorchPartNetwork,
    TrainingOptions,
    train_networks,
)

OPTIONS = TrainingOptions(width=16, num_layers=2, num_epochs=150, num_networks=2)


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    """The matrices are small: more threads only wait for each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def sampled(graph: OpGraph, num: int = 20) -> list[Group]:
    families = sample_families(graph, num, 5)
    groups = {group for family in families for way in family.groupings for group in way if len(group) > 1}
    return sorted(groups)


def features_of(graph: OpGraph) -> list[GroupFeatures]:
    maker = FeatureMaker(graph, operator_times(graph))
    return [maker.of_group(group) for group in sampled(graph)]


def true_prior() -> PhysicalPrior:
    costs = np.array(
        [
            1.0,
            2e-10,
            2e-10,
            1e-10,
            3e-10,
            2e-10,
            1e-10,
            3e-10,
            1e-10,
            5e-11,
            5e-11,
            2e-11,
            1e-10,
            2e-10,
            0,
            0,
            0,
        ]
    )
    return PhysicalPrior(np.array([2e-6, 3e-7, 2e-7, 1e-7, 5e-7, 1e-6]), costs)


def make_weights() -> EstimatorWeights:
    groups = [one for seed in range(4) for one in features_of(random_graph(seed))]
    seconds = true_prior().groups([one.amounts for one in groups]) * 1.3
    prior = fit_prior([one.amounts for one in groups], seconds)
    networks = train_networks(groups, seconds, np.full(len(seconds), 0.01), prior, OPTIONS)
    return EstimatorWeights(prior, tuple(networks), "a test")


@cache
def shared_weights() -> EstimatorWeights:
    """Trained once; hypothesis takes no fixtures of tests."""
    return make_weights()


@pytest.fixture
def weights() -> EstimatorWeights:
    return shared_weights()


@given(seeds)
@settings(max_examples=25, deadline=None)
def test_the_prior_is_the_sum_of_the_call_and_the_parts(seed: int) -> None:
    prior = true_prior()
    for group in features_of(random_graph(seed))[:5]:
        call = prior.calls(group.call[None])[0]
        parts = part_seconds(prior, [one.amounts for one in group.parts])
        assert prior.groups([group.amounts])[0] == pytest.approx(call + parts.sum())


@given(seeds)
@settings(max_examples=25, deadline=None)
def test_amounts_are_never_negative_and_fusing_moves_no_more_bytes(seed: int) -> None:
    """The bytes that a group reads and writes are at most those of its operators one by one."""
    graph = random_graph(seed)
    maker = FeatureMaker(graph, operator_times(graph))
    for group in sampled(graph)[:5]:
        together = maker.of_group(group).amounts.total
        alone = np.sum([maker.of_group((one,)).amounts.total for one in group], axis=0)
        assert (together >= 0).all()
        assert together[7:13].sum() <= alone[7:13].sum() * (1 + 1e-12)
        np.testing.assert_allclose(together[13:], alone[13:])


def test_the_prior_finds_the_costs_that_made_the_labels() -> None:
    groups = [one.amounts for seed in range(6) for one in features_of(random_graph(seed))]
    seconds = true_prior().groups(groups)
    fitted = fit_prior(groups, seconds)
    np.testing.assert_allclose(fitted.groups(groups), seconds, rtol=0.02)
    assert (fitted.call_costs >= 0).all()
    assert (fitted.operator_costs >= 0).all()


def test_one_bad_label_does_not_move_the_prior_far() -> None:
    groups: list[GroupAmounts] = [one.amounts for seed in range(6) for one in features_of(random_graph(seed))]
    seconds = true_prior().groups(groups)
    wrong = seconds.copy()
    wrong[7] *= 20
    off = np.abs(fit_prior(groups, wrong).groups(groups) / seconds - 1)
    assert np.median(off) < 0.05


def test_numpy_says_what_torch_says() -> None:
    parts = [part for group in features_of(random_graph(2)) for part in group.parts]
    batch, kinds = PartBatch(parts), ("add", "exp", "mm", "sum")
    torch.manual_seed(0)
    network = TorchPartNetwork(NUM_FEATURES + len(kinds), OPTIONS)
    torch.nn.init.normal_(network.leave.weight, std=0.3)
    mean, scale = batch.features.mean(axis=0), np.maximum(batch.features.std(axis=0), 0.05)
    table = np.concatenate(((batch.features - mean) / scale, batch.kind_columns(kinds)), axis=1)
    with torch.no_grad():
        expected = network(torch.tensor(table, dtype=torch.float32), torch.tensor(batch.edges)).numpy()
    found = network.export(mean, scale, kinds).log_factors(batch)
    assert np.ptp(expected) > 0.05
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_training_learns_what_the_prior_misses() -> None:
    """Additions cost three times what their amounts say; groups of graphs that were not trained on are judged."""
    groups = [one for seed in range(10, 20) for one in features_of(random_graph(seed))]
    others = [one for seed in range(20, 23) for one in features_of(random_graph(seed))]
    prior = true_prior()
    spreads = np.full(len(groups), 0.01)
    networks = train_networks(groups, dear_additions(groups), spreads, prior, OPTIONS)
    parts = [part_times(networks, prior, group.parts).mean(axis=0).sum() for group in others]
    found = prior.calls(np.stack([one.call for one in others])) + np.array(parts)
    seconds = dear_additions(others)
    before = np.abs(prior.groups([one.amounts for one in others]) / seconds - 1).mean()
    assert before > 0.1
    assert np.abs(found / seconds - 1).mean() < 0.5 * before


def dear_additions(groups: list[GroupFeatures]) -> Numbers:
    prior = true_prior()
    return np.array(
        [
            prior.calls(group.call[None])[0]
            + sum(
                (prior.operators(part.amounts) * [3 if kind == "add" else 1 for kind in part.kinds]).sum()
                for part in group.parts
            )
            for group in groups
        ]
    )


@given(seeds)
@settings(max_examples=15, deadline=None)
def test_isomorphic_groups_are_answered_from_memory(seed: int) -> None:
    weights = shared_weights()
    graph = random_graph(seed, 12, with_random=False)
    double, number = renumbered(graph, seed)
    times = LearnedTimes(graph, operator_times(graph), weights)
    again = LearnedTimes(double, operator_times(double), weights)
    groups = sampled(graph)[:6]
    moved: list[Group] = [tuple(sorted(number[one] for one in group)) for group in groups]
    np.testing.assert_allclose(times.seconds(groups), again.seconds(moved), rtol=1e-9)
    asked = times.num_network_parts
    times.seconds(groups)
    assert times.num_network_parts == asked


def test_repeated_layers_cost_the_networks_one_layer(weights: EstimatorWeights) -> None:
    """A graph that is the same block four times, one after another."""
    graph = repeated_blocks(4)
    times = LearnedTimes(graph, operator_times(graph), weights)
    blocks: list[Group] = [tuple(range(at * 3, at * 3 + 3)) for at in range(1, 3)]
    first = times.seconds(blocks[:1])
    asked = times.num_network_parts
    assert times.seconds(blocks[1:])[0] == pytest.approx(first[0])
    assert times.num_network_parts == asked


def repeated_blocks(num: int) -> OpGraph:
    from hemiola.fusion.graph import Gradient, Operator, StepPhase, Tensor, WorkKind

    tensors, operators = [Tensor("batch", (64,), "float32", 256)], []
    for number in range(3 * num):
        kind = ("aten.exp.default", "aten.mm.default", "aten.add.Tensor")[number % 3]
        work = WorkKind.MATMUL if number % 3 == 1 else WorkKind.POINTWISE
        tensors.append(Tensor(f"t{number}", (64,), "float32", 256))
        operators.append(
            Operator(
                f"o{number}",
                kind,
                work,
                StepPhase.FORWARD,
                (number,),
                (number + 1,),
                f"{kind}(float32[64; 1])",
            )
        )
    return OpGraph("blocks", tuple(tensors), tuple(operators), (Gradient("p", 3 * num, 256),), ())


def test_single_operators_have_their_measured_times(weights: EstimatorWeights) -> None:
    graph = random_graph(8)
    known = operator_times(graph)
    found = LearnedTimes(graph, known, weights).estimates([(one,) for one in range(len(graph.operators))])
    np.testing.assert_allclose(found.seconds, known.seconds(graph))
    np.testing.assert_allclose(found.uncertainty, 0)


def test_many_groups_at_once_are_as_one_by_one(weights: EstimatorWeights) -> None:
    graph = random_graph(9, 60)
    groups = [*sampled(graph), (0,), tuple(range(60))]
    together = LearnedTimes(graph, operator_times(graph), weights).estimates(groups)
    one_by_one = LearnedTimes(graph, operator_times(graph), weights)
    np.testing.assert_allclose(
        together.seconds, [one_by_one.seconds([group])[0] for group in groups], rtol=1e-9
    )
    assert (together.seconds > 0).all()
    assert together.uncertainty.max() > 0


def test_an_operator_that_was_not_measured_is_named(weights: EstimatorWeights) -> None:
    with pytest.raises(FusionError, match="operator 'o0' of graph 'random' was not measured"):
        LearnedTimes(random_graph(1), OperatorTimes({}), weights)


def test_weights_come_back_from_their_file(weights: EstimatorWeights, tmp_path: Path) -> None:
    path = tmp_path / "weights.npz"
    write_weights(path, weights)
    graph = random_graph(4)
    again = read_weights(path)
    assert again.machine == weights.machine
    expected = LearnedTimes(graph, operator_times(graph), weights).seconds(sampled(graph))
    np.testing.assert_allclose(
        LearnedTimes(graph, operator_times(graph), again).seconds(sampled(graph)), expected, rtol=1e-5
    )
    write_weights(tmp_path / "again.npz", weights)
    assert (tmp_path / "again.npz").read_bytes() == path.read_bytes()


@pytest.mark.parametrize("content", [b"", b"no weights at all", b"PK\x03\x04"])
def test_a_file_that_has_no_weights_is_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "weights.npz").write_bytes(content)
    with pytest.raises(FormatError, match="no weights of the estimator"):
        read_weights(tmp_path / "weights.npz")


def label_set(noise: float = 0.0) -> LabelSet:
    graph = random_graph(6, 40)
    times = operator_times(graph)
    families = tuple(sample_families(graph, 12, 2))
    labelled = LabelledGraph("random", "small", graph, times, families)
    maker, labels, known = FeatureMaker(graph, times), list[GroupLabel](), set[int]()
    for group in sampled_of(families):
        if labelled.hasher.hash(group) not in known:
            known.add(labelled.hasher.hash(group))
            seconds = float(true_prior().groups([maker.of_group(group).amounts])[0])
            labels.append(GroupLabel(0, group, (seconds, seconds * (1 + noise), seconds * (1 - noise))))
    return LabelSet((labelled,), tuple(labels), "a test")


def sampled_of(families: tuple[object, ...]) -> list[Group]:
    return [
        group
        for family in families
        for way in family.groupings  # type: ignore[attr-defined]
        for group in way
        if len(group) > 1
    ]


def test_labels_come_back_from_their_file(tmp_path: Path) -> None:
    labels = label_set(0.02)
    write_labels(tmp_path / "labels.json.gz", labels)
    again = read_labels(tmp_path / "labels.json.gz")
    assert [one.group for one in again.labels] == [one.group for one in labels.labels]
    assert again.graphs[0].graph == labels.graphs[0].graph
    assert again.graphs[0].families == labels.graphs[0].families
    np.testing.assert_allclose(
        [one.seconds for one in again.labels], [one.seconds for one in labels.labels], rtol=1e-3
    )
    with pytest.raises(FormatError, match="no file of labels"):
        read_labels(tmp_path / "nothing.json.gz")


def test_the_judge_knows_right_from_wrong() -> None:
    examples = make_examples(label_set(0.02))
    exact: Numbers = examples.seconds
    assert accuracy(exact, exact, examples.is_clean).median_all == 0
    off = accuracy(exact * 1.1, exact, examples.is_clean)
    assert off.median_clean == pytest.approx(0.1)
    assert off.within == 1
    assert accuracy(exact * 1.15, exact, examples.is_clean).within == 0
    right = ordered_pairs(examples, exact)
    assert right.num_pairs > 5
    assert right.right == 1
    assert ordered_pairs(examples, 1e-6 / exact).right < 0.9
    assert noise_floor(label_set(0.02))["median_error"] == pytest.approx(0.02, rel=0.6)
    assert noise_floor(label_set(0.2))["clean_part"] == 0
