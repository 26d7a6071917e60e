"""Refusals of ``vperf calibrate``, which change nothing."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_vperf.cli import main
from pytest_vperf.commands.calibrate import command, runs
from pytest_vperf.commands.pytest_process import _with_place
from pytest_vperf.thresholds.profile import load_profile

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable

    Vperf = Callable[..., subprocess.CompletedProcess[str]]


def test_a_noisy_machine_is_refused_unless_allowed(
    vperf: Vperf, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs, "noise_at_start", lambda: ["steal 5 %", "load 9 on 2 processors"])
    done = vperf("--hw=desk", "-k", "shell")
    assert (done.returncode, done.stdout, done.stderr) == (
        1,
        "",
        "vperf calibrate: this machine is noisy: steal 5 %, load 9 on 2 processors. A limit measured now would hold "
        "only as long as that lasts. `vperf doctor --tune` says what helps; --noisy calibrates anyway, and the "
        "file says so\n",
    )
    assert not (project / "runs").exists()
    assert vperf("--hw=desk", "--runs=3", "-k", "shell", "--noisy").returncode == 0
    source = load_profile(Path("thresholds/desk.calibrated.yaml")).claims["start.shell"].source
    assert str(source).endswith("; on a noisy machine: steal 5 %; load 9 on 2 processors")


def test_a_disturbed_run_ends_the_calibration(
    vperf: Vperf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs, "noise_during", lambda document: ["steal 5 %"])
    arguments = ("--hw=desk", "--runs=3", "-k", "shell", "--records=kept")
    done = vperf(*arguments)
    assert done.returncode == 1
    assert done.stderr.endswith(
        "vperf calibrate: run 1 was disturbed: steal 5 %. Remove kept/run-1.json and go on with --records=kept; "
        "--noisy takes it as it is, and the file says so\n"
    )
    assert not Path("thresholds/desk.calibrated.yaml").exists()
    assert vperf(*arguments, "--noisy").returncode == 0
    assert Path("runs").read_text() == "xxx"  # the first was not made again
    assert "run 3: steal 5 %" in Path("thresholds/desk.calibrated.yaml").read_text()


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
            ["--hw=desk", "--", "--vperf-on=ssh://root@host"],
            "vperf calibrate: targets would be on ssh://root@host: calibrate on that machine itself\n",
        ),
        (
            ["--hw=desk", "--records=tests"],
            "vperf calibrate: tests contains other files: name an empty folder\n",
        ),
    ],
)
def test_refusals_before_anything_is_measured(
    vperf: Vperf, arguments: list[str], message: str
) -> None:
    done = vperf(*arguments)
    assert done.returncode == 2
    assert message in done.stderr
    assert not Path("runs").exists()


def test_a_file_that_cannot_be_written_is_refused_before_anything_is_measured(vperf: Vperf) -> None:
    Path("thresholds/desk.calibrated.yaml").symlink_to("gone/desk.yaml")
    done = vperf("--hw=desk", "-k", "rate")
    assert done.returncode == 2
    assert "thresholds/desk.calibrated.yaml: cannot be read: there is no such file" in done.stderr
    assert not Path("runs").exists()


@pytest.mark.usefixtures("project")
def test_an_expression_is_never_taken_for_a_path() -> None:
    """It may be longer than a path can be, or name one by chance."""
    Path("rate").mkdir()
    for expression in ("rate", " or ".join(["nobody"] * 100)):
        assert _with_place(["-k", expression]) == ["-k", expression, "tests/claims"]
    assert _with_place(["-k", "rate", "rate::x"]) == ["-k", "rate", "rate::x"]


def test_tests_without_claims_are_refused(vperf: Vperf, project: Path) -> None:
    (project / "test_plain.py").write_text("def test_plain(): pass\n")
    done = vperf("--hw=desk", "test_plain.py")
    assert done.returncode == 2
    assert done.stderr.endswith("vperf calibrate: no test that was collected asks for a claim\n")


def test_limits_of_a_shipped_profile_stay_where_the_user_adds_to_it(
    vperf: Vperf, project: Path
) -> None:
    (project / "thresholds" / "type1.yaml").write_text(
        'hardware: {name: type1, match: {logical_cpus: ">= 1"}}\n'
        "claims: {copy.rate: {unknown: not yet, unit: MB/s}}\n"
    )
    (project / "test_pod.py").write_text(
        "from pytest_vperf.quantity import Quantity\n"
        "def test_pod(claim):\n"
        "    claim('startup.pod.kvm.qboot').holds(lambda: Quantity(5, 'ms'))\n"
    )
    done = vperf("--hw=type1", "--runs=3", "test_pod.py", "tests/claims", "-k", "rate or pod")
    assert done.returncode == 0
    assert re.search(
        r"^left alone: startup\.pod\.kvm\.qboot: its figure is published \(\S+/shipped/type1\.yaml:\d+\)$",
        done.stdout,
        re.MULTILINE,
    )
    written = load_profile(project / "thresholds" / "type1.calibrated.yaml")
    assert list(written.claims) == ["copy.rate"]


def test_a_published_profile_is_never_written(
    vperf: Vperf, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shipped = project.parent / "shipped"
    (project / "thresholds").rename(shipped)
    monkeypatch.setattr(command, "shipped_folder", lambda: shipped)
    done = vperf("--hw=elsewhere", "-k", "rate")
    assert done.returncode == 2
    assert (
        "elsewhere is a published profile that came with pytest-vperf, and is never written: give this machine a "
        "profile of its own, such as --hw=my-elsewhere" in done.stderr
    )
    done = vperf("--hw=desk", "-k", "rate", "--", f"--claims-thresholds={shipped}")
    assert done.returncode == 2
    assert (
        f"{shipped} came with pytest-vperf: name a folder with --claims-thresholds" in done.stderr
    )
    assert vperf("--hw=desk", "--runs=3", "-k", "rate").returncode == 0
    assert [each.name for each in (project / "thresholds").iterdir()] == ["desk.calibrated.yaml"]


def test_a_file_that_became_unfit_meanwhile_is_kept_and_so_are_the_records(
    vperf: Vperf, monkeypatch: pytest.MonkeyPatch
) -> None:
    def changed(document: object) -> list[str]:
        if Path("kept/run-3.json").exists():
            Path("thresholds/desk.calibrated.yaml").write_text("claims: {\n")
        return []

    monkeypatch.setattr(runs, "noise_during", changed)
    done = vperf("--hw=desk", "--runs=3", "-k", "rate", "--records=kept")
    assert done.returncode == 1
    assert done.stderr.endswith(
        "vperf calibrate: thresholds/desk.calibrated.yaml is unchanged: "
        "thresholds/desk.calibrated.yaml:2:1: this is not YAML: expected the node content, but found "
        "'<stream end>'\nvperf calibrate: once that is fixed, repeat the command with --records=kept\n"
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "the following arguments are required: --hw"),
        (["--hw=a", "--apart=5"], "--apart is '5', not one such as '60 s'"),
        (["--hw=a", "--apart=2 d"], "--apart: '2 d' is not from 0 s to a day"),
        (["--hw=any"], "--hw: the profile 'any' is for every machine, and limits are of one"),
        (["--hw=auto"], "--hw: 'auto' is what --hw=auto means, so no profile can have this name"),
        (["--hw=../x"], "--hw: '../x' is not a profile's name: lower-case letters, digits and '-'"),
        (
            ["--hw=a", "--runs=2"],
            "--runs: 2 is not from 3 to 100: fewer runs do not show the spread",
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
def test_bad_options_are_refused(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["calibrate", *arguments])
    assert stop.value.code == 2
    assert message in capsys.readouterr().err
