"""Files for launchers: rankfiles by NUMA node, hosts in order, and every file with its instructions."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from hemiola.errors import PlacementError
from hemiola.placement.applied import AppliedPlacement
from hemiola.placement.axes import parse_axes
from hemiola.placement.enumerate import enumerate_placements, level_counts
from hemiola.placement.export import FILES, README_NAME, write_exports
from hemiola.placement.exports.mpi import hostfile_text, rankfile_text, ranks_text, slurm_text
from hemiola.placement.exports.node_order import slurm_devices_text, torchrun_text
from hemiola.placement.host_cpus import HostCpus, assumed_host_cpus, parse_host_cpus
from hemiola.placement.matrix import ParallelismMatrix
from hemiola.planning import place
from hemiola.topology.presets import load_system
from hemiola.topology.system import System

SYSTEM = replace(load_system("2x4"), host_names=("alpha", "beta"))
LINE = re.compile(r"rank (\d+)=([\w.-]+) slot=(?:(\d+):\*|(\d+)(?:-(\d+))?)")


def applied(
    system: System, axes: str, rows: tuple[tuple[int, ...], ...], cpus: HostCpus | None = None
) -> AppliedPlacement:
    matrix = ParallelismMatrix(parse_axes(axes), level_counts(system), rows)
    return AppliedPlacement(system, matrix.axes, matrix.device_grid(), matrix, cpus)


SPLIT = applied(SYSTEM, "data=4,model=2", ((1, 4), (2, 1)))
"""The data axis inside hosts, the model axis across."""


def check_rankfile(text: str, placement: AppliedPlacement, cpus: HostCpus) -> None:
    """Open MPI's rules for a rankfile, and ours: every rank once, on the cores of the NUMA node of its device."""
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    found = [LINE.fullmatch(line) for line in lines]
    assert all(found), lines
    ranks = [int(match[1]) for match in found if match]
    assert ranks == list(range(placement.system.num_ranks))
    hosts = placement.system.host_of_rank
    for match, device in zip(found, placement.permutation, strict=True):
        assert match is not None
        host = hosts[device]
        assert match[2] == placement.system.host_name(host)
        local, number = device - hosts.index(host), hosts.count(host)
        node = next(
            node for node in range(cpus.num_nodes) if local < -(-(node + 1) * number // cpus.num_nodes)
        )
        if cpus.cores is None:
            assert int(match[3]) == node
        else:
            first, last = int(match[4]), int(match[5] or match[4])
            assert (first, last) == (node * cpus.cores, (node + 1) * cpus.cores - 1)


@pytest.mark.parametrize(
    "cpus", [HostCpus(1), HostCpus(2), HostCpus(2, 64), HostCpus(8, 16), HostCpus(4, 1), None]
)
@pytest.mark.parametrize("system", ["2x4", "dgx-a100:4", "uneven-4x2"])
def test_every_rank_is_bound_to_the_node_of_its_device(system: str, cpus: HostCpus | None) -> None:
    machine = load_system(system)
    axes = parse_axes(f"data={machine.num_ranks // 2},model=2")
    placements = enumerate_placements(machine, axes) if system != "uneven-4x2" else []
    for matrix in placements:
        placement = AppliedPlacement(machine, axes, matrix.device_grid(), matrix, cpus)
        per_host = machine.num_ranks // machine.num_hosts
        check_rankfile(rankfile_text(placement), placement, cpus or assumed_host_cpus(per_host))


def test_ranks_of_a_host_are_not_all_on_one_socket() -> None:
    placement = applied(load_system("dgx-a100"), "data=8", ((1, 8),))
    slots = re.findall(r"slot=(\S+)", rankfile_text(placement))
    assert slots == ["0:*"] * 4 + ["1:*"] * 4
    assert "The sockets were assumed" in rankfile_text(placement)
    said = replace(placement, host_cpus=HostCpus(8, 16))
    assert re.findall(r"slot=(\S+)", rankfile_text(said))[:2] == ["0-15", "16-31"]
    assert "assumed" not in rankfile_text(said)


@pytest.mark.skipif(
    shutil.which("mpirun") is None or (os.cpu_count() or 1) < 2,
    reason="needs Open MPI (make mpi) and two cores",
)
def test_open_mpi_binds_two_ranks_as_asked(tmp_path: Path) -> None:
    """Two NUMA nodes of one core each; the model axis puts rank 0 on the second device."""
    system = replace(load_system("4x2"), host_names=tuple(f"host{n}" for n in range(4)))
    one = replace(
        system, levels=(replace(system.levels[0], count=1), *system.levels[1:]), host_names=("localhost",)
    )
    placement = applied(one, "data=2", ((1, 2),), HostCpus(2, 1))
    crossed = replace(placement, grid=placement.grid[::-1], matrix=None)
    for chosen, cores in ((placement, [0, 1]), (crossed, [1, 0])):
        (tmp_path / "rankfile").write_text(rankfile_text(chosen))
        command = [
            "mpirun",
            "--allow-run-as-root",
            "--report-bindings",
            "-np",
            "2",
            "--rankfile",
            "rankfile",
            "true",
        ]
        ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
        assert ran.returncode == 0, ran.stderr
        bound = dict(re.findall(r"rank (\d) bound to socket \d+\[core (\d+)", ran.stderr))
        assert [int(bound[str(rank)]) for rank in (0, 1)] == cores


def test_hosts_of_ranks() -> None:
    assert SPLIT.permutation == [0, 4, 1, 5, 2, 6, 3, 7]
    assert hostfile_text(SPLIT).splitlines()[1:] == ["alpha slots=4", "beta slots=4"]
    assert slurm_text(SPLIT).split() == ["alpha", "beta"] * 4
    assert ranks_text(SPLIT).splitlines()[2:5] == ["0 alpha 0", "1 beta 0", "2 alpha 1"]


def test_hosts_in_the_order_of_devices() -> None:
    """Whatever the placement, rank r is on device r: host by host."""
    lines = torchrun_text(SPLIT).splitlines()
    assert [line for line in lines if not line.startswith("#")] == ["0 alpha", "1 beta"]
    assert "--nnodes 2 --nproc-per-node 4" in lines[1]
    assert "--master-addr alpha" in lines[1]
    assert slurm_devices_text(SPLIT).split() == ["alpha"] * 4 + ["beta"] * 4


@pytest.mark.parametrize(
    ("text", "expected"), [("2x64", HostCpus(2, 64)), ("2", HostCpus(2)), (" 1x1 ", HostCpus(1, 1))]
)
def test_cpus_are_read(text: str, expected: HostCpus) -> None:
    assert parse_host_cpus(text) == expected


@pytest.mark.parametrize("text", ["", "0x4", "2x", "x2", "two", "2x64x2", "-1", "99999999"])
def test_cpus_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(PlacementError, match="host-cpus: expected NUMA nodes"):
        parse_host_cpus(text)


def test_the_readme_says_how_to_apply_every_file(tmp_path: Path) -> None:
    result = place(
        SYSTEM, "data=4,model=2", "[{collective: allreduce, over: data, bytes: 1MiB}]", replay=False
    )
    written = write_exports(result, tmp_path, host_cpus=HostCpus(1, 4))
    names = {path.name for path in written}
    assert names == {path.name for path in tmp_path.iterdir()}
    text = (tmp_path / README_NAME).read_text()
    for name in names - {README_NAME}:
        assert f"- `{name}`: {FILES[name].how}" in text
    assert "slot=0-3" in (tmp_path / "rankfile").read_text()
    # Files of an older placement do not stay.
    (tmp_path / "megatron_args.sh").write_text("old")
    (tmp_path / "megatron_init.py").write_text("old")
    write_exports(result, tmp_path, assumed="something was assumed")
    assert names == {path.name for path in tmp_path.iterdir()}
    assert "**something was assumed**" in (tmp_path / README_NAME).read_text()


def test_python_files_are_python(tmp_path: Path) -> None:
    for name, file in FILES.items():
        text = file.text(SPLIT)
        if name.endswith(".py") and text is not None:
            compile(text, name, "exec")
        if name.endswith(".sh") and text is not None:
            (tmp_path / name).write_text(text)
            subprocess.run(["sh", "-n", tmp_path / name], check=True)
