"""The permissions of /dev/kvm, on files in its place."""

import grp
import os
from pathlib import Path

import pytest

from pytest_vperf.machine.checks import KVM_DEVICE, check_kvm_device
from pytest_vperf.machine.preflight import Readiness


@pytest.fixture
def device(tmp_path: Path) -> Path:
    path = tmp_path / "kvm"
    path.touch()
    return path


@pytest.fixture
def libvirt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "bin"
    folder.mkdir()
    folder.joinpath("libvirtd").write_text("#!/bin/sh\n")
    folder.joinpath("libvirtd").chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)


def _owner(path: Path) -> str:
    return f"{path.owner()}:{path.group()}"


@pytest.mark.usefixtures("libvirt")
def test_a_device_for_its_owner_alone_is_a_hazard_with_libvirt(device: Path) -> None:
    device.chmod(0o600)
    answer = check_kvm_device(device)
    assert not answer.usable
    assert answer.why == (
        f"{device} is {_owner(device)} 0600: libvirt's machines may not use it, and libvirt then "
        "probes QEMU again at each start, which takes a minute"
    )
    assert answer.remedy.removeprefix("groupadd -r kvm; ") == (
        f"chgrp kvm {device} && chmod 660 {device}"
    )


@pytest.mark.usefixtures("libvirt")
def test_a_device_for_everybody_is_no_hazard(device: Path) -> None:
    device.chmod(0o666)
    answer = check_kvm_device(device)
    assert answer == Readiness(KVM_DEVICE, True, f"{device} is {_owner(device)} 0666")


@pytest.mark.usefixtures("libvirt")
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another group")
def test_a_device_for_the_group_kvm_is_no_hazard(device: Path) -> None:
    try:
        group = grp.getgrnam("kvm").gr_gid
    except KeyError:
        pytest.skip("there is no group kvm")
    os.chown(device, -1, group)
    device.chmod(0o660)
    assert check_kvm_device(device).usable


def test_a_missing_device_is_no_hazard(tmp_path: Path) -> None:
    missing = tmp_path / "kvm"
    answer = check_kvm_device(missing)
    assert answer == Readiness(KVM_DEVICE, True, f"there is no {missing}")
