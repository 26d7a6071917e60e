"""The steps of the landing gate and of the patient suite: what each runs, and how long it may take."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from gate.outcome import KNOWN_SKIPS

if TYPE_CHECKING:
    from collections.abc import Sequence

ROOT = Path(__file__).resolve().parents[2]
#: Kinds of targets that fail where they are missing. A skip would be a check that nobody made.
REQUIRED = "host,container,pod,guest,domu,fleet"

#: import-linter, which has no module that `-m` would run; on the source, not on what is installed.
_IMPORTS = (
    "import sys; sys.path.insert(0, 'src');"
    "from importlinter.cli import lint_imports_command; lint_imports_command()"
)
#: bandit, which must say nothing at all: of itself, it only warns of a `nosec` that excuses nothing.
_BANDIT = """
import subprocess, sys
said = subprocess.run(
    [sys.executable, "-m", "bandit", "-q", "-c", "pyproject.toml", "-r", *sys.argv[1:]],
    stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
)
print(said.stdout, end="")
sys.exit(said.returncode or bool(said.stdout))
"""
#: Scripts in Python whose names do not end with .py.
_SCRIPTS = ("script/check_privileges", "script/mutants")
_BY_FOLDER = ("-n", "2", "--dist", "loadfile", "--no-loadscope-reorder")


@dataclass(frozen=True)
class Step:
    """A step.

    Attributes:
        name: names it on the command line and in what is printed.
        commands: run one after the other until one fails; each without its interpreter.
        limit: seconds for all of them.
        tests: whether the one command is pytest, whose tests are counted.
        again: whether tests that fail are run once more, alone: those with real targets, which a busy machine can
            upset.
        patient: only ``--all`` runs it.
        selects: options by which the step leaves out tests; not used where arguments for pytest are given.
        needs: a step without which this one is not run.
        offline: tests that must not fetch anything.
        skips: a file of the reasons for which a test may be skipped.
    """

    name: str
    commands: tuple[tuple[str, ...], ...]
    limit: float
    tests: bool = False
    again: bool = False
    patient: bool = False
    selects: tuple[str, ...] = ()
    needs: str = ""
    offline: bool = False
    skips: str = KNOWN_SKIPS


def _pytest(name: str, *arguments: str, limit: float, **more: object) -> Step:
    command = ("-m", "pytest", *arguments)
    return Step(name, (command,), limit, tests=True, **more)  # type: ignore[arg-type]


def steps(work: Path) -> Sequence[Step]:
    """All steps, in their order: what is red most often, and what is quick, comes first.

    Args:
        work: a folder for what a step leaves to a later one.
    """
    claims = str(work / "claims.json")
    return (
        Step(
            "lint",
            (
                ("-m", "ruff", "check", "."),
                ("-m", "ruff", "format", "--check", "."),
                ("-c", _IMPORTS, "--no-logo", "--no-cache"),
                ("script/check_privileges",),
                # What runs as root; scripts without a suffix have to be named.
                ("-c", _BANDIT, "src", "script", *_SCRIPTS, "conftest.py"),
                # The site: a warning, such as a link to nowhere, is an error.
                ("-m", "sphinx", "-q", "-W", "--keep-going", "docs", str(work / "site")),
            ),
            180,
        ),
        Step("types", (("-m", "mypy"),), 300),
        _pytest("unit", "tests/unit", "tests/fuzz", "-n", "auto", limit=2400, offline=True),
        Step("matrix", (("-m", "gate.matrix", "landing"),), 900),
        Step("prepare", (("-m", "gate.prepare", "kvm"),), 1500),
        _pytest(
            "integration",
            "tests/integration",
            "--ignore=tests/integration/metrology",
            *_BY_FOLDER,
            limit=2400,
            again=True,
            selects=("-m", "not patient"),
            needs="prepare",
            offline=True,
        ),
        _pytest(
            "hostile",
            *("tests/hostile", *_BY_FOLDER),
            limit=300,
            again=True,
            selects=("-m", "not patient"),
            needs="prepare",
            offline=True,
        ),
        _pytest(
            "claims",
            "tests/claims",
            *("-m", "startup", "--hw=type1", "--claims-advisory"),
            *("--claims-budget=20 s", "--claims-sessions=1", f"--claims-json={claims}"),
            limit=600,
            needs="prepare",
            offline=True,
            skips="known_not_measured.txt",
        ),
        Step("measured", (("-m", "gate.measured", claims),), 60, needs="claims"),
        Step("verdicts", (("benchmarks/verdicts", "--quick", "--gate"),), 300),
        _pytest(
            "random",
            *("tests/unit", "-m", "hypothesis", "--hypothesis-profile=patient"),
            *("-n", "auto", "--timeout=1800"),
            limit=3600,
            patient=True,
        ),
        Step("matrix-all", (("-m", "gate.matrix", "all"),), 10800, patient=True),
        Step(
            "pythons",
            (("-m", "tox", "run", "-e", "py310,py312,py313"),),
            10800,
            patient=True,
        ),
        Step("prepare-all", (("-m", "gate.prepare", "kvm", "xen"),), 2400, patient=True),
        _pytest(
            "patient",
            "tests/integration",
            "--ignore=tests/integration/metrology",
            *_BY_FOLDER,
            limit=3600,
            again=True,
            patient=True,
            selects=("-m", "patient"),
            needs="prepare-all",
        ),
        _pytest(
            "metrology",
            "tests/integration/metrology",
            *_BY_FOLDER,
            limit=1800,
            again=True,
            patient=True,
            needs="prepare",
        ),
        _pytest(
            "hostile-all",
            *("tests/hostile", "-n", "2", "--dist", "loadfile"),
            limit=900,
            again=True,
            patient=True,
            selects=("-m", "patient"),
            needs="prepare",
        ),
        _pytest(
            "tools",
            *("tests/tools", "-n", "2"),
            limit=1800,
            again=True,
            patient=True,
            needs="prepare",
        ),
        Step(
            "survives",
            (("benchmarks/survives", "--rounds=8"),),
            1800,
            patient=True,
            needs="prepare",
        ),
        Step("mutants", (("script/mutants",),), 1500, patient=True),
    )


def interpreter() -> str:
    """What runs each command."""
    return sys.executable
