"""``load_system``: a system by its name, which is a preset with a size, a shape of the lab, this machine, or a YAML file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from difflib import get_close_matches
from functools import cache
from pathlib import Path

from hemiola.errors import TopologyError
from hemiola.topology.parse.yaml_system import MAX_DEVICES, read_system
from hemiola.topology.shapes import load_shape, shape_names
from hemiola.topology.system import System
from hemiola.topology.this_machine import ABOUT, THIS_MACHINE, this_machine

FOLDER = Path(__file__).parent / "presets"
"""A YAML file for each preset, with the sources of its figures."""


def preset_names() -> list[str]:
    """The machines that are shipped, without the shapes of the lab."""
    return sorted(
        entry.name.removesuffix(".yaml") for entry in FOLDER.iterdir() if entry.name.endswith(".yaml")
    )


@cache
def abouts() -> Mapping[str, str]:
    """Every name that `load_system` knows, with a description."""
    presets = {name: _preset(name).about for name in preset_names()}
    return {**presets, **{name: load_shape(name).about for name in shape_names()}, THIS_MACHINE: ABOUT}


def load_system(name: str) -> System:
    """A system by its name: ``dgx-a100:4``, ``rails-2x4``, ``this-machine:8`` or ``cluster.yaml``.

    The number after the colon is how many units of the outermost level there are: hosts of a preset, racks where it
    is made of racks, ranks on this machine. Asking for this machine measures it.
    """
    if Path(name).suffix in (".yaml", ".yml"):
        return load_shape(name)
    stem, colon, size = name.partition(":")
    if stem == THIS_MACHINE:
        return this_machine(_size(name, size, 1 << 12) if colon else None)
    if stem in shape_names():
        if colon:
            raise TopologyError(f"{name}: the shape {stem} has its size in its name; leave out :{size[:20]}")
        return load_shape(stem)
    if stem not in preset_names():
        raise TopologyError(f"there is no system {name[:60]!r}; {_hint(stem)}")
    system = _preset(stem)
    if not colon:
        return system
    count = _size(name, size, MAX_DEVICES // system.num_ranks)
    return replace(system, name=name, levels=(replace(system.levels[0], count=count), *system.levels[1:]))


@cache
def _preset(name: str) -> System:
    return read_system((FOLDER / f"{name}.yaml").read_text("utf-8"), name)


def _size(name: str, size: str, most: int) -> int:
    if not (size.isascii() and size.isdecimal() and len(size) <= 9 and 1 <= int(size) <= most):
        stem = name.partition(":")[0]
        raise TopologyError(
            f"{name[:60]}: expected a whole number from 1 to {most} after the colon, as in {stem}:2, found {size[:20]!r}"
        )
    return int(size)


def _hint(stem: str) -> str:
    known = [*preset_names(), *shape_names(), THIS_MACHINE]
    near = get_close_matches(stem[:60], known, n=1)
    if near:
        return f"did you mean {near[0]}?"
    return "hemiola systems lists those that are shipped, and a YAML file does as well"
