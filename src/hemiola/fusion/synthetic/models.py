"""Training steps with the shapes of known models, written of elementary operators."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from hemiola.fusion.graph import OpGraph
from hemiola.fusion.synthetic.step_builder import StepBuilder


def transformer(
    layers: int = 6, width: int = 512, tokens: int = 512, *, name: str = "transformer"
) -> OpGraph:
    """Post-norm blocks with biases and GELU of elementary operators."""
    step = StepBuilder(name)
    stream = _embedded(step, tokens, width, 8 * width)
    for layer in range(layers):
        stream = _layer_norm(step, f"{layer}.norm1", _attention(step, layer, stream, width, bias=True))
        inner = _linear(step, f"{layer}.up", stream, width, 4 * width, bias=True)
        inner = _linear(step, f"{layer}.down", _gelu(step, inner), 4 * width, width, bias=True)
        stream = _layer_norm(step, f"{layer}.norm2", step.pointwise("add", stream, inner))
    return step.finish(_loss(step, _linear(step, "head", stream, width, 8 * width, bias=False)))


def bert(layers: int = 8, width: int = 384, tokens: int = 512) -> OpGraph:
    """The same, deeper and narrower."""
    return transformer(layers, width, tokens, name="bert")


def llama(layers: int = 6, width: int = 512, tokens: int = 512) -> OpGraph:
    """Pre-norm blocks with RMSNorm, rotary embedding and SwiGLU."""
    step = StepBuilder("llama")
    stream = _embedded(step, tokens, width, 8 * width)
    for layer in range(layers):
        stream = _attention(
            step, layer, stream, width, bias=False, normed=_rms_norm(step, f"{layer}.norm1", stream)
        )
        normed = _rms_norm(step, f"{layer}.norm2", stream)
        gate = _linear(step, f"{layer}.gate", normed, width, 3 * width, bias=False)
        up = _linear(step, f"{layer}.up", normed, width, 3 * width, bias=False)
        inner = step.pointwise("mul", step.pointwise("mul", gate, step.pointwise("sigmoid", gate)), up)
        stream = step.pointwise(
            "add", stream, _linear(step, f"{layer}.down", inner, 3 * width, width, bias=False)
        )
    stream = _rms_norm(step, "norm", stream)
    return step.finish(_loss(step, _linear(step, "head", stream, width, 8 * width, bias=False)))


def reformer(layers: int = 6, width: int = 384, tokens: int = 512) -> OpGraph:
    """Attention within buckets of a hash: tokens are sorted, and sorted back."""
    step = StepBuilder("reformer")
    stream = _embedded(step, tokens, width, 8 * width)
    for layer in range(layers):
        normed = _layer_norm(step, f"{layer}.norm1", stream)
        order = step.opaque("sort", step.reduction("hash", normed, (tokens,)))
        shuffled = step.lookup(normed, order, (tokens, width))
        mixed = _attention(step, layer, stream, width, bias=False, normed=shuffled)
        normed = _layer_norm(step, f"{layer}.norm2", mixed)
        inner = _gelu(step, _linear(step, f"{layer}.up", normed, width, 4 * width, bias=True))
        stream = step.pointwise(
            "add", mixed, _linear(step, f"{layer}.down", inner, 4 * width, width, bias=True)
        )
    return step.finish(_loss(step, _linear(step, "head", stream, width, 8 * width, bias=False)))


def rnnlm(steps: int = 12, width: int = 512, batch: int = 64) -> OpGraph:
    """Two layers of LSTM cells of elementary operators; the gradients of their weights are complete at the very end."""
    step = StepBuilder("rnnlm")
    weights = [
        (step.parameter(f"{layer}.input", (width, 4 * width)), step.parameter(f"{layer}.hidden", (width, 4 * width)))
        for layer in range(2)
    ]  # fmt: skip
    hidden = [step.given(f"hidden{layer}", (batch, width)) for layer in range(2)]
    cell = [step.given(f"cell{layer}", (batch, width)) for layer in range(2)]
    words = _embedded(step, batch, width, 8 * width)
    for _ in range(steps):
        value = words
        for layer, (from_input, from_hidden) in enumerate(weights):
            both = step.pointwise(
                "add", step.matmul(value, from_input), step.matmul(hidden[layer], from_hidden)
            )
            gates = [step.reduction("slice", both, (batch, width)) for _ in range(4)]
            first, forget, out = (step.pointwise("sigmoid", gate) for gate in gates[:3])
            new = step.pointwise("mul", first, step.pointwise("tanh", gates[3]))
            cell[layer] = step.pointwise("add", step.pointwise("mul", forget, cell[layer]), new)
            hidden[layer] = value = step.pointwise("mul", out, step.pointwise("tanh", cell[layer]))
    return step.finish(_loss(step, _linear(step, "head", value, width, 8 * width, bias=True)))


def vgg(batch: int = 8) -> OpGraph:
    """Convolutions whose gradients are small, and three linear layers whose gradients are large and ready first."""
    step = StepBuilder("vgg19")
    image, channels, side = step.given("image", (batch, 3, 64, 64)), 3, 64
    for stage, (count, wide) in enumerate(((2, 16), (2, 32), (4, 64), (4, 128), (4, 128))):
        for number in range(count):
            image = _conv(step, f"{stage}.{number}", image, channels, wide, batch, side, 3)
            image, channels = step.pointwise("relu", image), wide
        side //= 2
        image = step.reduction("max_pool", image, (batch, wide, side, side))
    flat = step.reduction("flatten", image, (batch, channels * side * side))
    for number, (before, after) in enumerate(((channels * side * side, 1024), (1024, 1024), (1024, 250))):
        flat = step.pointwise("relu", _linear(step, f"linear{number}", flat, before, after, bias=True))
    return step.finish(_loss(step, flat))


def resnet(batch: int = 8) -> OpGraph:
    """Bottleneck blocks with batch norms: many small gradients."""
    step = StepBuilder("resnet50")
    image, channels, side = step.given("image", (batch, 3, 32, 32)), 3, 32
    image = step.pointwise("relu", _conv_norm(step, "stem", image, 3, 16, batch, side, 7))
    channels = 16
    for stage, (count, wide) in enumerate(((3, 16), (4, 32), (6, 64), (3, 128))):
        for number in range(count):
            name = f"{stage}.{number}"
            inner = step.pointwise(
                "relu", _conv_norm(step, f"{name}.a", image, channels, wide, batch, side, 1)
            )
            inner = step.pointwise("relu", _conv_norm(step, f"{name}.b", inner, wide, wide, batch, side, 3))
            inner = _conv_norm(step, f"{name}.c", inner, wide, 4 * wide, batch, side, 1)
            if channels != 4 * wide:
                image = _conv_norm(step, f"{name}.d", image, channels, 4 * wide, batch, side, 1)
            image, channels = step.pointwise("relu", step.pointwise("add", image, inner)), 4 * wide
        side = max(4, side // 2)
        image = step.reduction("pool", image, (batch, channels, side, side)) if stage < 3 else image
    flat = step.reduction("mean", image, (batch, channels))
    return step.finish(_loss(step, _linear(step, "head", flat, channels, 250, bias=True)))


MODELS: Mapping[str, Callable[[], OpGraph]] = {
    "vgg19": vgg,
    "resnet50": resnet,
    "transformer": transformer,
    "rnnlm": rnnlm,
    "bert": bert,
    "reformer": reformer,
    "llama": llama,
}
"""The paper's six and a seventh as language models are written today, by name."""


def large_step() -> OpGraph:
    """About 2,500 operators."""
    return transformer(20, 384, 512, name="large")


def _linear(step: StepBuilder, name: str, value: int, before: int, after: int, *, bias: bool) -> int:
    product = step.matmul(value, step.parameter(f"{name}.weight", (before, after)))
    return step.pointwise("add", product, step.parameter(f"{name}.bias", (after,))) if bias else product


def _embedded(step: StepBuilder, tokens: int, width: int, words: int, name: str = "words") -> int:
    table = step.parameter(f"{name}.embedding", (words, width))
    return step.lookup(table, step.given(name, (tokens,)), (tokens, width))


def _layer_norm(step: StepBuilder, name: str, value: int) -> int:
    tokens, width = step.shape(value)
    centred = step.pointwise("sub", value, step.reduction("mean", value, (tokens,)))
    spread = step.reduction("mean", step.pointwise("square", centred), (tokens,))
    scaled = step.pointwise("mul", centred, step.pointwise("rsqrt", spread))
    scaled = step.pointwise("mul", scaled, step.parameter(f"{name}.weight", (width,)))
    return step.pointwise("add", scaled, step.parameter(f"{name}.bias", (width,)))


def _rms_norm(step: StepBuilder, name: str, value: int) -> int:
    tokens, width = step.shape(value)
    spread = step.reduction("mean", step.pointwise("square", value), (tokens,))
    scaled = step.pointwise("mul", value, step.pointwise("rsqrt", spread))
    return step.pointwise("mul", scaled, step.parameter(f"{name}.weight", (width,)))


def _gelu(step: StepBuilder, value: int) -> int:
    bent = step.pointwise("tanh", step.pointwise("mul", step.pointwise("cube", value), value))
    return step.pointwise("mul", value, bent)


def _softmax(step: StepBuilder, scores: int) -> int:
    rows = step.shape(scores)[:1]
    powers = step.pointwise("exp", step.pointwise("sub", scores, step.reduction("max", scores, rows)))
    return step.pointwise("div", powers, step.reduction("sum", powers, rows))


def _attention(
    step: StepBuilder, layer: int, stream: int, width: int, *, bias: bool, normed: int | None = None
) -> int:
    """Heads are left out: their products have the same sizes in all."""
    value = stream if normed is None else normed
    query, key, content = (
        _linear(step, f"{layer}.{part}", value, width, width, bias=bias) for part in ("q", "k", "v")
    )
    if normed is not None:
        query, key = (step.pointwise("rotate", step.pointwise("mul", one, one)) for one in (query, key))
    tokens = step.shape(stream)[0]
    scores = step.matmul(query, step.reduction("transpose", key, (width, tokens)))
    mixed = step.matmul(_softmax(step, step.pointwise("scale", scores)), content)
    return step.pointwise("add", stream, _linear(step, f"{layer}.o", mixed, width, width, bias=bias))


def _conv(
    step: StepBuilder, name: str, image: int, before: int, after: int, batch: int, side: int, kernel: int
) -> int:
    weight = step.parameter(f"{name}.weight", (after, before, kernel, kernel))
    return step.convolution(image, weight, (batch, after, side, side))


def _conv_norm(
    step: StepBuilder, name: str, image: int, before: int, after: int, batch: int, side: int, kernel: int
) -> int:
    value = _conv(step, name, image, before, after, batch, side, kernel)
    centred = step.pointwise("sub", value, step.reduction("mean", value, (after,)))
    spread = step.reduction("mean", step.pointwise("square", centred), (after,))
    scaled = step.pointwise("mul", centred, step.pointwise("rsqrt", spread))
    scaled = step.pointwise("mul", scaled, step.parameter(f"{name}.norm.weight", (after,)))
    return step.pointwise("add", scaled, step.parameter(f"{name}.norm.bias", (after,)))


def _loss(step: StepBuilder, logits: int) -> int:
    return step.reduction("nll", step.pointwise("log", _softmax(step, logits)), (1,))
