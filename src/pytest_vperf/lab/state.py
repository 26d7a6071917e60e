"""The folder of a running host: its keys, sockets and logs, and one file that describes it.

The user's own lab, which stays up, has the folder ``lab-KIND`` beside the folders of the runs. A lab of a run has one
inside the run's, and goes with it.

A host of a lab that is up: how it is reached, and what it is.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import struct
import time
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import quote

import psutil

from pytest_vperf.lab import keys
from pytest_vperf.lab.command_line import QMP
from pytest_vperf.lab.kinds import KINDS
from pytest_vperf.machine import processes as marks
from pytest_vperf.machine.runs import records, runs_folder
from pytest_vperf.targets.base import CannotStart
from pytest_vperf.targets.pod.qmp import Qmp, QmpError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path


@dataclass(frozen=True)
class LabHost:
    """A host of a lab that is up.

    Attributes:
        kind: ``kvm`` or ``xen``.
        uri: for libvirt, complete; the host's key is checked.
        ssh_url: ``ssh://root@127.0.0.1:PORT``.
        ssh_config: for ``ssh -F``: which key to use, and which host key is right.
        accelerator: of the host itself: ``kvm``, or ``tcg`` where it is emulated.
        details: what it is, for records; ``emulated`` is ``yes`` or ``no``.
    """

    kind: str
    uri: str
    ssh_url: str
    ssh_config: Path
    accelerator: str
    details: Mapping[str, str]


#: The variable in the environment of a host's QEMU that names the folder.
MARK = "VPERF_LAB"
#: Made with the folder, which without it is somebody else's, and written anew when the host is up.
_FILE = "state.json"
#: Seconds that QEMU may take to answer on its control socket, on a busy machine.
_ANSWER = 10.0


@dataclass(frozen=True)
class State:
    """What is known of a host that is up.

    Attributes:
        kind: of host.
        pid: of its QEMU.
        port: of 127.0.0.1, led to its SSH server.
        since: when it was up, in seconds since 1970.
        accelerator: ``kvm`` or ``tcg``.
        details: for records.
    """

    kind: str
    pid: int
    port: int
    since: float
    accelerator: str
    details: Mapping[str, str] = field(default_factory=dict)

    def host(self, folder: Path) -> LabHost:
        """The host, as others use it."""
        return LabHost(
            self.kind,
            libvirt_uri(KINDS[self.kind].scheme, self.port, folder),
            f"ssh://root@127.0.0.1:{self.port}",
            folder / keys.CONFIG,
            self.accelerator,
            self.details,
        )


def libvirt_uri(scheme: str, port: int, folder: Path) -> str:
    """The URI of a host's libvirt, through our own call of ssh, which checks the host's key.

    Source: https://libvirt.org/uri.html, SSH transport, ``command``; ``known_hosts`` is for other transports.
    """
    wrapper = quote(str(folder / keys.WRAPPER), safe="/")
    return f"{scheme}+ssh://root@127.0.0.1:{port}/system?command={wrapper}"


def user_folder(kind: str) -> Path:
    """The folder of the user's own lab of a kind, there or not."""
    return runs_folder() / f"lab-{kind}"


def user_folders() -> Iterator[Path]:
    """The folders of the user's labs that are there, of kinds that this version does not know too."""
    for folder in sorted(runs_folder().glob("lab-*")):
        if is_ours(folder):
            yield folder


def is_ours(folder: Path) -> bool:
    """Whether we made a folder for a host: decided by the file in it, not its name, because ``$VPERF_RUNS_DIR`` may
    hold other things.
    """
    try:
        return not folder.is_symlink() and records(folder / _FILE, {"kind", "pid", "since"})
    except OSError:
        return False


def begin(folder: Path, kind: str) -> None:
    """Make the folder of a host about to be started.

    Raises:
        CannotStart: something is in its place.
    """
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        folder.rmdir()
        folder.mkdir(mode=0o700)
    except OSError as error:
        raise CannotStart(
            f"{folder} is in the way of lab {kind}, and is not ours: move it elsewhere, or have VPERF_RUNS_DIR name"
            f" another folder ({error.strerror})"
        ) from None
    write(folder, State(kind, 0, 0, time.time(), ""))


def lock_file(folder: Path) -> Path:
    """The file that a process holds locked while it starts the user's lab of this folder."""
    return folder.with_name(f"{folder.name}.lock")


def being_started(folder: Path) -> bool:
    """Whether a process, this one or another, is starting the user's lab of this folder."""
    from filelock import FileLock, Timeout

    if not lock_file(folder).exists():
        return False
    try:
        with FileLock(lock_file(folder), timeout=0):
            return False
    except Timeout:
        return True


def write(folder: Path, state: State) -> None:
    """Record that a host is up."""
    draft = folder / f"{_FILE}.new"
    draft.write_text(json.dumps(asdict(state), indent=1))
    draft.rename(folder / _FILE)


def read(folder: Path) -> State | None:
    """The state of a host; ``None`` if it was never up, or the file is of another version."""
    try:
        state = State(**json.loads((folder / _FILE).read_text()))
    except (OSError, ValueError, TypeError):
        return None
    return state if state.kind in KINDS else None


def healthy(folder: Path) -> State | None:
    """The state of a host whose QEMU is alive and answers on its control socket."""
    state = read(folder)
    if state is None or state.pid not in {process.pid for process in processes(folder, state.pid)}:
        return None
    try:
        with control(folder) as qmp:
            status = qmp.field("query-status", "status", str, _ANSWER)
    except (OSError, QmpError):
        return None
    return state if status == "running" else None


def processes(folder: Path, pid: int | None = None) -> list[psutil.Process]:
    """The processes of a host that is, or was, in a folder.

    Args:
        folder: it need not be there any more.
        pid: look at this one only.
    """
    if pid is None:
        return list(marks.marked(MARK, str(folder)))
    with contextlib.suppress(psutil.Error):
        process = psutil.Process(pid)
        if marks.environment(process).get(MARK) == str(folder) and not marks.gone(process):
            return [process]
    return []


@contextlib.contextmanager
def control(folder: Path) -> Iterator[Qmp]:
    """QEMU's control socket.

    Raises:
        OSError: there is none, or nobody listens.
        QmpError: QEMU does not answer.
    """
    connection = connect(folder, QMP)
    qmp = Qmp(connection)
    try:
        qmp.connect(_ANSWER)
        yield qmp
    finally:
        qmp.close()


def connect(folder: Path, name: str) -> socket.socket:
    """Connect with a socket in a folder, however long the folder's path is.

    Raises:
        OSError: there is none, or nobody listens, or who listens takes no more connections.
    """
    connection = socket.socket(socket.AF_UNIX)
    # Behind a frozen process that others have tried before, connect(2) would wait for ever; a timeout of Python's own
    # would not wait at all (unix(7), EAGAIN).
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, _timeval(_ANSWER))
    descriptor = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        connection.connect(f"/proc/self/fd/{descriptor}/{name}")
    except BaseException:
        connection.close()
        raise
    finally:
        os.close(descriptor)
    return connection


def _timeval(seconds: float) -> bytes:
    """A struct timeval (socket(7), SO_SNDTIMEO)."""
    whole = int(seconds)
    return struct.pack("@ll", whole, int((seconds - whole) * 1e6))


def end(folder: Path) -> list[psutil.Process]:
    """End what runs in a folder, and remove it where it is ours; the processes that do not end."""
    with contextlib.suppress(OSError, QmpError), control(folder) as qmp:
        qmp.execute("quit")
    victims = processes(folder)
    marks.wait_gone(victims, 3.0)
    left = marks.end(victims)
    if not left and is_ours(folder):
        shutil.rmtree(folder, ignore_errors=True)
    return left
