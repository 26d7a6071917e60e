"""The files for pull requests that a run writes: at its end, at the right place, and never those of another run."""

from __future__ import annotations

import json
import re
import shlex
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

TEST = """
from samplers import around

def test_quick(claim): claim("start.quick").holds(around(100))


def test_slow(claim):
    claim("start.quick").holds(around(900))
"""
OPTIONS = (
    "--claims-markdown=out.md",
    "--claims-openmetrics=out.txt",
    "--claims-codequality=out.json",
    "--claims-report=out.html",
)


def play(project: pytest.Pytester, *options: str, test: str = TEST) -> pytest.RunResult:
    project.makepyfile(test_it=test)
    return project.runpytest("--claims-seed=1", "--claims-sessions=1", *options)


@pytest.fixture(autouse=True)
def _no_host(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("GITHUB_ACTIONS", "GITHUB_STEP_SUMMARY", "GITHUB_WORKSPACE", "CI_PROJECT_DIR"):
        monkeypatch.delenv(name, raising=False)


def test_each_file_is_written(project: pytest.Pytester) -> None:
    result = play(project, *OPTIONS)
    assert result.ret == 1
    page = (project.path / "out.md").read_text()
    assert page.startswith("**claims: 1 held, 1 refuted**\n")
    assert "- result: refuted, exit status 1; pytest-vperf" in page
    metrics = (project.path / "out.txt").read_text()
    assert metrics.endswith("\n# EOF\n")
    (found,) = json.loads((project.path / "out.json").read_text())
    assert found["location"] == {"path": "test_it.py", "lines": {"begin": 6}}
    assert "::error" not in result.stdout.str()
    report = (project.path / "out.html").read_text()
    assert "claims: 1 held, 1 refuted</h1>" in report
    assert 'id="claim-start.quick~2"' in report
    assert report.count('id="data-') == 2


def test_a_record_and_its_report_say_what_was_asked_without_passwords(
    project: pytest.Pytester,
) -> None:
    store = "postgresql://me:se%20cret@nowhere.invalid/runs?password=se%20cret"
    words = (
        f"--claims-store={store}",
        "--claims-json=out.json",
        "--claims-report=out.html",
        "-k",
        "a or quick",
    )
    play(project, *words)
    record = json.loads((project.path / "out.json").read_text())
    command, options = record["asked"]["command"], record["asked"]["options"]
    assert "'--claims-store=postgresql://me:***@nowhere.invalid/runs?password=***'" in command
    assert "-k 'a or quick'" in command
    assert options == [
        "--claims-sessions=1",
        "--claims-store=postgresql://me:***@nowhere.invalid/runs?password=***",
        "--claims-seed=1",
    ]
    report = (project.path / "out.html").read_text()
    assert "me:***@nowhere" in report
    assert "se%20cret" not in report
    assert "se%20cret" not in json.dumps(record)


def test_github_gets_its_summary_and_annotations_by_itself(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    summary = tmp_path / "summary.md"
    summary.write_text("of a step before\n")
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    monkeypatch.setenv("GITHUB_WORKSPACE", str(project.path.parent))
    result = play(project)
    assert summary.read_text().startswith("of a step before\n**claims: 1 held, 1 refuted**\n")
    file = f"{project.path.name}/test_it.py"
    result.stdout.fnmatch_lines(
        [f"::error file={file},line=6,title=start.quick::start.quick is refuted:*"]
    )


def test_a_run_without_claims_leaves_the_summary_alone(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary.md"))
    play(project, "--claims-markdown=out.md", test="def test_it(): pass\n")
    assert not (tmp_path / "summary.md").exists()
    assert (project.path / "out.md").read_text().startswith("**claims: nothing was claimed**")


def test_a_summary_that_cannot_be_written_is_said(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path))
    result = play(project)
    result.stdout.fnmatch_lines([f"claims: GITHUB_STEP_SUMMARY: {tmp_path} cannot be written: *"])
    assert result.ret == 74


@pytest.mark.parametrize("option", OPTIONS)
def test_a_place_that_cannot_be_written_is_known_before_anything_is_measured(
    project: pytest.Pytester, option: str
) -> None:
    name, _, file = option.partition("=")
    result = play(project, f"{name}=none/{file}")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        [f"*{name}: */none/{file} cannot be written: No such file or directory"]
    )


def test_what_an_earlier_run_wrote_is_not_taken_for_this_ones(project: pytest.Pytester) -> None:
    """This one ends before anything is measured."""
    for option in OPTIONS:
        (project.path / option.partition("=")[2]).write_text("of an earlier run")
    project.makepyfile(test_it="import os\ndef test_it(claim): os._exit(3)\n")
    project.runpytest_subprocess(*OPTIONS)
    assert (project.path / "out.md").read_text() == "**claims: this run has not ended**\n"
    assert (project.path / "out.txt").read_text() == "# EOF\n"
    assert json.loads((project.path / "out.json").read_text()) == []


def test_under_xdist_there_is_one_page(project: pytest.Pytester) -> None:
    play(project, *OPTIONS, "-n2", "-p", "xdist")
    assert (project.path / "out.md").read_text().startswith("**claims: 1 held, 1 refuted**\n")


def test_a_report_has_the_history_of_stored_runs(project: pytest.Pytester) -> None:
    play(project, "--claims-save=main", "-k", "quick")
    result = play(project, "--claims-save=main", "--claims-report=out.html", "-k", "quick")
    assert result.ret == 0
    report = (project.path / "out.html").read_text()
    assert "Since the last stored run" in report
    assert '"past": {"unit": "ms", "runs": [[' in report


def again(project: pytest.Pytester) -> list[str]:
    """The command that the report has for its one claim, without ``pytest``."""
    found = re.search(r'"again": "pytest ([^"]*)"', (project.path / "out.html").read_text())
    assert found is not None
    return shlex.split(found[1])


def test_the_command_for_one_claim_runs_its_test_alone(project: pytest.Pytester) -> None:
    play(project, "--claims-report=out.html", "-k", "quick")
    assert again(project) == ["test_it.py::test_quick", "--claims-sessions=1", "--claims-seed=1"]
    project.runpytest(*again(project)).assert_outcomes()
    project.runpytest(*again(project)).stdout.fnmatch_lines(["claims: 1 held"])


def test_a_test_of_a_package_is_run_again_as_one(
    project: pytest.Pytester, tmp_path_factory: pytest.TempPathFactory
) -> None:
    package = tmp_path_factory.mktemp("site") / "claims_elsewhere" / "inner"
    package.mkdir(parents=True)
    for folder in (package.parent, package):
        (folder / "__init__.py").touch()
    (package / "test_packed.py").write_text(project.makepyfile(made=TEST).read_text())
    (project.path / "made.py").unlink()
    project.syspathinsert(package.parents[1])
    project.syspathinsert()  # of the samplers
    options = ("--claims-seed=1", "--claims-sessions=1", "--claims-report=out.html")
    project.runpytest("--pyargs", "claims_elsewhere", "-k", "quick", *options)
    assert again(project)[:2] == ["--pyargs", "claims_elsewhere.inner.test_packed::test_quick"]
    project.runpytest(*again(project)).stdout.fnmatch_lines(["claims: 1 held"])
