"""``vperf bisect``: its options, and the search from its first builds to its answer."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_vperf import foreign_text
from pytest_vperf.commands.options import add_build_options
from pytest_vperf.reporting.console import say, tell

if TYPE_CHECKING:
    import argparse

    from pytest_vperf.commands.bisect.search import Judged, Search

FOUND, SEVERAL, MISUSED, ALIKE = 0, 1, 2, 3


class _Failed(Exception):
    """The search cannot go on; the message says why, ``status`` is the exit status."""

    def __init__(self, message: str, status: int = MISUSED) -> None:
        super().__init__(message)
        self.status = status


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "bisect",
        help="find the commit that made a claim's figure worse",
        usage="vperf bisect --claim NAME --good REF --bad REF --build COMMAND --artefact [KEY=]PATH [-- PYTEST…]",
        description="Builds commits between GOOD and BAD in a work tree of its own, as 'git bisect run' asks for "
        "them, and compares each with GOOD by a gate in which the claim's tests sample both in turn. The change from "
        "GOOD to BAD is measured first; a commit is bad if its figure is worse by more than half of it. One that "
        "cannot be built, or about which nothing can be concluded, is skipped. What follows -- are arguments for "
        "pytest: the tests that claim NAME, a budget.",
        epilog="Exit status: 0 if the commit was found; 1 if several are left, since those between them were "
        "skipped; 2 for options, builds or tests that are wrong; 3 if BAD is not worse than GOOD, or that cannot be "
        "told.",
    )
    parser.add_argument("--claim", metavar="NAME", required=True, help="the claim's name")
    parser.add_argument(
        "--good", metavar="REF", required=True, help="a commit whose figure is good"
    )
    parser.add_argument(
        "--bad", metavar="REF", required=True, help="a later one whose figure is worse"
    )
    add_build_options(parser, "a commit", "these commits")
    parser.add_argument(
        "--tolerance",
        metavar="PERCENT",
        default="2 %",
        help="how much worse than GOOD counts as no worse where BAD is judged, before the search (default: 2 %%)",
    )
    parser.add_argument(
        "--json", action="store_true", help="write the answer and every step as JSON"
    )
    parser.set_defaults(command=_bisect, fail=parser.error)


def add_step_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add what ``git bisect run`` calls; it is in no help."""
    parser = commands.add_parser("bisect-step")
    parser.add_argument("file", type=Path)
    parser.set_defaults(command=_step)


def _step(arguments: argparse.Namespace) -> int:
    from pytest_vperf.commands.bisect.steps import step

    return step(arguments.file)


def _bisect(arguments: argparse.Namespace) -> int:
    from pytest_vperf.machine.git import GitProblem

    try:
        return _search(arguments)
    except _Failed as error:
        say("vperf bisect", str(error))
        return error.status
    except GitProblem as error:
        say("vperf bisect", str(error))
        return MISUSED


def _search(arguments: argparse.Namespace) -> int:
    from pytest_vperf.commands.bisect.search import Search, half_of
    from pytest_vperf.commands.builds import commit_of, content, read_artefact, work_tree
    from pytest_vperf.machine.git import git
    from pytest_vperf.thresholds.judge import read_tolerance

    began = time.monotonic()
    try:
        tolerance = read_tolerance(arguments.tolerance)
    except ValueError as error:
        arguments.fail(f"--tolerance: {error}")
    try:
        key, artefact = read_artefact(arguments.artefact)
    except ValueError as error:
        arguments.fail(f"--artefact: {error}")
    top = Path(git("rev-parse", "--show-toplevel", at=arguments.repository))
    good, bad = (commit_of(top, f"--{name}", getattr(arguments, name)) for name in ("good", "bad"))
    between = git("rev-list", "--count", f"{good}..{bad}", at=top)
    if between == "0":
        raise _Failed(f"{arguments.bad} has no commit that {arguments.good} has not")
    with work_tree("vperf bisect", top, bad) as folder:
        search = Search(
            owner=os.getpid(),
            folder=folder,
            tree=folder / "tree",
            here=Path.cwd(),
            key=key,
            artefact=artefact,
            build=arguments.build,
            claim=arguments.claim,
            tolerance=tolerance,
            words=tuple(arguments.words_after),
        )
        first = _first(search, good, bad)
        say(
            "vperf bisect",
            f"{between} commits; from good to bad {first.change}, {first.pairs} pairs",
        )
        assert first.ratio is not None
        search = Search(**{**vars(search), "tolerance": half_of(first.ratio)})
        search.write()
        known = {
            content(next((folder / name).iterdir())): {
                "answer": name,
                "change": f"the bytes of {name}",
            }
            for name in ("good", "bad")
        }
        (folder / "known.json").write_text(json.dumps(known), "utf-8")
        suspects = _run(search, good, bad)
        steps = [json.loads(line) for line in _lines(search.steps)]
        found = {
            "claim": search.claim,
            "change": first.change,
            "tolerance": search.tolerance,
            "commits": int(between),
            "first_bad": suspects[0] if len(suspects) == 1 else None,
            "suspects": suspects,
            "steps": steps,
            "seconds": round(time.monotonic() - began, 1),
        }
        _tell(top, found, as_json=arguments.json)
    return FOUND if len(suspects) == 1 else SEVERAL


def _first(search: Search, good: str, bad: str) -> Judged:
    """Build both ends, and measure the change between them."""
    from pytest_vperf.commands.builds import BuildFailed, content, end_of
    from pytest_vperf.machine.git import git

    builds = {}
    for name, commit in (("good", good), ("bad", bad)):
        git("checkout", "--quiet", "--detach", commit, at=search.tree)
        say("vperf bisect", f"building {name}, {commit[:12]}")
        try:
            builds[name] = search.built(name)
        except BuildFailed as error:
            raise _Failed(f"{name} cannot be built: {error}{end_of(search.log)}") from None
    if content(builds["good"]) == content(builds["bad"]):
        raise _Failed(f"good and bad build the same bytes of {search.artefact}", ALIKE)
    say("vperf bisect", f"measuring {search.claim} of good and bad")
    found = search.judge(builds["bad"], good=builds["good"])
    if found.ratio is None:
        raise _Failed(f"{found.change}{end_of(search.log)}")
    if found.answer != "bad":
        what = "no worse than" if found.answer == "good" else "not shown to be worse than"
        raise _Failed(f"bad is {what} good: {found.change}, {found.pairs} pairs", ALIKE)
    return found


def _run(search: Search, good: str, bad: str) -> list[str]:
    """Have Git search, and return the commits that may be the first bad one, the oldest last."""
    from pytest_vperf.commands.builds import end_of
    from pytest_vperf.machine.git import git

    git("bisect", "start", bad, good, at=search.tree)
    words = [sys.executable, "-m", "pytest_vperf", "bisect-step", str(search.file)]
    with search.log.open("ab") as log:
        # In our process group: Ctrl-C ends the step, and with it Git. Git is several processes, so it is the step
        # that looks whether we live.
        done = subprocess.run(
            ["git", "bisect", "run", *words],
            cwd=search.tree,
            stdin=subprocess.DEVNULL,
            stdout=log,
            check=False,
        )
    if done.returncode and not _lines(search.steps):
        raise _Failed(f"git bisect run: exit status {done.returncode}{end_of(search.log)}")
    left = git(
        *("for-each-ref", "--format=%(objectname)", "refs/bisect/good-*"), at=search.tree
    ).splitlines()
    newest = git("rev-parse", "refs/bisect/bad", at=search.tree)
    return git("rev-list", newest, "--not", *left, at=search.tree).splitlines()


def _lines(file: Path) -> list[str]:
    try:
        return file.read_text("utf-8").splitlines()
    except FileNotFoundError:
        return []


def _tell(top: Path, found: dict[str, Any], *, as_json: bool) -> None:
    from pytest_vperf.machine.git import git
    from pytest_vperf.reporting.console import print_table

    if as_json:
        sys.stdout.write(foreign_text.to_json(found, indent=2) + "\n")
        return
    shown = [
        git("log", "--max-count=1", "--date=short", "--format=%h %ad %an: %s", each, at=top)
        for each in found["suspects"]
    ]
    if found["first_bad"]:
        tell(f"bisect: {found['claim']} is worse since {foreign_text.line(shown[0])}")
    else:
        tell(
            f"bisect: {found['claim']} is worse since one of these, which could not all be judged:"
        )
        for line in shown:
            tell(f"  {foreign_text.line(line)}")
    print_table(
        ("commit", "answer", "change against good", "pairs", "time", "subject"),
        [_row(each) for each in found["steps"]],
    )
    steps = "1 step" if len(found["steps"]) == 1 else f"{len(found['steps'])} steps"
    tell(
        f"good to bad {found['change']}; judged at half of it, {100 * found['tolerance']:.3g} %; {steps} for "
        f"{found['commits']} commits, {found['seconds']:.0f} s"
    )


def _row(step: dict[str, Any]) -> tuple[str, ...]:
    shown = (step["answer"], step["change"], str(step["pairs"]), f"{step['seconds']:.0f} s")
    return step["commit"][:12], *shown, step["subject"]
