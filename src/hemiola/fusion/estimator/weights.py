"""EstimatorWeights: everything that the estimator learned, as one NumPy file."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hemiola.errors import FormatError
from hemiola.fusion.estimator.amounts import GROUP_AMOUNTS, OPERATOR_AMOUNTS
from hemiola.fusion.estimator.features import NUM_FEATURES
from hemiola.fusion.estimator.network import Layer, PartNetwork
from hemiola.fusion.estimator.operator_facts import Numbers
from hemiola.fusion.estimator.prior import PhysicalPrior

VERSION = 1
SHIPPED = Path(__file__).parent / "data" / "weights.npz"
SHIPPED_LABELS = Path(__file__).parent / "data" / "labels.json.gz"
_LAYER_FIELDS = ("own", "bias", "sources", "readers")
_NETWORK_FIELDS = ("mean", "scale", "enter", "enter_bias", "inner", "inner_bias", "leave", "leave_bias")


@dataclass(frozen=True)
class EstimatorWeights:
    """The prior and the ensemble, and the machine whose labels they were fitted to."""

    prior: PhysicalPrior
    networks: tuple[PartNetwork, ...]
    machine: str


def write_weights(path: Path, weights: EstimatorWeights) -> None:
    """In single precision, which is more than the labels have."""
    arrays: dict[str, Any] = {
        "version": np.array(VERSION),
        "machine": np.array(weights.machine),
        "call_costs": weights.prior.call_costs,
        "operator_costs": weights.prior.operator_costs,
        "num_networks": np.array(len(weights.networks)),
    }
    for number, one in enumerate(weights.networks):
        arrays[f"{number}.kinds"] = np.array(one.kinds)
        arrays[f"{number}.num_layers"] = np.array(len(one.layers))
        arrays |= {f"{number}.{name}": getattr(one, name).astype(np.float32) for name in _NETWORK_FIELDS}
        for at, layer in enumerate(one.layers):
            fields = {name: getattr(layer, name).astype(np.float32) for name in _LAYER_FIELDS}
            arrays |= {f"{number}.{at}.{name}": value for name, value in fields.items()}
    _write_stable(path, arrays)


def _write_stable(path: Path, arrays: dict[str, Any]) -> None:
    """Like `numpy.savez_compressed`, without the time of writing: the same weights give the same bytes."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, array in arrays.items():
            buffer = io.BytesIO()
            np.lib.format.write_array(buffer, np.asarray(array), allow_pickle=False)
            file.writestr(zipfile.ZipInfo(f"{name}.npy"), buffer.getvalue(), zipfile.ZIP_DEFLATED)


def read_weights(path: Path = SHIPPED) -> EstimatorWeights:
    """The inverse of `write_weights`; weights of other features are refused."""
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        weights = _weights(arrays)
    except (OSError, EOFError, ValueError, KeyError, zipfile.BadZipFile) as error:
        raise FormatError(
            f"{path}: these are no weights of the estimator ({error}); hemiola estimator train writes them"
        ) from None
    expected = (len(GROUP_AMOUNTS), len(OPERATOR_AMOUNTS), NUM_FEATURES)
    found = (
        len(weights.prior.call_costs), len(weights.prior.operator_costs), len(weights.networks[0].mean),
    )  # fmt: skip
    if expected != found:
        raise FormatError(
            f"{path}: weights for {found} amounts and features; this Hemiola has {expected}: train them again"
        )
    return weights


def _weights(arrays: dict[str, Any]) -> EstimatorWeights:
    if int(arrays["version"]) != VERSION:
        raise ValueError(f"version {int(arrays['version'])}; this Hemiola reads version {VERSION}")
    prior = PhysicalPrior(arrays["call_costs"], arrays["operator_costs"])
    networks = tuple(_network(arrays, number) for number in range(int(arrays["num_networks"])))
    if not networks:
        raise ValueError("no networks")
    return EstimatorWeights(prior, networks, str(arrays["machine"]))


def _network(arrays: dict[str, Any], number: int) -> PartNetwork:
    def numbers(name: str) -> Numbers:
        array: Numbers = arrays[f"{number}.{name}"].astype(np.float64)
        return array

    layers = tuple(
        Layer(*(numbers(f"{at}.{name}") for name in _LAYER_FIELDS))
        for at in range(int(arrays[f"{number}.num_layers"]))
    )
    kinds: Sequence[str] = arrays[f"{number}.kinds"].tolist()
    fields = {name: numbers(name) for name in _NETWORK_FIELDS}
    return PartNetwork(kinds=tuple(kinds), layers=layers, **fields)
