"""The seven models: published parameter counts, the same step in every process, and layers that do what their papers say."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from hemiola.errors import FusionError
from hemiola.integrations.torch.models import reformer
from hemiola.integrations.torch.models.attention import hide_later_places, join_heads, split_heads
from hemiola.integrations.torch.models.library import MODELS, make_step
from hemiola.integrations.torch.models.llama import rotary_table, rotate
from hemiola.integrations.torch.models.training_step import ModelSize

PUBLISHED = {
    "vgg19": 143_667_240,  # torchvision
    "resnet50": 25_557_032,  # torchvision
    "transformer": 63_082_496,  # the paper rounds to 65 million
    "rnnlm": 66_022_000,  # the paper says 66 million
    "bert": 110_106_428,  # BertForPreTraining of the transformers library
    "llama": 1_100_048_384,  # TinyLlama 1.1B
}

MIN_MEDIUM_BYTES = 10_000_000


def num_parameters(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


@pytest.mark.parametrize("name", PUBLISHED)
def test_full_models_have_the_published_number_of_parameters(name: str) -> None:
    with torch.device("meta"):
        assert num_parameters(MODELS[name].make_module(ModelSize.FULL)) == PUBLISHED[name]


def test_the_full_reformer_has_its_closed_form_of_parameters() -> None:
    shape = reformer.SHAPES[ModelSize.FULL]
    width, hidden = shape.width, shape.hidden
    layer = 3 * width * width + 2 * width * hidden + hidden + width + 4 * width
    places = 256 * (width // 4) + 256 * (width - width // 4)
    outer = shape.vocabulary * width + 4 * width + 2 * width * shape.vocabulary + shape.vocabulary
    with torch.device("meta"):
        module = MODELS["reformer"].make_module(ModelSize.FULL)
    assert num_parameters(module) == shape.num_layers * layer + places + outer


@pytest.mark.parametrize("name", MODELS)
def test_medium_models_have_ten_megabytes_of_gradients(name: str) -> None:
    with torch.device("meta"):
        assert 4 * num_parameters(MODELS[name].make_module(ModelSize.MEDIUM)) >= MIN_MEDIUM_BYTES


@pytest.mark.parametrize("name", MODELS)
def test_a_step_is_the_same_each_time_and_all_gradients_are_finite(name: str) -> None:
    losses = []
    for disturb in (False, True):
        if disturb:
            torch.rand(7)
        step = make_step(name, ModelSize.SMALL)
        torch.manual_seed(5)
        loss = step.loss(step.module(step.batch[0]), step.batch[1])
        loss.backward()  # type: ignore[no-untyped-call]
        losses.append(loss.item())
        for parameter_name, parameter in step.module.named_parameters():
            assert parameter.grad is not None, parameter_name
            assert parameter.grad.isfinite().all(), parameter_name
    assert losses[0] == losses[1]


def test_making_a_step_leaves_the_generator_alone() -> None:
    torch.manual_seed(3)
    expected = torch.rand(4)
    torch.manual_seed(3)
    make_step("bert", ModelSize.SMALL)
    assert torch.equal(torch.rand(4), expected)


def test_an_unknown_model_is_named() -> None:
    with pytest.raises(FusionError, match="no model 'alexnet'; known are vgg19"):
        make_step("alexnet")


@pytest.mark.parametrize("name", ["transformer", "rnnlm", "llama", "reformer"])
def test_language_models_do_not_see_the_future(name: str) -> None:
    step = make_step(name, ModelSize.SMALL)
    module, tokens = step.module.eval(), step.batch[0]
    changed = tokens.clone()
    changed[..., -1] = (changed[..., -1] + 1) % 256
    if name == "transformer":
        changed[:, 0] = tokens[:, 0]
    if name == "reformer":
        _hash_by_place(module)
    with torch.no_grad():
        before, after = module(tokens), module(changed)
    torch.testing.assert_close(before[..., :-1, :], after[..., :-1, :])
    assert not torch.allclose(before[..., -1, :], after[..., -1, :])


def _hash_by_place(module: nn.Module) -> None:
    """With equal buckets everywhere a change of one place moves no other one."""
    for layer in module.modules():
        if isinstance(layer, reformer.HashedAttention):
            layer.rotations.zero_()


def test_hashed_attention_is_plain_attention_where_all_fit_in_one_chunk() -> None:
    """One bucket and one chunk: every place sees all places before it, and itself only where there are none."""
    torch.manual_seed(1)
    shape = reformer.ReformerShape(2, 16, 8, 12, 16, 3, 1, 2, 16, 0.0)
    layer = reformer.HashedAttention(shape)
    layer.rotations.zero_()
    places = torch.randn(2, 16, 12)
    query = split_heads(layer.query(places), 3)
    value = split_heads(layer.value(places), 3)
    key = query * torch.rsqrt((query * query).sum(-1, keepdim=True) + 1e-6)
    scores = query @ key.transpose(-2, -1)
    scores = scores.masked_fill(torch.eye(16, dtype=torch.bool), reformer.SELF_SCORE)
    expected = layer.output(join_heads(hide_later_places(scores).softmax(-1) @ value))
    torch.testing.assert_close(layer(places), expected, rtol=1e-4, atol=1e-4)


def test_rotary_scores_depend_on_the_distance_only() -> None:
    table = rotary_table(12, 8)
    query, key = torch.randn(8), torch.randn(8)

    def score(first: int, second: int) -> Tensor:
        turned = (
            rotate(query[None], table[:, first : first + 1]),
            rotate(key[None], table[:, second : second + 1]),
        )
        return (turned[0] * turned[1]).sum()

    torch.testing.assert_close(score(2, 5), score(8, 11))
    assert not torch.allclose(score(2, 5), score(2, 6))
