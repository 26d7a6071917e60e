"""Loop devices: attached to a file, found by it, and detached (loop(4), losetup(8))."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from pytest_vperf.machine.preflight import find_program

_SYSTEM = Path("/sys/block")


def attach(file: Path) -> str:
    """Attach the next free loop device to a file, with direct I/O where the file system below can.

    Returns:
        The device's path.

    Raises:
        OSError: there is none, or this user may not; in losetup's words.
    """
    for options in (["--direct-io=on"], []):
        done = _losetup("--find", "--show", *options, str(file))
        # Without direct I/O below, some versions refuse the device; others attach it first, name it, and then fail.
        device = done.stdout.strip()
        if device:
            return device.splitlines()[-1]
    raise OSError(done.stderr.strip() or f"losetup ended with status {done.returncode}")


def detach(device: str) -> str:
    """Take a device away; the system's words if that fails, else nothing. One in use goes when it is let go of."""
    done = _losetup("--detach", device)
    return done.stderr.strip() if done.returncode else ""


def direct(device: str) -> bool:
    """Whether a device really does direct I/O."""
    return _attribute(device, "dio") == "1"


def backing(device: str) -> str:
    """The file of a device; empty where it has none."""
    return _attribute(device, "backing_file")


def below(folder: Path) -> list[str]:
    """The devices whose files are, or were, below a folder."""
    found = []
    for place in sorted(_SYSTEM.glob("loop*/loop/backing_file")):
        device = f"/dev/{place.parent.parent.name}"
        # The kernel says so where the file is gone.
        file = backing(device).removesuffix(" (deleted)")
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
        env={**os.environ, "LC_ALL": "C"},  # its words are read
        capture_output=True,
        text=True,
        check=False,
    )
