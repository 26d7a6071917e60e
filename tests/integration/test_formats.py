"""What a run writes for other programs, read by these programs."""

from __future__ import annotations

import shutil
import subprocess

import pytest

TEST = """
import itertools, os
from pytest_vperf import Quantity

def test_it(claim):
    noise = itertools.cycle([1, 1.003, 0.999, 1.002, 0.998])
    claim('mine."quoted" \\\\ name').holds(lambda: Quantity(float(os.environ["LEVEL"]) * next(noise), "ms"))
"""


def test_promtool_takes_the_metrics_of_a_gate(pytester: pytest.Pytester) -> None:
    if (promtool := shutil.which("promtool")) is None:
        pytest.skip("promtool is not installed")
    pytester.makepyfile(TEST)
    options = ("--claims-base=env.LEVEL=100", "--claims-head=env.LEVEL=120")
    result = pytester.runpytest("--claims-openmetrics=out.txt", "-p", "no:cacheprovider", *options)
    assert result.ret == 1
    metrics = (pytester.path / "out.txt").read_text()
    assert 'vperf_claim_verdict{claim="mine.\\"quoted\\" \\\\ name"' in metrics
    done = subprocess.run(
        [promtool, "check", "metrics"], input=metrics, text=True, capture_output=True, check=False
    )
    assert (done.returncode, done.stderr, done.stdout) == (0, "", "")
