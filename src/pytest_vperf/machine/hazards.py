"""What makes measurements go wrong without making them fail."""

from __future__ import annotations

import grp
import pwd
import stat
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

    libvirt asks QEMU what it can do as root, finds KVM, then looks at the device as the user that its
    machines run as. Where that one may not use it, libvirt takes its notes for outdated on every look,
    and each start of a machine takes about a minute. Udev's rule (group kvm, mode 0660) prevents it; where
    no udev runs, nobody has applied the rule.
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
