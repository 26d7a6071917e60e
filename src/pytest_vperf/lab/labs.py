"""The hosts of a lab: started, found, ended. ``up("kvm")`` is all that most callers need.

The user's labs that are broken: found, shown and removed like what killed runs left.

A lab of a run is the run's, and found by the run's marks. The user's own lab has no owner that lives: it is left
alone as long as it answers, or is being started.

What ``vperf lab status`` shows: which hosts are built, and which are up.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from pytest_vperf.lab import image as host_image
from pytest_vperf.lab import keys, start, state
from pytest_vperf.lab.command_line import Machine
from pytest_vperf.lab.kinds import KINDS, Kind
from pytest_vperf.machine import processes
from pytest_vperf.machine.leftovers import Leftover
from pytest_vperf.machine.preflight import Readiness, program
from pytest_vperf.machine.runs import runs_folder
from pytest_vperf.targets.base import CannotStart, Unavailable
from pytest_vperf.targets.image import apt, debian
from pytest_vperf.targets.pod.qemu import check_qemu, qemu_version

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytest_vperf.lab.state import LabHost
    from pytest_vperf.machine.runs import Run

    Say = Callable[[str], None]


def find_leftovers() -> list[Leftover]:
    """Leftovers of the user's labs that do not answer, in the order to remove them.

    Raises:
        PermissionError: the folder of the runs belongs to somebody else.
    """
    found: list[Leftover] = []
    for folder in sorted({*state.user_folders(), *_of_processes()}):
        if state.being_started(folder) or state.healthy(folder) is not None:
            continue
        for process in state.processes(folder):
            what = processes.describe(process)
            found.append(Leftover(folder.name, "process", what, partial(_end_process, process)))
        if state.is_ours(folder):
            what = f"folder {folder}"
            found.append(Leftover(folder.name, "folder", what, partial(_remove, folder)))
    return sorted(found, key=lambda leftover: leftover.kind == "folder")


def labs_up() -> list[state.State]:
    """The user's labs that are up."""
    found = (state.healthy(folder) for folder in state.user_folders())
    return [each for each in found if each is not None]


def labs_left_alone() -> list[str]:
    """One line for each of them."""
    return [f"lab {each.kind} is up (to end it: vperf lab down {each.kind})" for each in labs_up()]


def _of_processes() -> Iterator[Path]:
    """The folders of the user's labs by their processes' marks, whether or not they still exist."""
    home = runs_folder()
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.uids().real != os.getuid():
                continue
            folder = Path(processes.environment(process).get(state.MARK, ""))
            if folder.parent == home and folder.name.startswith("lab-"):
                yield folder


def _end_process(process: psutil.Process) -> str:
    return "it does not end" if processes.end([process]) else ""


def _remove(folder: Path) -> str:
    if state.is_ours(folder):  # still
        shutil.rmtree(folder)
    return ""


COLUMNS = ("lab", "built", "state", "process", "port")


@dataclass(frozen=True)
class Seen:
    """The state of one kind of host.

    Attributes:
        kind: of host.
        built: the key and size of its image, or why there is none.
        state: in words.
        process: of its QEMU, where it is up.
        port: of 127.0.0.1, likewise.
        uri: of its libvirt, likewise; too long for a column.
    """

    kind: str
    built: str
    state: str
    process: str = ""
    port: str = ""
    uri: str = ""

    @property
    def row(self) -> tuple[str, str, str, str, str]:
        """For `COLUMNS`."""
        return self.kind, self.built, self.state, self.process, self.port


def look() -> list[Seen]:
    """What is seen of each kind."""
    return [_look(kind) for kind in KINDS.values()]


def _look(kind: Kind) -> Seen:
    folder = state.user_folder(kind.name)
    found = state.healthy(folder)
    if found is not None:
        how = "emulated" if found.accelerator == "tcg" else "with KVM"
        words = f"up for {age(time.time() - found.since)}, {how}"
        uri = found.host(folder).uri
        return Seen(kind.name, _built(kind), words, str(found.pid), str(found.port), uri)
    if state.being_started(folder):
        return Seen(kind.name, _built(kind), "is being started")
    if state.is_ours(folder) or state.processes(folder):
        return Seen(kind.name, _built(kind), "does not answer (to remove it: vperf clean)")
    return Seen(kind.name, _built(kind), "down")


def _built(kind: Kind) -> str:
    try:
        image = host_image.built(kind)
    except Unavailable as error:
        return error.reason
    return f"{image.key}, {image.size >> 20} MiB" if image is not None else "no"


def age(seconds: float) -> str:
    """A time span in the greatest unit that gives at least one: ``5 min``."""
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds // size:.0f} {unit}"
    return f"{max(0.0, seconds):.0f} s"


#: Seconds from the start of QEMU until libvirt answers. An emulated host takes about one minute.
TIMEOUT = 300.0
#: Seconds to wait for another process that starts the same host: a build may be part of it.
_OTHERS = 1200.0


def check() -> Readiness:
    """Whether a lab can be built and started here, as far as can be told without trying."""
    qemu = check_qemu()
    needed = (
        qemu,
        debian.can_build(),
        program("ssh", "openssh-client"),
        program("ssh-keygen", "openssh-client"),
        program("mke2fs", "e2fsprogs"),
    )
    for each in needed:
        if not each.usable:
            return Readiness("lab", False, each.why, each.remedy)
    try:
        sources = apt.configured()
    except Unavailable as error:
        return Readiness("lab", False, error.reason, error.remedy)
    return Readiness("lab", True, f"QEMU and packages of {sources.distribution} {sources.codename}")


def running(kind: str) -> LabHost | None:
    """The user's own lab of this kind, if it is up.

    Raises:
        ValueError: there is no such kind.
        PermissionError: the folder of the runs is not the user's own.
    """
    folder = state.user_folder(kind_of(kind).name)
    found = state.healthy(folder)
    return found.host(folder) if found is not None else None


def up(
    kind: str,
    *,
    run: Run | None = None,
    say: Say | None = None,
    timeout: float = TIMEOUT,
    memory: int | None = None,
    vcpus: int | None = None,
) -> LabHost:
    """Start a host, and wait until its libvirt answers; its image is built where that was not done before.

    Args:
        kind: ``kvm`` or ``xen``.
        run: owns it: it ends with the run, or with `end`. ``None``: it is the user's own, of which there is one; it
            stays up until `down`, and one that is up already is taken.
        say: is told what is being done.
        timeout: seconds from the start of QEMU on.
        memory: MiB; the kind's own by default.
        vcpus: virtual CPUs; likewise.

    Raises:
        ValueError: there is no such kind.
        Unavailable: this machine cannot have it; says what is missing and what mends it.
        CannotStart, CannotConnect, TimedOut: it did not start; nothing of it is left.
    """
    wanted, tell = kind_of(kind), say or _silent
    if run is not None:
        return _start(run.subfolder("lab"), wanted, run, tell, timeout, memory, vcpus)
    with _alone(wanted, tell):
        folder = state.user_folder(wanted.name)
        found = state.healthy(folder)
        if found is not None:
            return found.host(folder)
        _end(folder)  # what an earlier one left, which does not answer
        return _start(folder, wanted, None, tell, timeout, memory, vcpus)


def down(kind: str) -> bool:
    """End the user's own lab of a kind, whatever its state; returns whether there was one. A process that is just
    starting it finds it ended, and says so.

    Raises:
        ValueError: there is no such kind.
        CannotStart: its process does not end.
    """
    folder = state.user_folder(kind_of(kind).name)
    there = state.is_ours(folder) or bool(state.processes(folder))
    _end(folder)
    return there


def is_there(host: LabHost) -> bool:
    """Whether a host's QEMU is alive, even if it hangs."""
    folder = host.ssh_config.parent
    known = state.read(folder)
    return known is not None and bool(state.processes(folder, known.pid))


def end(host: LabHost) -> None:
    """End a host, whoever started it. Safe to repeat.

    Raises:
        CannotStart: its process does not end.
    """
    _end(host.ssh_config.parent)


def kind_of(name: str) -> Kind:
    """A kind by its name.

    Raises:
        ValueError: there is none of this name; the message has those there are.
    """
    if name not in KINDS:
        raise ValueError(f"there is no lab {name!r}; there are: {', '.join(KINDS)}")
    return KINDS[name]


def being_started(kind: str) -> bool:
    """Whether another process is starting the user's own lab of this kind."""
    return state.being_started(state.user_folder(kind_of(kind).name))


def _start(
    folder: Path,
    kind: Kind,
    run: Run | None,
    say: Say,
    timeout: float,
    memory: int | None,
    vcpus: int | None,
) -> LabHost:
    state.begin(folder, kind.name)
    try:
        qemu = check_qemu()
        if not qemu.usable:
            raise Unavailable(qemu.why, remedy=qemu.remedy)
        image = host_image.build(kind, say)
        chosen, why = start.choose_accelerator(kind, run, say)
        how = "with KVM" if chosen == "kvm" else f"emulated: {why}"
        say(f"starting a {kind.title} ({how})")
        asked = Machine(kind, chosen, memory or kind.memory, vcpus or kind.vcpus, 0)
        deadline = time.monotonic() + timeout
        pid, machine = start.launch(folder, kind, image, qemu.why, asked, run)
        details = _details(machine, image, qemu_version(qemu.why))
        up = state.State(kind.name, pid, machine.port, time.time(), chosen, details)
        start.await_ready(folder, pid, kind, deadline)
        keys.forget_disk(folder)
        say("waiting for its libvirt")
        host = up.host(folder)
        start.await_libvirt(host, kind, deadline)
        state.write(folder, up)
    except BaseException:
        _end(folder)
        raise
    return host


def _details(machine: Machine, image: host_image.HostImage, qemu: str) -> dict[str, str]:
    return {
        "lab": machine.kind.name,
        "lab_image": image.key,
        "lab_kernel": image.kernel,
        "lab_qemu": qemu,
        "lab_accelerator": machine.accelerator,
        "lab_cpu_model": machine.cpu,
        "lab_vcpus": str(machine.vcpus),
        "lab_memory": f"{machine.memory} MiB",
        "emulated": "no" if machine.accelerator == "kvm" else "yes",
    }


def _end(folder: Path) -> None:
    left = state.end(folder)
    if left:
        pids = ", ".join(str(process.pid) for process in left)
        raise CannotStart(f"process {pids} of {folder} does not end")


@contextlib.contextmanager
def _alone(kind: Kind, say: Say) -> Iterator[None]:
    """Let one process at a time start a user's lab of a kind; the others wait."""
    from filelock import FileLock, Timeout

    lock = FileLock(state.lock_file(state.user_folder(kind.name)))
    try:
        lock.acquire(timeout=0)
    except Timeout:
        say(f"lab {kind.name} is being started by another process: waiting for it")
        try:
            lock.acquire(timeout=_OTHERS)
        except Timeout:
            raise CannotStart(
                f"lab {kind.name}: another process has been starting it for {_OTHERS:g} s"
            ) from None
    try:
        yield
    finally:
        lock.release()


def _silent(_: str) -> None:
    """Say nothing."""
