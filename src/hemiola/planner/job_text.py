"""job_text: a job as YAML with comments, for a person to go on from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import yaml

from hemiola.planner.training import FRAMEWORKS, PRECISIONS, RECOMPUTE


@dataclass(frozen=True, slots=True)
class JobDescription:
    """What a person says of a job."""

    system: str
    config: str
    """The file of the model."""
    global_batch: int
    sequence: int
    framework: str = FRAMEWORKS[0]
    axes: str = ""
    """What is run today, as ``tp=8,dp=4``; empty: nothing yet."""
    device: str = ""
    """The preset whose devices a system has that is none itself; empty: the system is a preset."""


def job_text(answers: JobDescription) -> str:
    """YAML that `read_job` reads."""
    lines = [
        "# A job for `hemiola plan`: which degrees of parallelism, where they go, which collectives, and what that gains.",
        "",
        "# A preset with its number of hosts (`hemiola systems` lists them), or a YAML file (`hemiola systems import` makes one).",
        _line({"system": answers.system}),
    ]
    if answers.device:
        lines += [
            "# How fast its devices compute: as those of this preset.",
            f"device: {_flow({'like': answers.device})}",
        ]
    lines += [
        "",
        "# The model's own file; sizes that stand here too count before those of the file.",
        f"model: {_flow({'config': answers.config})}",
        "# Sequences of a step, and tokens of each; micro: sequences of a microbatch, otherwise the best is looked for.",
        f"batch: {_flow({'global': answers.global_batch, 'sequence': answers.sequence})}",
        f"# framework: {', '.join(FRAMEWORKS)}; precision: {', '.join(PRECISIONS)}; recompute: {', '.join(RECOMPUTE)}; compiled: whether",
        "# elementwise operators are fused.",
        f"training: {_flow({'framework': answers.framework, 'precision': 'bf16', 'recompute': 'selective', 'compiled': True})}",
        "",
    ]
    if answers.axes:
        lines += [
            "# What is run today; `degrees: auto` compares it with all others.",
            _line({"axes": answers.axes}),
            "degrees: auto",
        ]
    else:
        lines += ["# Say what is run today, and it is compared: axes: {tp: 8, pp: 2, dp: 4}", "degrees: auto"]
    return "\n".join(lines) + "\n"


def _line(value: Mapping[str, str]) -> str:
    return yaml.safe_dump(dict(value), default_flow_style=False, allow_unicode=True, width=1000).strip()


def _flow(value: Mapping[str, object]) -> str:
    return yaml.safe_dump(
        dict(value), default_flow_style=True, allow_unicode=True, sort_keys=False, width=1000
    ).strip()
