"""Mounts below a folder, found and unmounted, and loop devices: attached, found, detached (loop(4), losetup(8))."""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_vperf.machine.preflight import find_program
from pytest_vperf.machine.procfile import text

if TYPE_CHECKING:
    from pytest_vperf.machine.procfile import Read


_SYSTEM = Path("/sys/block")


def attach_loop(file: Path) -> str:
    """Attach the next free loop device to a file, with direct I/O if the file system supports it.

    Returns:
        The device's path.

    Raises:
        OSError: there is none, or this user may not; the message is losetup's.
    """
    for options in (["--direct-io=on"], []):
        done = _losetup("--find", "--show", *options, str(file))
        # Without direct I/O below, some versions refuse the device; others attach it first, name it, and then fail.
        device = done.stdout.strip()
        if device:
            return device.splitlines()[-1]
    raise OSError(done.stderr.strip() or f"losetup ended with status {done.returncode}")


def detach_loop(device: str) -> str:
    """Detach a device; return the system's error, otherwise empty. A device in use is detached once it is
    released."""
    done = _losetup("--detach", device)
    return done.stderr.strip() if done.returncode else ""


def direct_loop(device: str) -> bool:
    """Whether a device really uses direct I/O."""
    return _attribute(device, "dio") == "1"


def loop_backing(device: str) -> str:
    """The backing file of a device; empty if it has none."""
    return _attribute(device, "backing_file")


def loops_below(folder: Path) -> list[str]:
    """The devices whose files are, or were, below a folder."""
    found = []
    for place in sorted(_SYSTEM.glob("loop*/loop/backing_file")):
        device = f"/dev/{place.parent.parent.name}"
        # The kernel appends this if the file is gone.
        file = loop_backing(device).removesuffix(" (deleted)")
        if file and Path(file).is_relative_to(folder):
            found.append(device)
    return found


def _attribute(device: str, name: str) -> str:
    try:
        return (_SYSTEM / Path(device).name / "loop" / name).read_text().strip()
    except OSError:
        return ""


def _losetup(*arguments: str) -> subprocess.CompletedProcess[str]:
    program = find_program("losetup") or "losetup"
    return subprocess.run(
        [program, *arguments],
        env={**os.environ, "LC_ALL": "C"},  # its messages are parsed
        capture_output=True,
        text=True,
        check=False,
    )


@dataclass(frozen=True)
class Mount:
    """One line of this process's mount table (proc(5), ``/proc/PID/mountinfo``).

    Attributes:
        point: where it is mounted.
        root: which folder of the file system is seen there.
        kind: the type of file system, e.g. ``cgroup2``.
        options: the file system's own options, e.g. the controllers of a ``cgroup``.
    """

    point: Path
    root: str
    kind: str
    options: tuple[str, ...]


def parse(line: str) -> Mount:
    """Read one line of a mountinfo file."""
    before, _, after = line.rstrip("\n").partition(" - ")
    fields, (kind, _, options) = before.split(" "), after.split(" ", 2)
    return Mount(Path(_unescape(fields[4])), _unescape(fields[3]), kind, tuple(options.split(",")))


def _unescape(text: str) -> str:
    """The kernel writes space, tab, newline and backslash as three octal digits."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), text)


def mounts(read: Read = text) -> list[Mount]:
    """All mounts visible to the reading process, in the order they were made.

    Args:
        read: reads the machine's files.
    """
    return [parse(line) for line in read(Path("/proc/self/mountinfo")).splitlines()]


def below(folder: Path) -> list[Path]:
    """The mount points at or below a folder, in the order to unmount them."""
    return [mount.point for mount in reversed(mounts()) if mount.point.is_relative_to(folder)]


def unmount(point: Path) -> str:
    """Detach a mount; return the system's error, otherwise empty.

    Detached lazily: an open file must not keep the rest from being removed.
    """
    program = find_program("umount") or "umount"
    done = subprocess.run(
        [program, "--lazy", str(point)], capture_output=True, text=True, check=False
    )
    return done.stderr.strip() if done.returncode else ""
