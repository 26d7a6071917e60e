"""The format as a user has it: installed, and named on the command line."""

from __future__ import annotations

import csv
from typing import TYPE_CHECKING

from vperf_csv import harmless

if TYPE_CHECKING:
    import pytest

pytest_plugins = "pytester"

TEST = """
    import random
    from pytest_vperf import Quantity

    def test_it(claim):
        claim("wait.short").holds(lambda: Quantity(random.gauss(5, 0.1), "ms", direction="lower"))
"""
LIMITS = "hardware: {name: any, match: {}}\nclaims: {wait.short: {at_most: 400 ms}}\n"


def test_each_claim_is_a_line(pytester: pytest.Pytester) -> None:
    pytester.mkdir("thresholds").joinpath("any.yaml").write_text(LIMITS)
    pytester.makepyfile(TEST)
    run = pytester.runpytest_subprocess("--claims-export=csv=out.csv", "--claims-sessions=1")
    assert run.ret == 0
    with pytester.path.joinpath("out.csv").open(newline="") as stream:
        (line,) = csv.DictReader(stream)
    assert (line["claim"], line["verdict"], line["unit"]) == ("wait.short", "holds", "ms")
    assert 4 < float(line["estimate"]) < 6 < float(line["limit"])


def test_a_run_that_does_not_end_leaves_the_columns_alone(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("import os\ndef test_it(claim): os._exit(3)")
    pytester.runpytest_subprocess("--claims-export=csv=out.csv")
    assert pytester.path.joinpath("out.csv").read_text().count("\n") == 1


def test_no_text_is_a_formula() -> None:
    assert harmless('=HYPERLINK("http://x")').startswith("'=")
    assert harmless("container runc") == "container runc"
