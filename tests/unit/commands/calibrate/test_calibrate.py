"""``vperf calibrate`` from the command line to the verdicts of later runs."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_vperf.machine import fingerprint
from pytest_vperf.thresholds.profile import load_profile

if TYPE_CHECKING:
    from collections.abc import Callable

    Vperf = Callable[..., subprocess.CompletedProcess[str]]


def judged(*words: str) -> dict[str, tuple[str, str]]:
    """Verdict and limit of the claims of a run of pytest."""
    command = [sys.executable, "-m", "pytest", "-q", "--claims-json=run.json", *words]
    subprocess.run(command, capture_output=True, timeout=300, check=False)
    claims = json.loads(Path("run.json").read_text())["claims"]
    return {each["name"]: (each["verdict"], each["criterion"]) for each in claims}


def test_a_profile_is_made_and_judges_later_runs(vperf: Vperf, project: Path) -> None:
    done = vperf("--hw=desk", "-k", "shell or rate or seconds and not wrong or ratio or promised")
    table = done.stdout.split("\n\n")[0]
    assert "start.shell    10  10.2  9.9  10.1  9.8 ms" in table
    assert "≤ 11.34 ms" in table
    assert "≥ 176.3 MB/s" in table
    assert "≤ 5.669 s" in table
    assert "left alone: start.ratio: a comparison needs no calibration" in done.stdout
    assert (
        "left alone: start.promised: has a limit for every machine (thresholds/any.yaml:6)"
        in done.stdout
    )
    records = project.parent / "cache" / "calibrate"
    assert f"written: thresholds/desk.calibrated.yaml; records in {records}/desk-" in done.stdout
    assert "s apart: a machine's level moves between minutes" in done.stdout
    assert done.returncode == 0

    profile = load_profile(Path("thresholds/desk.calibrated.yaml"))
    assert list(profile.claims) == ["start.shell", "copy.rate", "copy.seconds"]
    assert not profile.match.mismatches(fingerprint.read())
    source = profile.claims["start.shell"].source
    assert source is not None
    assert str(source).endswith("margin 13.4 %, 99 % for the next 20 runs")

    assert judged("-k", "shell or rate or seconds and not wrong") == {
        "start.shell": ("holds", "≤ 11.34 ms"),
        "copy.rate": ("holds", "≥ 176.3 MB/s"),
        "copy.seconds": ("holds", "≤ 5.669 s"),
    }


def test_the_file_of_the_user_is_never_written_and_its_figures_count_first(
    vperf: Vperf, project: Path
) -> None:
    before = f"""\
# My desk.
hardware:
  name: desk
  match: {{logical_cpus: {fingerprint.read().logical_cpus}}}  # as it is
claims:
  # from the paper
  start.shell: {{at_most: 4 ms, source: {{document: "a paper", published: {{max: 4 ms}}}}}}
  copy.seconds: {{at_most: 3 s}}   # what I want
  # to be found out
  copy.rate:
    summary: copies quickly
    unknown: not measured yet
    unit: MB/s
"""
    path = project / "thresholds" / "desk.yaml"
    path.write_text(before)
    done = vperf("--hw=desk", "--runs=3", "-k", "shell or rate or seconds and not wrong")
    assert done.returncode == 0
    assert (
        "left alone: start.shell: its figure is published (thresholds/desk.yaml:7)\n"
        "left alone: copy.seconds: has a limit that is not from a calibration (thresholds/desk.yaml:8); "
        "remove it to have the claim calibrated\n" in done.stdout
    )
    assert path.read_text() == before
    calibrated = project / "thresholds" / "desk.calibrated.yaml"
    assert list(load_profile(calibrated).claims) == ["copy.rate"]
    (rate,) = re.findall("at_least: (.*)", calibrated.read_text())
    assert judged("--hw=desk", "-k", "shell or rate or seconds and not wrong") == {
        "start.shell": ("refuted", "≤ 4 ms"),
        "copy.rate": ("holds", f"≥ {rate}"),
        "copy.seconds": ("refuted", "≤ 3 s"),
    }

    assert vperf("--hw=desk", "-k", "rate").returncode == 0
    assert path.read_text() == before
    assert rate not in calibrated.read_text()


def test_claims_that_cannot_be_calibrated_are_named_and_the_rest_is_written(
    vperf: Vperf,
) -> None:
    done = vperf("--hw=desk", "--runs=3", "-k", "not slow")
    assert done.returncode == 1
    lines = done.stdout.splitlines()
    tests = (
        "tests/claims/test_it.py::test_wrong_direction and tests/claims/test_it.py::test_seconds"
    )
    assert {line for line in lines if line.startswith("refused: ")} == {
        f"refused: copy.seconds: measured 2 times in run 1 ({tests}): a limit is for one thing; give each a "
        "name of its own",
        "refused: start.aimless: its samples have no direction: return Quantity(…, direction='lower'), or 'higher'",
        "refused: start.gone: run 1: not measured: no such machine here (to mend it: buy one)",
        "refused: start.sometimes: not measured in run 2",
    }
    tail = "left alone: copy.tail: about p95, but only medians are calibrated (thresholds/elsewhere.yaml:5)"
    assert tail in lines
    assert list(load_profile(Path("thresholds/desk.calibrated.yaml")).claims) == [
        "start.shell",
        "copy.rate",
    ]


def test_a_sample_of_the_other_direction_is_an_error_of_its_claim(
    vperf: Vperf,
) -> None:
    done = vperf("--hw=desk", "--runs=3", "-k", "wrong")
    assert done.returncode == 1
    assert "refused: copy.seconds: run 1: not measured: error: NotComparable: claim 'copy.sec" in (
        done.stdout
    )
    assert "nothing to write; records in " in done.stdout
    assert not list(Path("thresholds").glob("desk*"))
