"""Plug-ins of others that run tests again, or have a result for each: the real ones, beside ours.

A claim that is judged in three sessions runs its test three times, and is one result.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    Run = Callable[..., list[str]]

#: Where ``script/bootstrap --tests`` puts them.
FOLDER = Path(sys.prefix) / "other-plugins"

HEAD = """
import pytest
from samplers import around
"""


@pytest.fixture
def run(project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs tests in a process of its own, with some of the plug-ins; returns what was printed, by line."""
    if not FOLDER.is_dir():
        pytest.skip("script/bootstrap --tests has not installed the plug-ins of others here")
    names = {"flaky": "flaky", "rerunfailures": "rerunfailures", "allure": "allure_pytest"}

    def play(plugin: str, text: str, *options: str, status: int = 0) -> list[str]:
        project.makepyfile(HEAD + text)
        # Behind all others, as pytest calls first what it found last.
        words = [
            "-c",
            "import sys, pytest; sys.path.append(sys.argv.pop(1)); sys.exit(pytest.main())",
        ]
        words += [str(FOLDER), "-p", "no:hypothesispytest", "--claims-json=out.json"]
        for each in names:
            words += ["-p", f"no:{names[each]}"] if each != plugin else []
        environment = {
            key: value for key, value in os.environ.items() if not key.startswith("PYTEST_XDIST")
        }
        done = subprocess.run(
            [sys.executable, *words, *options],
            cwd=project.path,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        print(done.stdout, done.stderr)
        assert done.returncode == status
        return done.stdout.splitlines()

    return play


def record(project: pytest.Pytester, number: int = 0) -> dict[str, Any]:
    claims = json.loads((project.path / "out.json").read_text())["claims"]
    found: dict[str, Any] = claims[number]
    return found


def back_to_back(found: dict[str, Any]) -> list[str]:
    """Why the sessions of a claim ran back to back."""
    return [each.split(": ", 1)[1] for each in found["warnings"] if "back to back" in each]


#: The first test is judged in three sessions; the last one's place is after it.
PLAIN = """
def test_first(claim): claim("start.quick").holds(around(350))
def test_last(): pass
"""


def test_flaky_leaves_tests_alone_that_it_does_not_rerun(
    project: pytest.Pytester, run: Run
) -> None:
    run("flaky", PLAIN, "-v")
    assert len(record(project)["sessions"]) == 3
    assert back_to_back(record(project)) == []


@pytest.mark.parametrize(
    ("decorated", "options", "who"),
    [
        ("@flaky", (), "flaky (its decorator)"),
        ("@pytest.mark.flaky", (), "the plug-in of the marker flaky"),
        ("", ("--force-flaky",), "flaky (--force-flaky)"),
    ],
)
def test_flaky_runs_a_test_that_it_reruns(
    project: pytest.Pytester, run: Run, decorated: str, options: tuple[str, ...], who: str
) -> None:
    text = f"""
from flaky import flaky
runs = []
{decorated}
def test_first(claim):
    runs.append(1)
    claim("start.quick").holds(around(350))
    assert len(runs) == 2
def test_last(): pass
"""
    run("flaky", text, *options)
    first, second = (record(project, number) for number in range(2))
    assert (first["attempt"], second["attempt"]) == (1, 2)
    assert back_to_back(second) == [f"{who} runs this test in a way of its own"]


@pytest.mark.parametrize("plugin", ["flaky", "rerunfailures"])
def test_a_rerun_does_not_undo_a_refutation(
    project: pytest.Pytester, run: Run, plugin: str
) -> None:
    text = """
levels = iter([450, 350])
@pytest.mark.flaky
def test_it(claim): claim("start.quick").holds(around(next(levels)))
"""
    options = ["--reruns=1"] if plugin == "rerunfailures" else []
    printed = run(plugin, text, *options, status=1)
    assert [record(project, number)["verdict"] for number in range(2)] == ["refuted", "holds"]
    (line,) = (each for each in printed if "does not undo a refutation" in each)
    assert line.startswith(
        "claims: start.quick is refuted in attempt 1 of its test, and holds in attempt 2: "
    )


@pytest.mark.parametrize("workers", [[], ["-n", "1"]], ids=["alone", "xdist"])
def test_allure_shows_one_result_of_a_test(
    project: pytest.Pytester, run: Run, workers: list[str]
) -> None:
    run("allure", PLAIN, "--alluredir=results", *workers)
    results = [
        json.loads(path.read_text()) for path in (project.path / "results").glob("*-result.json")
    ]
    assert sorted((each["name"], each["status"]) for each in results) == [
        ("test_first", "passed"),
        ("test_last", "passed"),
    ]
    assert len(record(project)["sessions"]) == 3
