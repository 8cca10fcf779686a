"""host_id: the same where memory can be shared, and nowhere else."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from hemiola.errors import ConnectError
from hemiola.runtime.bootstrap import host
from hemiola.runtime.bootstrap.host import host_id


def test_two_processes_of_this_host_agree() -> None:
    command = "from hemiola.runtime.bootstrap.host import host_id; print(host_id({}))"
    other = subprocess.run([sys.executable, "-c", command], capture_output=True, text=True, check=True)
    assert other.stdout.strip() == host_id({})


@pytest.mark.parametrize("namespace", ["net", "pid"])
def test_another_namespace_is_another_host(
    namespace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = host_id({})
    other = tmp_path / namespace
    other.touch()
    spaces = [other if path.name == namespace else path for path in host.NAMESPACES]
    monkeypatch.setattr(host, "NAMESPACES", spaces)
    assert host_id({}) != here


def test_another_user_or_another_start_of_the_machine_is_another_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, uid = host_id({}), os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: uid + 1)
    assert host_id({}) != here
    monkeypatch.setattr(os, "getuid", lambda: uid)
    (tmp_path / "boot_id").write_text("another\n")
    monkeypatch.setattr(host, "BOOT_ID", tmp_path / "boot_id")
    assert host_id({}) == here.replace(here.split(":")[0], "another")


def test_a_name_given_by_hand_is_the_host() -> None:
    assert host_id({"HEMIOLA_HOST_ID": "left half"}) == "left half"


@pytest.mark.parametrize("name", ["", "a\nb", "x" * 257])
def test_a_name_that_is_none_is_refused(name: str) -> None:
    with pytest.raises(ConnectError, match="HEMIOLA_HOST_ID is a name of 1 to 256 printable characters"):
        host_id({"HEMIOLA_HOST_ID": name})


def test_a_host_that_hides_itself_says_the_way_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "BOOT_ID", tmp_path / "hidden")
    with pytest.raises(ConnectError, match=r"hidden cannot be read .*; set HEMIOLA_HOST_ID to a name"):
        host_id({})
