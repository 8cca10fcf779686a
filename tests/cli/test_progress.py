"""Progress is for a person who waits: on stderr, after a second, and never in the answer."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(sys.executable).with_name("hemiola")
SLOW = """
import time
from hemiola import Program, SendRecv, program

@program
def slow(*, seconds: float = 0.0) -> Program:
    print("recording")
    time.sleep(seconds)
    p = Program("slow", SendRecv(2))
    p.chunk(0).copy(1, "output", 0)
    return p
"""


def compile_before_a_person(folder: Path, seconds: float) -> tuple[str, str]:
    """stdout, and what the terminal on stderr shows."""
    (folder / "slow.py").write_text(SLOW)
    ours, theirs = pty.openpty()
    words = [str(SCRIPT), "compile", "slow.py", "--json", "--", f"--seconds={seconds}"]
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=theirs, text=True, cwd=folder, check=True)
    os.close(theirs)
    shown = b""
    try:
        while block := os.read(ours, 65536):
            shown += block
    except OSError:  # the other end is closed
        pass
    os.close(ours)
    return done.stdout, shown.decode()


@pytest.mark.parametrize(("seconds", "is_shown"), [(0.0, False), (2.0, True)])
def test_only_who_waits_sees_it(tmp_path: Path, seconds: float, is_shown: bool) -> None:
    stdout, shown = compile_before_a_person(tmp_path, seconds)
    assert json.loads(stdout)["ok"] is True
    assert "recording" in shown
    assert ("compiling slow.py ..." in shown) == is_shown
