"""Versions of the measuring tools, and whether libvirt and the Python packages are installed.

A check for something that makes measurements wrong without making them fail: the permissions of ``/dev/kvm``.
"""

from __future__ import annotations

import grp
import pwd
import socket
import stat
from importlib import import_module, metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_vperf.machine.preflight import Readiness, find_program

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


KVM = Path("/dev/kvm")
#: The name under which `check_kvm_device` answers.
KVM_DEVICE = "/dev/kvm permissions"


def check_kvm_device(device: Path = KVM) -> Readiness:
    """Whether libvirt and its QEMU see the same ``/dev/kvm``.

    libvirt probes QEMU as root, finds KVM, then checks the device as the user that its machines run as. If that user
    may not use it, libvirt considers its cached capabilities outdated every time, and each start of a machine takes
    about a minute. Udev's rule (group kvm, mode 0660) prevents this, but only where udev runs.
    """
    if not device.exists():
        return Readiness(KVM_DEVICE, True, f"there is no {device}")
    status = device.stat()
    owner, group = _name(pwd.getpwuid, status.st_uid), _name(grp.getgrgid, status.st_gid)
    mode = stat.S_IMODE(status.st_mode)
    seen = f"{device} is {owner}:{group} {mode:04o}"
    shared = mode & 0o006 == 0o006 or (group == "kvm" and mode & 0o060 == 0o060)
    if shared:
        return Readiness(KVM_DEVICE, True, seen)
    if find_program("libvirtd") is None and find_program("virtqemud") is None:
        return Readiness(KVM_DEVICE, True, f"{seen}; libvirt, which would mind, is not installed")
    make_group = (
        "" if any(entry.gr_name == "kvm" for entry in grp.getgrall()) else "groupadd -r kvm; "
    )
    return Readiness(
        KVM_DEVICE,
        False,
        f"{seen}: libvirt's machines may not use it, and libvirt then probes QEMU again at each start, "
        "which takes a minute",
        f"{make_group}chgrp kvm {device} && chmod 660 {device}",
    )


def _name(look_up: Callable[[int], Sequence[Any]], number: int) -> str:
    try:
        return str(look_up(number)[0])
    except KeyError:
        return str(number)


#: The sockets of libvirt's daemons: the one for everything, and the newer one for QEMU only.
LIBVIRT_SOCKETS = (Path("/run/libvirt/libvirt-sock"), Path("/run/libvirt/virtqemud-sock"))


def check_libvirt() -> list[Readiness]:
    """Whether libvirt's Python module is installed, and its daemon answers."""
    return [_libvirt_python(), _libvirt_daemon()]


def _libvirt_python() -> Readiness:
    name = "libvirt-python"
    try:
        libvirt = import_module("libvirt")
    except ImportError as error:
        return Readiness(
            name,
            False,
            f"it cannot be imported: {error}",
            "apt-get install libvirt-dev pkg-config python3-dev gcc, then "
            "pip install libvirt-python==$(pkg-config --modversion libvirt)",
        )
    number = int(libvirt.getVersion())
    return Readiness(
        name, True, f"libvirt {number // 1_000_000}.{number // 1000 % 1000}.{number % 1000}"
    )


def _libvirt_daemon() -> Readiness:
    name = "libvirt"
    reasons: list[str] = []
    for path in LIBVIRT_SOCKETS:
        try:
            with socket.socket(socket.AF_UNIX) as client:
                client.settimeout(2)
                client.connect(str(path))
        except FileNotFoundError:
            continue
        except OSError as error:
            reasons.append(f"{path}: {error.strerror or error}")
        else:
            return Readiness(name, True, f"{path} answers")
    if find_program("libvirtd") is None and find_program("virtqemud") is None:
        return Readiness(
            name, False, "no libvirt daemon is installed", "apt-get install libvirt-daemon-system"
        )
    remedy = "systemctl start libvirtd, or without systemd: libvirtd -d"
    if any("ermission" in reason for reason in reasons):
        remedy = "usermod -aG libvirt $USER, then log in again"
    why = "; ".join(reasons) or "the daemon is installed, but does not listen: " + " or ".join(
        map(str, LIBVIRT_SOCKETS)
    )
    return Readiness(name, False, why, remedy)


def check_packages() -> Readiness:
    """Whether the Python packages that the plugin needs are installed, and in which versions."""
    from packaging.requirements import Requirement

    name = "python packages"
    present: list[str] = []
    wanting: list[str] = []
    for line in metadata.requires("pytest-vperf") or ():
        needed = Requirement(line)
        if needed.marker is not None and not needed.marker.evaluate({"extra": ""}):
            continue
        try:
            version = metadata.version(needed.name)
        except metadata.PackageNotFoundError:
            wanting.append(f"{needed.name} is not installed")
            continue
        if needed.specifier.contains(version, prereleases=True):
            present.append(f"{needed.name} {version}")
        else:
            wanting.append(f"{needed.name} {version} is not {needed.specifier}")
    if wanting:
        return Readiness(
            name, False, "; ".join(wanting), "pip install --upgrade --force-reinstall pytest-vperf"
        )
    return Readiness(name, True, ", ".join(present))
