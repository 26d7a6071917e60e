"""Runs every tool on every kind of target and prints the figures as a table: what works here, and why not.

The tests of `tests/tools` do the work; with the JUnit file of an earlier run of theirs nothing is run again. The
figures are single runs on a machine as it is: they show that a tool runs and is read, not what a target costs.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from pathlib import Path

from pytest_vperf.reporting.console import print_table

ROOT = Path(__file__).parents[1]
TARGETS = ("host", "container runc", "container runsc", "pod tcg")


def main() -> int:
    """Run the tests, or read what they left, and print the table; the exit status is that of the tests."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("junit", nargs="?", metavar="FILE.xml", help="of a run of tests/tools")
    junit = parser.parse_args().junit
    with tempfile.TemporaryDirectory() as folder:
        status, file = 0, Path(junit or Path(folder, "tools.xml"))
        if not junit:
            command = [sys.executable, "-m", "pytest", str(ROOT / "tests" / "tools"), "-q"]
            status = subprocess.run(
                [*command, f"--junitxml={file}"], cwd=ROOT, check=False
            ).returncode
        try:
            cells, reasons = read(file)
        except (OSError, ElementTree.ParseError) as error:
            parser.error(f"{file}: {error}")
    tools = list(dict.fromkeys(tool for tool, _ in cells))
    rows = [[tool, *(cells.get((tool, target), "-") for target in TARGETS)] for tool in tools]
    print_table(["tool", *TARGETS], rows)
    for number, reason in enumerate(reasons, 1):
        print(f"[{number}] {reason}")
    return status


def read(file: Path) -> tuple[dict[tuple[str, str], str], list[str]]:
    """The cell of each tool and target, and the reasons that cells refer to by their number."""
    cells: dict[tuple[str, str], str] = {}
    reasons: list[str] = []
    for case in ElementTree.parse(file).iter("testcase"):
        name, _, parameters = case.get("name", "").removesuffix("]").partition("[")
        target = next((each for each in TARGETS if each in parameters), "")
        if not target:
            continue
        variant = parameters.replace(target, "").strip("-")
        tool = " ".join([*name.removeprefix("test_").split("_"), *([variant] if variant else [])])
        figures = {each.get("name"): each.get("value", "") for each in case.iter("property")}
        bad = next((each for each in case if each.tag in ("skipped", "failure", "error")), None)
        if bad is not None:
            words = " ".join((bad.get("message") or "").split())
            if words not in reasons:
                reasons.append(words)
            cells[tool, target] = f"{bad.tag} [{reasons.index(words) + 1}]"
        else:
            cells[tool, target] = figures.get("figure", "ran")
    return cells, reasons


if __name__ == "__main__":
    raise SystemExit(main())
