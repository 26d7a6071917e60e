"""``vperf bisect``: the commit that made a figure worse, by builds that are judged in turn with the good one."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from repositories import TOOL_TEST, git, repository

from pytest_vperf.commands.bisect.search import half_of, judged

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def tests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "tests"
    folder.mkdir()
    (folder / "test_it.py").write_text(TOOL_TEST)
    (folder / "pytest.ini").write_text("[pytest]\naddopts = -p no:cacheprovider\n")
    monkeypatch.setenv("VPERF_LOCK", str(tmp_path / "lock"))
    return folder


def bisect(
    tests: Path, *words: str, build: str = "cp level out"
) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest_vperf", "bisect", "--claim=mine.tool"]
    command += [
        f"--build={build}",
        "--artefact=env.TOOL=out",
        "--repository=../tool",
        *words,
        "--claims-seed=1",
    ]
    return subprocess.run(command, cwd=tests, capture_output=True, text=True, check=False)


def leftovers(tests: Path) -> list[str]:
    return git(tests.parent / "tool", "worktree", "list").splitlines()[1:]


def test_the_commit_that_adds_ten_percent_is_found_among_32(tests: Path) -> None:
    commits = repository(tests.parent / "tool", [100] * 21 + [110] * 12)
    done = bisect(tests, f"--good={commits[0]}", "--bad=HEAD", "--json", "--", "test_it.py")
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    assert found["first_bad"] == commits[21]
    assert found["commits"] == 32
    assert len(found["steps"]) <= 7
    assert found["tolerance"] == pytest.approx(0.0488, abs=0.005)
    assert all(each["pairs"] > 0 for each in found["steps"])
    assert leftovers(tests) == []


def test_the_answer_is_told(tests: Path) -> None:
    commits = repository(tests.parent / "tool", [100, 100, 120, 120])
    done = bisect(tests, f"--good={commits[0]}", "--bad=HEAD", "--", "test_it.py")
    lines = done.stdout.splitlines()
    assert lines[0].startswith(f"bisect: mine.tool is worse since {commits[2][:7]} 20")
    assert lines[0].endswith(" A: change 2")
    assert sorted(line.split()[1] for line in lines[3:5]) == ["bad", "good"]
    assert lines[-1].startswith(("good to bad +20", "good to bad +19"))
    assert "building good" in done.stderr


def test_what_cannot_be_built_or_judged_is_skipped(tests: Path) -> None:
    """The middle ones do not build; the last of them could be the first bad one as well as the one after them."""
    commits = repository(tests.parent / "tool", [100, 100, "broken", "broken", 120, 120])
    build = "! grep -q broken level && cp level out"
    words = [f"--good={commits[0]}", "--bad=HEAD", "--json", "--", "test_it.py"]
    done = bisect(tests, *words, build=build)
    assert done.returncode == 1, done.stderr
    found = json.loads(done.stdout)
    assert found["first_bad"] is None
    assert found["suspects"] == [commits[4], commits[3], commits[2]]
    assert {each["answer"] for each in found["steps"]} == {"good", "bad", "skip"}


def test_builds_of_the_same_bytes_are_judged_once(tests: Path) -> None:
    commits = repository(tests.parent / "tool", [100] * 5 + [120] * 4)
    words = [f"--good={commits[0]}", "--bad=HEAD", "--json", "--", "test_it.py"]
    done = bisect(tests, *words, build="cut -d' ' -f1 level > out")
    found = json.loads(done.stdout)
    assert found["first_bad"] == commits[5]
    assert {each["change"] for each in found["steps"]} == {"the bytes of good", "the bytes of bad"}


def test_an_own_bisection_and_work_tree_of_the_user_stay(tests: Path) -> None:
    commits = repository(tests.parent / "tool", [100, 100, 120, 120])
    tool = tests.parent / "tool"
    git(tool, "bisect", "start", commits[3], commits[0])
    head, log = git(tool, "rev-parse", "HEAD"), git(tool, "bisect", "log")
    (tool / "level").write_text("changed")
    done = bisect(tests, f"--good={commits[0]}", f"--bad={commits[3]}", "--", "test_it.py")
    assert done.returncode == 0, done.stderr
    assert (git(tool, "rev-parse", "HEAD"), git(tool, "bisect", "log")) == (head, log)
    assert (tool / "level").read_text() == "changed"


@pytest.mark.parametrize(
    ("levels", "words", "build", "status", "message"),
    [
        ([100, 100.1], [], "cp level out", 3, "bad is no worse than good: "),
        ([100, 120], [], "true", 2, "good cannot be built: true made no out"),
        ([100, 120], [], "echo no such target; false", 2, "false: exit status 1\n    no such target"),
        ([100, 120], [], "echo 1 > out", 3, "good and bad build the same bytes of out"),
        ([100, 120], ["--claim=mine.other"], "cp level out", 2, "mine.other was not compared: pytest's exit"),
        ([100, 120], ["--bad=nowhere"], "cp level out", 2, "has no commit 'nowhere'"),
        ([100, 120], ["--bad=HEAD~1"], "cp level out", 2, "HEAD~1 has no commit that "),
        ([100, 120], ["--good=--help"], "cp level out", 2, "has no commit '--help'"),
        ([100, 120], ["--artefact=/out"], "cp level out", 2, "--artefact: '/out' is not a path below the root"),
        ([100, 120], ["--artefact=tol=out"], "cp level out", 2, "there is no key 'tol'"),
    ],
)  # fmt: skip
def test_a_search_that_cannot_begin_says_why(
    tests: Path,
    levels: list[float],
    words: list[str],
    build: str,
    status: int,
    message: str,
) -> None:
    commits = repository(tests.parent / "tool", levels)
    done = bisect(
        tests, f"--good={commits[0]}", "--bad=HEAD", *words, "--", "test_it.py", build=build
    )
    assert done.returncode == status, done.stderr
    assert message in done.stderr
    assert leftovers(tests) == []


def test_an_interrupted_search_leaves_nothing(tests: Path) -> None:
    import signal
    import time

    commits = repository(tests.parent / "tool", [100, 100, 120, 120])
    command = [sys.executable, "-m", "pytest_vperf", "bisect", "--claim=mine.tool"]
    command += [
        "--build=touch ../begun; sleep 60",
        "--artefact=env.TOOL=out",
        "--repository=../tool",
    ]
    process = subprocess.Popen(
        [*command, f"--good={commits[0]}", "--bad=HEAD"],
        cwd=tests,
        stderr=subprocess.PIPE,
        text=True,
    )
    for _ in range(200):
        if leftovers(tests):
            break
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=30)
    assert process.returncode == 130, said
    assert leftovers(tests) == []


@given(st.floats(0.2, 5))
def test_half_of_a_change_lies_in_the_middle(ratio: float) -> None:
    assert (1 + half_of(ratio)) ** 2 == pytest.approx(max(ratio, 1 / ratio))


def test_one_worse_record_of_a_claim_decides() -> None:
    def record(verdict: str) -> Any:
        figures: Any = {"estimate": 1.1, "interval": None, "n": 9, "arms": {}}
        sides = {"a": "head", "b": "base"}
        return {"name": "a", "verdict": verdict, "reason": "", "sides": sides, **figures}

    assert judged("a", [record("holds"), record("refuted")], 0).answer == "bad"
    assert judged("a", [record("holds"), record("inconclusive")], 0).answer == "skip"
    assert judged("a", [record("holds"), record("holds")], 0).answer == "good"
    alone: Any = {**record("holds"), "sides": {"a": "head"}}
    assert judged("a", [alone], 0).change == (
        "a was not compared: it compares two things by itself"
    )


def test_a_link_in_a_tree_leads_to_nothing_that_is_removed(tests: Path) -> None:
    commits = repository(tests.parent / "tool", [100, 120])
    tool, victim = tests.parent / "tool", tests.parent / "victim"
    victim.mkdir()
    (victim / "tool").write_text("not of this tree")
    for commit in ("one", "two"):
        (tool / "level").write_text(commit)
        (tool / "out").unlink(missing_ok=True)
        (tool / "out").symlink_to(victim)
        git(tool, "add", "-A")
        git(tool, "commit", "--quiet", f"--message={commit}")
    words = ["--good=HEAD~1", "--bad=HEAD", "--artefact=env.TOOL=out/tool", "--", "test_it.py"]
    done = bisect(tests, *words, build="true")
    assert (victim / "tool").read_text() == "not of this tree"
    assert done.returncode == 2
    assert "good cannot be built: out/tool leads out of the tree" in done.stderr
    assert commits
