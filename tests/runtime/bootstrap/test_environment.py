"""What launchers tell a process, and one sentence for each way of telling it wrong."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hemiola.errors import ConnectError
from hemiola.runtime.bootstrap.environment import Environment, first_node, read_environment

TORCHRUN = {
    "RANK": "5",
    "WORLD_SIZE": "8",
    "LOCAL_RANK": "1",
    "LOCAL_WORLD_SIZE": "4",
    "MASTER_ADDR": "10.0.0.1",
    "MASTER_PORT": "29500",
}
MPIRUN = {
    "OMPI_COMM_WORLD_RANK": "2",
    "OMPI_COMM_WORLD_SIZE": "4",
    "OMPI_COMM_WORLD_LOCAL_RANK": "0",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "2",
}
SRUN = {
    "SLURM_PROCID": "3",
    "SLURM_NTASKS": "4",
    "SLURM_LOCALID": "1",
    "SLURM_STEP_NODELIST": "gpu[07-08]",
    "SLURM_LAUNCH_NODE_IPADDR": "10.0.0.9",
}


def test_torchrun() -> None:
    expected = Environment(
        rank=5, world_size=8, local_rank=1, local_world_size=4, master_addr="10.0.0.1", port=None
    )
    assert read_environment(TORCHRUN) == expected


def test_mpirun() -> None:
    assert read_environment(MPIRUN) == Environment(rank=2, world_size=4, local_rank=0, local_world_size=2)


def test_srun() -> None:
    assert read_environment(SRUN) == Environment(rank=3, world_size=4, local_rank=1, master_addr="gpu07")


def test_srun_without_a_list_of_nodes() -> None:
    without = {name: value for name, value in SRUN.items() if name != "SLURM_STEP_NODELIST"}
    assert read_environment(without).master_addr == "10.0.0.9"


def test_torchrun_under_srun_is_torchrun() -> None:
    assert read_environment({**SRUN, **TORCHRUN}) == read_environment(TORCHRUN)


def test_a_master_given_by_hand_is_the_master() -> None:
    assert read_environment({**SRUN, "MASTER_ADDR": "fd00::1"}).master_addr == "fd00::1"


def test_ranks_of_one_host_need_no_master() -> None:
    assert read_environment({**MPIRUN, "OMPI_COMM_WORLD_LOCAL_SIZE": "4"}).master_addr == "127.0.0.1"
    assert read_environment({"RANK": "0", "WORLD_SIZE": "1"}).master_addr == "127.0.0.1"


def test_our_own_variables() -> None:
    ours = {"HEMIOLA_PORT": "4711", "HEMIOLA_JOB_SECRET": "0123456789abcdef", "HEMIOLA_IFNAME": "eth0, eth1"}
    found = read_environment({**TORCHRUN, **ours})
    assert (found.port, found.secret, found.interfaces) == (4711, b"0123456789abcdef", ("eth0", "eth1"))
    assert "0123456789abcdef" not in repr(found)


def test_a_place_given_by_the_caller() -> None:
    found = read_environment(TORCHRUN, rank=1, world_size=2)
    assert (found.rank, found.world_size, found.local_rank) == (1, 2, 1)
    assert read_environment({}, rank=1, world_size=2) == Environment(rank=1, world_size=2, local_rank=0)


NAMELESS = (
    "this process does not know its rank: start it with torchrun, mpirun or srun, set RANK and WORLD_SIZE"
)


@pytest.mark.parametrize(
    ("env", "message"),
    [
        ({}, NAMELESS),
        ({"RANK": "0"}, "RANK is set, but WORLD_SIZE is not; set both"),
        ({"WORLD_SIZE": "2"}, "WORLD_SIZE is set, but RANK is not; set both"),
        ({"SLURM_PROCID": "0"}, "SLURM_PROCID is set, but SLURM_NTASKS is not; set both"),
        ({**TORCHRUN, "RANK": "one"}, "RANK is a whole number from 0 to 7, but is 'one'"),
        ({**TORCHRUN, "RANK": "-1"}, "RANK is a whole number from 0 to 7, but is '-1'"),
        ({**TORCHRUN, "RANK": ""}, "RANK is a whole number from 0 to 7, but is ''"),
        ({**TORCHRUN, "RANK": "8"}, "RANK is between 0 and 7 in this job, but is 8"),
        ({**TORCHRUN, "WORLD_SIZE": "0"}, "WORLD_SIZE is between 1 and 1048576 in this job, but is 0"),
        ({**TORCHRUN, "WORLD_SIZE": "9" * 30}, "WORLD_SIZE is a whole number from 1 to 1048576, but is '999"),
        ({**TORCHRUN, "LOCAL_RANK": "4"}, "LOCAL_RANK is between 0 and 3 in this job, but is 4"),
        ({**TORCHRUN, "LOCAL_WORLD_SIZE": "9"}, "LOCAL_WORLD_SIZE is 9, but WORLD_SIZE is only 8"),
        ({**TORCHRUN, "MASTER_ADDR": ""}, "MASTER_ADDR holds the name or address of one host, but is ''"),
        (
            {**TORCHRUN, "MASTER_ADDR": "a b"},
            "MASTER_ADDR holds the name or address of one host, but is 'a b'",
        ),
        ({**TORCHRUN, "MASTER_ADDR": "a..b"}, "MASTER_ADDR holds the name or address of one host, but is"),
        ({**SRUN, "SLURM_STEP_NODELIST": "a["}, "SLURM_STEP_NODELIST holds the name or address of one host"),
        (
            {**TORCHRUN, "HEMIOLA_PORT": "http"},
            "HEMIOLA_PORT is a whole number from 1 to 65535, but is 'http'",
        ),
        ({**TORCHRUN, "HEMIOLA_PORT": "0"}, "HEMIOLA_PORT is between 1 and 65535 in this job, but is 0"),
        (
            {**TORCHRUN, "HEMIOLA_PORT": "65536"},
            "HEMIOLA_PORT is between 1 and 65535 in this job, but is 65536",
        ),
        (
            {**TORCHRUN, "HEMIOLA_PORT": "29500"},
            "HEMIOLA_PORT and MASTER_PORT are both 29500, but MASTER_PORT is held by the store of PyTorch",
        ),
        ({**TORCHRUN, "HEMIOLA_IFNAME": "eth0,,eth1"}, "such as eth0,eth1, but holds ''"),
        ({**TORCHRUN, "HEMIOLA_IFNAME": "x" * 16}, "such as eth0,eth1, but holds 'xxxxxxxxxxxxxxxx'"),
        (
            {"RANK": "0", "WORLD_SIZE": "2", "HEMIOLA_IFNAME": "a,b"},
            "HEMIOLA_IFNAME lists 2 interfaces by local rank, but LOCAL_RANK is not set",
        ),
    ],
)
def test_a_mistake_is_named(env: dict[str, str], message: str) -> None:
    with pytest.raises(ConnectError, match=re.escape(message)):
        read_environment(env)


def test_a_short_secret_is_refused_and_not_shown() -> None:
    with pytest.raises(ConnectError, match="HEMIOLA_JOB_SECRET has 7 characters, but at least 16") as caught:
        read_environment({**TORCHRUN, "HEMIOLA_JOB_SECRET": "letmein"})
    assert "letmein" not in str(caught.value)


@pytest.mark.parametrize(
    ("rank", "world_size", "message"),
    [
        (0, None, "rank and world_size are given together"),
        (None, 2, "rank and world_size are given together"),
        (2, 2, "rank is between 0 and 1, but is 2"),
        (-1, 2, "rank is between 0 and 1, but is -1"),
        (0, 0, "world_size is between 1 and 1048576, but is 0"),
    ],
)
def test_a_mistake_of_the_caller_is_named(rank: int | None, world_size: int | None, message: str) -> None:
    with pytest.raises(ConnectError, match=message):
        read_environment({}, rank=rank, world_size=world_size)


def test_the_address_of_the_store() -> None:
    assert read_environment({**TORCHRUN, "HEMIOLA_PORT": "4711"}).store_address() == ("10.0.0.1", 4711)
    with pytest.raises(ConnectError, match=r"the 8 ranks need .* HEMIOLA_PORT to a free port on 10.0.0.1"):
        read_environment(TORCHRUN).store_address()
    with pytest.raises(ConnectError, match="the 4 ranks need a place to meet: set MASTER_ADDR"):
        read_environment(MPIRUN).store_address()


@pytest.mark.parametrize(
    ("nodes", "first"),
    [
        ("login", "login"),
        ("a,b,c", "a"),
        ("gpu[003-005,9],login", "gpu003"),
        ("gpu[7,9]", "gpu7"),
        ("rack[1-2]node[3-4],x", "rack1node3"),
    ],
)
def test_the_first_node_of_a_list(nodes: str, first: str) -> None:
    assert first_node(nodes) == first


NAMES = [*TORCHRUN, *MPIRUN, *SRUN, "HEMIOLA_PORT", "HEMIOLA_JOB_SECRET", "HEMIOLA_IFNAME"]


@settings(deadline=None)
@given(st.dictionaries(st.sampled_from(NAMES), st.text(max_size=20) | st.integers(0, 9).map(str)))
def test_any_environment_is_read_or_refused(env: dict[str, str]) -> None:
    try:
        found = read_environment(env)
    except ConnectError:
        return
    assert 0 <= found.rank < found.world_size
    assert found.local_world_size is None or found.local_rank < found.local_world_size
