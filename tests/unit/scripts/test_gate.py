"""What turns `script/test` red and what does not: steps with tests that are each wrong in one way."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from gate import __main__ as gate
from gate.outcome import known_skips
from gate.running import Result, run
from gate.steps import ROOT, Step, steps
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # pytest needs it there

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

GREEN = "def test_green(): pass\n"
FLAKY = """
from pathlib import Path

def test_flaky_{0}():
    seen = Path(__file__).with_name("seen_{0}")
    if not seen.exists():
        seen.touch()
        assert False, "the first time"
"""
BROKEN = "def test_broken(): assert False\n"
UNKNOWN_SKIP = "import pytest\ndef test_skips(): pytest.skip('the mirror does not answer')\n"
KNOWN_SKIP = "import pytest\ndef test_skips(): pytest.skip('root may write everything')\n"
SKIPS_ITSELF = "import pytest\npytest.importorskip('no_such_module')\ndef test_it(): pass\n"
EXPECTED = "import pytest\n@pytest.mark.xfail\ndef test_it(): assert False\n"
STOPS = "import pytest\ndef test_stops(): pytest.exit('enough', 0)\n"
DIES = "import os\ndef test_dies(): os._exit(0)\n"
HANGS = "import time\ndef test_hangs(): time.sleep(600)\n"
FAILS_LATE = (
    "import pytest\n@pytest.fixture\ndef it():\n    yield\n    assert 0\ndef test_it(it): pass\n"
)


@pytest.fixture
def of(tmp_path: Path) -> Callable[..., Result]:
    """Runs a step with the given tests, each in its own file."""

    def make(*sources: str, again: bool = True, limit: float = 100, n: str = "0") -> Result:
        tests = tmp_path / "tests"
        tests.mkdir()
        for number, source in enumerate(sources):
            (tests / f"test_{number}.py").write_text(source)
        command = ("-m", "pytest", str(tests), "-p", "no:vperf", "-n", n)
        return run(Step("tests", (command,), limit, tests=True, again=again), tmp_path, ())

    return make


def counts(result: Result) -> tuple[int, int, int]:
    passed, failed, skipped = (
        len(result.outcome.of(kind)) for kind in ("passed", "failed", "skipped")
    )
    return passed, failed, skipped


@pytest.mark.parametrize("n", ["0", "2"])
def test_a_step_with_expected_results_is_green(of: Callable[..., Result], n: str) -> None:
    result = of(GREEN, KNOWN_SKIP, EXPECTED, n=n)
    assert result.faults == []
    assert counts(result) == (2, 0, 1)


def test_a_test_that_passes_when_rerun_alone_is_green_and_named(
    of: Callable[..., Result], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    result = of(GREEN, FLAKY.format(1), n="2")
    assert result.faults == []
    assert counts(result) == (2, 0, 0)
    assert [test.rpartition("::")[2] for test in result.alone] == ["test_flaky_1"]
    assert gate.summary([result], tmp_path) == 0
    said = capsys.readouterr().out
    assert f"==== passed when run alone (1)\n{result.alone[0]}\n" in said
    assert said.endswith("\nvperf: 2 passed, 0 failed, 0 skipped\n")


def test_more_than_three_flaky_tests_are_red(
    of: Callable[..., Result], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    result = of(*(FLAKY.format(number) for number in range(4)))
    assert result.faults == []
    assert gate.summary([result], tmp_path) == 1
    assert "4 tests passed only when run alone; 3 may\n" in capsys.readouterr().out


def test_a_broken_test_is_red(
    of: Callable[..., Result], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    result = of(GREEN, BROKEN, FLAKY.format(1), n="2")
    (fault,) = result.faults
    assert fault.startswith("1 failed, alone too: ")
    assert fault.endswith("test_1.py::test_broken")
    assert counts(result) == (2, 1, 0)
    assert gate.summary([result], tmp_path) == 1
    assert f"tests: {fault}\n" in capsys.readouterr().out


def test_without_reruns_a_failure_is_red(of: Callable[..., Result]) -> None:
    result = of(FLAKY.format(1), again=False)
    (fault,) = result.faults
    assert fault.startswith("1 failed: ")
    assert result.alone == []


def test_many_failures_are_not_rerun(of: Callable[..., Result]) -> None:
    result = of(*(FLAKY.format(number) for number in range(11)))
    (fault,) = result.faults
    assert fault.startswith("11 failed: ")
    assert fault.endswith(" and 6 more")


def test_a_failing_teardown_is_a_failure(of: Callable[..., Result]) -> None:
    result = of(FAILS_LATE)
    assert counts(result) == (0, 1, 0)
    assert "1 failed, alone too: " in result.faults[0]


def test_an_unexpected_skip_is_red(of: Callable[..., Result]) -> None:
    (fault,) = of(GREEN, UNKNOWN_SKIP).faults
    assert fault.endswith(
        "test_1.py::test_skips was skipped, which nobody expects: the mirror does not answer"
    )


@pytest.mark.parametrize("n", ["0", "2"])
def test_a_file_that_skips_itself_is_red(of: Callable[..., Result], n: str) -> None:
    (fault,) = of(GREEN, SKIPS_ITSELF, n=n).faults
    assert fault.endswith(
        "test_1.py was skipped, which nobody expects: could not import 'no_such_module':"
        " No module named 'no_such_module'"
    )


@pytest.mark.parametrize(
    ("reason", "known"),
    [
        ("not measured: kvm: no /dev/kvm: no hardware virtualisation here", True),
        ("not measured: kvm: no permission to use /dev/kvm", True),
        ("not measured: kvm: /dev/kvm is for root alone, and a pod's QEMU is not root", True),
        (
            "not measured: kvm: /dev/kvm is there and answers, but a guest kernel did not reach"
            " a running container within 20 s",
            True,
        ),
        ("not measured: kvm: QEMU ended with the status 1", False),
        ("not measured: the engine does not answer", False),
        ("refuted (advisory): after 17 pairs the ratio is shown to lie above the threshold", False),
        ("inconclusive: all 12 samples are exactly 3 ms: is something cached or constant?", False),
        ("tests/claims/gallery/test_a.py::test_b[c]: refuted (advisory): after 17 pairs", True),
        ("tests/claims/test_startup.py::test_b[c]: refuted (advisory): after 17 pairs", False),
        ("tests/claims/gallery/test_a.py::test_b: inconclusive: needs about 23 pairs, 20 s", True),
        (
            "tests/claims/test_startup.py::test_pods_start_in_time[kvm]: refuted (advisory): after 9 samples"
            " the median is shown above the threshold",
            True,
        ),
        (
            "tests/claims/test_startup.py::test_pods_start_in_time: refuted (advisory): after 9 samples the"
            " p90 is shown above the threshold",
            True,
        ),
        (
            "tests/claims/test_density.py::test_pods_start_in_time: refuted (advisory): after 9 samples the"
            " median is shown above the threshold",
            False,
        ),
    ],
)
def test_of_what_is_not_measured_only_missing_hardware_is_expected(
    reason: str, *, known: bool
) -> None:
    seen = any(each.search(reason) for each in known_skips("known_not_measured.txt"))
    assert seen == known


@pytest.mark.parametrize("n", ["0", "2"])
def test_a_run_that_ends_early_is_red_though_its_status_is_0(
    of: Callable[..., Result], n: str
) -> None:
    result = of(STOPS, GREEN, GREEN, n=n)
    assert any("collected tests did not end: " in fault for fault in result.faults)


@pytest.mark.parametrize("n", ["0", "2"])
def test_a_process_that_dies_is_red(of: Callable[..., Result], n: str) -> None:
    assert of(GREEN, DIES, n=n).faults


def test_a_run_without_tests_is_red(of: Callable[..., Result]) -> None:
    assert of().faults == [
        "pytest ended with the exit status 5",
        "no test was collected",
    ]


def test_an_unreadable_file_is_red(of: Callable[..., Result]) -> None:
    assert of(GREEN, "import nothing_of_that_name\n").faults


def test_a_step_that_hits_its_limit_names_the_test(of: Callable[..., Result]) -> None:
    result = of(HANGS, limit=8)
    assert result.faults[0].startswith("ended after the time limit of 8 s; running: ")
    assert "test_0.py::test_hangs" in result.faults[0]


def test_a_command_that_fails_ends_its_step(tmp_path: Path) -> None:
    commands = (("-c", "raise SystemExit(3)"), ("-c", "print('never')"))
    result = run(Step("lint", commands, 60), tmp_path, ())
    assert result.faults == ["exit status 3"]
    assert (tmp_path / "lint.txt").read_text() == ""


def test_offline_tests_reach_no_network(tmp_path: Path) -> None:
    script = "import os; print(os.environ['http_proxy'], os.environ['https_proxy'])"
    step = Step("tests", (("-c", script),), 60, offline=True)
    assert run(step, tmp_path, ()).faults == []
    assert (tmp_path / "tests.txt").read_text() == "http://127.0.0.1:9 http://127.0.0.1:9\n"


def test_an_unknown_step_is_refused() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "gate", "-e", "unti"],
        env={"PYTHONPATH": str(ROOT / "script")},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2
    assert "script/test: error: there is no step 'unti'; there are lint, types, unit, " in (
        done.stderr
    )


def test_each_folder_of_tests_is_in_a_step(tmp_path: Path) -> None:
    run_by_steps = " ".join(
        word for step in steps(tmp_path) for command in step.commands for word in command
    )
    folders = {path.parent for path in (ROOT / "tests").rglob("test_*.py")}
    tops = {folder.relative_to(ROOT / "tests").parts[0] for folder in folders}
    assert tops
    for top in tops:
        assert f"tests/{top}" in run_by_steps


def test_the_lock_names_the_projects_requirements() -> None:
    """So that pip installs locked versions, and nothing newer beside them."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    extras = project["project"]["optional-dependencies"]
    wanted = [
        *project["build-system"]["requires"],
        *project["project"]["dependencies"],
        *(each for each in extras["test"] + extras["dev"] if "[" not in each),
    ]
    lines = (ROOT / "script" / "requirements.lock").read_text().splitlines()
    locked = [Requirement(line.rstrip(" \\")) for line in lines if line[:1].isalnum()]
    for text in wanted:
        want = Requirement(text)
        versions = [
            next(iter(each.specifier)).version
            for each in locked
            if canonicalize_name(each.name) == canonicalize_name(want.name)
        ]
        assert versions, f"{want.name} is not locked: script/lock"
        assert all(version in want.specifier for version in versions)
