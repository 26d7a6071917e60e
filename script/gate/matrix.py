"""The plugin's own tests with each version of Python and of pytest, with pytest-xdist and without: a table.

    python -m gate.matrix landing        the oldest of both that were found, and the newest
    python -m gate.matrix all [TEST…]    all of them; these tests, instead of those that tox.ini names

tox makes the environments (tox.ini), two at a time; each runs its tests in one process, or in one worker of
pytest-xdist.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

from gate import outcome

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

ROOT = Path(__file__).resolve().parents[2]
PYTHONS = ("3.10", "3.11", "3.12", "3.13")
#: By the part of the environment's name.
PYTESTS = {"pytest7": "7.4", "pytest8": "8", "pytest9": "9"}
XDIST = {"": "", "-xdist": " with xdist"}
#: What the landing gate runs: long enough to see a hook or a private part that changed, and no longer.
QUICK = (
    "tests/unit/test_pytest_internals.py",
    "tests/unit/run/test_doors.py",
    "tests/unit/run/test_verdicts.py",
    "tests/unit/run/test_visits.py",
    "tests/unit/run/test_with_pytest.py",
)
#: Skips that are expected where there is no pytest-xdist.
NO_XDIST = "could not import 'xdist'"
#: Environments at a time.
AT_A_TIME = 2


def main() -> int:
    """Run the environments, print the table and what is wrong, and return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("which", choices=["landing", "all"])
    parser.add_argument("tests", nargs="*", help="instead of the usual ones")
    options = parser.parse_args()
    which, tests = options.which, options.tests
    found = interpreters()
    cells = chosen(which, list(found))
    faults = []
    if which == "all" and (missing := [each for each in PYTHONS if each not in found]):
        faults.append(
            f"Python {', '.join(missing)} was not found: the whole matrix needs all of {', '.join(PYTHONS)}"
        )
    with tempfile.TemporaryDirectory(prefix="vperf-matrix-") as folder:
        work = Path(folder)
        tests = tests or (QUICK if which == "landing" else ())
        status = _tox(cells, tests, list(found.values()), work)
        outcomes = {each: outcome.read(work / f"{each}.jsonl") for each in cells}
    print(*table(outcomes), sep="\n")
    for name, each in outcomes.items():
        faults += [f"{name}: {fault}" for fault in faults_of(name, each)]
    if status and not faults:
        faults.append(f"tox ended with the exit status {status}")
    for fault in faults:
        print("FAULT", fault)
    return 1 if faults else 0


def interpreters() -> dict[str, str]:
    """The Pythons that are here, by version: on the PATH, or among pyenv's."""
    program = "import sys; print(*sys.version_info[:2], sep='.'); print(sys.executable)"
    variables = dict(os.environ)
    if shutil.which("pyenv"):
        done = subprocess.run(
            ["pyenv", "versions", "--bare"], capture_output=True, text=True, check=False
        )
        ours = [each for each in done.stdout.split() if each.rpartition(".")[0] in PYTHONS]
        variables["PYENV_VERSION"] = ":".join([*ours, "system"])
    found: dict[str, str] = {}
    for each in (sys.executable, *(f"python{version}" for version in PYTHONS)):
        if path := shutil.which(each):
            done = subprocess.run(
                [path, "-c", program], env=variables, capture_output=True, text=True, check=False
            )
            if done.returncode == 0:  # a shim may be of a version that is not installed
                version, program_file = done.stdout.splitlines()
                found.setdefault(version, program_file)
    return {version: found[version] for version in PYTHONS if version in found}


def chosen(which: str, found: Sequence[str]) -> list[str]:
    """The names of the environments to run, as in tox.ini."""
    named = [f"py{version.replace('.', '')}" for version in found]
    pytests = list(PYTESTS)
    if which == "landing":
        return [f"{named[0]}-{pytests[0]}", f"{named[-1]}-{pytests[-1]}-xdist"]
    return [f"{python}-{pytest}{xdist}" for xdist, python, pytest in product(XDIST, named, pytests)]


def _tox(cells: Sequence[str], tests: Sequence[str], pythons: Sequence[str], work: Path) -> int:
    command = [sys.executable, "-m", "tox", "run-parallel", f"--parallel={AT_A_TIME}"]
    command += [
        "--parallel-no-spinner",
        "--discover",
        *pythons,
        "-e",
        ",".join(cells),
        "--",
        *tests,
    ]
    done = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, "VPERF_MATRIX": str(work)},
        check=False,
    )
    return done.returncode


def faults_of(name: str, found: outcome.Outcome) -> list[str]:
    """What is wrong in an environment, in words."""
    failed = found.of("failed")
    kept = outcome.Outcome(**vars(found))
    if not name.endswith("-xdist"):
        kept.ended = {
            test: each
            for test, each in found.ended.items()
            if each != "skipped" or not found.reasons.get(test, "").startswith(NO_XDIST)
        }
        kept.collected = [
            test for test in found.collected if test in kept.ended or test not in found.ended
        ]
    faults = outcome.faults(kept, 1 if failed else 0)
    return faults + ([f"{len(failed)} failed: {outcome.named(failed)}"] if failed else [])


def table(outcomes: Mapping[str, outcome.Outcome]) -> list[str]:
    """A row for each version of Python, a column for each of pytest: tests that passed, failed, were skipped."""
    columns = [
        (pytest, xdist)
        for xdist, pytest in product(XDIST, PYTESTS)
        if any(each.endswith(f"-{pytest}{xdist}") for each in outcomes)
    ]
    rows = [["passed/failed/skipped", *(f"pytest {PYTESTS[a]}{XDIST[b]}" for a, b in columns)]]
    for version in PYTHONS:
        cells = [
            outcomes.get(f"py{version.replace('.', '')}-{pytest}{xdist}")
            for pytest, xdist in columns
        ]
        if any(cells):
            rows.append([f"Python {version}", *(_counts(each) if each else "" for each in cells)])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


def _counts(found: outcome.Outcome) -> str:
    return "/".join(str(len(found.of(each))) for each in ("passed", "failed", "skipped"))


if __name__ == "__main__":
    raise SystemExit(main())
