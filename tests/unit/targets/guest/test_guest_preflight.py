"""The doctor's answers about guests that need no start."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from pytest_vperf.commands import doctor
from pytest_vperf.machine import checks
from pytest_vperf.machine import preflight as machine_preflight
from pytest_vperf.machine.preflight import Readiness
from pytest_vperf.targets.base import CannotStart
from pytest_vperf.targets.guest import probe
from pytest_vperf.targets.kernel import guest_kernel
from pytest_vperf.targets.libvirt import connect, connection

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Leaves the user's runs and locks alone, and fetches no kernel."""
    monkeypatch.setenv("VPERF_RUNS_DIR", str(tmp_path / "runs"))
    monkeypatch.setenv("VPERF_LOCK", str(tmp_path / "lock"))
    monkeypatch.setattr(guest_kernel, "distribution_kernel", lambda: None)


def test_the_doctor_knows_the_names_of_guests() -> None:
    known = [name for check in doctor.all_checks(None, ()) for name in check.names]
    assert set(probe.NAMES) <= set(known)
    assert doctor.GUEST_NAMES == probe.NAMES
    assert doctor.full_names("guest", known, ["runc"]) == ["guest"]
    assert doctor.full_names("kvm", known, ["runc"]) == ["accelerator kvm"]


def test_without_libvirt_python_nothing_is_usable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "libvirt", None)
    answers = probe.check()
    assert [answer.name for answer in answers] == list(probe.NAMES)
    for answer in answers:
        assert not answer.usable
        assert answer.why.startswith("libvirt-python is not usable: ")
        assert answer.remedy == connection.REMEDY


def test_a_missing_libvirtd_is_named_with_its_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("libvirt")
    monkeypatch.setattr(machine_preflight, "_ADMINISTRATOR", "")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(connect, "_SOCKETS", (tmp_path / "none",))
    monkeypatch.setattr("os.geteuid", lambda: 0)
    assert probe.check()[0] == Readiness(
        "guest",
        False,
        "libvirtd is not installed",
        "apt-get install libvirt-daemon-system, as root",
    )


def answer_of(monkeypatch: pytest.MonkeyPatch, details: dict[str, str], *usable: bool) -> Readiness:
    """The doctor's answer for a daemon with these details, whose machines may or may not use /dev/kvm."""
    monkeypatch.setattr(probe, "needs", lambda: Readiness("guest", True, ""))
    trap = Readiness("/dev/kvm permissions", False, "root:root 0600", "chgrp kvm /dev/kvm")
    monkeypatch.setattr(checks, "check_kvm_device", lambda: trap)
    daemon: Any = SimpleNamespace(details={"libvirt": "9", "hypervisor": "QEMU 7", **details})
    kernel: Any = SimpleNamespace(release="6.1")
    names = (probe.KVM, probe.TCG)
    tried = [Readiness(name, each, "") for name, each in zip(names, usable, strict=True)]
    return probe._guest(daemon, kernel, tried)


def test_a_daemon_whose_machines_may_not_use_kvm_starts_slowly(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert answer_of(monkeypatch, {"libvirt_uri": "qemu:///system"}, False, True) == Readiness(
        "guest",
        True,
        "libvirt 9 at qemu:///system, QEMU 7, guest kernel 6.1, accelerators: tcg; root:root 0600",
        "chgrp kvm /dev/kvm",
    )


def test_the_runs_own_daemon_starts_machines_quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    details = {"libvirt_uri": "qemu:///system", "libvirt_daemon": "of the run"}
    assert answer_of(monkeypatch, details, True, True) == Readiness(
        "guest",
        True,
        "libvirt 9 of the run's own, QEMU 7, guest kernel 6.1, accelerators: kvm, tcg",
    )
    assert not answer_of(monkeypatch, details, False, False).usable


def test_a_missing_qemu_is_named_with_its_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("libvirt")
    monkeypatch.setattr(machine_preflight, "_ADMINISTRATOR", "")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert probe.needs() == Readiness(
        "guest",
        False,
        "qemu-system-x86_64 is not installed",
        "apt-get install qemu-system-x86",
    )


def test_a_missing_kernel_file_is_not_usable(tmp_path: Path) -> None:
    with pytest.raises(CannotStart):
        guest_kernel.from_file(tmp_path / "none")
    answer = probe.check(tmp_path / "none")[0]
    assert (answer.usable, answer.why) == (
        False,
        f"guest kernel {tmp_path / 'none'}: No such file or directory",
    )
