"""``vperf gallery`` from the command line: in an empty folder, and on a small gallery with a record of a real run."""

from __future__ import annotations

import difflib
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_vperf.targets.container import runtimes
from pytest_vperf.thresholds.profile import load_profile

if TYPE_CHECKING:
    from collections.abc import Callable

    Run = Callable[..., subprocess.CompletedProcess[str]]

ROOT = Path(__file__).parents[3]
GALLERY = """
hardware: {name: gallery, summary: every machine, match: {}}
claims:
  gallery.one.quick:
    at_most: 50 ms
    summary: one is quick
    needs: [sh]
    source:
      {project: one, document: README, section: Speed, commit: abc1234, date: "2024-01-02", rule: as it says,
       procedure: a clock, deviations: ours ticks, contested_by: "one#7 <b>"}
  gallery.one.slow:
    at_most: 5 ms
    summary: one is not slow
    source: {project: one, document: README, published: {value: 5 ms}, rule: as it says}
  gallery.two.order:
    ratio: {at_most: 1}
    summary: two is sooner than one
    needs: [no-such-program, youki-of-old, sh]
    source: {project: two, document: paper, rule: the order}
  gallery.two.never:
    at_most: 1 s
    summary: two ends
    source: {project: two, document: paper}
"""
TESTS = """
import random

import pytest

from pytest_vperf import Quantity

noise = random.Random(1)


def around(centre):
    return lambda: Quantity(centre * (1 + 0.01 * noise.uniform(-1, 1)), "ms", direction="lower")


@pytest.mark.parametrize("name", ["quick", "slow"])
def test_one(claim, name):
    claim(f"gallery.one.{name}").holds(around(10))


def test_two(claim):
    claim("gallery.two.order").compares(around(10), to=around(20))
"""


PAGE = ROOT / "docs" / "gallery.md"


def test_the_page_of_this_repository_is_not_stale() -> None:
    command = re.search(r"^Made by `(vperf .*)`;", PAGE.read_text("utf-8"), re.MULTILINE)
    assert command is not None
    words = [
        word
        for word in shlex.split(command[1])[1:]
        if not word.startswith(("--keep=", "--output="))
    ]
    done = subprocess.run(
        [sys.executable, "-m", "pytest_vperf", *words],
        cwd=ROOT,
        env={**os.environ, "PYTEST_ADDOPTS": ""},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    now = done.stdout.splitlines()
    before = PAGE.read_text("utf-8").splitlines()
    differs = list(difflib.unified_diff(before[:-1], now[:-1], n=0))  # the last line is the command
    assert differs[:8] == [], f"docs/gallery.md is stale; this makes it anew: {command[1]}"


@pytest.fixture
def run(tmp_path: Path) -> Run:
    def run(*words: str, module: str = "pytest_vperf") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", module, *words],
            cwd=tmp_path,
            # Its own lock, so that it neither waits for other measurements here nor disturbs them for long.
            env={**os.environ, "PYTEST_ADDOPTS": "", "VPERF_LOCK": str(tmp_path / "lock")},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    return run


@pytest.fixture
def record(tmp_path: Path, run: Run) -> str:
    (tmp_path / "thresholds").mkdir()
    (tmp_path / "thresholds" / "gallery.yaml").write_text(GALLERY)
    (tmp_path / "test_it.py").write_text(TESTS)
    run("--claims-json=run.json", "--claims-report=report.html", "-q", module="pytest")
    return "run.json"


@pytest.mark.skipif("VPERF_TEST_INSTALLED" not in os.environ, reason="not run by script/test")
def test_in_an_empty_folder_it_lists_what_is_shipped(run: Run) -> None:
    done = run("gallery")
    assert (done.returncode, done.stderr) == (0, "")
    claims = load_profile(ROOT / "thresholds" / "gallery.yaml").claims
    assert all(each.summary in done.stdout and each.name in done.stdout for each in claims.values())
    last = done.stdout.splitlines()[-2:]
    assert re.fullmatch(
        rf"claims: {len(claims)} of \d+ projects; this machine has the programs for \d+; 0 measured",
        last[0],
    )
    assert last[1] == "to judge them: pytest --pyargs pytest_vperf.published -m gallery"


def test_what_is_missing_is_said_once_with_what_mends_it(run: Run, record: str) -> None:
    done = run("gallery")
    assert "no     two is sooner than one" in done.stdout
    assert "yes    one is quick" in done.stdout
    assert (
        "no-such-program is not installed (1 claim): apt-get install no-such-program\n"
        in done.stdout
    )
    # A project's own are beside those that are shipped.
    assert re.search(r"^claims: \d+ of \d+ projects; this machine has", done.stdout, re.MULTILINE)


def test_verdicts_are_beside_the_sentences(run: Run, record: str) -> None:
    done = run("gallery", record)
    assert (done.returncode, done.stderr) == (0, "")
    shown = [line.strip() for line in done.stdout.splitlines()]
    place = shown.index("yes    one is quick")
    assert shown[place + 1] == "gallery.one.quick  ≤ 50 ms"
    assert shown[place + 2] == "contested: one#7 <b>"
    assert re.match(r"holds \d+(\.\d+)? ms \[.*\], \d{4}-\d\d-\d\d$", shown[place + 3])
    assert "3 measured: 2 holds, 1 refuted" in shown[-2]


def test_verdicts_lead_to_the_pictures_of_the_same_measurement(
    run: Run, record: str, tmp_path: Path
) -> None:
    (tmp_path / "pages").mkdir()
    words = ("gallery", record, "--markdown", "--pictures=report.html")
    done = run(*words, "--output=pages/gallery.md")
    assert (done.returncode, done.stderr) == (0, "")
    page = (tmp_path / "pages" / "gallery.md").read_text()
    assert "| [holds](../report.html#claim-gallery.one.quick) " in page
    assert "| [refuted](../report.html#claim-gallery.one.slow) " in page
    assert '<tr id="claim-gallery.one.quick"' in (tmp_path / "report.html").read_text()
    # Of the next run the figures are others, so these are not its pictures.
    (tmp_path / "test_it.py").write_text(TESTS.replace("around(10)", "around(11)"))
    run("--claims-json=run.json", "-q", module="pytest")
    assert "](report.html#" not in run(*words).stdout


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["--pictures=report.html"], "--pictures goes with --markdown"),
        (["--markdown", "--pictures=none.html"], "none.html: No such file or directory"),
        (
            ["--markdown", "--pictures=test_it.py"],
            "test_it.py: has no claims; name a page of `vperf report`",
        ),
        (["--markdown", "--pictures=binary"], "binary: is no text"),
        (["--markdown", "--pictures=/dev/zero"], "/dev/zero: is not a file"),
        (["--markdown", "--pictures=pipe"], "pipe: is not a file"),
    ],
)
def test_pictures_that_are_none_are_an_error(
    run: Run, tmp_path: Path, words: list[str], problem: str
) -> None:
    (tmp_path / "test_it.py").write_text(TESTS)
    (tmp_path / "binary").write_bytes(b"\xff")
    os.mkfifo(tmp_path / "pipe")
    done = run("gallery", *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert problem in done.stderr.splitlines()[-1]


def test_an_anchor_of_a_strangers_report_is_no_markup(
    run: Run, record: str, tmp_path: Path
) -> None:
    text = (tmp_path / "report.html").read_text()
    hostile = text.replace('id="claim-gallery.one.quick"', 'id="x)|<script>[y](z"')
    (tmp_path / "re)port.html").write_text(hostile)
    page = run("gallery", record, "--markdown", "--pictures=re)port.html").stdout
    assert "| [holds](re%29port.html#x%29%7C%3Cscript%3E%5By%5D%28z) " in page


def test_the_page_has_the_refuted_and_the_contested_first(run: Run, record: str) -> None:
    done = run("gallery", record, "--markdown")
    assert (done.returncode, done.stderr) == (0, "")
    titles = re.findall(r"^##+ (.*)", done.stdout, re.MULTILINE)
    assert titles[:5] == [
        "Refuted here",
        "Contested, not refuted here",
        "Holds here",
        "Not measured here",
        "Sources and procedures",
    ]
    assert {"one", "two"} <= set(titles[5:])
    rows = [line for line in done.stdout.splitlines() if line.startswith("| ")]
    assert rows[1].startswith("| one is not slow | one | ≤ 5 ms | refuted ")
    assert "| two ends | two | ≤ 1 s | - |" in rows
    assert "one#7 &lt;b&gt;" in done.stdout or r"one\#7 \<b\>" in done.stdout
    assert "  README, Speed, at abc1234, 2024-01-02<br>\n" in done.stdout
    assert "*published*: value 5 ms" in done.stdout
    assert "Made by `vperf gallery run.json --markdown`" in done.stdout


def test_the_page_names_the_versions(tmp_path: Path, run: Run, record: str) -> None:
    whole = json.loads((tmp_path / record).read_text())
    details = {"runtime_version": "crun version 1.8.1", "engine_version": "20.10", "memory": "1"}
    for claim in whole["claims"]:
        claim["targets"] = [{"kind": "container", "name": "container crun", "details": details}]
    (tmp_path / record).write_text(json.dumps(whole))
    assert (
        "\n- with crun version 1.8.1, Docker 20.10\n" in run("gallery", record, "--markdown").stdout
    )


def test_kept_verdicts_make_the_same_page(tmp_path: Path, run: Run, record: str) -> None:
    words = ("--keep=kept.json", "--markdown", "--output=page.md")
    assert run("gallery", record, *words).returncode == 0
    first = (tmp_path / "page.md").read_text()
    (tmp_path / record).unlink()
    assert run("gallery", *words).returncode == 0
    again = (tmp_path / "page.md").read_text()
    assert again.splitlines()[:-1] == first.splitlines()[:-1]  # but for the command that made it
    (kept,) = json.loads((tmp_path / "kept.json").read_text())["runs"]
    assert all(len(each.get("samples", [])) <= 1 for each in kept["claims"])


def test_what_is_wrong_is_said(tmp_path: Path, run: Run, record: str) -> None:
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "a.json").write_text((tmp_path / record).read_text()[:2000])
    for words, status, told in (
        (["no.json"], 2, "vperf gallery: no.json: "),
        (["test_it.py"], 2, "vperf gallery: test_it.py: is not"),
        (["broken", "--markdown", "--output=page.md"], 1, "vperf gallery: broken/a.json: "),
        (["--output=page.md"], 2, "--output goes with --markdown"),
        ([record, "--keep=no/folder.json"], 1, "vperf gallery: no/folder.json: No such file"),
    ):
        done = run("gallery", *words)
        assert done.returncode == status, done.stderr
        assert told in done.stderr
        assert "Traceback" not in done.stderr
    assert not (tmp_path / "page.md").exists()


def test_a_wrong_threshold_file_is_said(tmp_path: Path, run: Run, record: str) -> None:
    file = tmp_path / "thresholds" / "gallery.yaml"
    file.write_text(GALLERY.replace("needs: [sh]", "needs: sh"))
    done = run("gallery")
    assert done.returncode == 2
    assert done.stderr == (
        "vperf gallery: thresholds/gallery.yaml:7:12: claims.gallery.one.quick.needs:"
        " must be a list, such as [runc, crun], not a text\n"
    )


@pytest.mark.parametrize("name", runtimes.ARGUMENTS)
def test_each_runtime_has_a_remedy(name: str) -> None:
    assert runtimes.remedy(name)
