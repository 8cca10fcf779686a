"""write_job_plan: a plan as a folder: everything as JSON, the placement, the collectives, and a README that says how each file is applied and undone."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hemiola.compiler.deliver import deliver
from hemiola.compiler.options import CompileOptions
from hemiola.errors import FormatError, HemiolaError
from hemiola.ir.targets import TARGET_OF_RUNTIME, TARGETS
from hemiola.placement.export import write_placement
from hemiola.planner.collective_choice import CollectiveChoice
from hemiola.planner.job_plan import JobPlan

JSON_NAME = "job_plan.json"


def write_job_plan(plan: JobPlan, folder: Path, changed: Mapping[str, JobPlan] | None = None) -> list[Path]:
    """Write a plan, with the answers for changed machines; files of an earlier one are replaced."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FormatError(f"{folder}: the folder cannot be made: {error.strerror}") from None
    written = [folder / JSON_NAME]
    document = job_plan_fields(plan, changed or {})
    written[0].write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n", "utf-8")
    written += write_placement(plan.applied, folder / "placement")
    collectives, notes = _write_collectives(plan, folder / "collectives")
    written += collectives
    readme = folder / "README.md"
    readme.write_text(_readme(plan, collectives, notes), "utf-8")
    return [*written, readme]


def job_plan_fields(plan: JobPlan, changed: Mapping[str, JobPlan]) -> dict[str, Any]:
    """All of a plan as JSON, with the answers for changed machines."""
    return {
        **plan.to_json(),
        "what_if": [{"change": words, **one.to_json()} for words, one in changed.items()],
    }


def _write_collectives(plan: JobPlan, folder: Path) -> tuple[list[Path], list[str]]:
    """A file for every request whose plan is faster than the vendor's; what a target refuses is said instead."""
    for old in [*folder.glob("*.plan"), *folder.glob("*.xml")]:
        old.unlink()
    written, notes, seen = list[Path](), list[str](), set[str]()
    for number, choice in enumerate(plan.applied_collectives):
        name = f"{number:02d}-{choice.request.collective}-{'-'.join(choice.request.over)}"
        if choice.tuning.sizes[0].chosen.name in seen:
            continue
        seen.add(choice.tuning.sizes[0].chosen.name)
        folder.mkdir(parents=True, exist_ok=True)
        paths, refused = _deliver(plan, choice, folder / name)
        written += paths
        notes += [f"{name}: {reason}" for reason in refused]
    return written, notes


def _deliver(plan: JobPlan, choice: CollectiveChoice, stem: Path) -> tuple[list[Path], list[str]]:
    candidate = choice.tuning.sizes[0].chosen.candidate
    assert candidate is not None
    proven = choice.tuning.space.proven_plan(candidate, in_place=False)
    targets = {".plan": "plan", ".xml": TARGET_OF_RUNTIME.get(plan.job.system.runtime)}
    written, refused = list[Path](), list[str]()
    for suffix, target in targets.items():
        if target is None:
            continue
        try:
            deliver(proven, stem.with_suffix(suffix), TARGETS[target], slots=CompileOptions().slots)
            written.append(stem.with_suffix(suffix))
        except HemiolaError as error:
            refused.append(f"no {target}: {str(error).splitlines()[0]}")
    return written, refused


def _readme(plan: JobPlan, collectives: list[Path], notes: list[str]) -> str:
    lines = [
        f"# {plan.job.name} on {plan.job.system.name}",
        "",
        "- `report.html`: everything that was found, to look at; it opens offline in any browser.",
        f"- `{JSON_NAME}`: the same for programs; `hemiola report` makes the page from it again.",
        "- `placement/`: where the axes go; its own README.md says how each file is applied. To undo it, start the job without them.",
    ]
    if collectives:
        lines += [
            "- `collectives/*.plan`: plans that our own runtime takes; `HEMIOLA_PLANS=collectives` makes it use them, and without the variable it"
            " chooses by itself.",
            "- `collectives/*.xml`: files for MSCCL (a fork of NCCL; stock NCCL loads none) or for RCCL: `MSCCL_XML_FILES=FILE`, or a copy in the folder"
            " `MSCCL_ALGO_DIR`. `hemiola explain FILE --runtime rccl --bytes N --ranks R` says whether it would be used. Unset the variable to undo it.",
        ]
    elif plan.collectives is not None:
        lines.append(
            "- Nothing shortens the step over the vendor's collectives, so no files are written for them."
        )
    else:
        lines.append(
            "- The system is too large to replay collectives here; `hemiola tune` does it for one group of devices at a time."
        )
    lines += ["", *(f"- {note}" for note in notes)] if notes else []
    return "\n".join(lines) + "\n"
