"""A run that is kept: by a name, with its commit and its figures, or not at all and said so."""

from __future__ import annotations

import json
import re
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import alembic  # noqa: F401  # pytester forgets what is first imported within it, which neither of these survives
import psutil
import pytest
import sqlalchemy  # noqa: F401
from repositories import git

TEST = """
from samplers import around, given, missing

def test_quick(claim): claim("start.quick").holds(around(100))
def test_alike(claim): claim("start.alike").compares(around(100), to=around(98))
def test_missing(claim): claim("start.half").near(missing, to=missing)
"""
VPERF = (sys.executable, "-m", "pytest_vperf")
NO_NAME = (
    "*--claims-save: {!r} is no name for a run: a letter, then letters, digits and . _ + -; "
    "'last' is the last one"
)


def play(project: pytest.Pytester, *options: str, test: str = TEST) -> pytest.RunResult:
    project.makepyfile(test_it=test)
    return project.runpytest("--claims-seed=1", "--claims-sessions=1", *options)


def kept(project: pytest.Pytester, folder: str = ".vperf") -> list[dict[str, Any]]:
    return [json.loads(file.read_text()) for file in sorted((project.path / folder).glob("*.json"))]


def test_a_run_is_kept_with_what_later_ones_are_held_against(project: pytest.Pytester) -> None:
    result = play(project, "--claims-save=main")
    (document,) = kept(project)
    assert document["stored"]["name"] == "main"
    levels = document["stored"]["levels"]
    assert [(each["claim"], each["unit"], each["better"]) for each in levels] == [
        ("start.alike", "", "lower"),
        ("start.quick", "ms", "lower"),
    ]
    assert levels[1]["value"] == pytest.approx(100, rel=0.01)
    assert all(each["observations"] for each in document["claims"][:2])
    assert document["result"]["word"] == "ok"
    where = re.escape(str(project.path / ".vperf"))
    result.stdout.re_match_lines([rf"claims: kept in {where}: main, \d{{4}}-\d\d-\d\d \d\d:\d\d$"])


def test_a_run_without_a_name_is_kept_too(project: pytest.Pytester) -> None:
    play(project, "--claims-save", "--claims-store=elsewhere")
    play(project, "-o", "claims_save=true", "-o", "claims_store=elsewhere")
    play(project, "-o", "claims_save=false", "-o", "claims_store=elsewhere")
    assert [each["stored"]["name"] for each in kept(project, "elsewhere")] == ["", ""]


@pytest.mark.parametrize("options", [[], ["--claims-save=main", "--collect-only"]])
def test_nothing_is_kept_unless_asked_for(project: pytest.Pytester, options: list[str]) -> None:
    play(project, *options)
    assert not (project.path / ".vperf").exists()


@pytest.mark.parametrize("store", [".vperf", "sqlite:///runs.db"])
def test_what_is_kept_can_be_read_however_long_its_names_are(
    project: pytest.Pytester, store: str
) -> None:
    branch = f"{'b' * 120}/{'c' * 120}"
    git(project.path, "init", "--quiet")
    git(project.path, "checkout", "--quiet", "-b", branch)
    git(project.path, "commit", "--quiet", "--allow-empty", "-m", "one")
    name = f"start.{'n' * 194}"
    test = f"""
        from samplers import around
        def test_it(claim): claim({name!r}).holds(around(100))
        def test_longer(claim): claim({name + "n"!r}).holds(around(100))
    """
    for file in (project.path / "thresholds").iterdir():
        file.unlink()
    (project.path / "thresholds/any.yaml").write_text(
        "hardware: {name: any, match: {}}\nclaims: {start.*: {at_most: 400 ms}}\n"
    )
    result = play(project, "--hw=any", "--claims-save=main", f"--claims-store={store}", test=test)
    result.stdout.fnmatch_lines(
        [
            "*ClaimError: claim 'start.nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn'…: a name has at most 200 "
            "characters, and this one 201",
        ]
    )
    told = project.run(*VPERF, "history", f"--store={store}")
    assert told.errlines == []
    told.stdout.fnmatch_lines(["history: 1 with too few runs"])


def test_the_workers_of_xdist_make_one_run(project: pytest.Pytester) -> None:
    play(project, "--claims-save=main", "-n2")
    (document,) = kept(project)
    assert len(document["claims"]) == 3
    assert len(document["stored"]["levels"]) == 2


def test_a_gate_keeps_the_figures_of_both_sides(project: pytest.Pytester) -> None:
    test = """
        import os
        from samplers import around

        def test_it(claim):
            claim("start.quick").holds(lambda: around(float(os.environ["LEVEL"]))())
    """
    play(
        project,
        *("--claims-save", "--claims-base=env.LEVEL=100", "--claims-head=env.LEVEL=120"),
        test=test,
    )
    (document,) = kept(project)
    assert [(each["side"], round(each["value"])) for each in document["stored"]["levels"]] == [
        ("base", 100),
        ("head", 120),
    ]


def test_the_commit_is_that_of_the_folder(project: pytest.Pytester) -> None:
    git(project.path, "init", "-q", "-b", "topic")
    git(project.path, "add", "-A")
    git(project.path, "commit", "-qm", "one")
    commit = git(project.path, "rev-parse", "HEAD")
    play(project, "--claims-save", "--claims-store=kept")
    git(project.path, "add", "test_it.py")
    result = play(project, "--claims-save", "--claims-store=kept")
    assert [each["stored"]["commit"] for each in kept(project, "kept")] == [
        {"id": commit, "dirty": False, "branch": "topic"},
        {"id": commit, "dirty": True, "branch": "topic"},
    ]
    result.stdout.fnmatch_lines([f"claims: kept in */kept: {commit[:12]}+, *"])


@pytest.mark.parametrize("name", ["last", "last~1", "../main", "7up", "a b", "-x"])
def test_a_name_that_would_mean_something_else_is_refused(
    project: pytest.Pytester, name: str
) -> None:
    result = play(project, f"--claims-save={name}")
    result.stderr.fnmatch_lines([NO_NAME.format(name)])
    assert result.ret == pytest.ExitCode.USAGE_ERROR


def test_a_file_after_the_option_is_no_name(project: pytest.Pytester) -> None:
    result = play(project, "--claims-save", "test_it.py")
    result.stderr.fnmatch_lines(
        [
            "*--claims-save: test_it.py is there as a file: put what is to be tested before the option"
        ]
    )
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    (project.path / "main").mkdir()
    assert play(project, "--claims-save=main").ret == 0


def test_a_store_that_cannot_be_written_is_known_before_anything_is_measured(
    project: pytest.Pytester,
) -> None:
    (project.path / "file").touch()
    result = play(project, "--claims-save", "--claims-store=file/runs")
    result.stderr.fnmatch_lines(["*--claims-store: */file/runs: Not a directory"])
    assert result.ret == pytest.ExitCode.USAGE_ERROR


@pytest.mark.parametrize("store", ["runs", "sqlite:///runs.db"])
@pytest.mark.parametrize("workers", [(), ("-n1",)], ids=["one process", "xdist"])
def test_a_killed_run_that_a_store_was_to_keep_has_every_claim_that_ended(
    project: pytest.Pytester,
    monkeypatch: pytest.MonkeyPatch,
    store: str,
    workers: tuple[str, ...],
) -> None:
    temporary = project.mkdir("temporary")
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    (project.path / "runs").mkdir()
    project.makepyfile(
        test_it="""
        import os
        import signal
        from samplers import around
        def test_first(claim): claim("start.quick").holds(around(100))
        def test_second(claim): claim("start.alike").compares(around(100), to=around(98))
        def test_killed():
            with open("killed", "w") as killed:
                killed.write(str(os.getpid()))
            os.kill(int(open("controller").read()), signal.SIGKILL)
            os.kill(os.getpid(), signal.SIGKILL)
        """
    )
    project.makeconftest(
        """
        import os
        def pytest_configure(config):
            if not hasattr(config, "workerinput"):
                (config.rootpath / "controller").write_text(str(os.getpid()))
        """
    )
    words = ["--claims-sessions=1", "--claims-save=main", f"--claims-store={store}", *workers]
    result = project.runpytest_subprocess(*words)
    assert result.ret == -9
    with suppress(psutil.NoSuchProcess):  # a worker is killed a moment later
        psutil.Process(int((project.path / "killed").read_text())).wait(20)
    place = temporary if "://" in store else project.path / "runs"
    assert list(place.glob("*.json")) == []
    journals = sorted(place.glob("vperf-unsaved.json.journal-*"))
    read = [project.run(*VPERF, "claims", str(each)).stdout.str() for each in journals]
    assert any("start.quick" in each and "start.alike" in each for each in read), read

    result = play(project, f"--claims-store={store}", "--claims-save", test="def test(): pass")
    told = f"a run that was killed left 2 claims in {place}/vperf-unsaved.json.journal-*"
    result.stdout.fnmatch_lines([f"claims: {told}"])
    assert set(place.glob("vperf-unsaved.json.*")) <= set(journals)


def test_a_run_that_can_no_longer_be_kept_is_not_lost(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(project.mkdir("temporary")))
    test = f"""
        import shutil
        {TEST.strip().replace(chr(10), chr(10) + " " * 8)}
        def test_disturbed():
            shutil.rmtree("runs")
            open("runs", "w").close()
    """
    result = play(project, "--claims-save", "--claims-store=runs", test=test)
    assert result.ret == 74
    result.stdout.fnmatch_lines(["claims: *runs* cannot be written: *; the record is in *"])
    found = re.search(r"the record is in (\S+\.json)", result.stdout.str())
    assert found
    assert len(json.loads(Path(found[1]).read_text())["claims"]) == 3
