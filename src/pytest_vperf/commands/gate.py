"""``vperf gate``: build the commit that a branch began at, and the current tree, and compare them in one run."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_vperf.commands.options import add_build_options
from pytest_vperf.reporting.console import say

if TYPE_CHECKING:
    import argparse

#: As pytest's own for a wrong option: nothing was measured.
MISUSED = 4


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "gate",
        help="build a base commit and this tree, and compare the two",
        usage="vperf gate --base REF --build COMMAND --artefact [KEY=]PATH [--repository DIR] [-- PYTEST…]",
        description="Builds BASE in a work tree of its own and the tree that is checked out as it is, and runs "
        "pytest with what both made as --claims-base and --claims-head. What follows -- are arguments for "
        "pytest: tests, files for results, a budget.",
        epilog="Exit status: that of pytest, 1 if head is worse; 4 also if BASE is no commit or a build failed.",
    )
    parser.add_argument(
        "--base",
        metavar="REF",
        required=True,
        help="the commit to compare with, such as origin/main",
    )
    add_build_options(parser, "a tree", "both")
    parser.set_defaults(command=_gate, fail=parser.error)


def _gate(arguments: argparse.Namespace) -> int:
    from pytest_vperf.commands.builds import (
        BuildFailed,
        build,
        commit_of,
        content,
        read_artefact,
        work_tree,
    )
    from pytest_vperf.commands.pytest_process import run_pytest
    from pytest_vperf.machine.git import GitProblem, git

    try:
        key, artefact = read_artefact(arguments.artefact)
    except ValueError as error:
        arguments.fail(f"--artefact: {error}")
    shown = sys.stderr.fileno()
    try:
        top = Path(git("rev-parse", "--show-toplevel", at=arguments.repository))
        base = commit_of(top, "--base", arguments.base)
        with work_tree("vperf gate", top, base) as folder:
            made = {}
            for name, tree in (("base", folder / "tree"), ("head", top)):
                say("vperf gate", f"building {name} in {tree}")
                try:
                    made[name] = build(tree, arguments.build, artefact, shown)
                except BuildFailed as error:
                    raise BuildFailed(f"{name} cannot be built: {error}") from None
            same = content(made["base"]) == content(made["head"])
            if same and "--same-on-purpose" not in arguments.words_after:
                raise BuildFailed(
                    f"base and head build the same bytes of {artefact}: nothing changed, or a build "
                    "left it as it was (--same-on-purpose after -- compares them)"
                )
            sides = [f"--claims-{name}={key}={path}" for name, path in made.items()]
            status, interrupted = run_pytest(
                [*sides, *arguments.words_after], output=sys.stdout.fileno()
            )
    except (BuildFailed, GitProblem) as error:
        say("vperf gate", str(error))
        return MISUSED
    if interrupted:
        raise KeyboardInterrupt
    return status
