"""A gate of real runtimes: a slower shim is found by the claims of any test, whose fixtures need no change."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from pytest_vperf.machine.preflight import find_program

if TYPE_CHECKING:
    from pathlib import Path

#: A user's own test file, which knows nothing of sides.
OWN = """
import time
import pytest
from pytest_vperf import Quantity

@pytest.fixture
def app(containers):
    with containers.start() as container:
        container.run(["sh", "-c", "echo prepared > /tmp/state"])
        yield container

def test_starts(claim, containers):
    claim("mine.start").holds(lambda: containers.start().startup_time)

def test_execs(claim, app):
    def took():
        began = time.perf_counter()
        assert app.run(["cat", "/tmp/state"]).text == "prepared\\n"
        return Quantity((time.perf_counter() - began) * 1000, "ms", direction="lower")
    claim("mine.exec").holds(took)

def test_another_runtime(claim, containers_with):
    crun = containers_with("crun")
    claim("mine.other").holds(lambda: crun.start().startup_time)
"""


@pytest.fixture
def shim(tmp_path: Path) -> Path:
    """A runtime that takes 60 ms more for each call, with the arguments of its own before runc's."""
    runc = find_program("runc")
    assert runc is not None
    path = tmp_path / "build" / "runc-shim"
    path.parent.mkdir()
    path.write_text(
        f'#!/bin/sh\n[ "$1" = --slow ] || exit 9\nshift\nsleep 0.06\nexec {runc} "$@"\n'
    )
    path.chmod(0o755)
    return path


@pytest.mark.timeout(300)
def test_a_slower_runtime_is_found_by_any_claim(pytester: pytest.Pytester, shim: Path) -> None:
    pytester.makepyfile(OWN)
    result = pytester.runpytest_subprocess(
        *("--claims-base=runtime=runc", f"--claims-head=runtime={shim} --slow"),
        *("--claims-json=out.json", "-p", "no:cacheprovider", "-p", "no:randomly"),
    )
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    found: list[dict[str, Any]] = json.loads((pytester.path / "out.json").read_text())["claims"]
    assert {each["name"]: each["verdict"] for each in found} == {
        "mine.start": "refuted",
        "mine.exec": "refuted",
        "mine.other": "not comparable",
    }
    start = found[0]
    head, base = start["arms"]["a"], start["arms"]["b"]
    assert head["estimate"] > base["estimate"]
    assert set(head["phases"]) == {"create", "start"}
    details = {arm: each["details"] for each in start["targets"] for arm in each["arms"]}
    assert details["a"]["runtime"].startswith("runc-build-")
    assert found[2]["reason"] == (
        "nothing that it samples depends on what the sides differ in: runtime"
    )


@pytest.mark.timeout(120)
def test_a_side_that_cannot_start_ends_the_run(pytester: pytest.Pytester, tmp_path: Path) -> None:
    broken = tmp_path / "runc-broken"
    broken.write_text('#!/bin/sh\necho "no such flag" >&2\nexit 3\n')
    broken.chmod(0o755)
    pytester.makepyfile(OWN)
    result = pytester.runpytest_subprocess(
        "--claims-base=runtime=runc", f"--claims-head=runtime={broken}", "-p", "no:randomly"
    )
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(
        [
            "side head cannot start containers: container runc (head) did not start: *"
            f"; {broken} --version: no such flag",
        ]
    )
