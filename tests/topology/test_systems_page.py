"""docs/systems.md: every example in it is read, and every key is on it."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest

from hemiola.cli.systems import import_
from hemiola.topology.parse.yaml_system import read_system
from hemiola.topology.presets import abouts
from hemiola.topology.system import Compute, Edge, Fabric, Link, ProtocolCosts, System
from hemiola.topology.write_system import write_system

PAGE = (Path(__file__).parents[2] / "docs" / "systems.md").read_text("utf-8")
EXAMPLES = re.findall(r"^```yaml\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("text", EXAMPLES, ids=lambda text: text.splitlines()[0])
def test_an_example_is_read(text: str) -> None:
    system = read_system(text)
    assert text.startswith(f"name: {system.name}\n")
    assert read_system(write_system(system)) == system


def test_the_examples_show_every_kind_of_fabric() -> None:
    levels = [level for text in EXAMPLES for level in read_system(text).levels]
    assert {level.fabric.kind for level in levels} == {"switch", "rails", "mesh"}


def test_the_uneven_example_has_what_the_page_says() -> None:
    uneven = next(read_system(text) for text in EXAMPLES if text.startswith("name: uneven"))
    assert uneven.devices == ((0, 0), (0, 1), (1, 0), (2, 0), (2, 1))
    assert uneven.link_of((0,)) == Link(1e10, 1e10, 2e-6)


@pytest.mark.parametrize("kind", [System, Link, Fabric, Edge, Compute, ProtocolCosts])
def test_every_key_is_on_the_page(kind: type) -> None:
    said_otherwise = {"first", "second", "missing"}
    for field in fields(kind):
        assert field.name in said_otherwise or re.search(rf"`[^`]*\b{field.name}\b", PAGE), field.name


def test_every_system_that_is_shipped_is_on_the_page() -> None:
    for name in abouts():
        assert re.search(rf"`{name}(:N)?`", PAGE), name


def test_the_options_of_import_are_those_on_the_page() -> None:
    taken = {option for parameter in import_.params for option in parameter.opts if option.startswith("--")}
    named = set(re.findall(r"`(--[a-z-]+)`", PAGE.partition("## From a cluster")[2]))
    assert named <= taken
    assert taken - named == {"--json", "--name", "--output"}
