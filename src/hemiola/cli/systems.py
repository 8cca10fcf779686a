"""hemiola systems: the machines that are known, one as a tree, and one made from what a cluster can tell."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import click

from hemiola.cli import options
from hemiola.cli.output import make_table, print_json, print_table
from hemiola.cli.progress import working
from hemiola.topology.host_facts import HostFacts
from hemiola.topology.inside_host import Given
from hemiola.topology.join import join
from hemiola.topology.parse.nccl_xml import MAX_BYTES, read_nccl_xml
from hemiola.topology.parse.nvidia_topo import read_nvidia_topo
from hemiola.topology.parse.slurm import expand_hosts, read_topology_conf
from hemiola.topology.parse.text_file import read_text_file
from hemiola.topology.presets import abouts, load_system
from hemiola.topology.system import System
from hemiola.topology.system_fields import system_fields
from hemiola.topology.tree import system_tree
from hemiola.topology.write_system import write_system


class Systems(click.Group):
    """A group whose first word may be the name of a system."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Show systems unless something else is asked for; --json may stand before or after the word."""
        flags = args[: next((n for n, word in enumerate(args) if word != "--json"), len(args))]
        rest = args[len(flags) :]
        if not rest or (rest[0] not in self.commands and rest[0] not in ctx.help_option_names):
            rest = ["show", *rest]
        return super().parse_args(ctx, [rest[0], *flags, *rest[1:]])


@click.group("systems", cls=Systems, no_args_is_help=False, subcommand_metavar="[NAME] | import [OPTIONS]")
def command() -> None:
    """List the systems that are known; with NAME, show one; with import, make one.

    NAME is a preset with a size (dgx-a100:4), a shape of the lab (rails-2x4), this-machine, which is then measured,
    or a YAML file. Both ways take --json and -o FILE; `hemiola systems import --help` says what import takes.
    """


@command.command("show", short_help="List all, or print one as a tree; the word may be left out.")
@click.argument("name", metavar="[NAME]", required=False)
@click.option("-o", "--output", metavar="FILE", help="Write the system as YAML.")
@options.as_json
def show(name: str | None, output: str | None, as_json: bool) -> None:
    """List all systems; with NAME, print one as a tree. The word show may be left out."""
    if name is None:
        if output is not None:
            raise click.UsageError("-o needs the NAME of a system")
        _print_all(as_json)
        return
    with working(f"loading {name}"):
        system = load_system(name)
    _hand_out(system, (), output, as_json)


@command.command("import", short_help="Make one from descriptions of a host and of the network.")
@click.option(
    "--node", required=True, metavar="FILE", help="NCCL's topology XML, or the text of nvidia-smi topo -m."
)
@click.option("--fabric", metavar="FILE", help="Slurm's topology.conf.")
@click.option(
    "--hosts", metavar="LIST", help="Hosts in Slurm's form, gpu[001-064]; by default all of the fabric."
)
@click.option("--name", metavar="TEXT", help="What the system is called; by default as the file.")
@click.option(
    "--nic-bandwidth", type=options.bandwidth, metavar="RATE", help="Of one NIC each way, 200Gbit/s."
)
@click.option(
    "--nics", type=click.IntRange(1, 256), metavar="N", help="NICs of a host, where FILE does not name them."
)
@click.option("--nic-latency", type=options.seconds, metavar="TIME", help="Of one NIC, 2us.")
@click.option(
    "--device-bandwidth",
    type=options.bandwidth,
    metavar="RATE",
    help="Of a device to the others of its host, 300GB/s.",
)
@click.option(
    "--device-latency", type=options.seconds, metavar="TIME", help="Of the links between devices, 1us."
)
@click.option(
    "--link-bandwidth", type=options.bandwidth, metavar="RATE", help="Of one NVLink or xGMI link, 25GB/s."
)
@click.option(
    "--pcie-bandwidth", type=options.bandwidth, metavar="RATE", help="Of a device's PCIe link, 31.5GB/s."
)
@click.option(
    "--uplink-bandwidth", "uplinks", type=options.bandwidth, metavar="RATE", multiple=True,
    help="Of all uplinks of a switch, 800GB/s; once for each level of switches, the one next to the hosts first.",
)  # fmt: skip
@click.option(
    "--uplink-latency", type=options.seconds, metavar="TIME", help="From a switch to the next, 1us."
)
@click.option(
    "--like", metavar="PRESET",
    help="Take what devices and protocols cost from this preset, which no file tells, such as hgx-h100.",
)  # fmt: skip
@click.option("--rails", is_flag=True, help="The k-th NICs of all hosts are on a switch of their own.")
@click.option("-o", "--output", metavar="FILE", help="Write the system as YAML.")
@options.as_json
def import_(
    node: str, fabric: str | None, hosts: str | None, name: str | None, nic_bandwidth: float | None, nics: int | None,
    nic_latency: float | None, device_bandwidth: float | None, device_latency: float | None,
    link_bandwidth: float | None, pcie_bandwidth: float | None, uplinks: tuple[float, ...],
    uplink_latency: float | None, like: str | None, rails: bool, output: str | None, as_json: bool,
) -> None:  # fmt: skip
    """Make a system from a description of one host and of the switches between hosts.

    All hosts are alike. What no file tells is asked for by name.
    """
    given = Given(
        nic_bandwidth=nic_bandwidth, num_nics=nics, device_bandwidth=device_bandwidth, link_bandwidth=link_bandwidth,
        pcie_bandwidth=pcie_bandwidth, uplink_bandwidths=uplinks, nic_latency=nic_latency,
        device_latency=device_latency, uplink_latency=uplink_latency, rails=rails,
    )  # fmt: skip
    switches = read_topology_conf(read_text_file(fabric, MAX_BYTES), Path(fabric).name) if fabric else ()
    names = expand_hosts(hosts, "--hosts") if hosts is not None else ()
    called = name or Path(output or node).stem
    joined = join(called, _read_host(node), switches, names, given)
    system, note = _with_costs(joined.system, like)
    _hand_out(system, (*joined.notes, note), output, as_json)


def _with_costs(system: System, like: str | None) -> tuple[System, str]:
    """The system with the protocols and the devices of a preset, and a note that says whose they are."""
    if like is None:
        return (
            system,
            "what messages, additions and copies cost is not known; --like PRESET takes it from a preset",
        )
    other = load_system(like)
    note = f"what messages, additions and copies cost is that of {other.name}"
    return replace(system, protocols=other.protocols, compute=other.compute, runtime=other.runtime), note


def _read_host(path: str) -> HostFacts:
    text = read_text_file(path, MAX_BYTES)
    reader = read_nccl_xml if text.lstrip().startswith("<") else read_nvidia_topo
    return reader(text, Path(path).name)


def _hand_out(system: System, notes: tuple[str, ...], output: str | None, as_json: bool) -> None:
    """Write a system where that is asked for, and print it."""
    if output is not None:
        Path(output).write_text(write_system(system), "utf-8")
    if as_json:
        print_json({"system": system_fields(system), "notes": list(notes), "file": output})
        return
    click.echo(system_tree(system), nl=False)
    for note in notes:
        click.echo(f"note: {note}")
    if output is not None:
        click.echo(f"wrote {output}")


def _print_all(as_json: bool) -> None:
    if as_json:
        print_json({"systems": [{"name": name, "about": about} for name, about in abouts().items()]})
        return
    table = make_table("system", "what it is")
    for name, about in abouts().items():
        table.add_row("", name, about)
    print_table(table)
    click.echo("\nA preset takes a number of hosts or racks: `hemiola systems dgx-a100:4` shows one of four.")
