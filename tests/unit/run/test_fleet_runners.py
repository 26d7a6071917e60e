"""Machines that nothing reaches: each takes its order from a file, and leaves its reports in one."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from fleets import places, record, run

pytest.importorskip("pytest_reportlog")

FILE = """
engine: runners
hosts: {h1: type-a, h2: type-a, h3: type-b}
"""


@pytest.fixture
def planned(fleet: pytest.Pytester) -> pytest.Pytester:
    """A fleet whose machines have their orders."""
    (fleet.path / "fleet.yaml").write_text(FILE)
    result = run(fleet, "--claims-fleet-plan=orders")
    assert result.ret == 0
    result.stdout.fnmatch_lines(["fleet: the orders of 3 machines are in *orders: nothing is run"])
    assert not (fleet.path / "out.json").exists()
    return fleet


def work(fleet: pytest.Pytester, name: str) -> subprocess.CompletedProcess[bytes]:
    """What the job of a runner does."""
    (folder := fleet.path / "reports").mkdir(exist_ok=True)
    own = fleet.path.with_name(f"{fleet.path.name}-{name}")
    environment = {"VPERF_LOCK": f"{own}.lock", "VPERF_CACHE_DIR": f"{own}-cache", "HOST": name}
    order = fleet.path / "orders" / f"{name}.order"
    with order.open("rb") as given, (folder / f"{name}.reports").open("wb") as reports:
        return subprocess.run(
            [sys.executable, "-m", "pytest_vperf.fleet.shard"],
            stdin=given,
            stdout=reports,
            stderr=subprocess.PIPE,
            cwd="/",
            env={**os.environ, **environment},
            check=False,
        )


def test_reports_of_runners_are_those_of_the_run(planned: pytest.Pytester) -> None:
    for name in ("h1", "h2", "h3"):
        done = work(planned, name)
        assert done.returncode == 0, done.stderr
        assert b"held" in done.stderr  # the log of the job shows what pytest says
    result = run(planned, "-v")
    assert result.ret == 0
    result.stdout.fnmatch_lines(["fleet: runners, type-a: h1, h2; type-b: h3; *", "claims: 8 held"])
    assert {each["plan"]["claims"] for each in record(planned)["claims"]} == {8}
    assert len(places(planned)) == 8
    whole = planned.path / "reports" / "h1.reports"

    # Of a file that ends early, or is not there, nothing is taken for granted.
    whole.write_bytes(whole.read_bytes()[: whole.stat().st_size // 2])
    (planned.path / "reports" / "h3.reports").unlink()
    result = run(planned)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["claims: result: broken, exit status 1"])
    lost = [each for each in record(planned)["claims"] if each["verdict"] == "not measured"]
    assert {each["machine"]["name"] for each in lost} == {"h1", "h3"}
    assert {
        each["reason"].rpartition("/")[0].rpartition("/")[0]
        for each in lost
        if each["machine"]["name"] == "h3"
    } == {f"error: machine h3 was lost: there is no file {planned.path}"}
    assert len(record(planned)["claims"]) == 8


def test_what_was_left_by_an_earlier_run_is_not_taken(planned: pytest.Pytester) -> None:
    for name in ("h1", "h3"):
        work(planned, name)
    (planned.path / "orders" / "h2.order").unlink()
    assert run(planned, "--claims-fleet-plan=orders").ret == 0
    work(planned, "h1")  # and h3 does not do its part this time
    result = run(planned)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(
        [
            "fleet: h2 is lost: there is no file *reports/h2.reports",
            "fleet: h3 is lost: *reports/h3.reports is not what *orders/h3.order asks for",
            "claims: 2 held, 6 not measured",
        ]
    )
    # What h1 ran does not depend on who else is there.
    assert [each for each in places(planned) if each[2] == "holds"] == [
        (f"test_quick[{number}]", "h1", "holds") for number in (0, 1)
    ]
    (planned.path / "orders" / "h1.order").unlink()
    os.mkfifo(planned.path / "reports" / "h2.reports")  # to open it would wait for ever
    (planned.path / "reports" / "h3.reports").write_text("[" * 100_000)
    (planned.path / "orders" / "h2.order").write_text("{}\n")
    run(planned).stdout.fnmatch_lines(
        [
            "fleet: h1 is lost: there is no file *orders/h1.order",
            "fleet: h2 is lost: there is no file *reports/h2.reports",
            "fleet: h3 is lost: *reports/h3.reports ends before a test has run",
        ]
    )


@pytest.mark.parametrize(
    ("change", "words", "other"),
    [
        ("conftest.py", [], "another state of the project's files"),
        ("", ["-k", "not 3"], "other tests"),
        ("", ["--hw=any", "--claims-alpha=0.01"], "other options"),
    ],
    ids=["project", "tests", "options"],
)
def test_reports_are_of_this_run(
    planned: pytest.Pytester, change: str, words: list[str], other: str
) -> None:
    work(planned, "h3")
    if change:
        with (planned.path / change).open("a") as file:
            file.write("\n")
    result = run(planned, "--junitxml=junit.xml", *words)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    why = f"error: machine h3 was lost: its order was another one: {other}"
    assert {
        (each["verdict"], each["reason"])
        for each in record(planned)["claims"]
        if each["machine"]["name"] == "h3"
    } == {("not measured", why)}


def test_a_runner_whose_pytest_cannot_run_fails(planned: pytest.Pytester) -> None:
    order = planned.path / "orders" / "h1.order"
    order.write_bytes(order.read_bytes().replace(b"--claims-sessions=1", b"--claims-sessions=x"))
    done = work(planned, "h1")
    assert done.returncode == 1
    assert b"--claims-sessions" in done.stderr


def test_mistakes(fleet: pytest.Pytester) -> None:
    (fleet.path / "fleet.yaml").write_text("engine: runners\nhosts: {a/b: type-a}\n")
    result = run(fleet)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: *fleet.yaml:2:*: hosts.'a/b': 'a/b' is no name of a file"])
    (fleet.path / "fleet.yaml").write_text(FILE)
    (fleet.path / "orders").write_text("a file")
    result = run(fleet, "--claims-fleet-plan=orders")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: --claims-fleet-plan: *orders: File exists"])
