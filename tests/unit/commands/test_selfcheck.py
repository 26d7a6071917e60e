"""``vperf selfcheck`` from the command line to the verdicts of later runs, with samplers that cost nothing."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from pytest_vperf.claims import marks
from pytest_vperf.cli import main

if TYPE_CHECKING:
    from collections.abc import Callable

THRESHOLDS = """
hardware: {name: any, match: {}}
claims:
  start.honest: {ratio: {at_most: 1.1}}
  start.leaky: {no_worse: lower_is_better}
  copy.rate: {at_least: 10 MB/s}
  copy.noisy: {at_most: 900 ms, judge: {pairs: 64}}
  copy.tail: {at_most: 900 ms, statistic: p99}
  copy.short: {at_most: 900 ms, statistic: p99, judge: {pairs: 64}}
  copy.constant: {near: {value: 3 ms, tolerance: 5 %}}
  copy.gone: {at_most: 3 ms}
  copy.broken: {at_most: 3 ms}
  copy.slow: {at_most: 9 s}
  sweep.level: {saturates: {near: 9 MB/s}}
"""
TESTS = '''
import pathlib
import random
import sys
import time

from pytest_vperf.claims.sampling import Sampling
from pytest_vperf.quantity import Quantity
from pytest_vperf.targets.base import Unavailable

noise = random.Random(1)


def around(centre, unit="ms", spread=0.01):
    return lambda: Quantity(centre * (1 + spread * noise.uniform(-1, 1)), unit)


def leaky():
    """Knows for which arm it is asked, and is slower for one of them."""
    frame = sys._getframe()
    while not isinstance(frame.f_locals.get("self"), Sampling):
        frame = frame.f_back
    arm = frame.f_locals["self"].rule.next()
    return around(10 if arm == "a" else 10.5)()


def test_honest(claim):
    claim("start.honest").compares(around(10), to=around(10))


def test_leaky(claim):
    claim("start.leaky").compares(leaky, to=around(10))


def test_rate(claim):
    def slower(share):
        assert share == 0.04
        return around(20 / (1 + share), "MB/s")()

    claim("copy.rate").holds(around(20, "MB/s"), slower=slower)


def test_noisy(claim):
    claim("copy.noisy").holds(around(10, spread=0.9))


def test_tail(claim):
    claim("copy.tail").holds(around(10))


def test_short(claim):
    claim("copy.short").holds(around(10))


def test_constant(claim):
    claim("copy.constant").holds(lambda: Quantity(3, "ms"))


def test_gone(claim):
    def gone():
        raise Unavailable("no such machine here", remedy="buy one", target="pod")

    claim("copy.gone").holds(gone)


def test_broken(claim):
    def broken():
        raise RuntimeError("it is broken")

    claim("copy.broken").holds(broken)


def test_slow(claim):
    def slow():
        pathlib.Path("sampled").touch()
        time.sleep(0.05)
        return around(50)()

    claim("copy.slow").holds(slow)


def test_sweep(claim):
    def through(load):
        assert load == 40, "the last load is the metric"
        return around(9, "MB/s")()

    claim("sweep.level").saturates(through, over=[5, 10, 20, 40])
'''


@pytest.fixture
def vperf(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs the command in a project of claims with its own state."""
    for variable, name in (("LOCK", "lock"), ("RUNS_DIR", "runs"), ("CACHE_DIR", "cache")):
        monkeypatch.setenv(f"VPERF_{variable}", str(tmp_path / name))
    monkeypatch.delenv("VPERF_REQUIRE", raising=False)
    monkeypatch.setenv("PYTEST_ADDOPTS", "-p no:hypothesispytest -p no:cacheprovider")
    project = tmp_path / "project"
    (project / "thresholds").mkdir(parents=True)
    (project / "thresholds" / "any.yaml").write_text(THRESHOLDS)
    (project / "tests" / "claims").mkdir(parents=True)
    (project / "tests" / "claims" / "test_it.py").write_text(TESTS)
    # The coin is seeded, too: about one seed in ten gives three wrong verdicts in 60, and no conclusion.
    (project / "pytest.ini").write_text("[pytest]\nclaims_seed = 2\n")
    monkeypatch.chdir(project)

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)

    return run


def rows(output: str) -> dict[str, list[str]]:
    """The cells of the table, by claim."""
    lines = [line.split("  ") for line in output.split("\n\n")[0].splitlines()[2:]]
    cells = [[cell.strip() for cell in line if cell.strip()] for line in lines]
    return {row[0]: row[1:] for row in cells if len(row) > 2}


def test_an_honest_metric_is_stable_and_a_leaky_one_unstable_also_for_later_runs(
    vperf: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    done = vperf(
        "pytest_vperf", "selfcheck", "start.*", "--decisions=60", "--json=out.json",
        "--", "--claims-seed=1",
    )  # fmt: skip
    found = rows(done.stdout)
    assert list(found) == ["start.honest", "start.leaky"]
    assert found["start.honest"][0] == "60 of 60"
    assert found["start.honest"][2:4] == ["18 of 18", "+4 % scaled"]
    assert found["start.honest"][-1] == "stable"
    assert found["start.leaky"][:2] == ["60 of 60", "60 (6)"]
    assert found["start.leaky"][-1] == "unstable"
    assert done.returncode == 1
    document = json.loads((tmp_path / "project" / "out.json").read_text())
    assert document["fingerprint"]["kernel"]
    fresh_samples(document["metrics"][0])

    judged = vperf("pytest", "-q", "-rs", "--claims-json=run.json", "-k", "leaky or honest")
    claims = json.loads((tmp_path / "project" / "run.json").read_text())["claims"]
    verdicts = {claim["name"]: (claim["verdict"], claim["cause"]) for claim in claims}
    assert verdicts == {
        "start.honest": ("holds", ""),
        "start.leaky": ("inconclusive", "unstable"),
    }
    (leaky,) = (claim for claim in claims if claim["name"] == "start.leaky")
    day = document["metrics"][1]["started_at"][:10]
    reason = (
        f"self-check of {day}: 60 of 60 A/A decisions were wrong; "
        "vperf selfcheck start.leaky repeats it"
    )
    assert leaky["reason"] == reason
    assert reason in judged.stdout

    assert vperf("pytest_vperf", "selfcheck", "--forget", "start.l*").stdout == (
        "forgotten: start.leaky\n"
    )
    assert vperf("pytest_vperf", "selfcheck", "--forget", "start.l*").stdout == (
        "nothing to forget\n"
    )
    vperf("pytest", "-q", "--claims-json=run.json", "-k", "leaky")
    (leaky,) = json.loads((tmp_path / "project" / "run.json").read_text())["claims"]
    assert leaky["verdict"] == "holds"


def fresh_samples(metric: dict[str, Any]) -> None:
    """No two decisions share a sample or a coin, and only the first has a warm-up."""
    values = [value for each in metric["decided"] for value in each["values"]]
    about = [each["about"] for each in metric["decided"]]
    same = [each["values"] for each in metric["decided"] if each["about"] == "A/A"]
    assert len(set(values)) == len(values)
    assert about.count("A/A") == 60
    assert about.count("slower") == 18
    assert len({each["seed"] for each in metric["decided"]}) == 78
    assert [len(each) for each in same[:3]] == [66, 64, 64]
    for each in metric["decided"]:
        assert each["arms"].count("a") == each["arms"].count("b")


def test_real_work_noise_and_constants_are_told(
    vperf: Callable[..., subprocess.CompletedProcess[str]],
) -> None:
    done = vperf("pytest_vperf", "selfcheck", "copy.rate", "copy.noisy", "copy.con*")
    found = rows(done.stdout)
    assert found["copy.rate"][2:4] == ["60 of 60", "+4 % real"]
    assert found["copy.rate"][-1] == "stable"
    assert found["copy.noisy"][-1] == "too noisy"
    assert found["copy.constant"][1:4] == ["0 (11)", "60 of 60", "+10 % scaled"]
    assert "samples are exactly 3 ms: is something cached or constant?" in done.stdout
    assert "scaled: measured values were multiplied" in done.stdout
    assert done.returncode == 1
    assert marks.why_unstable("copy.noisy") == ""  # inconclusive without the check


def test_a_metric_that_is_stable_alone_is_success(
    vperf: Callable[..., subprocess.CompletedProcess[str]],
) -> None:
    done = vperf("pytest_vperf", "selfcheck", "copy.rate", "--decisions=60", "--tolerance=2 %")
    assert (done.returncode, rows(done.stdout)["copy.rate"][-1]) == (0, "stable")


def test_the_metric_of_a_percentile_is_checked_with_as_many_pairs_as_any(
    vperf: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    """Not with the thousands of samples that judging it may take, and also where the claim itself has too few."""
    done = vperf(
        "pytest_vperf", "selfcheck", "copy.tail", "copy.short", "--decisions=60", "--json=out.json"
    )
    document = json.loads((tmp_path / "project" / "out.json").read_text())
    allowed = {metric["claim"]: metric["pairs_slower"] for metric in document["metrics"]}
    assert allowed == {"copy.tail": 512, "copy.short": 64}
    assert rows(done.stdout)["copy.tail"][-1] == "stable"
    assert rows(done.stdout)["copy.short"][0] == "60 of 60"


def test_few_decisions_conclude_nothing(
    vperf: Callable[..., subprocess.CompletedProcess[str]],
) -> None:
    done = vperf("pytest_vperf", "selfcheck", "copy.slow", "--budget=1 s", "--pairs=4")
    made, wanted = rows(done.stdout)["copy.slow"][0].split(" of ")
    assert 0 <= int(made) < 29
    assert wanted == "200"
    assert rows(done.stdout)["copy.slow"][-1] == "too few"
    assert done.returncode == 1
    assert not list(marks._folder().glob("*"))


def test_claims_that_cannot_be_measured(
    vperf: Callable[..., subprocess.CompletedProcess[str]],
) -> None:
    done = vperf("pytest_vperf", "selfcheck", "copy.gone", "copy.broken")
    found = rows(done.stdout)
    assert found["copy.gone"][-1] == found["copy.broken"][-1] == "not measured"
    assert "copy.gone: no such machine here (to mend it: buy one)" in done.stdout
    assert "copy.broken: error: RuntimeError: it is broken" in done.stdout
    assert "RuntimeError: it is broken" in done.stderr
    assert done.returncode == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["start.honst"],
            "ERROR: no threshold file has a claim 'start.honst'; did you mean 'start.honest'?",
        ),
        (
            ["start.honest", "nothing.*", "--decisions=1", "--", "-k", "honest"],
            "vperf selfcheck: no test that ran names a claim like 'nothing.*'; "
            "those that ran name start.honest\n",
        ),
        (
            ["copy.rate", "--decisions=1", "--", "-k", "honest"],
            "vperf selfcheck: no test that ran names the claim 'copy.rate'; "
            "those that ran name start.honest\n",
        ),
        (["--", "-k", "nobody"], "vperf selfcheck: pytest found no tests\n"),
    ],
)
def test_unknown_names_are_refused(
    vperf: Callable[..., subprocess.CompletedProcess[str]], arguments: list[str], message: str
) -> None:
    done = vperf("pytest_vperf", "selfcheck", *arguments)
    assert message in done.stderr
    assert done.returncode == 2


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupted_check_shows_what_there_is(
    vperf: Callable[..., subprocess.CompletedProcess[str]], number: signal.Signals
) -> None:
    command = [sys.executable, "-m", "pytest_vperf", "selfcheck", "copy.slow"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        while not Path("sampled").exists():
            assert process.poll() is None
            time.sleep(0.01)
        process.send_signal(number)
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 130
    assert rows(out)["copy.slow"][-1] == "not measured"
    assert "copy.slow: error: KeyboardInterrupt" in out
    assert err.endswith("vperf: interrupted\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--decisions=0"], "--decisions: 0 is not from 1 to 100000"),
        (["--pairs=3"], "--pairs: must be a whole number from 4 to 1000000, not '3'"),
        (["--budget=5"], "--budget: '5' is not a time such as '60 s' or '2 min'"),
        (["--tolerance=2"], "--tolerance: a tolerance is more than 0 %"),
        (["--forget", "--", "tests"], "--forget runs no tests"),
    ],
)
def test_bad_options_are_refused(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["selfcheck", *arguments])
    assert stop.value.code == 2
    assert message in capsys.readouterr().err


def test_a_mark_of_another_kernel_does_not_count(
    vperf: Callable[..., subprocess.CompletedProcess[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    import dataclasses

    from pytest_vperf.machine import fingerprint

    vperf("pytest_vperf", "selfcheck", "start.leaky", "--decisions=20")
    assert marks.why_unstable("start.leaky").startswith("self-check of ")
    assert marks.why_unstable("start.leak") == ""
    updated = dataclasses.replace(fingerprint.read(), kernel="99.9.9")
    monkeypatch.setattr(fingerprint, "read", lambda: updated)
    assert marks.why_unstable("start.leaky") == ""


def test_of_a_sweep_the_last_load_is_the_metric(
    vperf: Callable[..., subprocess.CompletedProcess[str]],
) -> None:
    done = vperf("pytest_vperf", "selfcheck", "sweep.*", "--decisions=60")
    found = rows(done.stdout)["sweep.level"]
    assert (found[0], found[2]) == ("60 of 60", "18 of 18")


def test_a_killed_check_leaves_nothing_that_is_not_cleaned_away(
    vperf: Callable[..., subprocess.CompletedProcess[str]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "temporary").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    command = [sys.executable, "-m", "pytest_vperf", "selfcheck", "copy.slow"]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        while not Path("sampled").exists():
            assert process.poll() is None
            time.sleep(0.01)
        family = psutil.Process(process.pid).children(recursive=True)
        process.kill()
    _, alive = psutil.wait_procs(family, timeout=60)
    assert alive == []
    assert vperf("pytest_vperf", "clean").returncode == 0
    assert list((tmp_path / "temporary").iterdir()) == []
    assert list((tmp_path / "runs").iterdir()) == []
