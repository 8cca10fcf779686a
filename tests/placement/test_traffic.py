"""Traffic as a list and derived from models; the latter against what torch really does."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hemiola.collectives import CollectiveKind
from hemiola.errors import HemiolaError, PlacementError
from hemiola.placement.axes import parse_axes
from hemiola.placement.model import MODEL_KEYS
from hemiola.placement.read_traffic import read_traffic, traffic_of
from hemiola.placement.traffic import Traffic

MODEL = "hidden: 16, layers: 3, heads: 4, seq: 8, micro_batch: 2, dtype: float32"


def counted(traffic: Traffic) -> Counter[tuple[str, int]]:
    found: Counter[tuple[str, int]] = Counter()
    for request in traffic.requests:
        found[request.collective, request.num_bytes] += int(request.per_step)
    return found


def recorded(mode: str, folder: Path) -> Counter[tuple[str, int]]:
    """Collectives of a real step on two processes."""
    pytest.importorskip("torch")
    script = Path(__file__).with_name("training_steps.py")
    command = [sys.executable, str(script), mode]
    ranks = [
        subprocess.Popen([*command, str(rank), str(folder / "store")], stdout=subprocess.PIPE, text=True)
        for rank in range(2)
    ]
    texts = [rank.communicate(timeout=200)[0] for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0, 0]
    found = json.loads(texts[0])
    return Counter(
        {(kind, CollectiveKind(kind).from_input_bytes(size, 2)): times for kind, size, times in found}
    )


@pytest.mark.slow
def test_fsdp2_as_torch_does_it(tmp_path: Path) -> None:
    derived = read_traffic(f"{{from: fsdp2, {MODEL}, vocab: 31, global_batch: 4}}", parse_axes("fsdp=2"))
    assert counted(derived) == recorded("fsdp2", tmp_path)


@pytest.mark.slow
def test_tensor_parallelism_as_torch_does_it(tmp_path: Path) -> None:
    derived = read_traffic(f"{{from: megatron, {MODEL}, global_batch: 2}}", parse_axes("tp=2"))
    assert counted(derived) == recorded("tensor", tmp_path)


@pytest.mark.slow
def test_sequence_parallelism_as_torch_does_it(tmp_path: Path) -> None:
    text = f"{{from: megatron, {MODEL}, global_batch: 2, sequence_parallel: true}}"
    derived = read_traffic(text, parse_axes("tp=2"))
    # DTensor keeps gathered inputs, Megatron gathers them again; the sums of norms' gradients are left to the optimizer.
    kept = [one for one in derived.requests if "again" not in one.name and "norms" not in one.name]
    assert counted(Traffic(tuple(kept))) == recorded("sequence", tmp_path)


def test_fsdp2_gathers_twice_and_scatters_once() -> None:
    derived = read_traffic(f"{{from: fsdp2, {MODEL}, vocab: 31, global_batch: 8}}", parse_axes("fsdp=2"))
    layer, outer = 4 * (12 * 16 * 16 + 2 * 16) // 2, 4 * (2 * 16 * 16 + 8)
    times = 2
    assert counted(derived) == {
        ("allgather", 2 * layer): 6 * times,
        ("reducescatter", 2 * layer): 3 * times,
        ("allgather", 2 * outer): times,
        ("reducescatter", 2 * outer): times,
    }


def test_megatron_with_all_axes() -> None:
    axes = parse_axes("pp=3,dp=2,cp=2,tp=2")
    text = f"{{from: megatron, {MODEL}, global_batch: 8, zero: 1, flops: 1e12}}"
    found = {request.name: request for request in read_traffic(text, axes).requests}
    activation = 2 * 8 // 2 * 16 * 4
    forward = found["activations, forward"]
    # One layer on each stage, two microbatches, attention and MLP.
    assert (forward.num_bytes, forward.per_step, forward.over) == (activation, 4, ("tp",))
    assert found["activations to the next stage, forward"].num_bytes == activation
    ring = found["keys and values, forward"]
    assert (ring.collective, ring.num_bytes, ring.per_step) == ("alltonext", activation, 2)
    gradients = found["gradients of weights"]
    assert (gradients.collective, gradients.over) == ("reducescatter", ("dp", "cp"))
    assert gradients.num_bytes == 4 * (12 * 16 * 16 // 2 + 2 * 16)
    assert gradients.overlaps == "backward"
    # Bytes are those of the collective: what is scattered to four and gathered again is as long both times.
    assert found["updated weights"].collective == "allgather"
    assert found["updated weights"].num_bytes == gradients.num_bytes


def test_experts_exchange_tokens() -> None:
    text = f"{{from: moe, {MODEL}, global_batch: 8, experts: 4, top_k: 2}}"
    found = {request.name: request for request in read_traffic(text, parse_axes("dp=2,ep=2")).requests}
    exchange = found["tokens to experts and back, forward"]
    assert (exchange.collective, exchange.over) == ("alltoall", ("ep",))
    assert (exchange.num_bytes, exchange.per_step) == (2 * 2 * 8 * 16 * 4, 3 * 2)
    assert found["gradients of experts"].over == ("dp",)
    assert found["gradients of experts"].num_bytes == 4 * 3 * 2 * 8 * 16 * 16
    assert found["gradients of dense weights"].over == ("dp", "ep")
    assert found["gradients of dense weights"].num_bytes == 4 * 3 * (4 * 16 * 16 + 2 * 16)


def test_experts_with_tensor_parallelism_have_sequence_parallelism() -> None:
    """Megatron asks for it, so it is derived unasked; experts are cut over tp and gather their tokens."""
    text = f"{{from: moe, {MODEL}, global_batch: 8, experts: 4, top_k: 2}}"
    axes = parse_axes("dp=2,ep=2,tp=2")
    derived = read_traffic(text, axes)
    assert derived == read_traffic(text.replace("top_k", "sequence_parallel: true, top_k"), axes)
    with pytest.raises(
        PlacementError, match="Megatron refuses experts with tensor and expert parallelism but without"
    ):
        read_traffic(text.replace("top_k", "sequence_parallel: false, top_k"), axes)
    found = {request.name: request for request in derived.requests}
    whole = 2 * 8 * 16 * 4
    # Each of two tensor ranks has half of the sequence, and sends every token to two experts.
    assert found["tokens to experts and back, forward"].num_bytes == whole * 2 // 2
    gathered, scattered = (found[f"tokens of experts, {how}, backward"] for how in ("gathered", "scattered"))
    assert (gathered.collective, gathered.over, gathered.num_bytes) == ("allgather", ("tp",), whole * 2)
    assert (scattered.collective, scattered.over, scattered.num_bytes) == (
        "reducescatter",
        ("tp",),
        whole * 2,
    )
    assert not any(
        request.collective == "allreduce" and request.num_bytes == whole for request in derived.requests
    )


def test_experts_without_expert_parallelism_sum_over_tensor_ranks() -> None:
    text = f"{{from: moe, {MODEL}, global_batch: 8, experts: 4, top_k: 2}}"
    found = {request.name: request for request in read_traffic(text, parse_axes("dp=4,tp=2")).requests}
    assert found["activations, forward"].per_step == 2 * 3 * 1


def test_ddp_sums_all_gradients_in_buckets() -> None:
    derived = read_traffic(f"{{from: ddp, {MODEL}, global_batch: 8}}", parse_axes("data=4"))
    (request,) = derived.requests
    assert request.num_bytes * request.per_step == 4 * 3 * (12 * 16 * 16 + 2 * 16)


def test_a_list_of_requests() -> None:
    document = {
        "computation": {"backward": "20ms"},
        "traffic": [
            {"collective": "allreduce", "over": ["data", "model"], "bytes": "1GiB", "overlaps": "backward"},
            {"collective": "alltonext", "over": "model", "bytes": 4096, "per_step": 8, "name": "stages"},
        ],
    }
    first, second = traffic_of(document, parse_axes("data=2,model=2")).requests
    assert (first.num_bytes, first.over, first.per_step) == (1 << 30, ("data", "model"), 1)
    assert (second.name, second.num_bytes, second.per_step, second.overlaps) == ("stages", 4096, 8, "")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[{collective: sum, over: data, bytes: 1}]", "collective: expected one of allreduce"),
        ("[{collective: allreduce, over: dat, bytes: 1}]", "no axis 'dat'; did you mean data"),
        ("[{collective: allreduce, over: data, bytes: x}]", "expected a size"),
        ("[{collective: allreduce, over: data}]", "the key bytes is missing"),
        ("[{collective: allreduce, over: data, bytes: 1, per_step: 0}]", "above 0"),
        ("[{collective: allreduce, over: [], bytes: 1}]", "expected an axis"),
        ("[{collective: allreduce, over: data, bytes: 1, overlaps: forward}]", "say how long it takes"),
        ("[{collective: allreduce, ofer: data, bytes: 1}]", "did you mean over"),
        ("{traffic: [], computed: 1}", "did you mean computation"),
        ("[]", "expected a list of requests"),
        ("[{", "this is not YAML"),
        ("{from: deepspeed, hidden: 1, layers: 1, seq: 1, micro_batch: 1, global_batch: 8}", "expected one of megatron"),
        ("{from: ddp, layers: 1, seq: 1, micro_batch: 1, global_batch: 8}", "the key hidden is missing"),
        ("{from: fsdp2, hidden: 8, layers: 1, seq: 1, micro_batch: 3, global_batch: 8}", "one axis, called data"),
        ("{from: megatron, hidden: 8, heads: 2, layers: 1, seq: 1, micro_batch: 3, global_batch: 8}", "not a multiple of micro"),
        ("{from: megatron, hidden: 8, heads: 3, layers: 1, seq: 1, micro_batch: 1, global_batch: 8}", "3 heads"),
        ("{from: megatron, hidden: 8, layers: 1, seq: 1, micro_batch: 1, global_batch: 8}", "model=2, which divides"),
        ("no/such.yaml", "cannot be read"),
    ],
)  # fmt: skip
def test_bad_traffic_is_one_sentence(text: str, message: str) -> None:
    with pytest.raises(HemiolaError, match=message) as caught:
        read_traffic(text, parse_axes("data=4,model=2"))
    assert "\n" not in str(caught.value)


def test_axes_without_a_role_are_refused() -> None:
    with pytest.raises(PlacementError, match="'rows' stands for is not known"):
        read_traffic(f"{{from: megatron, {MODEL}, global_batch: 8}}", parse_axes("rows=4"))
    with pytest.raises(PlacementError, match="both stand for dp"):
        read_traffic(f"{{from: megatron, {MODEL}, global_batch: 8}}", parse_axes("data=4,fsdp=2"))


KEYS = st.sampled_from(
    ["collective", "over", "bytes", "per_step", "overlaps", "name", "traffic", "computation", *MODEL_KEYS]
)
VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(-2, 1 << 70), st.floats(),
    st.sampled_from(["allreduce", "data", "model", "megatron", "fsdp2", "ddp", "moe", "1GiB", "float32", "backward", "-"]),
    st.text(max_size=8),
)  # fmt: skip
DOCUMENTS = st.recursive(
    VALUES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=9),
    max_leaves=12,
)


def outcome(document: object, axes: str) -> Traffic | str:
    """The traffic, or why there is none."""
    try:
        return traffic_of(document, parse_axes(axes))
    except HemiolaError as error:
        return str(error)


@given(DOCUMENTS)
def test_strange_documents_are_refused_in_one_sentence(document: object) -> None:
    found = outcome(document, "data=4,model=2")
    assert isinstance(found, Traffic) or "\n" not in found


SIZES = st.one_of(st.integers(1, 64), st.integers(1, 1 << 41))


@given(
    st.sampled_from(["megatron", "moe"]), st.lists(SIZES, min_size=5, max_size=5), st.booleans(),
    st.integers(0, 3), st.sampled_from(["float32", "bfloat16"]),
)  # fmt: skip
def test_models_are_derived_or_refused(
    source: str, sizes: list[int], scattered: bool, zero: int, dtype: str
) -> None:
    hidden, layers, seq, micro, experts = sizes
    document = {
        "from": source, "hidden": hidden, "layers": layers, "seq": seq, "micro_batch": micro, "global_batch": 4 * micro,
        "experts": experts, "sequence_parallel": scattered, "zero": zero, "dtype": dtype, "vocab": 64,
    }  # fmt: skip
    found = outcome(document, "pp=2,dp=2,ep=2,cp=2")
    if isinstance(found, Traffic):
        assert all(request.num_bytes > 0 and request.per_step >= 1 for request in found.requests)
    else:
        assert "\n" not in found
