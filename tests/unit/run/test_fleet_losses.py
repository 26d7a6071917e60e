"""A machine that is lost takes no test with it unseen."""

from __future__ import annotations

import pytest
from fleets import places, record, run

from pytest_vperf.fleet import lines, links, survey

pytest.importorskip("pytest_reportlog")

DIES = """
import os, pathlib, signal, time
import pytest
from samplers import around

def once():
    marker = pathlib.Path(os.environ["PROJECT"], "died")
    if not marker.exists():
        marker.touch()
        time.sleep(1)  # what was measured has left the machine
        os.kill(os.getppid(), signal.{signal})
        time.sleep(15)

@pytest.mark.parametrize("number", range(4))
def test_quick(claim, number):
    claim("start.quick").holds(around(350))
    if number == 0:
        once()
"""


def test_tests_of_a_lost_machine_run_on_another_of_its_type(fleet: pytest.Pytester) -> None:
    fleet.makepyfile(test_it=DIES.format(signal="SIGKILL"))
    result = run(fleet, "--claims-fleet-hw=type-a")
    assert result.ret == 0
    result.stdout.fnmatch_lines(
        [
            "claims: machine h1 was lost: its connection ended; 2 tests of its shard run on h2 instead"
        ]
    )
    # What h1 measured of the test before is kept, and the test's own record is of the second attempt.
    found = [(each["machine"]["name"], each["attempt"]) for each in record(fleet)["claims"]]
    assert sorted(found) == [("h1", 1), ("h2", 1), ("h2", 1), ("h2", 2), ("h2", 2)]


def test_what_no_machine_is_left_for_is_not_measured(fleet: pytest.Pytester) -> None:
    fleet.makepyfile(test_it=DIES.format(signal="SIGKILL"))
    result = run(fleet, "--claims-fleet-hw=type-b", "--junitxml=out.xml")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["claims: result: broken, exit status 1"])
    assert places(fleet) == [
        ("test_quick[0]", "h3", "holds"),
        *((f"test_quick[{number}]", "h3", "not measured") for number in (1, 2, 3)),
    ]
    reason = record(fleet)["claims"][1]["reason"]
    assert reason == "error: machine h3 was lost: its connection ended"


def test_a_machine_that_says_nothing_any_more_is_lost(
    fleet: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(links, "SILENT", 8.0)
    fleet.makepyfile(test_it=DIES.format(signal="SIGSTOP"))
    result = run(fleet, "--claims-fleet-hw=type-a")
    assert result.ret == 0
    result.stdout.fnmatch_lines(
        ["claims: machine h1 was lost: no word from it for 8 s; 2 tests of its shard run on h2*"]
    )


def test_machines_may_come_as_long_as_others_do(
    fleet: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(survey, "LIMIT", 8.0)
    monkeypatch.setattr(links, "SILENT", 8.0)
    late = fleet.makefile(".sh", late='sleep $1; shift; exec "$@"')
    with (fleet.path / "fleet.yaml").open("a") as file:
        file.write(f"words: {{h2: sh {late} 5, h3: sh {late} 10}}\n")
    result = run(fleet)
    assert result.ret == 0
    result.stdout.no_fnmatch_line("*is lost*")
    assert {machine for _, machine, _ in places(fleet)} == {"h1", "h2", "h3"}


def test_a_machine_that_does_not_come_is_lost(
    fleet: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(survey, "LIMIT", 3.0)
    never = fleet.makefile(".sh", never="exec sleep 100")
    with (fleet.path / "fleet.yaml").open("a") as file:
        file.write(f"words: {{h3: sh {never}}}\n")
    result = run(fleet)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["fleet: h3 is lost: no word from it for 3 s"])
    found = {(machine, verdict) for _, machine, verdict in places(fleet)}
    assert found == {("h1", "holds"), ("h2", "holds"), ("h3", "not measured")}


def test_a_test_that_kills_machines_takes_no_other_with_it(fleet: pytest.Pytester) -> None:
    fleet.makepyfile(
        test_it="""
import os, signal, time
import pytest

@pytest.mark.parametrize("number", range(6))
def test_it(number):
    if number == 1:
        time.sleep(1)  # what was reported has left the machine
        os.kill(os.getppid(), signal.SIGKILL)
        time.sleep(15)
"""
    )
    result = run(fleet, "--claims-fleet-hw=type-a")
    result.assert_outcomes(passed=5, failed=1)
    result.stdout.fnmatch_lines(["not run: error: machine h2 was lost: its connection ended"])


def test_a_pytest_that_breaks_after_its_tests_is_no_success(fleet: pytest.Pytester) -> None:
    conftest = (fleet.path / "conftest.py").read_text()
    fleet.makeconftest(
        f"{conftest}\n"
        "def pytest_sessionfinish(session):\n"
        "    if hasattr(session.config, 'workerinput'): raise RuntimeError('it broke')\n"
    )
    result = run(fleet, "--claims-fleet-hw=type-b")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(
        ["claims: pytest ended on machine h3 with exit status *; all of its tests were over"]
    )


ENDS = """
import atexit, os, signal, time

def end():
    time.sleep(1)  # what was said has left the machine
    os.kill(os.getppid(), signal.SIGKILL)
"""


@pytest.mark.parametrize(
    ("when", "status"),
    [
        # Before its last message, which may have claims that no report carries: nobody knows of them.
        (
            "def pytest_sessionfinish(session):\n    if hasattr(session.config, 'workerinput'): end()",
            1,
        ),
        (
            "def pytest_sessionfinish(session):\n"
            "    if hasattr(session.config, 'workerinput'): atexit.register(end)",
            0,
        ),
    ],
)
def test_a_machine_that_is_lost_when_its_tests_are_over(
    fleet: pytest.Pytester, when: str, status: int
) -> None:
    conftest = (fleet.path / "conftest.py").read_text()
    fleet.makeconftest(f"{conftest}\n{ENDS}\n{when}\n")
    result = run(fleet, "--claims-fleet-hw=type-b")
    assert result.ret == status
    result.stdout.fnmatch_lines(
        ["claims: machine h3 was lost: its connection ended; all of its tests were over"]
    )
    assert {verdict for *_, verdict in places(fleet)} == {"holds"}


def test_a_machine_without_tests_of_its_own_makes_a_loss_good(fleet: pytest.Pytester) -> None:
    fleet.makepyfile(test_it=DIES.format(signal="SIGKILL"))
    result = run(fleet, "--claims-fleet-hw=type-a", "-k", "test_quick and 0")
    assert result.ret == 0
    result.stdout.fnmatch_lines(
        ["claims: machine h? was lost: its connection ended; 1 test of its shard run on h? instead"]
    )


def test_sign_of_life_is_shorter_than_silence() -> None:
    assert lines.BEAT * 4 < lines.SILENT < lines.DESERTED
