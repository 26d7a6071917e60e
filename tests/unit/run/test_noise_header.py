"""The header names what makes this machine noisy, and where to read how to change it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_vperf.machine import noise_warnings
from pytest_vperf.machine.noise_warnings import NoiseWarning
from pytest_vperf.reporting.summary import NAMED, noise_line

if TYPE_CHECKING:
    import pytest


def noise(name: str, value: str, *, by_command: bool = False) -> NoiseWarning:
    return NoiseWarning(name, value, "it disturbs", "change it", by_command)


def test_each_noisy_setting_is_named_with_its_value() -> None:
    line = noise_line([noise("turbo", "on", by_command=True), noise("steal", "9 % of CPU time")])
    assert line == (
        "claims: noisy machine: turbo on, steal 9 % of CPU time; "
        "`vperf doctor --tune` prints the commands"
    )


def test_no_command_is_offered_where_none_helps() -> None:
    line = noise_line([noise("steal", "9 % of CPU time")])
    assert line.endswith(" steal 9 % of CPU time; `vperf doctor --tune` says why")


def test_many_noisy_settings_are_counted() -> None:
    line = noise_line([noise(f"n{number}", "on") for number in range(NAMED + 2)])
    assert line == (
        "claims: noisy machine: n0 on, n1 on, n2 on, n3 on, and 2 more; `vperf doctor --tune` says why"
    )


def test_noise_is_shown_only_where_tests_make_claims(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = [noise("turbo", "on", by_command=True), noise("steal", "9 % of CPU time")]
    monkeypatch.setattr(noise_warnings, "look", lambda: seen)
    project.makepyfile("def test_it(): pass")
    project.runpytest().stdout.no_fnmatch_line("*noisy machine*")
    project.makepyfile("def test_it(claim): pass")
    lines = project.runpytest("--collect-only").stdout.lines
    assert [line for line in lines if "noisy machine" in line] == [noise_line(seen)]
