"""Systems written as YAML."""

from __future__ import annotations

from hypothesis import given, settings

from hemiola.topology.parse.yaml_system import read_system
from hemiola.topology.shapes import load_shape, shape_names
from hemiola.topology.system import Edge, Fabric, Level, Link, System
from hemiola.topology.write_system import write_system
from topology.systems import systems


@settings(deadline=None)
@given(systems())
def test_what_is_written_reads_back_as_the_same_system(system: System) -> None:
    read = read_system(write_system(system))
    assert read == system
    assert list(read.protocols) == list(system.protocols)


@settings(deadline=None)
@given(systems())
def test_the_text_is_stable(system: System) -> None:
    text = write_system(system)
    assert write_system(read_system(text)) == text


def test_the_text_is_short() -> None:
    for name in shape_names():
        system = load_shape(name)
        lines = write_system(system).splitlines()
        assert len(lines) <= 3 + len(system.levels) + 2
    assert write_system(load_shape("uneven-4x2")).splitlines()[2:] == [
        "levels:",
        "  - {name: host, count: 4, link: {bandwidth: 25MB/s}}",
        "  - {name: rank, count: 2, link: {bandwidth: 2GB/s}}",
        "exceptions:",
        "  - {host: 3, link: {bandwidth: 6.25MB/s}}",
    ]


def test_a_bandwidth_with_many_digits_is_kept() -> None:
    system = System("odd", (Level("gpu", 2, Link(123456789.125, 1e22 / 3e4)),))
    assert read_system(write_system(system)) == system


def test_a_mesh_names_its_edges_or_its_form() -> None:
    def written(*edges: Edge) -> str:
        return write_system(
            System("mesh", (Level("gpu", 3, None, Fabric("mesh", edges=edges)),))
        ).splitlines()[-1]

    one, two, three = Edge(0, 1, 25e9, 1e-6), Edge(1, 2, 25e9, 1e-6), Edge(2, 0, 25e9, 1e-6)
    assert written(one).endswith(
        "fabric: {kind: mesh, edges: [{between: [0, 1], bandwidth: 25GB/s, latency: 1us}]}}"
    )
    assert written(one, two, three).endswith(
        "fabric: {kind: mesh, edges: {form: ring, bandwidth: 25GB/s, latency: 1us}}}"
    )
    assert written(one, three, two).count("between") == 3
