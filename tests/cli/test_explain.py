"""hemiola explain: used, not used and why, and bad input."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.invoke import answer, invoke, refusal, succeed
from hand_made import reduce_by_pairs
from hemiola.ir.formats.msccl_xml_write import to_xml
from hemiola.ir.targets import AZURE_XML

CALL = ["--bytes", "64MiB", "--dtype", "fp32", "--op", "sum", "--ranks", "4"]
ON = ["--env", "NCCL_ALGO=MSCCL,RING", "--env", "MSCCL_XML_FILES=a.xml", "--env", "MSCCL_ALGO_DIR=files"]


@pytest.fixture(autouse=True)
def _no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MSCCL_ALGO_DIR", "MSCCL_XML_FILES", "MSCCL_SCHEDULER", "NCCL_ALGO", "NCCL_PROTO"):
        monkeypatch.delenv(name, raising=False)


def make(folder: Path, runtime: str) -> Path:
    out = folder / f"{runtime}.xml"
    succeed("compile", "allreduce_ring", "-o", out, "--target", f"{runtime}-xml", "--ranks", 4)
    return out


@pytest.mark.parametrize("runtime", ["msccl", "rccl"])
def test_a_file_that_would_be_used(tmp_path: Path, runtime: str) -> None:
    file = make(tmp_path, runtime)
    assert succeed("explain", file, "--runtime", runtime, *CALL, *ON).startswith(
        f"{file}: {runtime} would use it\n"
    )
    found = answer("explain", file, "--runtime", runtime, *CALL, *ON)
    assert found["used"]
    assert all(rule["passed"] for rule in found["rules"])


@pytest.mark.parametrize(("runtime", "variable"), [("msccl", "NCCL_ALGO"), ("rccl", "MSCCL_ALGO_DIR")])
def test_the_variable_in_the_way_is_named(tmp_path: Path, runtime: str, variable: str) -> None:
    file = make(tmp_path, runtime)
    result = invoke("explain", file, "--runtime", runtime, *CALL)
    assert (result.exit_code, result.stderr) == (1, "")
    assert "would NOT use it" in result.stdout
    assert variable in result.stdout.splitlines()[-1]
    found = answer("explain", file, "--runtime", runtime, *CALL, code=1)
    assert variable in [rule["variable"] for rule in found["rules"] if not rule["passed"]]


def test_the_environment_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = make(tmp_path, "rccl")
    monkeypatch.setenv("MSCCL_ALGO_DIR", str(tmp_path))
    assert answer("explain", file, "--runtime", "rccl", *CALL)["used"]
    assert not answer("explain", file, "--runtime", "rccl", *CALL, "--env", "MSCCL_ALGO_DIR=", code=1)["used"]


@pytest.mark.parametrize(
    ("extra", "rule"),
    [
        (["--inplace"], "place"),
        (["--ranks", "8"], "ranks"),
        (["--op", "avg"], "operator"),
        (["--bytes", "3"], "divisible"),
        (["--dtype", "bf16"], "data type for all-reduce"),
        (["--forced-only"], "machine"),
        (["--single-process", "--env", "RCCL_MSCCL_ENABLE_SINGLE_PROCESS=0"], "processes"),
    ],
)
def test_each_rule_can_say_no(tmp_path: Path, extra: list[str], rule: str) -> None:
    found = answer("explain", make(tmp_path, "rccl"), "--runtime", "rccl", *CALL, *ON, *extra, code=1)
    assert [one["name"] for one in found["rules"] if not one["passed"]] == [rule]


def test_fused_operations_are_in_the_way(tmp_path: Path) -> None:
    file = make(tmp_path, "msccl")
    found = answer("explain", file, "--runtime", "rccl", *CALL, *ON, code=1)
    (rule,) = [one for one in found["rules"] if not one["passed"]]
    assert rule["name"] == "operations"
    assert "the operation is rrs, but only nop, s, r, cpy, re is allowed" in rule["found"]


@pytest.mark.parametrize(("channels", "code"), [(1, 0), (2, 0)])
def test_channels_of_the_communicator(tmp_path: Path, channels: int, code: int) -> None:
    answer(
        "explain", make(tmp_path, "rccl"), "--runtime", "rccl", *CALL, *ON, "--channels", channels, code=code
    )
    wide = tmp_path / "wide.xml"
    succeed("compile", "allreduce_ring", "-o", wide, "--target", "rccl-xml", "--ranks", 4, "--instances", 3)
    found = answer("explain", wide, "--runtime", "rccl", *CALL, *ON, "--channels", channels, code=1)
    failed = [one["name"] for one in found["rules"] if not one["passed"]]
    assert failed == ["divisible", "channels of the communicator"] or "channels of the communicator" in failed


def test_a_file_that_would_be_used_and_hang(tmp_path: Path) -> None:
    file = tmp_path / "pairs.xml"
    file.write_text(to_xml(reduce_by_pairs(4, 8), AZURE_XML))
    call = ["--runtime", "rccl", *CALL, *ON, "--inplace"]
    assert answer("explain", file, *call)["hangs"] is True
    assert (
        succeed("explain", file, *call)
        .splitlines()[-1]
        .startswith(f"and would HANG: it does from {(16 << 20) + 32} bytes on")
    )
    assert answer("explain", file, *call, "--bytes", "16MiB")["hangs"] is False


def test_a_native_plan_is_no_file_for_a_runtime(tmp_path: Path) -> None:
    out = tmp_path / "a.plan"
    succeed("compile", "allreduce_ring", "-o", out, "--ranks", 4)
    found = answer("explain", out, "--runtime", "rccl", *CALL, *ON, code=1)
    assert [one["needed"] for one in found["rules"] if not one["passed"]] == [
        "MSCCL XML; write it with --target rccl-xml"
    ]


@pytest.mark.parametrize(
    ("extra", "part"),
    [
        (["--dtype", "colour"], "--dtype: 'colour' is not one of int8"),
        (["--op", "polish"], "--op: 'polish' is not one of sum"),
        (["--env", "NCCL_ALGO"], "'NCCL_ALGO' is not KEY=VALUE"),
        (["--bytes", "-1"], "it must not be negative"),
        (["--ranks", "0"], "0 is not in the range"),
        (["--runtime", "gloo"], "'gloo' is not one of"),
    ],
)
def test_bad_input_is_one_message(tmp_path: Path, extra: list[str], part: str) -> None:
    assert part in refusal("explain", make(tmp_path, "rccl"), "--runtime", "rccl", *CALL, *extra)


def test_no_line_is_longer_than_a_screen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    make(tmp_path, "rccl")
    text = invoke("explain", "rccl.xml", "--runtime", "rccl", *CALL).stdout
    assert all(len(line) <= 100 for line in text.splitlines())
