"""Restoring kernel settings, even if the process that changed them was killed.

This file is both a module of the package and a standalone program: `pytest_vperf.machine.tuning` starts it as the
*guardian*, with the standard library alone, so that it starts quickly and depends on nothing else.
The guardian reads its standard input, a pipe that the tuning process holds and never writes to. The kernel closes the
pipe when its holder ends, however that happens; then the guardian restores the journal's settings, if the journal
still exists.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import stat
import sys
import time
from pathlib import Path
from typing import Any

#: The files a journal may name. It is private to its owner, so this is a second line of defence.
RESTORABLE = re.compile(
    r"sys/devices/system/cpu/(?:"
    r"cpufreq/policy\d+/(?:scaling_governor|energy_performance_preference|scaling_m(?:in|ax)_freq)"
    r"|intel_pstate/no_turbo|cpufreq/boost|smt/control|cpu\d+/online)"
    r"|sys/kernel/mm/transparent_hugepage/(?:enabled|defrag)"
    r"|proc/sys/(?:kernel/(?:randomize_va_space|numa_balancing)|vm/swappiness)",
    re.ASCII,
)
_LONGEST = 4096
# Seconds within which a written value must be read back.
_SETTLED = 1.0


class JournalError(Exception):
    """A journal that cannot be used; the message says which, and why."""


def state(text: str) -> str:
    """The value in a setting's file: the word in brackets if it lists choices, otherwise its stripped text."""
    marked = re.search(r"\[([^\[\]\s]+)\]", text)
    return marked[1] if marked else text.strip()


def read(path: Path) -> str:
    """A setting's file, as it is.

    Raises:
        OSError: it cannot be read, or is not text.
    """
    with path.open("rb", buffering=0) as stream:
        data = stream.read(_LONGEST)
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise OSError(0, "it holds no text", str(path)) from None


def write(path: Path, word: str) -> None:
    """Write a setting's file as ``echo`` does, in one write, and read it back to see whether it was accepted.

    Raises:
        OSError: it cannot be written, or has another value afterwards.
    """
    # A missing file must not be created.
    descriptor = os.open(path, os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC)
    try:
        os.write(descriptor, f"{word}\n".encode())
    finally:
        os.close(descriptor)
    deadline = time.monotonic() + _SETTLED
    # The kernel updates some limits of the clock rate a little later.
    while (now := state(read(path))) != word and time.monotonic() < deadline:
        time.sleep(0.01)
    if now != word:
        raise OSError(0, f"{word!r} was written, but it reads {now!r}", str(path))


def restore(root: Path, entries: list[dict[str, str]]) -> list[str]:
    """Restore the files of a journal, the last first; return a line for each that failed.

    Args:
        root: where ``sys`` and ``proc`` are.
        entries: for each file its ``path`` below the root, and ``before``, its earlier content.
    """
    errors = []
    for entry in reversed(entries):
        path = root / entry["path"]
        wanted = state(entry["before"])
        try:
            if state(read(path)) != wanted:
                write(path, wanted)
        except OSError as error:
            errors.append(f"{path} could not be set back to {wanted!r}: {error.strerror or error}")
    return errors


def load(journal: Path) -> dict[str, Any]:
    """Read and check a journal.

    Raises:
        FileNotFoundError: there is none.
        JournalError: it is damaged, names something other than a setting, or is not private to this user.
        OSError: it cannot be read.
    """
    descriptor = os.open(journal, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    with os.fdopen(descriptor, "rb") as stream:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid():
            raise JournalError(f"{journal} is not a file of this user")
        if stat.S_IMODE(status.st_mode) & 0o077:
            raise JournalError(f"{journal} is open to other users")
        data = stream.read()
    try:
        document = json.loads(data)
        root, entries = document["root"], document["entries"]
        texts = [
            document["boot"],
            root,
            *(entry[key] for entry in entries for key in ("path", "before")),
        ]
        sound = all(isinstance(text, str) for text in texts) and isinstance(document["pid"], int)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        sound = False
    if not sound:
        raise JournalError(f"{journal} is damaged")
    for entry in entries:
        if not RESTORABLE.fullmatch(entry["path"]):
            raise JournalError(
                f"{journal} names {entry['path']!r}, which is not one of our settings"
            )
        if not re.fullmatch(r"[ -~]{1,100}", state(entry["before"])):
            raise JournalError(f"{journal} holds no value of {entry['path']}")
    return dict(document)


def boot_id(root: Path) -> str:
    """The ID of the machine's current boot; empty if the kernel does not show it."""
    try:
        return read(root / "proc/sys/kernel/random/boot_id").strip()
    except OSError:
        return ""


def guard(journal: Path) -> int:
    """Wait for the end of the process that holds our standard input, then restore what it left changed."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGTSTP):
        signal.signal(number, signal.SIG_IGN)
    os.chdir("/")
    os.write(1, b"ready\n")
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    while os.read(0, 64):
        pass
    try:
        document = load(journal)
        errors = restore(Path(document["root"]), document["entries"])
        if not errors:
            journal.unlink()
    except FileNotFoundError:
        return 0  # that process has restored it
    except (OSError, JournalError) as error:
        errors = [str(error)]
    lines = errors or ["it was killed; the settings are as they were"]
    with contextlib.suppress(OSError):  # the terminal may be gone too
        os.write(2, "".join(f"vperf doctor --tune: {line}\n" for line in lines).encode())
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(guard(Path(sys.argv[1])))
