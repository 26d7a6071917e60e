"""Comparisons refused because no verdict would be meaningful: wrong directions, different builds of a tool."""

from __future__ import annotations

import json
from typing import Any

import pytest

TOOLS = """
from pytest_vperf.quantity import Quantity
from pytest_vperf.targets.base import Program

def using(scope, target, sha256, value, *, origin="image", direction="lower"):
    def sample(values=iter(range(10_000))):
        path = "/usr/bin/sysbench"
        scope.note_tool(target, Program("sysbench", (path,), path, sha256, origin), "1.0.20")
        return Quantity(value + next(values) % 3, "ms", direction=direction)
    return sample
"""


def run(project: pytest.Pytester, body: str) -> tuple[pytest.RunResult, dict[str, Any]]:
    project.makepyfile(
        f"{TOOLS}\ndef test_it(claim, vperf_scope):\n    scope = vperf_scope\n    {body}\n"
    )
    result = project.runpytest("--claims-json=out.json")
    (found,) = json.loads((project.path / "out.json").read_text())["claims"]
    return result, dict(found)


def test_different_builds_of_a_tool_are_not_compared(project: pytest.Pytester) -> None:
    result, found = run(
        project,
        'claim("start.alike").compares(using(scope, "container runc", "a" * 64, 100),'
        ' to=using(scope, "host", "b" * 64, 100, origin="host"))',
    )
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "*NotComparable: claim 'start.alike' would compare builds of sysbench, not targets: it is "
            "1.0.20 with sha256 aaaaaaaaaaaa in container runc (image: /usr/bin/sysbench), and "
            "1.0.20 with sha256 bbbbbbbbbbbb in host (host: /usr/bin/sysbench). Run the image's in both "
            "(leave out --vperf-host-tools), or allow it with any_programs=True"
        ]
    )
    assert found["verdict"] == "inconclusive"
    assert len(found["observations"]) == 2  # what was measured is kept


def test_different_builds_are_compared_where_intended(project: pytest.Pytester) -> None:
    result, found = run(
        project,
        'claim("start.alike").compares(using(scope, "container runc", "a" * 64, 100),'
        ' to=using(scope, "host", "b" * 64, 100), any_programs=True)',
    )
    assert (result.ret, found["verdict"]) == (0, "holds")
    assert found["target"] == "container runc / host"


def test_the_same_bytes_are_compared(project: pytest.Pytester) -> None:
    result, found = run(
        project,
        'claim("start.alike").compares(using(scope, "container runc", "a" * 64, 100),'
        ' to=using(scope, "host", "a" * 64, 100))',
    )
    assert (result.ret, found["verdict"]) == (0, "holds")


@pytest.mark.parametrize(
    ("claim", "direction", "words"),
    [
        (
            'claim("start.quick").holds({})',
            "higher",
            "claim 'start.quick' is ≤ 400 ms, which is good where lower is better; of what was sampled, 100 ms, "
            "higher is better. Sample a time instead of a rate, or use at_least: an overhead of 1 % in a rate is a "
            "ratio of at least 0.99.",
        ),
        (
            'claim("start.no_worse").compares({0}, to={0})',
            "higher",
            "claim 'start.no_worse' is no worse by more than 2 %, which is good where lower is better; of what was "
            "sampled, *",
        ),
        (
            'claim("copy.rate").holds({})',
            "lower",
            "claim 'copy.rate' is ≥ 10 MB/s, which is good where higher is better; of what was sampled, 100 ms, "
            "lower is better. Sample a rate instead of a time, or use at_most or overhead.",
        ),
    ],
)
def test_the_direction_of_the_metric_is_the_criterions(
    project: pytest.Pytester, claim: str, direction: str, words: str
) -> None:
    sample = f'using(scope, "host", "a" * 64, 100, direction="{direction}")'
    result, found = run(project, claim.format(sample))
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines([f"*NotComparable: {words}"])
    assert found["verdict"] != "holds"


def test_a_near_ratio_accepts_either_direction(project: pytest.Pytester) -> None:
    sample = 'using(scope, "host", "a" * 64, {}, direction="higher")'
    result, found = run(
        project,
        f'claim("start.half").near({sample.format(500)}, to={sample.format(1000)})',
    )
    assert (result.ret, found["verdict"]) == (0, "holds")


def test_targets_on_different_machines_are_not_compared(project: pytest.Pytester) -> None:
    project.makepyfile(
        """
        from pytest_vperf.quantity import Quantity
        from pytest_vperf.targets.base import Facts

        class Target:
            def __init__(self, name, **details):
                self.name, self.details = name, details
            def facts(self):
                return Facts("pod", self.name, self.details)
            def close(self):
                pass

        def test_it(claim, vperf_scope):
            def sample(name, **details):
                vperf_scope.own(Target(name, **details))
                return Quantity(100, "ms", direction="lower")
            claim("start.alike").compares(
                lambda: sample("pod tcg"), to=lambda: sample("pod xen (lab xen)", on="lab xen"))
        """
    )
    result = project.runpytest("--claims-json=out.json")
    result.stdout.fnmatch_lines(["*claims: 1 not measured*"])
    (found,) = json.loads((project.path / "out.json").read_text())["claims"]
    assert found["verdict"] == "not measured"
    # A coin decides which arm comes first.
    assert sorted(
        found["reason"].partition("targets: ")[2].partition(" (to mend")[0].split(" and ")
    ) == [
        "pod tcg is on this machine",
        "pod xen (lab xen) is on lab xen",
    ]
