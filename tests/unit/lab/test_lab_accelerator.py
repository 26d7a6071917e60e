"""Choosing emulation or KVM for a host: KVM counts once a pod has started with it; failures are retried later."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from pytest_vperf.lab import start
from pytest_vperf.lab.kinds import KVM, XEN
from pytest_vperf.machine.preflight import Readiness
from pytest_vperf.targets.base import CannotStart

if TYPE_CHECKING:
    from pathlib import Path

LONG = "it said " + "no " * 50


class Probe:
    """Stands in for the start of a pod."""

    def __init__(self) -> None:
        self.answers: list[Readiness | Exception] = []
        self.said: list[str] = []

    def __call__(self, *_: object) -> Readiness:
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def no(self, why: str) -> None:
        self.answers.append(Readiness("accelerator kvm", False, why))

    def yes(self) -> None:
        self.answers.append(Readiness("accelerator kvm", True, "a pod started in 90 ms"))


@pytest.fixture
def probe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Probe:
    monkeypatch.setenv("VPERF_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("VPERF_RUNS_DIR", str(tmp_path / "runs"))
    nested = tmp_path / "nested"
    nested.write_text("Y\n")
    monkeypatch.setattr(start, "_NESTED", (tmp_path / "not loaded", nested))
    made = Probe()
    monkeypatch.setattr(start, "probe", made)
    return made


def test_working_kvm_is_used(probe: Probe) -> None:
    probe.yes()
    assert start.choose_accelerator(KVM, None, probe.said.append) == ("kvm", "")
    assert probe.said == ["trying whether KVM works here"]


@pytest.mark.parametrize(
    ("why", "shown"),
    [
        ("no /dev/kvm", "no /dev/kvm"),
        (LONG, "KVM does not work here; `vperf doctor kvm` says more"),
    ],
)
def test_broken_kvm_is_named_and_not_tried_again_at_once(
    probe: Probe, why: str, shown: str
) -> None:
    probe.no(why)
    assert start.choose_accelerator(XEN, None, probe.said.append) == ("tcg", shown)
    assert start.choose_accelerator(XEN, None, probe.said.append) == ("tcg", shown)
    assert len(probe.said) == 1


def test_broken_kvm_is_tried_again_after_an_hour(probe: Probe, tmp_path: Path) -> None:
    probe.no("no /dev/kvm")
    start.choose_accelerator(XEN, None, probe.said.append)
    [kept] = (tmp_path / "cache/probe").iterdir()
    os.utime(kept, (kept.stat().st_mtime - 3601,) * 2)
    probe.yes()
    assert start.choose_accelerator(XEN, None, probe.said.append) == ("kvm", "")


def test_a_trial_without_its_requirements_means_emulation(probe: Probe) -> None:
    probe.answers.append(CannotStart("no\nbusybox"))
    assert start.choose_accelerator(XEN, None, probe.said.append) == (
        "tcg",
        "KVM could not be tried: no busybox",
    )


@pytest.mark.parametrize("text", ["N\n", "0\n", None])
def test_kvm_host_needs_nested_kvm(probe: Probe, tmp_path: Path, text: str | None) -> None:
    if text is None:
        (tmp_path / "nested").unlink()
    else:
        (tmp_path / "nested").write_text(text)
    assert start.choose_accelerator(KVM, None, probe.said.append) == (
        "tcg",
        "this machine has no KVM that its guests can use in turn (nested)",
    )
