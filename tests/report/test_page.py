"""The page of a plan: one file without a network, that a real browser shows without errors."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from hemiola.errors import FormatError
from hemiola.planner.job import read_job
from hemiola.planner.plan_job import plan_job
from hemiola.planner.what_if import what_if
from hemiola.planner.write_job_plan import write_job_plan
from hemiola.report.page import drawn_placements, write_page

DEMO = Path(__file__).parents[2] / "demo"
BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--enable-logging=stderr", "--virtual-time-budget=5000", "--dump-dom",
)  # fmt: skip
in_a_browser = pytest.mark.skipif(
    BROWSER is None, reason="no Chromium here; apt-get install chromium gets Debian's"
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The plan of a job of 64 devices on three axes, for two machines."""
    path = tmp_path_factory.mktemp("plan")
    job = read_job(str(DEMO / "job_experts.yaml"))
    words = "host 3 lost"
    write_job_plan(plan_job(job, quick=True), path, {words: plan_job(what_if(job, words), quick=True)})
    write_page(path)
    return path


def shown(page: Path, tmp_path: Path, script: str = "") -> tuple[str, str]:
    """The document as a browser has it after its scripts and one more ran, and what it logged."""
    copy = tmp_path / "page.html"
    copy.write_text(page.read_text("utf-8").replace("</body>", f"<script>{script}</script></body>"), "utf-8")
    assert BROWSER is not None
    run = subprocess.run(
        [BROWSER, *FLAGS, f"--user-data-dir={tmp_path / 'profile'}", copy.as_uri()],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr[-2000:]
    return run.stdout, "\n".join(line for line in run.stderr.splitlines() if "CONSOLE" in line)


def test_the_page_needs_no_network(folder: Path) -> None:
    text = (folder / "report.html").read_text("utf-8")
    assert not re.search(r"(?:src|href)\s*=|@import|url\(|https?://(?!json-schema)", text)


def test_drawn_coordinates_are_those_of_the_placement(folder: Path) -> None:
    plan = json.loads((folder / "job_plan.json").read_text("utf-8"))
    applied = drawn_placements(plan)[0]
    axes = applied["axes"]
    for place, device in enumerate(plan["applied"]["permutation"]):
        number = 0
        for size, digit in zip(axes.values(), applied["coordinates"][device], strict=True):
            number = number * size + digit
        assert number == place


def test_other_files_are_refused_with_one_sentence(tmp_path: Path) -> None:
    for text in ("", "[]", '{"version": 7}', '{"version": 1}', '{"version": 1, "level_counts": 3}'):
        (tmp_path / "job_plan.json").write_text(text)
        with pytest.raises(FormatError, match="hemiola plan"):
            write_page(tmp_path)


@in_a_browser
def test_a_browser_shows_every_part_without_errors(folder: Path, tmp_path: Path) -> None:
    document, log = shown(folder / "report.html", tmp_path)
    assert log == ""
    for title in ("Where a step goes", "Degrees", "Placement", "What if", "Apply it"):
        assert f"<h2>{title}</h2>" in document
    assert document.count('class="device"') == 64


@in_a_browser
def test_tables_sort_and_placements_switch(folder: Path, tmp_path: Path) -> None:
    script = """
    const said = {}, tables = document.querySelectorAll("table");
    const first = () => tables[0].querySelector("tbody td").textContent;
    said.before = first();
    const memory = [...tables[0].querySelectorAll("th button")].find((one) => one.textContent === "memory");
    memory.click(); said.ascending = first(); memory.click(); said.descending = first();
    const numbers = () => [...document.querySelectorAll(".device")].map((one) => Number(one.textContent));
    const axis = document.getElementById("axis");
    said.axes = {};
    for (const option of [...axis.options]) {
      axis.value = option.value; axis.dispatchEvent(new Event("change")); said.axes[option.value] = new Set(numbers()).size;
    }
    const pre = document.createElement("pre"); pre.id = "said"; pre.textContent = JSON.stringify(said); document.body.append(pre);
    """
    document, log = shown(folder / "report.html", tmp_path, script)
    assert log == ""
    match = re.search(r'<pre id="said">(.*?)</pre>', document)
    assert match is not None
    said: dict[str, Any] = json.loads(match[1])
    plan = json.loads((folder / "job_plan.json").read_text("utf-8"))
    assert said["axes"] == plan["applied"]["axes"], "an axis of n devices has n numbers"
    ranked = sorted(plan["degrees"]["ranked"], key=lambda one: one["memory"]["bytes"])
    assert said["ascending"] == words_of(ranked[0]["degrees"])
    assert said["descending"] == words_of(ranked[-1]["degrees"])


@in_a_browser
def test_nothing_in_a_plan_is_taken_for_html(folder: Path, tmp_path: Path) -> None:
    plan = json.loads((folder / "job_plan.json").read_text("utf-8"))
    plan["job"] = "</script><script>document.body.textContent='taken'</script><b>bold</b>"
    (tmp_path / "job_plan.json").write_text(json.dumps(plan))
    document, log = shown(write_page(tmp_path), tmp_path)
    assert log == ""
    assert "&lt;b&gt;bold" in document
    assert "Where a step goes" in document


def words_of(degrees: dict[str, int]) -> str:
    """As the page writes degrees."""
    return " ".join(f"{name}{degrees[name]}" for name in ("tp", "pp", "cp", "ep", "dp") if degrees[name] > 1)
