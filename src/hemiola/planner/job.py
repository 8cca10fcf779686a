"""Job: a whole question, read from YAML: a machine, a model or its traffic, and what the user runs today.

system: hgx-h100:16
model: {config: config.json}
batch: {global: 128, sequence: 4096}
training: {framework: megatron, precision: bf16, recompute: selective}
axes: {tp: 8, pp: 4, dp: 4}
degrees: auto
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from hemiola.errors import JobError, PlacementError, TopologyError
from hemiola.placement.axes import Axes, check_sizes, parse_axes
from hemiola.placement.model import Model, read_model
from hemiola.placement.read_traffic import traffic_of
from hemiola.placement.traffic import Traffic
from hemiola.planner.accelerator import EXAMPLE, Accelerator, find_accelerator
from hemiola.planner.model_config import read_model_config
from hemiola.planner.training import Training
from hemiola.topology.parse.fields import Fields, shown
from hemiola.topology.parse.text_file import read_text_file
from hemiola.topology.presets import load_system
from hemiola.topology.system import System

JOB_KEYS = (
    "name", "system", "device", "model", "batch", "training", "axes", "degrees", "traffic", "computation",
)  # fmt: skip
"""Of a job; `planner/job.schema.json` describes each of them for editors."""
MOST_BYTES = 1 << 20
LARGEST = 1 << 40
MODEL_EXAMPLE = "{config: config.json} or {hidden: 8192, layers: 80, heads: 64, kv_heads: 8, ffn: 28672, gated: true, vocab: 128256}"


@dataclass(frozen=True)
class ModelJob:
    """A model that is trained."""

    model: Model
    training: Training
    device: Accelerator
    micro_batch: int | None
    """Sequences of a microbatch; None: the best is looked for."""


@dataclass(frozen=True)
class Job:
    """What is asked."""

    name: str
    system: System
    axes: Axes | None
    """What the user runs today, or asks for; None: all degrees are looked at."""
    search_degrees: bool
    trained: ModelJob | None
    """None where the job is plain traffic."""
    traffic: Traffic | None
    """None where it is derived from the model."""


def read_job(path: str) -> Job:
    """A job from a YAML file; files that it names are beside it."""
    try:
        document = yaml.safe_load(read_text_file(path, MOST_BYTES))
    except (yaml.YAMLError, ValueError, RecursionError):
        raise JobError(f"{path}: this is not YAML; expected keys such as system: dgx-a100:4") from None
    except TopologyError as error:
        raise JobError(str(error)) from None
    try:
        return job_of(document, Path(path))
    except JobError as error:
        raise JobError(f"{path}: {error}") from None
    except (TopologyError, PlacementError) as error:
        raise JobError(f"{path}: {error}") from None


def job_of(document: object, path: Path) -> Job:
    """A job from a document."""
    fields = Fields.of("job", document, "system: dgx-a100:4").only(*JOB_KEYS)
    fields = Fields("", fields.values)
    system = load_system(_beside(fields.text("system", "dgx-a100:4"), path))
    axes = None if fields.values.get("axes") is None else _axes(fields.values["axes"])
    degrees = fields.text("degrees", "auto", "as given" if axes else "auto")
    if degrees not in ("auto", "as given"):
        raise JobError(
            f"degrees: expected auto, found {shown(degrees)}; sizes of axes are given as axes: {{tp: 8, dp: 4}}"
        )
    if axes is not None:
        check_sizes(axes, system.num_ranks, system.name)
    name = fields.text("name", "llama-70b", path.stem)
    if (fields.values.get("model") is None) == (fields.values.get("traffic") is None):
        raise JobError(f"a job has either a model, such as model: {MODEL_EXAMPLE}, or a list of traffic")
    if fields.values.get("traffic") is not None:
        if axes is None:
            raise JobError("traffic runs over axes: say axes: {data: 8, model: 4}")
        known = {key: fields.values[key] for key in ("traffic", "computation") if key in fields.values}
        return Job(name, system, axes, False, None, traffic_of(known, axes))
    trained = _model_job(fields, system, path)
    return Job(name, system, axes, degrees == "auto", trained, None)


def _model_job(fields: Fields, system: System, path: Path) -> ModelJob:
    given = fields.part("model", MODEL_EXAMPLE)
    sizes: dict[str, Any] = dict(given.values)
    config = sizes.pop("config", None)
    if config is not None:
        sizes = {**read_model_config(_beside(given.text("config", "config.json"), path)), **sizes}
    batch = fields.part("batch", "{global: 128, sequence: 4096}").only("global", "micro", "sequence")
    micro = batch.whole("micro", 1, LARGEST, 1) if batch.values.get("micro") is not None else None
    sizes |= {
        "seq": batch.whole("sequence", 1, LARGEST),
        "global_batch": batch.whole("global", 1, LARGEST),
        "micro_batch": micro or 1,
    }
    model = read_model(Fields("model", sizes))
    settings = fields.part("training", "{framework: megatron}").only(
        "framework", "precision", "recompute", "compiled"
    )
    training = Training(
        settings.text("framework", "megatron", "megatron"),
        settings.text("precision", "bf16", "bf16"),
        settings.text("recompute", "selective", "selective"),
        settings.flag("compiled"),
    )
    device = find_accelerator(system.name, fields.part("device", EXAMPLE))
    return ModelJob(model, training, device, micro)


def _axes(value: object) -> Axes:
    """Axes as a mapping of names to sizes, or as a text like ``data=8,model=4``."""
    if isinstance(value, dict):
        value = ",".join(f"{name}={size}" for name, size in value.items())
    if not isinstance(value, str):
        raise JobError(f"axes: expected names and sizes such as {{tp: 8, dp: 4}}, found {shown(value)}")
    return parse_axes(value)


def _beside(name: str, path: Path) -> str:
    """A file that a job names, relative to the job; any other name as it is."""
    file = path.parent / name
    return str(file) if file.is_file() else name
