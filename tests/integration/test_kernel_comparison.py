"""Pods with two kernels, from the options to the record.

``VPERF_TEST_KERNEL=FILE`` is the kernel in question; without it the distribution's is compared with itself.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_vperf.machine.preflight import Readiness
from pytest_vperf.targets.base import Unavailable
from pytest_vperf.targets.kernel.guest_kernel import distribution_kernel, from_file
from pytest_vperf.targets.pod import probe

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_vperf.targets.kernel.guest_kernel import GuestKernel

pytestmark = pytest.mark.patient

THRESHOLDS = """
hardware: {name: any, match: {}}
judge: {tolerance: 80 %, pairs: 40, budget: 10 min}
claims:
  kernel.startup.pod.*: {no_worse: lower_is_better}
  kernel.version.pod.*: {no_worse: lower_is_better}
"""
STARTS = """
import pytest

pytestmark = pytest.mark.kernel

@pytest.mark.parametrize("kernels", ["pod.tcg"], indirect=True)
def test_starts(claim, kernels):
    claim(f"kernel.startup.{kernels.kind}").compares(
        lambda: kernels.new.start().startup_time,
        to=lambda: kernels.baseline.start().startup_time,
    )
"""
#: Runs in machines that stay for some samples, and records the kernel that each reports.
STAYS = """
import pytest
from pytest_vperf.quantity import Quantity

@pytest.mark.parametrize("kernels", ["pod.tcg"], indirect=True)
def test_stays(claim, kernels):
    new, baseline = kernels.running(samples=2)

    def sample(arm, machine):
        pod = machine()
        release = pod.run(["cat", "/proc/sys/kernel/osrelease"])
        with open("seen", "a") as file:
            print(arm, pod.pid, release.text.strip(), file=file)
        return Quantity(release.duration * 1e3, "ms")

    claim(f"kernel.version.{kernels.kind}").compares(
        lambda: sample("new", new), to=lambda: sample("baseline", baseline)
    )
"""


@pytest.fixture(scope="module")
def kernels(require: Callable[[str, Readiness], None]) -> tuple[GuestKernel, GuestKernel]:
    """The kernel in question, and the distribution's."""
    tcg = next(each for each in probe.check() if each.name == "accelerator tcg")
    require("pod", tcg)
    try:
        usual = distribution_kernel()
    except Unavailable as error:
        require("pod", Readiness("guest kernel", False, error.reason, error.remedy))
        raise
    named = os.environ.get("VPERF_TEST_KERNEL")
    return (from_file(Path(named)) if named else usual), usual


@pytest.fixture
def run(
    pytester: pytest.Pytester, runs_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., tuple[pytest.RunResult, list[dict[str, Any]]]]:
    """Runs a user's test and returns its result and the recorded claims. Nothing may be left of its runs."""
    monkeypatch.delenv("VPERF_REQUIRE", raising=False)
    pytester.mkdir("thresholds").joinpath("any.yaml").write_text(THRESHOLDS)

    def play(test: str, *options: str) -> tuple[pytest.RunResult, list[dict[str, Any]]]:
        pytester.makepyfile(test)
        result = pytester.runpytest_subprocess("--claims-json=claims.json", *options, timeout=500)
        assert list(runs_dir.glob("run-*")) == []
        claims: list[dict[str, Any]] = json.loads((pytester.path / "claims.json").read_text())[
            "claims"
        ]
        return result, claims

    return play


def test_pods_start_with_both(run: Any, kernels: tuple[GuestKernel, GuestKernel]) -> None:
    new, usual = kernels
    result, (claim,) = run(STARTS, f"--vperf-kernel={new.image}")
    assert result.ret == 0, result.stdout.str()
    assert claim["verdict"] == "holds"
    assert {each["arm"] for each in claim["observations"]} == {"a", "b"}
    hashes = {each["details"]["guest_kernel_sha256"] for each in claim["targets"]}
    assert hashes == {new.sha256, usual.sha256}


def test_machines_stay_for_some_samples(
    run: Any, pytester: pytest.Pytester, kernels: tuple[GuestKernel, GuestKernel]
) -> None:
    new, usual = kernels
    _, (claim,) = run(STAYS, f"--vperf-kernel={new.image}", f"--baseline-kernel={usual.image}")
    seen = [line.split() for line in (pytester.path / "seen").read_text().splitlines()]
    assert len(seen) == len(claim["observations"]) >= 8
    for arm, kernel in (("new", new), ("baseline", usual)):
        mine = [(pid, release) for name, pid, release in seen if name == arm]
        assert {release for _, release in mine} == {kernel.release}
        # Two samples in each machine; the last one may have given one.
        pids = [pid for pid, _ in mine]
        assert pids[0::2][: len(pids) // 2] == pids[1::2]
        assert len(set(pids)) == (len(pids) + 1) // 2


def test_a_kernel_that_does_not_boot_is_an_error(
    run: Any, tmp_path: Path, kernels: tuple[GuestKernel, GuestKernel]
) -> None:
    head = kernels[1].image.read_bytes()[
        : 1 << 20
    ]  # its setup code is whole, what that unpacks is not
    broken = tmp_path / "vmlinuz-broken"
    broken.write_bytes(head)
    result, (claim,) = run(STARTS, f"--vperf-kernel={broken}", "--start-timeout=20 s")
    result.assert_outcomes(failed=1)
    assert claim["reason"].startswith(("error: NotReady: pod tcg", "error: MachineEnded: pod tcg"))


def test_without_a_kernel_nothing_is_started_or_passed(run: Any) -> None:
    result, (claim,) = run(STARTS)
    result.stdout.fnmatch_lines(["*= 1 not measured in *"])
    assert claim["verdict"] == "not measured"
    assert claim["reason"].startswith("no kernel to compare was named")
    assert claim["observations"] == []
    strict, _ = run(STARTS, "--claims-strict")
    assert strict.ret == pytest.ExitCode.TESTS_FAILED
    strict.stdout.fnmatch_lines(
        ["*was not shown to hold: not measured: no kernel to compare was named*"]
    )
