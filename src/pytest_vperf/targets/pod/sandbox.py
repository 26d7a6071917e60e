"""What a pod's QEMU is kept from: a guest that takes over its QEMU has got a process that can do next to nothing.

A pod boots an image that may be a stranger's, and root starts QEMU. So, on this machine and on one reached by SSH:

- QEMU refuses itself the system calls that it does not need (seccomp), for any user. One that was built without
  that goes without, and the record says so.
- Root's QEMU gives up being root before it is executed: each has a user ID of its own, no supplementary group but
  that of ``/dev/kvm``, no capability, and no way to gain any (no_new_privs). Pods cannot signal or trace one another.
- It opens nothing by a path that its user could not open: files and devices are opened before and handed over as
  descriptors, so that no folder has to be opened to others. It inherits no other descriptor.
- It has of the environment what programs are found and loaded by: no token that the session was given.
- It leaves no core dump, which would have the guest's memory, and writes no large file (its log is one).
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import itertools
import os
import shutil
import stat
import subprocess
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

from pytest_vperf.machine import ownership
from pytest_vperf.machine.preflight import find_program
from pytest_vperf.targets.base import CannotStart, Unavailable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pytest_vperf.targets.pod.config import MachineConfig

#: QEMU's option ``-sandbox`` (qemu(1)): no obsolete calls, no change of user, no other program, no change of
#: priorities and affinities. libvirt gives its machines the same.
FILTER = "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny"
#: The descriptor sets of QEMU (``-add-fd``) for the image, and from there on for disks.
_IMAGE_SET = 1
#: Blocks of 512 bytes that a file may have which QEMU writes (sh(1p), "ulimit"): 64 MiB. Disks are devices.
LIMITS = 'ulimit -c 0; ulimit -f 131072; exec "$@"'
KVM = Path("/dev/kvm")
#: The variables that it keeps, by the beginning of their names: of the loader, C library, QEMU, and ours, by which
#: the process is known as a run's.
_KEPT = ("PATH", "LANG", "LC_", "LD_", "GLIBC_", "MALLOC_", "QEMU_", "TMPDIR", "VPERF_")


@functools.lru_cache(maxsize=4)
def has_filter(qemu: str) -> bool:
    """Whether a QEMU takes `FILTER`: not if it was built without seccomp, or is older than 2.11."""
    done = subprocess.run(
        [qemu, "-sandbox", FILTER, "--version"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
        timeout=60,
    )
    return done.returncode == 0


def environment(whole: Mapping[str, str]) -> dict[str, str]:
    """What a QEMU is given of an environment."""
    return {name: value for name, value in whole.items() if name.startswith(_KEPT)}


def described(filtered: bool, own_user: bool) -> str:
    """For the record of a pod.

    Args:
        filtered: its QEMU has its system calls filtered.
        own_user: and a user ID of its own.
    """
    calls = "seccomp" if filtered else "QEMU has no seccomp filter"
    return f"{calls}, a user of its own" if own_user else calls


def drops_root(user: str | int, groups: Sequence[int] = ()) -> list[str]:
    """The options of setpriv(1) by which a command of root's is another user's, without capabilities and for good.

    The kernel takes all capabilities with the change of user (capabilities(7)), and no_new_privs keeps any file from
    giving some back, so the bounding set need not be touched.
    """
    return [f"--reuid={user}", f"--regid={user}", in_groups(groups), "--no-new-privs", "--"]


def in_groups(groups: Sequence[int]) -> str:
    """The option of setpriv(1) for supplementary groups, and no others."""
    return f"--groups={','.join(map(str, groups))}" if groups else "--clear-groups"


def groups_for(mode: int, group: int) -> tuple[int, ...] | None:
    """The groups by which a user of no name may use a device; ``None``: only root may.

    Args:
        mode: the device's.
        group: that it belongs to.
    """
    if mode & 0o006 == 0o006:
        return ()
    return (group,) if mode & 0o060 == 0o060 and group else None


def kvm_groups() -> tuple[int, ...] | None:
    """The groups by which a user of no name may use ``/dev/kvm``; ``None``: only root may."""
    status = KVM.stat()
    return groups_for(status.st_mode, status.st_gid)


@dataclass(frozen=True)
class Sandbox:
    """How one QEMU is confined. Made by `confine`.

    Attributes:
        config: the machine, its files named as QEMU opens them.
        options: further ones of QEMU's.
        descriptors: that QEMU inherits; `close` closes this process's.
        user: its user ID; ``None``: that of this process.
        before: the words before QEMU's.
    """

    config: MachineConfig
    options: tuple[str, ...] = ()
    descriptors: tuple[int, ...] = ()
    user: int | None = None
    before: tuple[str, ...] = ()

    def command(self, argv: Sequence[str]) -> list[str]:
        """QEMU's command line, confined."""
        return [*self.before, *argv, *self.options]

    def close(self) -> None:
        """QEMU has inherited the descriptors, or was not started. Only once."""
        for descriptor in self.descriptors:
            os.close(descriptor)


def confine(qemu: str, config: MachineConfig) -> Sandbox:
    """Prepare what a QEMU of this machine is confined by, and open its files.

    Args:
        qemu: the program.
        config: the machine.

    Raises:
        Unavailable: root, and there is no ``setpriv``, or KVM is for root alone.
        CannotStart: root, and no user ID is free.
        OSError: a file cannot be opened.
    """
    options = ("-sandbox", FILTER) if has_filter(qemu) else ()
    limited = ("/bin/sh", "-c", LIMITS, "sh")
    if os.geteuid() != 0:
        return Sandbox(config, options, before=limited)
    setpriv = find_program("setpriv")
    if setpriv is None:
        raise no_setpriv()
    groups = kvm_groups() if config.accelerator == "kvm" else ()
    if groups is None:
        why, remedy = root_alone()
        raise Unavailable(why, remedy=remedy)
    try:
        user = ownership.free()
    except OSError as error:
        raise CannotStart(f"there is no user for QEMU: {error.strerror}") from None
    with contextlib.ExitStack() as undo:
        opened = _Opened()
        undo.callback(opened.close)
        there = opened.machine(config)
        undo.pop_all()
    return Sandbox(
        there,
        (*options, *opened.options),
        tuple(opened.descriptors),
        user,
        (*limited, setpriv, *drops_root(user, groups)),
    )


def no_setpriv() -> Unavailable:
    """The error where root cannot give up being root."""
    return Unavailable(
        "setpriv is not installed, by which QEMU gives up being root",
        remedy="apt-get install util-linux",
    )


def root_alone() -> tuple[str, str]:
    """Why KVM cannot be used where only root may, with the remedy."""
    return (
        f"{KVM} is for root alone, and a pod's QEMU is not root",
        f"chgrp kvm {KVM} && chmod 660 {KVM}, as udev does",
    )


class _Opened:
    """Files that are opened for a QEMU that could not open them itself."""

    def __init__(self) -> None:
        self.descriptors: list[int] = []
        self.options: list[str] = []

    def machine(self, config: MachineConfig) -> MachineConfig:
        sets = itertools.count(_IMAGE_SET)
        image = None if config.disk is None else self._in_set(config.disk, next(sets), os.O_RDONLY)
        disks = tuple(
            (serial, str(self._in_set(device, next(sets), os.O_RDWR)))
            for serial, device in config.disks
        )
        return dataclasses.replace(
            config,
            firmware=self._by_number(config.firmware),
            kernel=self._by_number(config.kernel),
            initramfs=self._by_number(config.initramfs),
            disk=image,
            disks=disks,
        )

    def close(self) -> None:
        for descriptor in self.descriptors:
            os.close(descriptor)

    def _open(self, path: PurePath | str, flags: int) -> int:
        descriptor = os.open(path, flags | os.O_CLOEXEC)
        self.descriptors.append(descriptor)
        return descriptor

    def _in_set(self, path: PurePath | str, number: int, flags: int) -> PurePath:
        """A file that QEMU finds as a descriptor it has been given: nothing of it is opened again."""
        self.options += ["-add-fd", f"fd={self._open(path, flags)},set={number}"]
        return PurePath(f"/dev/fdset/{number}")

    def _by_number(self, path: PurePath) -> PurePath:
        """A file that QEMU opens again, by the descriptor: past the folders, and as far as its own mode lets it."""
        descriptor = self._open(path, os.O_RDONLY)
        if not os.fstat(descriptor).st_mode & stat.S_IROTH:
            copy = os.memfd_create(path.name, os.MFD_CLOEXEC)
            self.descriptors.append(copy)
            with (
                open(descriptor, "rb", closefd=False) as source,
                open(copy, "wb", closefd=False) as kept,
            ):
                shutil.copyfileobj(source, kept)
            os.fchmod(copy, 0o444)
            descriptor = copy
        return PurePath(f"/proc/self/fd/{descriptor}")
