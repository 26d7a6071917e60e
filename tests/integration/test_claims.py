"""Claims on real targets, from the command line to the record, and every way they can go wrong."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from pytest_vperf.machine.preflight import find_program
from pytest_vperf.machine.runs import MARK
from pytest_vperf.targets.container import engine as engines
from pytest_vperf.targets.pod import probe

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_vperf.machine.preflight import Readiness

THRESHOLDS = """
hardware: {name: any, match: {}}
claims:
  start.container: {at_most: 5 min}
  start.pod: {at_most: 5 min}
  start.next: {at_most: 5 min}
  start.too_fast: {at_most: 1 us}
  start.order: {ratio: {at_most: 1}}
"""
CONTAINER = """
def test_container(claim, containers):
    claim("start.container").holds(lambda: containers.start().startup_time)
"""
POD = """
def test_pod(claim, pods_on):
    claim("start.pod").holds(lambda: pods_on("tcg").start().startup_time)
"""


@pytest.fixture
def project(
    pytester: pytest.Pytester, runs_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., pytest.RunResult]:
    """Runs pytest in a user's project and makes sure that nothing is left."""
    monkeypatch.delenv("VPERF_REQUIRE", raising=False)
    pytester.mkdir("thresholds").joinpath("any.yaml").write_text(THRESHOLDS)

    def run(test: str, *options: str) -> pytest.RunResult:
        pytester.makepyfile(test)
        result = pytester.runpytest_subprocess(
            "--claims-json=claims.json", "--claims-budget=10 min", *options, timeout=600
        )
        assert_nothing_left(runs_dir)
        return result

    return run


def marked(runs_dir: Path) -> list[int]:
    found = []
    for process in psutil.process_iter():
        try:
            environment = process.environ()
        except psutil.Error:
            continue
        if MARK in environment and str(runs_dir) in environment.get(f"{MARK}_FOLDER", ""):
            found.append(process.pid)
    return found


def assert_nothing_left(runs_dir: Path) -> None:
    assert marked(runs_dir) == []
    assert list(runs_dir.iterdir()) == []
    assert str(runs_dir) not in Path("/proc/self/mounts").read_text()


def claims(pytester: pytest.Pytester) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((pytester.path / "claims.json").read_text())["claims"]
    return found


@pytest.fixture
def container_here(require: Callable[[str, Readiness], None]) -> None:
    require("container", engines.check(["runc"])[0])


@pytest.fixture(scope="module")
def pod_here(require: Callable[[str, Readiness], None]) -> None:
    require("pod", probe.check(afresh=False)[0])


@pytest.mark.usefixtures("container_here")
def test_a_container_claim_is_measured_and_held(project, pytester):
    result = project(CONTAINER)
    result.stdout.fnmatch_lines(["*claims: 1 held", "*= 1 held in *"])
    assert result.ret == 0
    (claim,) = claims(pytester)
    assert claim["verdict"] == "holds"
    assert claim["unit"] == "min"
    assert claim["target"] == "container runc"
    assert len(claim["samples"]) >= 5
    assert set(claim["phases"]) == {"create", "start"}
    for observation in claim["observations"]:
        assert sum(observation["parts"].values()) == pytest.approx(observation["value"])


@pytest.mark.patient
@pytest.mark.usefixtures("pod_here")
def test_a_pod_claim_is_measured_and_held(project, pytester):
    result = project(POD)
    assert result.ret == 0
    (claim,) = claims(pytester)
    assert claim["verdict"] == "holds"
    assert list(claim["phases"]) == ["process", "firmware", "kernel", "agent", "container"]
    (target,) = claim["targets"]
    assert target["details"]["accelerator"] == "tcg"


@pytest.mark.usefixtures("container_here")
def test_a_refuted_claim_is_red_in_junit_too(project, pytester):
    result = project(CONTAINER.replace("start.container", "start.too_fast"), "--junitxml=junit.xml")
    assert result.ret == 1
    result.stdout.fnmatch_lines(
        ["*start.too_fast is refuted: measured * us, claimed ≤ 1 us", "*= 1 refuted in *"]
    )
    assert 'failures="1"' in (pytester.path / "junit.xml").read_text()


@pytest.mark.usefixtures("container_here")
def test_two_targets_are_compared(project, pytester):
    result = project(
        """
        from pytest_vperf.quantity import Quantity
        def test_order(claim, native, containers):
            claim("start.order").compares(
                lambda: Quantity(native.run(["true"]).duration, "s"),
                to=lambda: containers.start().startup_time,
            )
        """
    )
    assert result.ret == 0
    (claim,) = claims(pytester)
    assert (claim["verdict"], claim["unit"]) == ("holds", "")
    assert claim["target"].endswith("container runc")
    assert all(0 < sample < 1 for sample in claim["samples"])


@pytest.mark.usefixtures("container_here")
def test_a_runtime_the_engine_does_not_know_is_not_measured(project, pytester):
    result = project(CONTAINER, "--container-runtime=no-such-runtime")
    assert result.ret == 1
    result.stdout.fnmatch_lines(
        [
            "*claims: 1 not measured",
            "claims: --container-runtime=no-such-runtime asks for container no-such-runtime, and *",
            "claims: result: nothing measured, exit status 1",
        ]
    )
    (claim,) = claims(pytester)
    assert "knows no runtime no-such-runtime; it knows " in claim["reason"]
    assert project(CONTAINER, "--container-runtime=no-such-runtime", "--claims-strict").ret == 1


@pytest.mark.usefixtures("container_here")
def test_a_runtime_that_refuses_fails_the_test_with_its_words(project, tmp_path, monkeypatch):
    refusing = tmp_path / "kata-runtime"
    # Its words reach the engine by the file that it is given.
    refusing.write_text(
        "#!/bin/sh\n"
        'while [ "$1" ]; do [ "$1" = --log ] && log=$2; shift; done\n'
        """echo '{"level": "error", "msg": "no processor with virtualization"}' >"$log"\n"""
        "exit 1\n"
    )
    refusing.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    result = project(CONTAINER, "--container-runtime=kata-runtime")
    assert result.ret == 1
    result.stdout.fnmatch_lines(
        ["*CannotStart: container kata-runtime did not start: *no processor with virtualization*"]
    )


@pytest.mark.usefixtures("container_here")
def test_a_missing_image_fails_the_test(project):
    result = project(CONTAINER, "--container-image=no/such:image")
    assert result.ret == 1
    result.stdout.fnmatch_lines(
        ["*CannotStart: the image no/such:image is not in *docker pull no/such:image*"]
    )


@pytest.mark.usefixtures("pod_here")
def test_an_invalid_kernel_file_fails_the_test(project):
    result = project(POD, "--guest-kernel=/bin/true")
    assert result.ret == 1
    result.stdout.fnmatch_lines(
        ["*CannotStart: guest kernel /bin/true: not a Linux kernel for x86*"]
    )


@pytest.mark.usefixtures("pod_here")
def test_a_pod_that_never_gets_ready_is_not_measured(project, pytester):
    result = project(POD, "--start-timeout=400 ms")
    assert result.ret == 1
    result.stdout.fnmatch_lines(
        ["*NotReady: pod tcg qboot was not ready in time: it never left its phase *"]
    )
    (claim,) = claims(pytester)
    assert claim["verdict"] == "not measured"
    assert claim["reason"].startswith("error: NotReady: ")


@pytest.mark.usefixtures("container_here")
def test_an_engine_stopped_between_two_samples(project, pytester):
    if os.environ.get("DOCKER_HOST") or not engines.check([])[0].why.startswith(
        "no engine answers"
    ):
        pytest.skip("the engine here is not ours to stop")
    result = project(
        """
        import os, signal, psutil
        def test_container(claim, containers, vperf_run):
            taken = []
            def sample():
                if len(taken) == 3:
                    for process in psutil.process_iter(["name", "environ"]):
                        environment = process.info["environ"] or {}
                        if process.info["name"] == "dockerd" and environment.get("VPERF_RUN") == vperf_run.id:
                            process.kill()
                            process.wait()
                taken.append(1)
                return containers.start().startup_time
            claim("start.container").holds(sample)

        def test_next(claim, containers):
            claim("start.next").holds(lambda: containers.start().startup_time)
        """
    )
    assert result.ret == 1
    result.stdout.fnmatch_lines(["*CannotConnect: *does not answer*"])
    claim, after = claims(pytester)
    assert claim["verdict"] == "inconclusive"
    assert len(claim["observations"]) == 3
    # Another one is started for the claims that follow.
    assert after["verdict"] == "holds"


def begin(pytester: pytest.Pytester, test: str) -> subprocess.Popen[str]:
    """Start a run and wait for its third sample."""
    pytester.makepyfile(
        test.replace(".startup_time", ".startup_time, print('sampled', flush=True))[0]").replace(
            "lambda: ", "lambda: ("
        )
    )
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "pytest",
            "-s",
            "--claims-json=claims.json",
            "--claims-budget=5 min",
        ],
        cwd=pytester.path,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    sampled = 0
    for line in process.stdout:
        sampled += "sampled" in line
        if sampled == 3:
            return process
    raise AssertionError("the run ended before it had sampled")


@pytest.mark.usefixtures("container_here", "pod_here", "project")
@pytest.mark.parametrize(
    ("test", "how"),
    [
        (CONTAINER, signal.SIGINT),
        (CONTAINER, signal.SIGTERM),
        (CONTAINER, signal.SIGHUP),
        (POD, signal.SIGINT),
        (POD, signal.SIGHUP),
    ],
    ids=lambda value: value.name if isinstance(value, signal.Signals) else None,
)
def test_an_interrupted_run_leaves_nothing_and_keeps_what_it_measured(
    pytester, runs_dir, test, how
):
    process = begin(pytester, test)
    process.send_signal(how)
    assert process.stdout is not None
    process.stdout.read()
    assert process.wait(60) == 2
    process.stdout.close()
    assert_nothing_left(runs_dir)
    (claim,) = claims(pytester)
    assert len(claim["observations"]) >= 2


@pytest.mark.usefixtures("container_here", "pod_here", "project")
def test_what_a_killed_run_left_is_shown_and_removed(pytester, runs_dir):
    process = begin(pytester, CONTAINER)
    process.kill()
    process.wait()
    assert process.stdout is not None
    process.stdout.close()
    (folder,) = runs_dir.iterdir()
    vperf = [sys.executable, "-m", "pytest_vperf", "clean"]
    shown = subprocess.run([*vperf, "--dry-run"], capture_output=True, text=True, check=False)
    assert str(folder) in shown.stdout
    assert folder.is_dir()
    removed = subprocess.run(vperf, capture_output=True, text=True, check=False)
    assert removed.returncode == 0, removed.stderr
    deadline = time.monotonic() + 20
    while marked(runs_dir) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert_nothing_left(runs_dir)
    again = subprocess.run(vperf, capture_output=True, text=True, check=False)
    assert again.stdout == "nothing left over\n"


def test_gvisor_is_measured_where_it_is_installed(project, pytester, require):
    if find_program("runsc") is None:
        pytest.skip("runsc is not installed")
    require("container", engines.check(["runsc"])[1])
    assert project(CONTAINER, "--container-runtime=runsc").ret == 0
    (claim,) = claims(pytester)
    assert claim["target"] == "container runsc"
    assert len(claim["samples"]) >= 5
