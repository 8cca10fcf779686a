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
    kv_heads: int = 0
    """Heads of keys and values, which several heads of queries share; 0: as many as heads."""
    head_dim: int = 0
    """Elements of a head; 0: hidden / heads."""
    ffn: int = 0
    """Elements between the matrices of an MLP or of an expert; 0: four times hidden."""
    gated: bool = False
    """Whether an MLP multiplies two projections up (SwiGLU) instead of having one."""
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
    def query_width(self) -> int:
        """Elements of the queries of a token."""
        return self.heads * self.head_dim if self.head_dim else self.hidden

    @property
    def key_width(self) -> int:
        """Elements of the keys of a token, and of its values."""
        return self.query_width // self.heads * (self.kv_heads or self.heads)

    @property
    def ffn_width(self) -> int:
        """Elements between the matrices of an MLP."""
        return self.ffn or 4 * self.hidden

    @property
    def attention_shapes(self) -> tuple[tuple[int, ...], ...]:
        """Norm, query-key-value and projection of a layer."""
        h, q = self.hidden, self.query_width
        return ((h,), (q + 2 * self.key_width, h), (h, q))

    @property
    def mlp_shapes(self) -> tuple[tuple[int, ...], ...]:
        """Norm, and up and down."""
        h, f = self.hidden, self.ffn_width
        return ((h,), (2 * f if self.gated else f, h), (h, f))

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
    "from", "hidden", "layers", "heads", "kv_heads", "head_dim", "ffn", "gated", "vocab", "seq", "micro_batch", "global_batch", "dtype",
    "sequence_parallel", "zero", "experts", "top_k", "flops",
)  # fmt: skip


def read_model(fields: Fields) -> Model:
    """A model from the keys of a document."""
    fields.only(*MODEL_KEYS)
    dtype = fields.text("dtype", "bfloat16", "bfloat16")
    if dtype not in DTYPE_BYTES:
        raise PlacementError(
            f"{fields.place('dtype')}: expected one of {', '.join(DTYPE_BYTES)}, found {dtype[:40]!r}"
        )
    hidden, heads = fields.whole("hidden", 1, LARGEST), fields.whole("heads", 1, LARGEST, 1)
    kv_heads, head_dim = fields.whole("kv_heads", 0, LARGEST, 0), fields.whole("head_dim", 0, LARGEST, 0)
    if hidden % heads and not head_dim:
        raise PlacementError(f"{fields.place('heads')}: hidden {hidden} is not a multiple of {heads} heads")
    if kv_heads and heads % kv_heads:
        raise PlacementError(
            f"{fields.place('kv_heads')}: {heads} heads cannot share {kv_heads} of keys and values evenly"
        )
    return Model(
        hidden=hidden,
        layers=fields.whole("layers", 1, 1 << 20),
        seq=fields.whole("seq", 1, LARGEST),
        micro_batch=fields.whole("micro_batch", 1, LARGEST),
        global_batch=fields.whole("global_batch", 1, LARGEST),
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        ffn=fields.whole("ffn", 0, LARGEST, 0),
        gated=fields.flag("gated"),
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
