"""The programs that disks are made and mounted with, and how a machine is told that it cannot have disks."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

from pytest_vperf.machine.preflight import find_program
from pytest_vperf.targets.base import CannotStart, TargetError, Unavailable

_CONTROL = Path("/dev/loop-control")
_MAKE = "mkfs.ext4"
#: Each program with its package.
_PROGRAMS = {"losetup": "mount", "mount": "mount", "umount": "mount", _MAKE: "e2fsprogs"}
#: What root is told in a container, who is not the machine's.
_NOT_ALLOWED = re.compile("permission denied|not permitted", re.IGNORECASE)


def check(*, formatted: bool) -> None:
    """Make sure that disks can be made here, as far as can be seen without doing it.

    Args:
        formatted: with a file system.

    Raises:
        Unavailable: this user may not, the kernel cannot, or a program is missing; says what mends it.
    """
    if os.geteuid() != 0:
        why = "a disk of the run is a loop device, which needs root"
        raise Unavailable(why, remedy="run as root")
    for program, package in _PROGRAMS.items():
        if find_program(program) is None and (formatted or program != _MAKE):
            raise Unavailable(f"{program} is not installed", remedy=f"apt-get install {package}")
    if not _CONTROL.exists():
        raise Unavailable(
            f"this machine has no loop devices: there is no {_CONTROL}",
            remedy="modprobe loop; in a container, run it with --privileged",
        )


def call(*argv: str) -> None:
    """Run a program to its end.

    Raises:
        Unavailable: this user may not do that here.
        CannotStart: it failed; with its words.
        OSError: it cannot be executed.
    """
    # By its path: root's search path may lack /usr/sbin, where `su` was called without "-".
    program = find_program(argv[0]) or argv[0]
    done = subprocess.run(
        [program, *argv[1:]],
        env={**os.environ, "LC_ALL": "C"},  # its words are read
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise refusal(f"{' '.join(argv)} failed: {done.stderr.strip()[-300:]}")


def refusal(why: str) -> TargetError:
    """What a failure is, by its words: this machine cannot have disks, or this one cannot be made."""
    if _NOT_ALLOWED.search(why):
        remedy = "run as the machine's root; in a container, run it with --privileged"
        return Unavailable(why, remedy=remedy)
    return CannotStart(why)
