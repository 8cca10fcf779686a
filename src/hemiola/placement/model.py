"""Model: a transformer as far as its traffic depends on it."""

from __future__ import annotations

import math
from dataclasses import dataclass

from hemiola.errors import PlacementError
from hemiola.topology.parse.fields import Fields

DTYPE_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2, "float8": 1}
LARGEST = 1 << 40


@dataclass(frozen=True, slots=True)
class Model:
    """Sizes of a transformer without biases, its embedding and head apart, and of its batches."""

    hidden: int
    layers: int
    seq: int
    micro_batch: int
    global_batch: int
    heads: int = 1
    vocab: int = 0
    """0: without embedding and head."""
    dtype: str = "bfloat16"
    sequence_parallel: bool | None = None
    """Whether activations between blocks are spread over the tensor axis; None: as the way of training needs it, else not."""
    zero: int = 0
    """Which of optimizer states (1), gradients (2) and parameters (3) are sharded over the data axis."""
    experts: int = 0
    top_k: int = 1
    flops: float = 0.0
    """Of one device in a second, for the computation behind which traffic hides; 0: nothing hides."""

    @property
    def element_bytes(self) -> int:
        """Of parameters and activations."""
        return DTYPE_BYTES[self.dtype]

    @property
    def attention_shapes(self) -> tuple[tuple[int, ...], ...]:
        """Norm, query-key-value and projection of a layer."""
        h = self.hidden
        return ((h,), (3 * h, h), (h, h))

    @property
    def mlp_shapes(self) -> tuple[tuple[int, ...], ...]:
        """Norm, and up and down by four."""
        h = self.hidden
        return ((h,), (4 * h, h), (h, 4 * h))

    @property
    def layer_shapes(self) -> tuple[tuple[int, ...], ...]:
        """All parameters of a dense layer."""
        return self.attention_shapes + self.mlp_shapes

    @property
    def outer_shapes(self) -> tuple[tuple[int, ...], ...]:
        """Embedding, last norm and head."""
        return ((self.vocab, self.hidden), (self.hidden,), (self.vocab, self.hidden)) if self.vocab else ()

    def num_microbatches(self, data: int) -> int:
        """That each replica takes in a step."""
        each, rest = divmod(self.global_batch, self.micro_batch * data)
        if rest or not each:
            raise PlacementError(
                f"traffic.global_batch: {self.global_batch} is not a multiple of micro_batch {self.micro_batch} times"
                f" {data} replicas; {self.micro_batch * data * max(1, each)} is"
            )
        return each


def num_elements(shapes: tuple[tuple[int, ...], ...]) -> int:
    """Of all parameters together."""
    return sum(math.prod(shape) for shape in shapes)


MODEL_KEYS = (
    "from", "hidden", "layers", "heads", "vocab", "seq", "micro_batch", "global_batch", "dtype",
    "sequence_parallel", "zero", "experts", "top_k", "flops",
)  # fmt: skip


def read_model(fields: Fields) -> Model:
    """A model from the keys of a document."""
    fields.only(*MODEL_KEYS)
    dtype = fields.text("dtype", "bfloat16", "bfloat16")
    if dtype not in DTYPE_BYTES:
        raise PlacementError(f"traffic.dtype: expected one of {', '.join(DTYPE_BYTES)}, found {dtype[:40]!r}")
    hidden, heads = fields.whole("hidden", 1, LARGEST), fields.whole("heads", 1, LARGEST, 1)
    if hidden % heads:
        raise PlacementError(f"traffic.heads: hidden {hidden} is not a multiple of {heads} heads")
    return Model(
        hidden=hidden,
        layers=fields.whole("layers", 1, 1 << 20),
        seq=fields.whole("seq", 1, LARGEST),
        micro_batch=fields.whole("micro_batch", 1, LARGEST),
        global_batch=fields.whole("global_batch", 1, LARGEST),
        heads=heads,
        vocab=fields.whole("vocab", 0, LARGEST, 0),
        dtype=dtype,
        sequence_parallel=fields.flag("sequence_parallel")
        if fields.values.get("sequence_parallel") is not None
        else None,
        zero=fields.whole("zero", 0, 3, 0),
        experts=fields.whole("experts", 0, 1 << 20, 0),
        top_k=fields.whole("top_k", 1, 1 << 20, 1),
        flops=fields.read("flops", _flops, "300e12", 0.0),
    )


def _flops(value: object) -> float:
    # YAML reads 300e12 as a text: it wants a dot and a sign.
    try:
        found = float(value) if isinstance(value, str | int | float) else -1.0
    except ValueError:
        found = -1.0
    if not (found > 0 and math.isfinite(found)):
        raise PlacementError("traffic.flops: expected operations per second of a device, such as 300e12")
    return found
