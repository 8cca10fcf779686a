"""hemiola init: a commented job file, from five questions or from options."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from hemiola.cli import options
from hemiola.cli.output import print_json
from hemiola.errors import HemiolaError, JobError
from hemiola.planner.accelerator import ACCELERATORS
from hemiola.planner.job import job_of
from hemiola.planner.job_text import JobDescription, job_text
from hemiola.planner.training import FRAMEWORKS

QUESTIONS = {
    "system": "Machine (a preset with its hosts such as hgx-h100:16, or a YAML file)",
    "model": "File of the model (config.json of Hugging Face, torchtitan's keys, or Megatron's flags)",
    "batch": "Sequences of a step",
    "sequence": "Tokens of a sequence",
    "axes": "What is run today, such as tp=8,pp=2,dp=8 (empty: nothing yet)",
}


@click.command("init")
@click.option("--system", metavar="S", help="A preset with its number of hosts, or a YAML file.")
@click.option(
    "--model", metavar="FILE", help="config.json of Hugging Face, torchtitan's keys, or Megatron's flags."
)
@click.option("--batch", type=click.IntRange(1), metavar="N", help="Sequences of a step.")
@click.option("--sequence", type=click.IntRange(1), metavar="N", help="Tokens of a sequence.")
@click.option("--axes", metavar="AXES", help="What is run today: tp=8,pp=2,dp=8.")
@click.option(
    "--framework", type=click.Choice(FRAMEWORKS), default=FRAMEWORKS[0], show_default=True, help="Who trains."
)
@click.option("--like", metavar="PRESET", help="Whose devices a system has that is no preset.")
@click.option("-o", "output", type=click.Path(path_type=Path), default=Path("job.yaml"), show_default=True, metavar="FILE", help="Where to write the job.")  # fmt: skip
@options.as_json
def command(
    system: str | None, model: str | None, batch: int | None, sequence: int | None, axes: str | None,
    framework: str, like: str | None, output: Path, as_json: bool,
) -> None:  # fmt: skip
    """Write a commented job for `hemiola plan`; what no option says is asked for where a person is watching."""
    if output.exists():
        raise JobError(f"{output} is there already; remove it, or give another -o FILE")
    system = _asked("system", system)
    answers = JobDescription(
        system,
        _asked("model", model),
        int(_asked("batch", batch)),
        int(_asked("sequence", sequence)),
        framework,
        axes if axes is not None else _asked("axes", None, default=""),
        like or "",
    )
    text = job_text(answers)
    _check(text, output, answers)
    output.write_text(text, "utf-8")
    if as_json:
        print_json({"file": str(output), "job": text})
    else:
        click.echo(f"Wrote {output}; `hemiola plan {output} -o out` answers it.")


def _asked(key: str, given: object, default: str | None = None) -> str:
    """What an option says, or what a person answers."""
    if given is not None:
        return str(given)
    if not sys.stdin.isatty():
        if default is not None:
            return default
        raise JobError(f"--{key} is missing, and nobody is there to be asked; {QUESTIONS[key]}")
    return str(click.prompt(QUESTIONS[key], default=default, show_default=False, err=True))


def _check(text: str, output: Path, answers: JobDescription) -> None:
    """Refuse a job that `hemiola plan` would refuse."""
    import yaml

    try:
        job_of(yaml.safe_load(text), output)
    except HemiolaError as error:
        known = answers.system.partition(":")[0] in ACCELERATORS
        hint = "" if known or answers.device else "; with --like hgx-h100 it has the devices of that preset"
        raise JobError(f"{error}{hint}") from None
