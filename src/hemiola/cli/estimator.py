"""hemiola estimator: labels, training and judgement of the model that says how long a group of operators takes."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
import numpy as np

from hemiola.cli import options
from hemiola.cli.output import make_table, print_json, print_table
from hemiola.cli.progress import counting
from hemiola.errors import FusionError
from hemiola.fusion.estimator.labels import LabelSet, read_labels, write_labels
from hemiola.fusion.estimator.weights import SHIPPED_LABELS, write_weights

LABELS = "labels.json.gz"
MIN_LABELS = 50

labels_option = click.option(
    "--labels", "path", type=click.Path(path_type=Path), default=SHIPPED_LABELS, metavar="FILE",
    help="Labels that generate wrote; by default those of the package.",
)  # fmt: skip
networks_option = click.option(
    "--networks",
    type=click.IntRange(1, 64),
    default=5,
    show_default=True,
    metavar="N",
    help="Of the ensemble.",
)
epochs_option = click.option(
    "--epochs", type=click.IntRange(1, 100_000), default=400, show_default=True, metavar="N"
)


@click.group("estimator")
def command() -> None:
    """The fused-operator model, on one's own device.

    generate measures labels, train fits the model to them, evaluate judges it on labels that it has not seen. All take --json.
    """


def _names(text: str) -> tuple[str, ...]:
    return tuple(part for part in text.split(",") if part)


@command.command("generate")
@click.option(
    "-o",
    "folder",
    required=True,
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Where; a run that was interrupted goes on there.",
)
@click.option("--models", type=_names, metavar="A,B", help="By default all seven.")
@click.option("--sizes", type=_names, default="small,medium", show_default=True, metavar="S,S")
@click.option(
    "--families",
    type=click.IntRange(1),
    default=100,
    show_default=True,
    metavar="N",
    help="Random groups of each model and size, each also cut in two; a larger number continues a smaller one.",
)
@click.option(
    "--jobs",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    metavar="N",
    help="Processes that measure at once; each needs a core that nobody else uses.",
)
@click.option(
    "--on", "where", type=click.Choice(["processes", "ray"]), default="processes", show_default=True
)
@click.option("--seed", type=int, default=14, show_default=True)
@options.as_json
def generate(
    folder: Path, models: tuple[str, ...] | None, sizes: tuple[str, ...], families: int, jobs: int, where: str,
    seed: int, as_json: bool,
) -> None:  # fmt: skip
    """Compile and time random groups of the models' steps, in three processes each."""
    _need_torch()
    from hemiola.integrations.torch.measuring.generate_labels import LabelOrder, generate_labels
    from hemiola.integrations.torch.measuring.processes import LocalWorkers, RayWorkers
    from hemiola.integrations.torch.models.library import MODELS
    from hemiola.integrations.torch.models.training_step import ModelSize

    unknown = [size for size in sizes if size not in [one.value for one in ModelSize]]
    if unknown:
        raise click.BadParameter(
            f"there is no size '{unknown[0]}'; known are {', '.join(ModelSize)}", param_hint="--sizes"
        )
    order = LabelOrder(models or tuple(MODELS), tuple(map(ModelSize, sizes)), families, seed)
    workers = RayWorkers() if where == "ray" else LocalWorkers(jobs)
    with counting("measuring groups") as progress:
        labels = generate_labels(order, folder, workers, progress)
    write_labels(folder / LABELS, labels)
    _report_labels(folder / LABELS, labels, as_json)


def _report_labels(path: Path, labels: LabelSet, as_json: bool) -> None:
    from hemiola.fusion.estimator.judge import noise_floor

    floor = noise_floor(labels) if labels.labels else {}
    if as_json:
        print_json(
            {"file": str(path), "labels": len(labels.labels), "machine": labels.machine, "noise": dict(floor)}
        )
        return
    click.echo(f"{len(labels.labels)} labels of {len(labels.graphs)} graphs in {path}")
    if floor:
        click.echo(
            f"{floor['clean_part']:.0%} are clean: their processes agree to 5 %; median noise {floor['median_error']:.1%}"
        )


def _need_torch() -> None:
    try:
        import torch
    except ImportError:
        raise FusionError("PyTorch is not installed; pip install 'hemiola[torch,estimator]'") from None
    torch.set_num_threads(1)


def _need_geometric() -> None:
    _need_torch()
    try:
        import torch_geometric  # noqa: F401
    except ImportError:
        raise FusionError("PyTorch Geometric is not installed; pip install 'hemiola[estimator]'") from None


def _read(path: Path) -> LabelSet:
    labels = read_labels(path)
    if len(labels.labels) < MIN_LABELS:
        raise FusionError(f"{path}: {len(labels.labels)} labels; at least {MIN_LABELS} are needed")
    return labels


@command.command("train")
@labels_option
@click.option(
    "-o",
    "output",
    required=True,
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="The weights, a NumPy file.",
)
@networks_option
@epochs_option
@click.option("--seed", type=int, default=0, show_default=True)
@options.as_json
def train(path: Path, output: Path, networks: int, epochs: int, seed: int, as_json: bool) -> None:
    """Fit the model to labels; needs PyTorch Geometric."""
    _need_geometric()
    from hemiola.fusion.estimator.judge import accuracy, make_examples
    from hemiola.fusion.estimator.methods import group_times, learn_weights
    from hemiola.fusion.estimator.train import TrainingOptions

    examples = make_examples(_read(path))
    chosen = np.arange(len(examples.seconds))
    with counting("training networks") as progress:
        weights = learn_weights(
            examples, chosen, TrainingOptions(num_networks=networks, num_epochs=epochs, seed=seed), progress
        )
    write_weights(output, weights)
    fitted = accuracy(
        group_times(weights.prior, weights.networks, examples.groups), examples.seconds, examples.is_clean
    )
    if as_json:
        print_json({"file": str(output), "labels": len(chosen), "fitted_median_error": fitted.median_all})
    else:
        click.echo(
            f"{networks} networks, fitted to {len(chosen)} labels with a median error of {fitted.median_all:.1%}, in {output}"
        )
        click.echo("How good they are on groups that they have not seen: hemiola estimator evaluate")


@command.command("evaluate")
@labels_option
@networks_option
@epochs_option
@options.as_json
def evaluate(path: Path, networks: int, epochs: int, as_json: bool) -> None:
    """Judge the model and its rivals on labels that they were not trained on."""
    _need_geometric()
    from hemiola.fusion.estimator.comparison import compare
    from hemiola.fusion.estimator.train import TrainingOptions

    with counting("training and judging") as progress:
        found = compare(_read(path), TrainingOptions(num_networks=networks, num_epochs=epochs), progress)
    if as_json:
        print_json(asdict(found))
    else:
        print_comparison(asdict(found))


def print_comparison(found: dict[str, Any]) -> None:
    """A table per way to split, and the noise floor."""
    floor = found["noise"]
    click.echo(
        f"{found['num_labels']} labels, {floor['clean_part']:.0%} clean; one process is off the others by"
        f" {floor['median_error']:.1%} at the median, {floor['ninetieth_error']:.1%} at the 90th percentile"
    )
    columns = ("median, clean", "median, all", "within 14 %", "90th percentile", "pairs ordered right")
    for split, rows in found["splits"].items():
        table = make_table(split, *columns, numbers=columns)
        for method, row in rows.items():
            cells = (
                row["median_clean"],
                row["median_all"],
                row["within"],
                row["ninetieth_clean"],
                row["ordered_right"],
            )
            table.add_row("", method, *(f"{cell:.1%}" for cell in cells))
        print_table(table)
