"""``vperf calibrate`` from the command line to the verdicts of later runs, with samplers that cost nothing."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from pytest_vperf import calibrate
from pytest_vperf.calibration import quiet
from pytest_vperf.claims.thresholds import load_profile
from pytest_vperf.cli import main
from pytest_vperf.machine import fingerprint

if TYPE_CHECKING:
    from collections.abc import Callable

ANY = """
hardware: {name: any, match: {}}
claims:
  start.*: {unknown: no document publishes it, unit: ms}
  start.ratio: {ratio: {at_most: 1.1}}
  start.promised: {at_most: 40 ms}
"""
ELSEWHERE = """
hardware: {name: elsewhere, match: {cpu_model: "no such processor"}}
claims:
  copy.seconds: {at_most: 3 s}
  copy.tail: {at_most: 3 s, statistic: p95}
"""
TESTS = '''
import pathlib
import time

import pytest

from pytest_vperf.quantity import Quantity
from pytest_vperf.targets.base import Unavailable

LEVELS = [1.0, 1.02, 0.99, 1.01, 0.98]


@pytest.fixture(scope="session")
def run():
    """Which run this is, from 0 on."""
    path = pathlib.Path("runs")
    path.touch()
    number = len(path.read_text())
    path.write_text("x" * (number + 1))
    return number


def around(run, centre, unit="ms", better=""):
    wobble = iter(range(10**6))
    level = centre * LEVELS[run % len(LEVELS)]
    return lambda: Quantity(level * (1 + 0.001 * (next(wobble) % 5 - 2)), unit, better=better)


def test_shell(claim, run):
    claim("start.shell").holds(around(run, 10, better="lower"))


def test_rate(claim, run):
    claim("copy.rate").holds(around(run, 200, "MB/s", "higher"))


def test_seconds(claim, run):
    claim("copy.seconds").holds(around(run, 5000))


def test_tail(claim, run):
    claim("copy.tail").holds(around(run, 5))


def test_ratio(claim, run):
    claim("start.ratio").compares(around(run, 10), to=around(run, 10))


def test_promised(claim, run):
    claim("start.promised").holds(around(run, 50))


def test_direction(claim, run):
    claim("start.aimless").holds(around(run, 10))


def test_wrong_direction(claim, run):
    claim("copy.seconds").holds(around(run, 5, "s", "higher"))


def test_gone(claim, run):
    def gone():
        raise Unavailable("no such machine here", remedy="buy one", target="pod")

    claim("start.gone").holds(gone)


def test_sometimes(claim, run):
    if run != 1:
        claim("start.sometimes").holds(around(run, 10, better="lower"))


def test_slow(claim):
    def slow():
        pathlib.Path("sampled").touch()
        time.sleep(0.02)
        return Quantity(50, "ms", better="lower")

    claim("start.slow").holds(slow)
'''


class Done(NamedTuple):
    """What the command came to."""

    status: int
    out: str
    err: str


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project of claims, with a state of its own, on a machine that is quiet."""
    for variable, name in (("LOCK", "lock"), ("RUNS_DIR", "runs"), ("CACHE_DIR", "cache")):
        monkeypatch.setenv(f"VPERF_{variable}", str(tmp_path / name))
    monkeypatch.delenv("VPERF_REQUIRE", raising=False)
    monkeypatch.setenv("PYTEST_ADDOPTS", "-p no:hypothesispytest -p no:cacheprovider")
    project = tmp_path / "project"
    (project / "thresholds").mkdir(parents=True)
    (project / "thresholds" / "any.yaml").write_text(ANY)
    (project / "thresholds" / "elsewhere.yaml").write_text(ELSEWHERE)
    (project / "tests" / "claims").mkdir(parents=True)
    (project / "tests" / "claims" / "test_it.py").write_text(TESTS)
    (project / "pytest.ini").touch()
    monkeypatch.chdir(project)
    monkeypatch.setattr(quiet, "before", list)
    monkeypatch.setattr(quiet, "during", lambda document: [])
    return project


@pytest.fixture
def vperf(project: Path, capfd: pytest.CaptureFixture[str]) -> Callable[..., Done]:
    """Runs the command in the project."""

    def run(*arguments: str) -> Done:
        status = main(["calibrate", *arguments])
        return Done(status, *capfd.readouterr())

    return run


def judged(*words: str) -> dict[str, tuple[str, str]]:
    """Verdict and limit of the claims of a run of pytest."""
    command = [sys.executable, "-m", "pytest", "-q", "--claims-json=run.json", *words]
    subprocess.run(command, capture_output=True, timeout=300, check=False)
    claims = json.loads(Path("run.json").read_text())["claims"]
    return {each["name"]: (each["verdict"], each["criterion"]) for each in claims}


def test_a_profile_is_made_and_judges_later_runs(vperf: Callable[..., Done], project: Path) -> None:
    done = vperf("--hw=desk", "-k", "shell or rate or seconds and not wrong or ratio or promised")
    table = done.out.split("\n\n")[0]
    assert "start.shell    10  10.2  9.9  10.1  9.8 ms" in table
    assert "≤ 11.34 ms" in table
    assert "≥ 176.3 MB/s" in table
    assert "≤ 5.669 s" in table
    assert "left alone: start.ratio: a comparison needs no calibration" in done.out
    assert (
        "left alone: start.promised: has a limit for every machine (thresholds/any.yaml:6)"
        in done.out
    )
    records = project.parent / "cache" / "calibrate"
    assert f"written: thresholds/desk.yaml; records in {records}/desk-" in done.out
    assert done.status == 0

    profile = load_profile(Path("thresholds/desk.yaml"))
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


def test_an_existing_file_keeps_what_is_not_from_a_calibration(
    vperf: Callable[..., Done], project: Path
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
    assert done.status == 0
    assert (
        "left alone: start.shell: its figure is published (thresholds/desk.yaml:7)\n"
        "left alone: copy.seconds: has a limit that is not from a calibration (thresholds/desk.yaml:8); "
        "without it there the claim is calibrated\n" in done.out
    )
    text = path.read_text()
    kept, _, _ = before.partition("    unknown:")
    assert text.startswith(f"{kept}    at_least: ")
    first = str(load_profile(path).claims["copy.rate"].source)

    assert vperf("--hw=desk", "-k", "rate").status == 0
    second = str(load_profile(path).claims["copy.rate"].source)
    assert first != second
    assert path.read_text().startswith(f"{kept}    at_least: ")


def test_what_cannot_be_calibrated_is_refused_by_name_and_the_rest_is_written(
    vperf: Callable[..., Done],
) -> None:
    done = vperf("--hw=desk", "--runs=3", "-k", "not slow")
    assert done.status == 1
    lines = done.out.splitlines()
    tests = (
        "tests/claims/test_it.py::test_wrong_direction and tests/claims/test_it.py::test_seconds"
    )
    assert {line for line in lines if line.startswith("refused: ")} == {
        f"refused: copy.seconds: measured 2 times in run 1 ({tests}): one limit is for one thing; give each a "
        "name of its own",
        "refused: start.aimless: its samples have no direction: return Quantity(…, better='lower'), or 'higher'",
        "refused: start.gone: run 1: not measured: no such machine here (to mend it: buy one)",
        "refused: start.sometimes: not measured in run 2",
    }
    tail = (
        "left alone: copy.tail: about p95, and calibrated are medians (thresholds/elsewhere.yaml:5)"
    )
    assert tail in lines
    assert list(load_profile(Path("thresholds/desk.yaml")).claims) == ["start.shell", "copy.rate"]


def test_a_sample_of_the_other_direction_is_an_error_of_its_claim(
    vperf: Callable[..., Done],
) -> None:
    done = vperf("--hw=desk", "--runs=3", "-k", "wrong")
    assert done.status == 1
    assert "refused: copy.seconds: run 1: not measured: error: NotComparable: claim 'copy.sec" in (
        done.out
    )
    assert "nothing to write; records in " in done.out
    assert not Path("thresholds/desk.yaml").exists()


def test_a_noisy_machine_is_refused_unless_it_is_insisted_on(
    vperf: Callable[..., Done], project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quiet, "before", lambda: ["steal 5 %", "load 9 on 2 processors"])
    done = vperf("--hw=desk", "-k", "shell")
    assert done == (
        1,
        "",
        "vperf calibrate: this machine is noisy: steal 5 %, load 9 on 2 processors. A limit measured now would hold "
        "only as long as that lasts. `vperf doctor --tune` says what helps; --noisy calibrates all the same, and the "
        "file says so\n",
    )
    assert not (project / "runs").exists()
    assert vperf("--hw=desk", "--runs=3", "-k", "shell", "--noisy").status == 0
    source = load_profile(Path("thresholds/desk.yaml")).claims["start.shell"].source
    assert str(source).endswith("; on a noisy machine: steal 5 %; load 9 on 2 processors")


def test_a_run_that_is_disturbed_ends_the_calibration(
    vperf: Callable[..., Done], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quiet, "during", lambda document: ["steal 5 %"])
    arguments = ("--hw=desk", "--runs=3", "-k", "shell", "--records=kept")
    done = vperf(*arguments)
    assert done.status == 1
    assert done.err.endswith(
        "vperf calibrate: run 1 was disturbed: steal 5 %. Remove kept/run-1.json and go on with --records=kept; "
        "--noisy takes it as it is, and the file says so\n"
    )
    assert not Path("thresholds/desk.yaml").exists()
    assert vperf(*arguments, "--noisy").status == 0
    assert Path("runs").read_text() == "xxx"  # the first was not made again
    assert "run 3: steal 5 %" in Path("thresholds/desk.yaml").read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["--hw=elsewhere"],
            "vperf calibrate: thresholds/elsewhere.yaml is for another machine: cpu_model is ",
        ),
        (["--hw=desk", "-k", "nobody"], "vperf calibrate: pytest found no tests\n"),
        (["--hw=desk", "no/such.py"], "vperf calibrate: pytest ended with status 4, see above\n"),
        (
            ["--hw=desk", "--", "--on=ssh://root@host"],
            "vperf calibrate: targets would be on ssh://root@host: calibrate on that machine itself\n",
        ),
        (
            ["--hw=desk", "--records=tests"],
            "vperf calibrate: tests has other files in it: name an empty folder\n",
        ),
    ],
)
def test_what_is_refused_before_anything_is_measured(
    vperf: Callable[..., Done], arguments: list[str], message: str
) -> None:
    done = vperf(*arguments)
    assert done.status == 2
    assert message in done.err
    assert not Path("runs").exists()


def test_a_published_profile_is_never_written(
    vperf: Callable[..., Done], project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shipped = project.parent / "shipped"
    (project / "thresholds").rename(shipped)
    monkeypatch.setattr(calibrate, "shipped_folder", lambda: shipped)
    done = vperf("--hw=elsewhere", "-k", "rate")
    assert done.status == 2
    assert (
        "elsewhere is a published profile that came with pytest-vperf, and is never written: give this machine one "
        "of its own, such as --hw=my-elsewhere" in done.err
    )
    done = vperf("--hw=desk", "-k", "rate", "--", f"--claims-thresholds={shipped}")
    assert done.status == 2
    assert f"{shipped} came with pytest-vperf: name a folder with --claims-thresholds" in done.err
    assert vperf("--hw=desk", "--runs=3", "-k", "rate").status == 0
    assert [each.name for each in (project / "thresholds").iterdir()] == ["desk.yaml"]


def test_a_file_that_became_unfit_meanwhile_is_kept_and_so_are_the_records(
    vperf: Callable[..., Done], monkeypatch: pytest.MonkeyPatch
) -> None:
    def changed(document: object) -> list[str]:
        cpus = fingerprint.read().logical_cpus
        claims = "claims: {copy.rate: {at_least: 1 B/s}}"
        text = f"hardware: {{name: desk, match: {{logical_cpus: {cpus}}}}}\n{claims}\n"
        if Path("kept/run-3.json").exists():
            Path("thresholds/desk.yaml").write_text(text)
        return []

    monkeypatch.setattr(quiet, "during", changed)
    done = vperf("--hw=desk", "--runs=3", "-k", "rate", "--records=kept")
    assert done.status == 1
    assert done.err.endswith(
        "vperf calibrate: thresholds/desk.yaml is as it was: the claims are in braces: write each on lines of its "
        "own\nvperf calibrate: once that is mended, repeat the command with --records=kept\n"
    )


def test_records_of_other_tests_are_not_gone_on_with(vperf: Callable[..., Done]) -> None:
    assert vperf("--hw=desk", "--runs=3", "-k", "rate", "--records=kept").status == 0
    done = vperf("--hw=desk", "--runs=4", "-k", "shell", "--records=kept")
    assert done.status == 2
    assert done.err == (
        "vperf calibrate: kept has the runs of `pytest -k rate` for --hw=desk: give the same, or another folder\n"
    )
    assert vperf("--hw=desk", "--runs=4", "-k", "rate", "--records=kept").status == 0
    assert Path("runs").read_text() == "xxxx"
    kept = json.loads(Path("kept/run-2.json").read_text())
    kept["fingerprint"]["kernel"] = "1.0"
    Path("kept/run-2.json").write_text(json.dumps(kept))
    done = vperf("--hw=desk", "--runs=4", "-k", "rate", "--records=kept")
    assert done.status == 2
    assert "kept/run-2.json is from another machine: kernel was '1.0', and is " in done.err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_keeps_the_file_and_the_records(
    project: Path, vperf: Callable[..., Done], number: signal.Signals
) -> None:
    words = ["--hw=desk", "--runs=3", "--noisy", "-k", "slow", "--records=kept"]
    command = [sys.executable, "-m", "pytest_vperf", "calibrate", *words]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        while not Path("kept/run-1.json").exists():
            assert process.poll() is None
            time.sleep(0.01)
        Path("sampled").unlink()
        while not Path("sampled").exists():
            assert process.poll() is None
            time.sleep(0.01)
        process.send_signal(number)
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
        process.wait()
    assert (process.returncode, out) == (130, "")
    assert err.endswith(
        "vperf calibrate: interrupted after 1 of 3 runs; no threshold file was changed\n"
        "vperf calibrate: to go on, repeat the command with --records=kept\n"
        "vperf: interrupted\n"
    )
    assert not Path("thresholds/desk.yaml").exists()
    begun = Path("kept/run-1.json").read_bytes()
    done = vperf(*words)
    assert done.status == 0
    assert (
        "start.slow: all 72 samples are exactly 50 ms: is something cached or constant?" in done.out
    )
    assert "2.01 %, the least there is" in done.out or "2 %, the least there is" in done.out
    assert Path("kept/run-1.json").read_bytes() == begun


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "the following arguments are required: --hw"),
        (["--hw=any"], "--hw: the profile 'any' is for every machine, and limits are of one"),
        (["--hw=auto"], "--hw: 'auto' is what --hw=auto means, so no profile can have this name"),
        (["--hw=../x"], "--hw: '../x' is not a profile's name: lower-case letters, digits and '-'"),
        (
            ["--hw=a", "--runs=2"],
            "--runs: 2 is not from 3 to 100: of fewer runs the spread is not known",
        ),
        (["--hw=a", "--next=0"], "--next: 0 is not from 1 to 10000"),
        (
            ["--hw=a", "--confidence=0.99"],
            "--confidence: '0.99' is not a percentage above 50 % and up to 99.99 %, such as '99 %'",
        ),
        (["--hw=a", "--confidence=100 %"], "--confidence: '100 %' is not a percentage above 50 %"),
        (["--hw=a", "--", "--claims-json=x"], "--claims-json is set for each run: leave it out"),
    ],
)
def test_options_that_are_not_understood(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["calibrate", *arguments])
    assert stop.value.code == 2
    assert message in capsys.readouterr().err
