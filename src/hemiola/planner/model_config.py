"""read_model_config: the sizes of a transformer from the file that Hugging Face, Megatron or torchtitan have of it.

Each writes the same sizes under names of its own. JSON and YAML are read as mappings, and anything else as flags of a command line.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import yaml

from hemiola.errors import JobError, TopologyError
from hemiola.topology.parse.fields import shown
from hemiola.topology.parse.text_file import read_text_file

MOST_BYTES = 1 << 20

NAMES: Mapping[str, tuple[str, ...]] = {
    "hidden": ("hidden_size", "hidden", "dim", "n_embd", "d_model"),
    "layers": ("num_hidden_layers", "num_layers", "layers", "n_layers", "n_layer"),
    "heads": ("num_attention_heads", "heads", "n_heads", "n_head"),
    "kv_heads": ("num_key_value_heads", "num_query_groups", "kv_heads", "n_kv_heads"),
    "head_dim": ("head_dim", "kv_channels"),
    "ffn": ("moe_intermediate_size", "moe_ffn_hidden_size", "intermediate_size", "ffn_hidden_size", "ffn", "n_inner"),
    "vocab": ("vocab_size", "padded_vocab_size", "vocab"),
    "experts": ("num_local_experts", "num_experts", "n_routed_experts", "experts"),
    "top_k": ("num_experts_per_tok", "moe_router_topk", "top_k"),
}  # fmt: skip
"""Our word for each size, and what others call it; where a file has several, the first counts."""

OTHER_ARCHITECTURES = {
    "kv_lora_rank": "latent attention",
    "n_shared_experts": "shared experts",
    "moe_shared_expert_intermediate_size": "shared experts",
    "encoder_layers": "an encoder",
    "is_encoder_decoder": "an encoder",
    "mamba_d_state": "state-space layers",
}
"""Keys of models that are not a row of equal layers, and what they have."""

GATED_ACTIVATIONS = ("silu", "swish", "swiglu", "gelu_glu", "geglu")


def read_model_config(path: str) -> dict[str, Any]:
    """Sizes by our words."""
    try:
        text = read_text_file(path, MOST_BYTES)
    except TopologyError as error:
        raise JobError(f"model.config: {error}") from None
    values = _mapping(text, path)
    strange = next((what for key, what in OTHER_ARCHITECTURES.items() if values.get(key)), None)
    if strange is not None:
        raise JobError(
            f"{path}: this model has {strange}, which is not planned yet; give its traffic as a list instead"
        )
    found = {word: next((values[name] for name in names if values.get(name) is not None), None) for word, names in NAMES.items()}  # fmt: skip
    missing = next((word for word in ("hidden", "layers", "heads") if found[word] is None), None)
    if missing is not None:
        raise JobError(
            f"{path}: no size {missing} is in it; expected one of the keys {', '.join(NAMES[missing])}, as in a config.json of Hugging Face"
        )
    sizes = {word: value for word, value in found.items() if value is not None}
    if "ffn" not in sizes and values.get("ffn_dim_multiplier") is not None:
        sizes["ffn"] = _llama_ffn(values)
    return {**sizes, "gated": _is_gated(values)}


def _mapping(text: str, path: str) -> Mapping[str, Any]:
    if text.lstrip().startswith("--") or "--num-layers" in text:
        return _flags(text)
    try:
        document = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        raise JobError(
            f"{path}: expected a config.json of Hugging Face, YAML with the same keys, or Megatron's flags, found {shown(document)}"
        )
    inner = document.get("text_config", document.get("model", document))
    return inner if isinstance(inner, dict) else document


def _flags(text: str) -> dict[str, Any]:
    """``--num-layers 80 --swiglu`` as a mapping; a flag without a value is true."""
    words = text.replace("=", " ").replace("\\", " ").split()
    found: dict[str, Any] = {}
    for word, after in zip(words, [*words[1:], "--"], strict=True):
        if word.startswith("--"):
            key = word.removeprefix("--").replace("-", "_")
            found[key] = (
                True
                if after.startswith("--")
                else int(after)
                if after.isdecimal() and len(after) < 16
                else after
            )
    return found


def _is_gated(values: Mapping[str, Any]) -> bool:
    if values.get("swiglu") or values.get("gated") or values.get("ffn_dim_multiplier") is not None:
        return True
    return str(values.get("hidden_act", values.get("activation", ""))).lower() in GATED_ACTIVATIONS


def _llama_ffn(values: Mapping[str, Any]) -> int:
    """As torchtitan computes it: two thirds of four times dim, times a factor, rounded up to a multiple."""
    try:
        multiple = int(values.get("multiple_of", 256))
        width = int(float(values["ffn_dim_multiplier"]) * int(8 * int(values["dim"]) / 3))
        return -(-width // multiple) * multiple
    except (KeyError, TypeError, ValueError, ArithmeticError):
        raise JobError(
            "model.config: with ffn_dim_multiplier, dim and multiple_of are whole numbers above 0, as in torchtitan; say ffn instead"
        ) from None
