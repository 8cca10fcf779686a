"""Systems read from YAML: what is taken, and what is said of everything else."""

from __future__ import annotations

import math
import re

import pytest

from hemiola.errors import TopologyError
from hemiola.topology.parse.yaml_system import MAX_CHARACTERS, read_system
from hemiola.topology.system import Compute, Edge, Fabric, Level, Link, ProtocolCosts, System

GPU = "{name: gpu, count: 2, link: {bandwidth: 300GB/s}}"
HOST = "{name: host, count: 4, link: {bandwidth: 25GB/s}}"
TWO = f"levels: [{HOST}, {GPU}]\n"


def test_everything_that_a_system_can_say() -> None:
    text = """
    name: all
    about: everything at once
    levels:
      - {name: rack, count: 2, link: {bandwidth_out: 1GB/s, bandwidth_in: 2GB/s, latency: 3us}, fabric: {bandwidth: 3GB/s, reduces: true}}
      - {name: host, count: 2, link: {bandwidth: 50Gbit/s, num: 2, behind: [0, 1, 1]}, fabric: rails}
      - {name: gpu, count: 3, fabric: {kind: mesh, multicasts: true, edges: [{between: [0, 1], bandwidth: 25GB/s}, {between: [1, 2], bandwidth: 50GB/s, latency: 1us}]}}
    exceptions:
      - {rack: 1, link: {bandwidth_in: 1GB/s}}
      - {rack: 0, host: 1, link: {num: 1}}
      - {rack: 1, host: 1, gpu: 2, missing: true}
    compute: {add_bandwidth: 5GB/s, host_copy_bandwidth: 7GB/s}
    protocols: {Simple: {efficiency: 0.9}, LL: {efficiency: 0.5, step_seconds: 1us, threadblock_bandwidth: 9GB/s, latency: 2us}}
    host_names: [a, b, c, 4]
    """
    edges = (Edge(0, 1, 25e9), Edge(1, 2, 50e9, 1e-6))
    assert read_system(text) == System(
        name="all",
        about="everything at once",
        levels=(
            Level("rack", 2, Link(1e9, 2e9, 3e-6), Fabric(bandwidth=3e9, reduces=True)),
            Level("host", 2, Link(6.25e9, 6.25e9, 0.0, 2, (0, 1, 1)), Fabric("rails")),
            Level("gpu", 3, None, Fabric("mesh", multicasts=True, edges=edges)),
        ),
        exceptions={(1,): Link(1e9, 1e9, 3e-6), (0, 1): Link(6.25e9, 6.25e9, 0.0, 1)},
        missing=frozenset({(1, 1, 2)}),
        compute=Compute(5e9, math.inf, math.inf, 7e9),
        protocols={"Simple": ProtocolCosts(0.9), "LL": ProtocolCosts(0.5, 1e-6, 9e9, 2e-6)},
        host_names=("a", "b", "c", "4"),
    )


def test_a_system_without_a_name_has_that_of_its_file() -> None:
    assert read_system(TWO, "two.yaml").name == "two.yaml"


MISTAKES = {
    # A text with a hole, what is wrong in it, and what is said; what the message gives as example fits the hole too.
    "a list": ("@", "[]", "expected keys and values such as levels: [...], found a list of 0"),
    "levels no list": ("levels: @", "3", "levels: expected a list such as"),
    "no levels": ("levels: [@]", "", "levels: expected 1 to 16 levels such as"),
    "levels no mapping": ("levels: [@]", "gpu", "levels[0]: expected keys and values such as"),
    "name missing": (
        "levels: [{@, count: 2, link: {bandwidth: 1GB/s}}]", "name: null",
        "levels[0]: the key name is missing; give it, as in name: host",
    ),
    "name wrong": (
        "levels: [{name: @, count: 2, link: {bandwidth: 1GB/s}}]", "2.5",
        "levels[0].name: expected a text of up to 200 characters such as host, found 2.5",
    ),
    "name of a key": (
        "levels: [{name: @, count: 2, link: {bandwidth: 1GB/s}}]", "missing",
        "levels[0].name: expected a name such as host, found missing, which is a key of exceptions",
    ),
    "count missing": (
        "levels: [{name: gpu, @, link: {bandwidth: 1GB/s}}]", "count: null",
        "levels[0]: the key count is missing; give it, as in count: 2",
    ),
    "count wrong": (
        "levels: [{name: gpu, count: @, link: {bandwidth: 1GB/s}}]", "0",
        "levels[0].count: expected a whole number from 1 to 1048576, such as 2, found 0",
    ),
    "count too large": (
        "levels: [{name: gpu, @, link: {bandwidth: 1GB/s}}, {name: x, count: 2, link: {bandwidth: 1GB/s}}]",
        "count: 1048576",
        "levels: the counts multiply to more than 1048576 devices; make one of them smaller, as in count: 2",
    ),
    "link wrong": (
        "levels: [{name: gpu, count: 2, link: @}]", "fast", "levels[0].link: expected keys and values such as",
    ),
    "bandwidth missing": (
        "levels: [{name: gpu, count: 2, link: {@}}]", "latency: 1us",
        "levels[0].link: the key bandwidth is missing; give it, as in bandwidth: 25GB/s",
    ),
    "bandwidth no unit": (
        "levels: [{name: gpu, count: 2, link: {bandwidth: @}}]", "'25'",
        "levels[0].link.bandwidth: expected a bandwidth such as 200Mbit/s, 270GB/s or 8GiB/s, found '25'",
    ),
    "latency wrong": (
        "levels: [{name: gpu, count: 2, link: {bandwidth: 1GB/s, latency: @}}]", "soon",
        "levels[0].link.latency: expected a time such as 10us, 1.5ms or 2s, found 'soon'",
    ),
    "num wrong": (
        "levels: [{name: gpu, count: 2, link: {bandwidth: 1GB/s, num: @}}]", "true",
        "levels[0].link.num: expected a whole number from 1 to 1024, such as 2, found True",
    ),
    "behind wrong": (
        "levels: [{name: host, count: 2, link: {bandwidth: 1GB/s, num: 2, behind: @}}, {name: gpu, count: 4, link: {bandwidth: 1GB/s}}]",
        "[0, 0, 1, 2]",
        "levels[0].link.behind: expected the number of a link, from 0 to 1, for every device inside, such as [0, 0, 1, 1] with num: 2",
    ),
    "behind short": (
        "levels: [{name: host, count: 2, link: {bandwidth: 1GB/s, num: 2, behind: @}}, {name: gpu, count: 4, link: {bandwidth: 1GB/s}}]",
        "[0, 1]",
        "the links of a host of system 'system' say behind which of them its devices are",
    ),
    "fabric wrong": (
        "levels: [{name: gpu, count: 2, link: {bandwidth: 1GB/s}, fabric: @}]", "3",
        "levels[0].fabric: expected keys and values such as {kind: switch, reduces: true}, found 3",
    ),
    "fabric empty": (
        "levels: [{name: gpu, count: 2, link: {bandwidth: 1GB/s}, fabric: @}]", "[]",
        "levels[0].fabric: expected keys and values such as {kind: switch, reduces: true}, found a list of 0",
    ),
    "kind wrong": (
        "levels: [{name: gpu, count: 2, link: {bandwidth: 1GB/s}, fabric: @}]", "hub",
        "levels[0].fabric.kind: expected switch, rails or mesh, found 'hub'",
    ),
    "flag wrong": (
        "levels: [{name: gpu, count: 2, link: {bandwidth: 1GB/s}, fabric: {reduces: @}}]", "1",
        "levels[0].fabric.reduces: expected true or false, found 1",
    ),
    "mesh with link": (
        "levels: [{name: gpu, count: 2, link: {bandwidth: 1GB/s}, @}]",
        "fabric: {kind: mesh, edges: [{between: [0, 1], bandwidth: 1GB/s}]}",
        "levels[0].link: units of a mesh are joined by edges and have no link; leave it out, or take fabric: switch",
    ),
    "mesh without edges": (
        "levels: [{name: gpu, count: 2, fabric: {kind: mesh, edges: [@]}}]", "",
        "levels[0].fabric.edges: a mesh has edges such as {between: [0, 1], bandwidth: 25GB/s}, and nothing else has",
    ),
    "edge wrong": (
        "levels: [{name: gpu, count: 2, fabric: {kind: mesh, edges: [@]}}]", "[0, 1]",
        "levels[0].fabric.edges[0]: expected keys and values such as {between: [0, 1], bandwidth: 25GB/s}, found a list of 2",
    ),
    "edge to itself": (
        "levels: [{name: gpu, count: 2, fabric: {kind: mesh, edges: [{between: @, bandwidth: 1GB/s}]}}]", "[1, 1]",
        "levels[0].fabric.edges[0].between: expected two different units from 0 to 1, such as [0, 1]",
    ),
    "form wrong": (
        "levels: [{name: gpu, count: 4, fabric: {kind: mesh, edges: {form: @, bandwidth: 1GB/s}}}]", "star",
        "levels[0].fabric.edges.form: expected ring, full or torus, found 'star'",
    ),
    "form missing": (
        "levels: [{name: gpu, count: 4, fabric: {kind: mesh, edges: {@, bandwidth: 1GB/s}}}]", "form: null",
        "levels[0].fabric.edges: the key form is missing; give it, as in form: ring",
    ),
    "form without bandwidth": (
        "levels: [{name: gpu, count: 4, fabric: {kind: mesh, edges: {form: ring, @}}}]", "latency: 1us",
        "levels[0].fabric.edges: the key bandwidth is missing; give it, as in bandwidth: 25GB/s",
    ),
    "full of too many": (
        "levels: [{name: gpu, count: 513, fabric: {kind: mesh, edges: {form: @, bandwidth: 1GB/s}}}]", "full",
        "levels[0].fabric.edges.form: full is for up to 512 units, found 513",
    ),
    "sizes wrong": (
        "levels: [{name: gpu, count: 16, fabric: {kind: mesh, edges: {form: torus, sizes: @, bandwidth: 1GB/s}}}]", "[4, 5]",
        "levels[0].fabric.edges.sizes: expected whole numbers from 2 that multiply to the count 16, as [4, 4] do to 16",
    ),
    "sizes missing": (
        "levels: [{name: gpu, count: 16, fabric: {kind: mesh, edges: {form: torus, @}}}]", "bandwidth: 1GB/s",
        "levels[0].fabric.edges.sizes: expected whole numbers from 2 that multiply to the count 16, as [4, 4] do to 16",
    ),
    "exception of nothing": (
        f"{TWO}exceptions: [@]", "{missing: true}", "exceptions[0]: say which unit, as in {host: 3,",
    ),
    "exception without change": (
        f"{TWO}exceptions: [@]", "{host: 1}", "exceptions[0]: say what is different, as in {host: 3,",
    ),
    "exception with both": (
        f"{TWO}exceptions: [@]", "{host: 1, missing: true, link: {bandwidth: 1GB/s}}",
        "exceptions[0]: a unit that is missing has no link; say one of the two, as in {host: 3,",
    ),
    "exception twice": (
        f"{TWO}exceptions: [{{host: 1, link: {{num: 2}}}}, @]", "{host: 1, link: {bandwidth: 1GB/s}}",
        "exceptions[1]: this unit is named twice; say all of it once, as in {host: 3,",
    ),
    "exception elsewhere": (
        f"{TWO}exceptions: [{{host: @, missing: true}}]", "4",
        "exceptions[0].host: expected a whole number from 0 to 3, such as 2, found 4",
    ),
    "exception inside nothing": (
        f"{TWO}exceptions: [{{gpu: 1, missing: true, @}}]", "link: {}",
        "exceptions[0]: the key host is missing; give it, as in host: 2",
    ),
    "compute wrong": (f"{TWO}compute: @", "9", "compute: expected keys and values such as"),
    "rate wrong": (
        f"{TWO}compute: {{add_bandwidth: @}}", "-1", "compute.add_bandwidth: expected a bandwidth such as",
    ),
    "protocols wrong": (f"{TWO}protocols: @", "[]", "protocols: expected keys and values such as"),
    "protocol wrong": (f"{TWO}protocols: {{LL: @}}", "2", "protocols.LL: expected keys and values such as"),
    "protocol name": (
        f"{TWO}protocols: {{@: {{}}}}", '"a\\nb"',
        "protocols: expected names of up to 200 characters such as Simple, found 'a\\nb'",
    ),
    "efficiency wrong": (
        f"{TWO}protocols: {{LL: {{efficiency: @}}}}", "1.5",
        "protocols.LL.efficiency: expected a part from 0 to 1 such as 0.9, found 1.5",
    ),
    "host name wrong": (
        f"{TWO}host_names: [a, b, c, @]", "true",
        "host_names[3].name: expected a text of up to 200 characters such as gpu-001, found True",
    ),
}  # fmt: skip


def mistake_of(text: str) -> str:
    with pytest.raises(TopologyError) as caught:
        read_system(text)
    message = str(caught.value)
    assert message.startswith("system: ")
    assert "\n" not in message
    return message.removeprefix("system: ")


def examples_in(message: str) -> list[str]:
    """What a message offers as something that works."""
    found = re.search(
        r"(?:such as|as in) (.+?)(?:, found .*|, which .*|, and nothing .*| with num.*|: say the .*)?$",
        message,
    )
    if found is None:
        return []
    parts = (
        re.split(r"(?<=}) or (?={)", found[1])
        if "{" in found[1]
        else re.split(r", (?![^\[]*\])| or ", found[1])
    )
    return [part for part in parts if part]


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_named_with_an_example_that_works(mistake: str) -> None:
    template, wrong, expected = MISTAKES[mistake]
    message = mistake_of(template.replace("@", wrong))
    assert message.startswith(expected.partition("levels: [...]")[0])
    examples = examples_in(message)
    assert examples or not re.search("such as|as in", message)
    for example in examples:
        read_system(template.replace("@", example))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"level: [{GPU}]", "there is no key 'level'; did you mean levels?"),
        (f"{TWO}zzz: 1", "there is no key 'zzz'; known are name, about, levels, exceptions, compute, protocols, host_names"),
        (TWO.replace("bandwidth", "bandwith"), "levels[0].link: there is no key 'bandwith'; did you mean bandwidth?"),
        (f"{TWO}host_names: [a]", "system 'system' has 4 hosts, but 1 host names"),
        (f"levels: [{GPU}, {GPU}]", "system 'system' has two levels called 'gpu'; every level has its own name"),
        (f"{TWO}name: a\nname: b", "this is not YAML: the key 'name' is given twice, line 1"),
        ("a: &x 1\nb: *x", "this is not YAML: aliases (*name) are not taken"),
        ("a: !!int foo", "this is not YAML: tags (!name) are not taken"),
        ("a: " + "1:" * 600 + "1", "this is not YAML: a value has at most 1000 characters"),
        ("a: 2001-99-99", "this is not YAML: month must be in 1..12"),
        ("[" * 100_000, "this is not YAML: "),
        ("{", "this is not YAML: "),
        (" " * (MAX_CHARACTERS + 1), f"a description of a system has at most {MAX_CHARACTERS} characters"),
    ],
)  # fmt: skip
def test_what_is_no_system_is_named(text: str, message: str) -> None:
    assert mistake_of(text).startswith(message)
