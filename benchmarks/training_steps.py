"""Predicted training steps against public ones: `python benchmarks/training_steps.py [--data training_steps_h100.csv]`.

The efficiency of each precision and the reserve of the allocator are fitted to the rows of eight devices; all rows are then predicted
with the constants of the package, which are these. Rows of more devices were not fitted. Columns: model,gpus,parallelism,sequence,local_batch,
global_batch,recompute,compiled,dtype,tokens_per_second_per_gpu,memory_gib.
"""

from __future__ import annotations

import argparse
import csv
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean

from scipy.optimize import minimize_scalar

from hemiola.placement.axes import parse_axes
from hemiola.placement.model import Model
from hemiola.placement.score import RequestTime, rank_placements
from hemiola.planner.accelerator import ACCELERATORS, GB
from hemiola.planner.compute_time import EFFICIENCY, compute_time
from hemiola.planner.degrees import Degrees, degrees_of
from hemiola.planner.memory import RESERVE, memory_use
from hemiola.planner.step_time import job_traffic, step_time
from hemiola.planner.training import Training
from hemiola.report.machine import describe_machine
from hemiola.topology.presets import load_system

DATA = Path(__file__).parents[2] / "shared" / "data" / "training_steps_h100.csv"
MODELS = {
    "llama3.1-8b": {"hidden": 4096, "layers": 32, "heads": 32, "ffn": 14336},
    "llama3.1-70b": {"hidden": 8192, "layers": 80, "heads": 64, "ffn": 28672},
    "llama3.1-405b": {"hidden": 16384, "layers": 126, "heads": 128, "ffn": 53248},
}
DEVICE = replace(ACCELERATORS["hgx-h100"], name="H100 96GB", memory_bytes=96 * GB)
FITTED_GPUS = 8


@dataclass(frozen=True)
class Row:
    """One public step."""

    name: str
    gpus: int
    model: Model
    training: Training
    degrees: Degrees
    tokens_per_second: float
    memory_gib: float

    def predicted(self) -> tuple[float, float]:
        """Tokens per second of a device, and GiB, as `hemiola plan` computes them."""
        step = step_time(self.model, self.training, self.degrees, DEVICE, self.times()).seconds
        tokens = self.model.global_batch * self.model.seq / self.gpus / step
        return tokens, memory_use(self.model, self.training, self.degrees).num_bytes / 2**30

    def times(self) -> tuple[RequestTime, ...]:
        """Of the requests, under the best placement."""
        system = load_system(f"hgx-h100:{self.gpus // 8}")
        traffic = job_traffic(self.model, self.training, self.degrees, DEVICE)
        return rank_placements(system, self.degrees.axes, traffic, 1).scores[0].times


def read_rows(path: Path) -> list[Row]:
    """All rows of a table."""
    with path.open() as file:
        return [_row(fields) for fields in csv.DictReader(file)]


def _row(fields: Mapping[str, str]) -> Row:
    batch = int(fields["local_batch"])
    sizes = MODELS[fields["model"]]
    model = Model(
        hidden=sizes["hidden"],
        layers=sizes["layers"],
        heads=sizes["heads"],
        kv_heads=8,
        ffn=sizes["ffn"],
        gated=True,
        vocab=128256,
        seq=int(fields["sequence"]),
        micro_batch=batch,
        global_batch=int(fields["global_batch"]),
    )
    training = Training("torchtitan", fields["dtype"], fields["recompute"], fields["compiled"] == "yes")
    degrees = degrees_of(parse_axes(fields["parallelism"].replace(" ", ",")), batch)
    return Row(
        fields["model"],
        int(fields["gpus"]),
        model,
        training,
        degrees,
        float(fields["tokens_per_second_per_gpu"]),
        float(fields["memory_gib"]),
    )


def fit(rows: list[Row]) -> dict[str, float]:
    """The share of the peak of each precision that makes the logarithms of computed and measured steps differ least."""
    found = dict(EFFICIENCY)
    for precision in ("bf16", "float8"):
        mine = [row for row in rows if row.training.precision == precision]

        def error(share: float, precision: str = precision, mine: list[Row] = mine) -> float:
            trial = {**found, precision: share}
            return sum(
                math.log(_step(row) / (compute_time(row.model, row.training, row.degrees, DEVICE, trial).seconds + _exposed(row))) ** 2
                for row in mine
            )  # fmt: skip

        found[precision] = float(minimize_scalar(error, bounds=(0.05, 0.95), method="bounded").x)
    return found


def _step(row: Row) -> float:
    return row.model.global_batch * row.model.seq / row.gpus / row.tokens_per_second


def _exposed(row: Row) -> float:
    return step_time(row.model, row.training, row.degrees, DEVICE, row.times()).exposed


def print_fit(rows: list[Row]) -> None:
    """The constants that these rows ask for."""
    shares = ", ".join(f"{name} {share:.4f}" for name, share in fit(rows).items())
    reserve = math.exp(fmean(math.log(row.memory_gib / row.predicted()[1] * RESERVE) for row in rows))
    print(f"fitted to rows of {FITTED_GPUS} GPUs: {shares}, reserve {reserve:.4f}")


def main() -> None:
    """Fit, predict and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=DATA)
    rows = read_rows(parser.parse_args().data)
    print(describe_machine())
    fitted = [row for row in rows if row.gpus == FITTED_GPUS]
    if fitted:
        print_fit(fitted)
    print("constants of the package:", dict(EFFICIENCY), "reserve", RESERVE)
    print(
        f"{'model':14} {'gpus':>5} {'training':34} {'tokens/s':>9} {'predicted':>9} {'error':>7} {'GiB':>6} {'predicted':>9} {'error':>7}"
    )
    for row in rows:
        tokens, memory = row.predicted()
        t = row.training
        words = f"{t.precision} {t.recompute}{' compiled' if t.compiled else ''}{'' if row.gpus > FITTED_GPUS else ' (fitted)'}"
        print(
            f"{row.name:14} {row.gpus:5} {words:34} {row.tokens_per_second:9.0f} {tokens:9.0f} {tokens / row.tokens_per_second - 1:+7.1%}"
            f" {row.memory_gib:6.1f} {memory:9.1f} {memory / row.memory_gib - 1:+7.1%}"
        )


if __name__ == "__main__":
    main()
