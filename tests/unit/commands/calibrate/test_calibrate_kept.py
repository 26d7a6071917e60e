"""Records of earlier runs that ``vperf calibrate`` continues with: old, of another version, or damaged."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from pytest_vperf.commands.calibrate import runs
from pytest_vperf.commands.calibrate import runs as quiet
from pytest_vperf.commands.calibrate.command import differences
from pytest_vperf.commands.calibrate.limits import Gathered, print_limits
from pytest_vperf.commands.calibrate.runs import Runs, RunsProblem
from pytest_vperf.commands.calibrate.survey import MEASURED
from pytest_vperf.machine import fingerprint, noise
from pytest_vperf.thresholds.profile import load_profile

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Vperf = Callable[..., subprocess.CompletedProcess[str]]


def made(number: int, **changes: object) -> None:
    """Write a run's record, as pytest would, to the folder ``kept``."""
    record = {
        "name": "copy.rate",
        "nodeid": "tests/claims/test_it.py::test_rate",
        "verdict": "not comparable",
        "reason": MEASURED,
        "criterion": "higher is better",
        "unit": "MB/s",
        "samples": [200.0 + number, 201, 202.0],
        "budget_s": 60.0,
        "noise": {"settings": {}, "sessions": [{"window_s": 9.0}]},
    }
    document = {
        "format": 1,
        "started": f"2026-11-22T08:0{number}:00+00:00",
        "fingerprint": fingerprint.read().as_dict(),
        "claims": [record],
        **changes,
    }
    Path("kept").mkdir(exist_ok=True)
    asked = {"profile": "desk", "words": ["-k", "rate"]}
    Path("kept/calibration.json").write_text(json.dumps(asked))
    Path(f"kept/run-{number}.json").write_text(json.dumps(document))


def made_noisily(number: int, noise: Sequence[str]) -> None:
    made(number)
    Path(f"kept/run-{number}.noise.json").write_text(json.dumps(noise))


RUNS = Runs(Path("kept"), "desk", ["-k", "rate"])
KEPT = ("--hw=desk", "--runs=3", "-k", "rate", "--records=kept")


@pytest.fixture
def three(project: Path) -> None:
    """All records exist: only pytest's collection takes time."""
    for number in (1, 2, 3):
        made(number)


@pytest.mark.usefixtures("three")
def test_a_machine_that_is_noisy_now_says_nothing_of_runs_of_yesterday(
    vperf: Vperf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quiet, "noise_at_start", lambda: ["load 9 on 2 processors"])
    assert vperf(*KEPT).returncode == 0
    assert "noisy" not in Path("thresholds/desk.calibrated.yaml").read_text()


@pytest.mark.usefixtures("three")
def test_the_noise_of_runs_of_yesterday_is_not_forgotten(vperf: Vperf) -> None:
    Path("kept/run-2.noise.json").write_text('["load 9 on 2 processors"]')
    done = vperf(*KEPT)
    assert done.returncode == 1
    assert done.stderr.endswith(
        "vperf calibrate: run 2 was made on a noisy machine: load 9 on 2 processors. Remove kept/run-2.json and go "
        "on with --records=kept; --noisy takes it as it is, and the file says so\n"
    )
    assert not Path("thresholds/desk.calibrated.yaml").exists()
    assert vperf(*KEPT, "--noisy").returncode == 0
    assert "noisy: load 9 on 2 processors" in Path("thresholds/desk.calibrated.yaml").read_text()


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"format": 2}, "it has format 2, and this vperf reads 1"),
        ({"fingerprint": 3}, "fingerprint: Input should be an object"),
        ({"started": "2026-11-22T08:00:00"}, "started: Value error, a time without a time zone"),
        ({"claims": [{"name": "copy.rate"}]}, "claims.0.nodeid: Field required"),
        ({"claims": {"samples": [float("nan")]}}, "claims: Input should be a valid array"),
    ],
)
@pytest.mark.usefixtures("project")
def test_an_unusable_record_is_named_with_the_reason(changes: dict[str, object], says: str) -> None:
    made(2, **changes)
    with pytest.raises(RunsProblem) as error:
        RUNS.document(2)
    assert str(error.value) == (
        f"kept/run-2.json cannot be used: {says}. Remove it to have that run made again"
    )


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("run-2.json", '{"format": 1, "sta', "kept/run-2.json cannot be used: it is not JSON: "),
        ("run-2.json", "[" * 100_000, "cannot be used: it is nested too deeply for a record. Rem"),
        (
            "run-2.json",
            "[]",
            "kept/run-2.json cannot be used: it is not a record of `pytest --claims-json`",
        ),
        ("run-2.noise.json", "3", "kept/run-2.noise.json cannot be read: "),
        ("calibration.json", "[]", "kept/calibration.json was not written by vperf calibrate"),
    ],
)
@pytest.mark.usefixtures("project")
def test_a_damaged_file_is_named(name: str, text: str, says: str) -> None:
    made(2)
    (Path("kept") / name).write_text(text)

    def read() -> None:
        RUNS.begin()
        RUNS.document(2)
        RUNS.noise_before(2)

    with pytest.raises(RunsProblem, match=re.escape(says)):
        read()


@pytest.mark.usefixtures("three")
def test_a_damaged_record_ends_the_command(vperf: Vperf) -> None:
    Path("kept/run-2.json").write_text("[]")
    done = vperf(*KEPT)
    assert done.returncode == 2
    assert "vperf calibrate: kept/run-2.json cannot be used: it is not a record of " in done.stderr
    assert not Path("thresholds/desk.calibrated.yaml").exists()


def test_runs_that_were_made_again_are_held_against_each_other_by_their_time(
    capsys: pytest.CaptureFixture[str],
) -> None:
    times = ["09:00", "08:00", "08:30"]
    print_limits([{"started": f"2026-11-22T{time}:00+00:00"} for time in times], Gathered(), [])
    assert capsys.readouterr().out == ""  # two began -3600 s apart, it would say


def test_a_clock_that_was_set_back_is_not_waited_for(
    vperf: Vperf, monkeypatch: pytest.MonkeyPatch
) -> None:
    made(1, started="2999-01-01T00:00:00+00:00")
    waited: list[float] = []
    monkeypatch.setattr(quiet, "time", SimpleNamespace(sleep=waited.append))
    monkeypatch.setattr(Runs, "measure", lambda runs, number, noise: made(number))
    assert vperf(*KEPT, "--apart=1 h").returncode == 0
    assert waited[0] == 3600


@pytest.mark.usefixtures("three")
def test_a_figure_that_somebody_wrote_since_the_runs_is_left_alone(vperf: Vperf) -> None:
    cpus = fingerprint.read().logical_cpus
    text = f"hardware: {{name: desk, match: {{logical_cpus: {cpus}}}}}\nclaims:\n  copy.rate: {{at_least: 9 MB/s}}\n"
    Path("thresholds/desk.yaml").write_text(text)
    done = vperf(*KEPT)
    assert done.returncode == 0
    assert "left alone: copy.rate: has a limit that is not from a calibration" in done.stdout
    assert "nothing to write; records in kept" in done.stdout
    assert Path("thresholds/desk.yaml").read_text() == text
    assert not Path("thresholds/desk.calibrated.yaml").exists()


@pytest.mark.parametrize(
    ("factor", "differs"), [(1.01, ""), (2, "memory was "), (0.5, "memory was ")]
)
def test_only_a_real_change_of_memory_is_another_machine(factor: float, differs: str) -> None:
    machine = fingerprint.read()
    assert machine.memory is not None
    then = {**machine.as_dict(), "memory": f"{machine.memory.value * factor:.2f} GiB"}
    assert differences({"fingerprint": then}, machine).startswith(differs)
    assert bool(differences({"fingerprint": then}, machine)) == bool(differs)


def test_a_machine_that_becomes_noisy_between_two_runs_is_refused(
    vperf: Vperf, monkeypatch: pytest.MonkeyPatch
) -> None:
    made(1, started="2999-01-01T00:00:00+00:00")
    clock = iter([100.0, 110.0] * 9)
    pressure = iter([0, 4_000_000] * 9)  # microseconds that tasks waited, in 10 s

    def snapshot() -> noise.Snapshot:
        return noise.Snapshot(at=next(clock), stalled={"cpu": {"some": next(pressure)}})

    monkeypatch.setattr(noise, "snapshot", snapshot)
    monkeypatch.setattr(quiet, "time", SimpleNamespace(sleep=lambda seconds: None))
    monkeypatch.setattr(Runs, "measure", lambda runs, number, noise: made_noisily(number, noise))
    done = vperf(*KEPT, "--apart=1 h")
    assert done.returncode == 1
    assert done.stderr.endswith(
        "vperf calibrate: this machine has become noisy: cpu pressure 40 %. Once it is quiet, go on with "
        "--records=kept; --noisy calibrates anyway, and the file says so\n"
    )
    assert not Path("kept/run-2.json").exists()
    assert vperf(*KEPT, "--apart=1 h", "--noisy").returncode == 0
    assert "cpu pressure 40 %" in Path("thresholds/desk.calibrated.yaml").read_text()


def test_an_unfinished_record_is_not_a_record(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("kept").mkdir()
    Path("kept/run-1.unfinished.json").write_text("{}")
    monkeypatch.setattr(runs, "run_pytest", lambda words: (0, False))
    with pytest.raises(RunsProblem, match="run 1 left no record: none of its tests asks for a"):
        Runs(Path("kept"), "desk", []).measure(1, [])
    assert not Path("kept/run-1.json").exists()


@pytest.mark.usefixtures("three")
def test_a_terminal_without_the_signs_of_a_table_and_a_reader_that_has_gone(project: Path) -> None:
    words = [sys.executable, "-m", "pytest_vperf", "calibrate", *KEPT]
    plain = subprocess.run(
        words,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert plain.returncode == 0, plain.stderr
    assert ">=" in plain.stdout
    assert plain.stdout.isascii()
    Path("thresholds/desk.calibrated.yaml").unlink()
    read, write = os.pipe()
    os.close(read)
    gone = subprocess.run(words, stdout=write, stderr=subprocess.PIPE, check=False)
    os.close(write)
    assert gone.returncode == 0
    assert "copy.rate" in load_profile(Path("thresholds/desk.calibrated.yaml")).claims
