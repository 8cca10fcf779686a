"""Shapes: the systems that ``hemiola lab`` can build, shipped as YAML files."""

from __future__ import annotations

from difflib import get_close_matches
from pathlib import Path

from hemiola.errors import TopologyError
from hemiola.topology.parse.text_file import read_text_file
from hemiola.topology.parse.yaml_system import MAX_CHARACTERS, read_system
from hemiola.topology.system import System

FOLDER = Path(__file__).parent / "shapes"


def shape_names() -> list[str]:
    """The shapes that are shipped."""
    return sorted(
        entry.name.removesuffix(".yaml") for entry in FOLDER.iterdir() if entry.name.endswith(".yaml")
    )


def load_shape(name: str) -> System:
    """A shipped shape by its name, or a system in a YAML file."""
    return read_system(shape_text(name), Path(name).name)


def shape_text(name: str) -> str:
    """The YAML of a shipped shape or of a file."""
    names = shape_names()
    if name in names:
        return (FOLDER / f"{name}.yaml").read_text("utf-8")
    path = Path(name)
    if path.suffix not in (".yaml", ".yml"):
        near = get_close_matches(name, names, n=1)
        hint = (
            f"did you mean {near[0]}?"
            if near
            else f"shipped are {', '.join(names)}, and a YAML file does as well"
        )
        raise TopologyError(f"there is no shape {name!r}; {hint}")
    return read_text_file(name, MAX_CHARACTERS)
