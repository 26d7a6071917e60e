"""The confinement of a pod's QEMU: a guest that takes over its QEMU gains a process that can do next to nothing.

A pod's image may come from a stranger, and root may start its QEMU. So, on this machine and on one reached by SSH:

- QEMU blocks the system calls that it does not need (seccomp), for any user. If it was built without seccomp, the
record says so.
- Started by root, it drops root before it is executed: each has its own user ID, no supplementary group except that
of ``/dev/kvm``, no capability, and no way to gain any (no_new_privs). Pods cannot signal or trace one another.
- It then gets its files and devices as descriptors opened beforehand, so that no folder needs to be readable by
others. It inherits no other descriptor.
- Of the environment it only gets what is needed to find and load programs: no tokens of the user's session.
- It leaves no core dump, which would contain the guest's memory, and cannot write large files, such as a huge log.
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

#: QEMU's option ``-sandbox`` (qemu(1)): no obsolete system calls, no change of user, no other program, no change of
#: priorities and affinities; as libvirt sets it.
FILTER = "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny"
#: QEMU's descriptor set (``-add-fd``) for the image; the next ones are for disks.
_IMAGE_SET = 1
#: QEMU may write files of at most 64 MiB, given in blocks of 512 bytes (sh(1p), "ulimit"). Disks are devices.
LIMITS = 'ulimit -c 0; ulimit -f 131072; exec "$@"'
KVM = Path("/dev/kvm")
#: Prefixes of the variables that it keeps: those of the loader, C library and QEMU, and ours, which mark the process
#: as a run's.
_KEPT = ("PATH", "LANG", "LC_", "LD_", "GLIBC_", "MALLOC_", "QEMU_", "TMPDIR", "VPERF_")


@functools.lru_cache(maxsize=4)
def has_filter(qemu: str) -> bool:
    """Whether a QEMU supports `FILTER`: not if it was built without seccomp, or is older than 2.11."""
    done = subprocess.run(
        [qemu, "-sandbox", FILTER, "--version"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
        timeout=60,
    )
    return done.returncode == 0


def environment(whole: Mapping[str, str]) -> dict[str, str]:
    """The part of an environment that QEMU is given."""
    return {name: value for name, value in whole.items() if name.startswith(_KEPT)}


def described(filtered: bool, own_user: bool) -> str:
    """The confinement in words, for the record of a pod.

    Args:
        filtered: whether QEMU's system calls are filtered.
        own_user: whether it has a user ID of its own.
    """
    calls = "seccomp" if filtered else "QEMU has no seccomp filter"
    return f"{calls}, a user of its own" if own_user else calls


def drops_root(user: str | int, groups: Sequence[int] = ()) -> list[str]:
    """The options of setpriv(1) that let root run a command as another user, irreversibly and without capabilities.

    The kernel drops all capabilities with the change of user (capabilities(7)), and no_new_privs keeps files from
    granting any again, so the bounding set can be left alone.
    """
    return [f"--reuid={user}", f"--regid={user}", in_groups(groups), "--no-new-privs", "--"]


def in_groups(groups: Sequence[int]) -> str:
    """The option of setpriv(1) for exactly these supplementary groups."""
    return f"--groups={','.join(map(str, groups))}" if groups else "--clear-groups"


def groups_for(mode: int, group: int) -> tuple[int, ...] | None:
    """The groups that an unnamed user needs to use a device; ``None`` if only root may.

    Args:
        mode: the device's.
        group: the device's.
    """
    if mode & 0o006 == 0o006:
        return ()
    return (group,) if mode & 0o060 == 0o060 and group else None


def kvm_groups() -> tuple[int, ...] | None:
    """The groups that an unnamed user needs to use ``/dev/kvm``; ``None`` if only root may."""
    status = KVM.stat()
    return groups_for(status.st_mode, status.st_gid)


@dataclass(frozen=True)
class Sandbox:
    """How one QEMU is confined. Made by `confine`.

    Attributes:
        config: the machine's, with its files as QEMU opens them.
        options: further command-line options for QEMU.
        descriptors: inherited by QEMU; `close` closes our copies.
        user: its user ID; ``None`` for that of this process.
        before: the command that precedes QEMU's.
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
        """Close our copies of the descriptors once QEMU has inherited them, or did not start. Not to be repeated."""
        for descriptor in self.descriptors:
            os.close(descriptor)


def confine(qemu: str, config: MachineConfig) -> Sandbox:
    """Prepare the confinement of a QEMU on this machine, and open its files.

    Args:
        qemu: the program.
        config: the machine.

    Raises:
        Unavailable: as root, ``setpriv`` is missing, or only root may use KVM.
        CannotStart: as root, no user ID is free.
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
    """The error if root cannot drop its privileges."""
    return Unavailable(
        "setpriv is not installed, which QEMU needs to drop root",
        remedy="apt-get install util-linux",
    )


def root_alone() -> tuple[str, str]:
    """Why KVM is unavailable if only root may use it, with the remedy."""
    return (
        f"{KVM} is for root alone, and a pod's QEMU is not root",
        f"chgrp kvm {KVM} && chmod 660 {KVM}, as udev does",
    )


class _Opened:
    """Files opened for a QEMU that may not open them itself."""

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
        """A file that QEMU uses through the descriptor it was given, without reopening it."""
        self.options += ["-add-fd", f"fd={self._open(path, flags)},set={number}"]
        return PurePath(f"/dev/fdset/{number}")

    def _by_number(self, path: PurePath) -> PurePath:
        """A file that QEMU reopens by its descriptor, past the folders; one that others cannot read is copied."""
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
