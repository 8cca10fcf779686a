"""Jobs: what is read from YAML and from the files of models, and what is refused with one sentence."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from hemiola.errors import HemiolaError, JobError
from hemiola.planner import job as job_module
from hemiola.planner.job import JOB_KEYS, job_of, read_job
from hemiola.planner.training import FRAMEWORKS, PRECISIONS, RECOMPUTE

JOB = {
    "system": "hgx-h100:2",
    "model": {"hidden": 4096, "layers": 32, "heads": 32},
    "batch": {"global": 64, "sequence": 4096},
    "axes": {"tp": 8, "dp": 2},
}
DEMO = Path(__file__).parents[2] / "demo"


@pytest.mark.parametrize("name", ["job.yaml", "job_experts.yaml", "job_uneven.yaml"])
def test_the_jobs_of_the_demo_are_read(name: str) -> None:
    job = read_job(str(DEMO / name))
    assert job.axes is not None
    assert (job.trained is None) == (job.traffic is not None)


def test_a_job_without_axes_searches_degrees() -> None:
    job = job_of({key: value for key, value in JOB.items() if key != "axes"}, Path("job.yaml"))
    assert job.search_degrees
    assert not job_of(JOB, Path("job.yaml")).search_degrees
    assert job_of({**JOB, "degrees": "auto"}, Path("job.yaml")).search_degrees


CONFIGS = {
    "config.json": json.dumps(
        {
            "hidden_size": 8192,
            "intermediate_size": 28672,
            "num_attention_heads": 64,
            "num_hidden_layers": 80,
            "num_key_value_heads": 8,
            "vocab_size": 128256,
            "hidden_act": "silu",
        }
    ),
    "flags.sh": "--num-layers 80 --hidden-size 8192 --ffn-hidden-size 28672 --num-attention-heads 64 \\\n --group-query-attention"
    " --num-query-groups=8 --swiglu --vocab-size 128256\n",
    "titan.yaml": "{dim: 8192, n_layers: 80, n_heads: 64, n_kv_heads: 8, ffn_dim_multiplier: 1.3, multiple_of: 4096, vocab_size: 128256}",
}


@pytest.mark.parametrize("name", CONFIGS)
def test_one_model_in_the_words_of_three_frameworks(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(CONFIGS[name])
    (tmp_path / "job.yaml").write_text(yaml.safe_dump({**JOB, "model": {"config": name}}))
    job = read_job(str(tmp_path / "job.yaml"))
    assert job.trained is not None
    model = job.trained.model
    assert (model.hidden, model.layers, model.heads, model.kv_heads) == (8192, 80, 64, 8)
    assert (model.ffn_width, model.gated, model.vocab) == (28672, True, 128256)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"sistem": "x"}, "did you mean system?"),
        ({"system": "dgx-a1000"}, "there is no system"),
        ({"axes": {"tp": 3, "dp": 2}}, "nearest sizes that fit"),
        ({"degrees": "many"}, "expected auto"),
        ({"batch": {"global": 64}}, "batch: the key sequence is missing"),
        ({"model": None}, "either a model"),
        ({"traffic": []}, "either a model"),
        ({"training": {"framework": "deepspeed"}}, "expected one of megatron, torchtitan"),
        ({"device": {"flops": "fast"}}, "expected a number above 0"),
        ({"model": {"hidden": 10**400}}, "expected a whole number"),
        ({"model": {"config": "missing.json"}}, "cannot be read"),
    ],
)
def test_mistakes_are_named(change: dict[str, object], reason: str, tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(json.dumps({**JOB, **change}))
    with pytest.raises(JobError, match=reason) as caught:
        read_job(str(path))
    assert "\n" not in str(caught.value)


def test_models_that_are_no_row_of_equal_layers_are_refused(tmp_path: Path) -> None:
    config = {**json.loads(CONFIGS["config.json"]), "kv_lora_rank": 512}
    (tmp_path / "config.json").write_text(json.dumps(config))
    (tmp_path / "job.yaml").write_text(yaml.safe_dump({**JOB, "model": {"config": "config.json"}}))
    with pytest.raises(JobError, match="latent attention"):
        read_job(str(tmp_path / "job.yaml"))


@given(document=st.recursive(st.none() | st.integers() | st.text() | st.booleans(), lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from([*JOB_KEYS, "x"]), inner), max_leaves=8))  # fmt: skip
def test_anything_is_read_or_refused(document: object) -> None:
    with contextlib.suppress(HemiolaError):
        job_of(document, Path("job.yaml"))


def test_the_schema_knows_all_keys() -> None:
    schema = json.loads(Path(job_module.__file__).with_name("job.schema.json").read_text("utf-8"))
    properties = schema["properties"]
    assert set(properties) == set(JOB_KEYS)
    training = properties["training"]["properties"]
    assert tuple(training["framework"]["enum"]) == FRAMEWORKS
    assert tuple(training["precision"]["enum"]) == PRECISIONS
    assert tuple(training["recompute"]["enum"]) == RECOMPUTE
    for part in ("model", "batch", "training", "device"):
        with pytest.raises(HemiolaError, match="there is no key"):
            job_of({**JOB, part: {**JOB.get(part, {}), "unknown": 1}}, Path("job.yaml"))  # type: ignore[dict-item]
    model = {"hidden": 64, "layers": 2, "heads": 2, "kv_heads": 2, "head_dim": 32, "ffn": 64, "gated": True, "vocab": 8, "experts": 2, "top_k": 1}  # fmt: skip
    assert set(model) | {"config"} == set(properties["model"]["properties"])
    assert job_of({**JOB, "model": model}, Path("job.yaml")).trained is not None
