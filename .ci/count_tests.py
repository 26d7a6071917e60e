"""Adds up the tests in JUnit files: `count_tests.py FOLDER NAME…` reads FOLDER/NAME.xml for each.

Prints `vperf: N passed, N failed, N skipped`. The exit status is 1 if a test failed, or if a file
is missing or cannot be read: a run that wrote none did not get far enough to be counted.
"""

from __future__ import annotations

import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path


def main(folder: str, names: list[str]) -> int:
    """Count, print the line, and return the exit status."""
    passed = failed = skipped = 0
    complete = True
    for name in names:
        try:
            document = ElementTree.parse(Path(folder, f"{name}.xml"))  # noqa: S314 - pytest wrote it just now
        except (OSError, ElementTree.ParseError) as error:
            print(f"{name}: no test results: {error}", file=sys.stderr)
            complete = False
            continue
        for suite in document.iter("testsuite"):
            tests, failures, errors, left_out = (
                int(suite.get(key, "0")) for key in ("tests", "failures", "errors", "skipped")
            )
            # A test that passes and fails in its tear-down counts as one test and one error.
            passed += max(0, tests - failures - errors - left_out)
            failed += failures + errors
            skipped += left_out
    print(f"vperf: {passed} passed, {failed} failed, {skipped} skipped")
    return 0 if complete and not failed else 1


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1], sys.argv[2:]))
