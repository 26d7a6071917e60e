"""The run: one folder that owns everything a process started, so that leftovers can be found.

A run is a folder ``run-ID`` with the sockets, logs and state of everything it started, and a lock that its owner
holds while alive. The kernel releases the lock when the owner dies, however that happens, so a folder whose lock is
free is left over: `pytest_vperf.machine.leftovers` ends what is marked with its ID, and removes it. Every process
started for a run has `Run.environment`; objects in a daemon that is not ours have `Run.labels`, which identify their
run; control groups are named after `Run.cgroup`.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import secrets
import shutil
import socket
import stat
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_vperf.machine.lock import try_lock
from pytest_vperf.machine.ownership import require_own, stranger_above

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


#: The environment variable that marks a process as ours; its value is the run's ID.
MARK = "VPERF_RUN"
#: The variable with the run's folder, whose lock shows whether the run is alive.
MARK_FOLDER = "VPERF_RUN_FOLDER"
#: The container label that holds the run's ID, and the one that names the machine and user it ran on.
LABEL_RUN = "pytest-vperf.run"
LABEL_PLACE = "pytest-vperf.place"
#: The label that holds the run's folder, as `MARK_FOLDER` does for a process.
LABEL_FOLDER = "pytest-vperf.folder"
#: The file in a run's folder that is locked, and that identifies the folder as a run's.
OWNER = "owner"
#: Most bytes that are read of a file that identifies a folder: the words of a command line have at most 128 KiB each
#: (execve(2)).
_LARGEST = 1 << 20
#: The file in a run's folder that lists the libvirt daemons it used, in which leftovers are searched for.
NOTE = "libvirt-uris"
#: The default place for the folder of a user's runs.
DEFAULT_PLACE = Path("/var/tmp")  # nosec B108 # the folder in it is private, and checked


def default_folder() -> Path:
    """Where this user's runs keep their folders unless ``$VPERF_RUNS_DIR`` names another place."""
    return DEFAULT_PLACE / f"vperf-{os.getuid()}"


def runs_folder() -> Path:
    """Where runs keep their folders: ``$VPERF_RUNS_DIR``, or ``/var/tmp/vperf-UID``, which is made private.

    The path is short, because a Unix socket's path may have 107 bytes; it is on disk, because an engine's layers may
    be large; and it survives a reboot, so that leftovers of a crash are found.

    Raises:
        PermissionError: the folder belongs to somebody else, is a link or, if named, is writable for others or in
            another user's folder. They could replace what is executed there, or add what looks like a dead run's.
    """
    named = os.environ.get("VPERF_RUNS_DIR")
    folder = Path(named).absolute() if named else default_folder()
    if named and (stranger := stranger_above(folder)):
        raise PermissionError(
            f"{stranger}, and so who may replace {folder}; set VPERF_RUNS_DIR to a folder of yours"
        )
    if not folder.is_symlink():  # even a dangling one
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if folder.is_symlink():
        raise PermissionError(
            f"{folder} is a link, not a folder; set VPERF_RUNS_DIR to a folder of yours"
        )
    if not named and folder.lstat().st_uid == os.geteuid():
        folder.chmod(0o700)
    require_own(folder, "VPERF_RUNS_DIR", named=bool(named))
    # The kernel's name for it, by which mounts and loop devices are found even if a folder above is a link.
    return folder.resolve()


def place() -> str:
    """This machine and user, as a label value: whether runs of other machines in a shared engine are dead is unknown
    here."""
    try:
        machine = Path("/etc/machine-id").read_text().strip()
    except OSError:
        machine = ""
    return f"{machine or socket.gethostname()}/{os.getuid()}"


@dataclass
class Run:
    """One owner's folder and marks. Made with `Run.begin`, ended with `close`.

    Attributes:
        id: 8 hexadecimal digits.
        folder: private to the user; removed by `close`.
    """

    id: str
    folder: Path
    _lock: int = field(repr=False)

    @classmethod
    def begin(cls) -> Run:
        """Make the folder and take its lock.

        Raises:
            OSError: the folder cannot be made.
        """
        identity = secrets.token_hex(4)
        folder = runs_folder() / f"run-{identity}"
        # The lock is taken before the folder gets its final name, so that it never looks left over.
        draft = folder.with_name(f".{folder.name}")
        try:
            with _beginning(folder.parent):
                draft.mkdir(mode=0o700)
                lock = os.open(draft / OWNER, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
                if not try_lock(lock):
                    raise BlockingIOError(f"{draft / OWNER} is locked by another process")
                owner = {"pid": os.getpid(), "command": sys.argv[:4], "began": time.time()}
                os.write(lock, json.dumps(owner).encode())
                os.fsync(lock)  # the folder is recognised by it, after a power cut too
                draft.rename(folder)
            return cls(identity, folder, lock)
        except BaseException:  # most likely an interrupt: nobody would own the folder
            for each in (draft, folder):
                shutil.rmtree(each, ignore_errors=True)
            raise

    @property
    def environment(self) -> dict[str, str]:
        """The whole environment for a process of this run, its mark included."""
        return {**os.environ, MARK: self.id, MARK_FOLDER: str(self.folder)}

    @property
    def labels(self) -> dict[str, str]:
        """The labels for a container of this run."""
        return {LABEL_RUN: self.id, LABEL_PLACE: place(), LABEL_FOLDER: str(self.folder)}

    @property
    def cgroup(self) -> str:
        """The name of the control group that holds this run's containers."""
        return f"vperf-{self.id}"

    def subfolder(self, prefix: str) -> Path:
        """A new folder inside the run's, with a short name."""
        for number in range(100_000):
            folder = self.folder / f"{prefix}{number}"
            try:
                folder.mkdir(mode=0o700)
            except FileExistsError:
                continue
            return folder
        raise OSError(f"too many folders in {self.folder}")

    def close(self, *, keep: bool = False) -> None:
        """Remove the folder and release the lock. Safe to repeat.

        Args:
            keep: leave the folder, so that the next run finds what could not be removed.
        """
        if self._lock >= 0:
            with contextlib.suppress(OSError):
                if not keep:
                    remove_tree(self.folder)
            os.close(self._lock)
            self._lock = -1

    def __enter__(self) -> Run:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


@contextlib.contextmanager
def _beginning(home: Path) -> Iterator[None]:
    """Within the context, a draft in the folder of the runs is somebody's, although it may not be locked yet."""
    descriptor = os.open(home, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(descriptor, fcntl.LOCK_SH)
        yield
    finally:
        os.close(descriptor)


def nobody_begins(home: Path) -> bool:
    """Whether no process is just making a run's folder, so that each draft is one of a process that was killed.

    Args:
        home: the folder of the runs.

    Raises:
        OSError: its file system does not support locks.
    """
    descriptor = os.open(home, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        return try_lock(descriptor)
    finally:
        os.close(descriptor)


def is_ours(folder: Path) -> bool:
    """Whether we made a folder for a run: decided by the file in it, as ``$VPERF_RUNS_DIR`` may hold other things.

    Raises:
        OSError: the file cannot be read.
    """
    return records(folder / OWNER, {"pid", "command", "began"})


def records(path: Path, wanted: set[str]) -> bool:
    """Whether a file is a regular one of this user, and has a JSON object with these keys.

    Raises:
        OSError: it cannot be read, or is a link.
    """
    file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(file, "rb") as stream:
        status = os.fstat(file)
        if not stat.S_ISREG(status.st_mode) or status.st_uid != os.getuid():
            return False
        try:
            known = json.loads(stream.read(_LARGEST))
        except (ValueError, RecursionError):
            return False
    return isinstance(known, dict) and wanted <= known.keys()


def is_alive(folder: Path) -> bool:
    """Whether a run's owner is alive, which holds its lock."""
    try:
        lock = os.open(folder / OWNER, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        return not try_lock(lock)
    finally:
        os.close(lock)


def remove_tree(folder: Path) -> None:
    """Remove a run's folder; the file that identifies it as a run's goes last, even if something fails.

    Raises:
        OSError: something in it cannot be removed.
    """
    parts = [path for path in folder.iterdir() if path.name != OWNER]
    folders = [path for path in parts if path.is_dir() and not path.is_symlink()]
    for path in folders:
        shutil.rmtree(path, ignore_errors=True)
    for path in parts:
        if path not in folders:
            path.unlink(missing_ok=True)
        elif path.exists():
            shutil.rmtree(path)  # once more, for its error
    shutil.rmtree(folder)


def dead_run(labels: Mapping[str, str]) -> str:
    """The ID of the dead run of this machine and user that labels name; empty if there is none, it is alive, or it is
    not ours.

    Args:
        labels: those of `Run.labels`, and perhaps others.

    Raises:
        PermissionError: the folder of the runs belongs to somebody else.
    """
    run, folder = labels.get(LABEL_RUN, ""), Path(labels.get(LABEL_FOLDER, ""))
    if not run or labels.get(LABEL_PLACE) != place() or folder.parent != runs_folder():
        return ""
    return "" if is_alive(folder) else run
