"""What is judged on a machine that a figure is not of: an emulated one, and one of another profile."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from pytest_vperf.machine import fingerprint

if TYPE_CHECKING:
    from pathlib import Path

IN_A_LAB = """
    from pytest_vperf.quantity import Quantity
    from pytest_vperf.targets.base import Facts

    class Target:
        def __init__(self, **details):
            self.details = details
        def facts(self):
            return Facts("guest", "guest kvm", self.details)
        def close(self):
            pass

    def around(scope, centre, **details):
        made = []
        def sample():
            if not made:
                made.append(scope.own(Target(**details)))
            made.append(None)
            return Quantity(centre + len(made) % 7 / 10, "ms", direction="lower")
        return sample

"""
FAR = """
hardware:
  name: far
  match: {cpu_model: no such processor}
claims:
  start.pod:
    at_most: 400 ms
"""


def judged(project: pytest.Pytester, test: str, *options: str) -> tuple[pytest.RunResult, Any]:
    project.makepyfile(IN_A_LAB + f"    def test_it(claim, vperf_scope): {test}")
    result = project.runpytest("--claims-json=out.json", *options)
    (found,) = json.loads((project.path / "out.json").read_text())["claims"]
    return result, found


@pytest.mark.parametrize("centre", [100, 900])
@pytest.mark.parametrize(
    ("details", "where"),
    [
        ({"emulated": "yes", "on": "lab kvm", "lab": "kvm"}, "lab kvm"),
        ({"emulated": "yes"}, "machine"),
    ],
)
def test_a_speed_of_an_emulated_machine_is_measured_and_not_judged(
    project: pytest.Pytester, centre: int, details: dict[str, str], where: str
) -> None:
    test = f'claim("start.quick").holds(around(vperf_scope, {centre}, **{details}))'
    result, found = judged(project, test)
    assert result.ret == 0
    assert found["verdict"] == "not comparable"
    assert found["reason"] == f"the {where} is emulated: its speed says nothing about hardware"
    assert found["estimate"] == pytest.approx(centre, abs=1)


def test_a_machine_that_says_it_is_not_emulated_is_judged(project: pytest.Pytester) -> None:
    _, found = judged(
        project, 'claim("start.quick").holds(around(vperf_scope, 100, emulated="no", lab="kvm"))'
    )
    assert found["verdict"] == "holds"


@pytest.mark.parametrize(("reason", "verdict"), [("", "not comparable"), ("weights", "holds")])
def test_a_threshold_says_that_emulation_does_not_matter(
    project: pytest.Pytester, reason: str, verdict: str
) -> None:
    with (project.path / "thresholds" / "any.yaml").open("a") as stream:
        stream.write("  start.order:\n    ratio: {at_most: 1.1}\n")
        stream.write(f"    emulated: {reason}\n" if reason else "")
    _, found = judged(
        project,
        'claim("start.order").compares(around(vperf_scope, 100, emulated="yes"), '
        'to=around(vperf_scope, 200, emulated="yes"))',
    )
    assert found["verdict"] == verdict


def test_on_an_emulated_machine_not_even_any_is_judged(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    def emulated(root: Path, cpu: object) -> bool:
        return True

    monkeypatch.setattr(fingerprint, "is_emulated", emulated)
    _, found = judged(
        project,
        'claim("start.alike").compares(around(vperf_scope, 100), to=around(vperf_scope, 100))',
    )
    assert found["verdict"] == "not comparable"
    assert found["reason"] == "the machine is emulated: its speed says nothing about hardware"


def test_an_empty_reason_is_none(project: pytest.Pytester) -> None:
    with (project.path / "thresholds" / "any.yaml").open("a") as stream:
        stream.write('  start.order:\n    ratio: {at_most: 1.1}\n    emulated: ""\n')
    project.makepyfile('def test_it(claim): claim("start.order")')
    result = project.runpytest()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*any.yaml:*: claims.start.order.emulated: *"])


@pytest.mark.parametrize(("centre", "word"), [(100, "holds"), (900, "refuted")])
def test_a_verdict_by_the_profile_of_other_hardware_says_so_in_its_column(
    project: pytest.Pytester, centre: int, word: str
) -> None:
    (project.path / "thresholds" / "far.yaml").write_text(FAR)
    test = f'claim("start.pod").holds(around(vperf_scope, {centre}))'
    result, found = judged(project, test, "--hw=far")
    assert found["verdict"] == word
    count = {"holds": "1 held", "refuted": "1 refuted"}[word]
    result.stdout.fnmatch_lines(
        [
            f"{word} (not far) *start.pod *",
            f"claims: {count}; 1 judged by the profile of other hardware",
        ]
    )


def test_a_claim_about_every_machine_is_of_no_other_hardware(project: pytest.Pytester) -> None:
    (project.path / "thresholds" / "far.yaml").write_text(FAR)
    result, _ = judged(
        project,
        'claim("start.alike").compares(around(vperf_scope, 100), to=around(vperf_scope, 100))',
        "--hw=far",
    )
    result.stdout.fnmatch_lines(["holds *start.alike *", "claims: 1 held"])
    result.stdout.no_fnmatch_line("*other hardware*")
