"""The hosts of a lab: started, found, ended. ``up("kvm")`` is all that most callers need."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING

from pytest_vperf.lab import accelerator, host_image, keys, start, state
from pytest_vperf.lab.command_line import Machine
from pytest_vperf.lab.kinds import KINDS
from pytest_vperf.machine.preflight import Readiness, program
from pytest_vperf.targets import debian_build, debian_sources
from pytest_vperf.targets.base import CannotStart, Unavailable
from pytest_vperf.targets.pod.qemu import check_qemu, qemu_version

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pytest_vperf.lab.host import LabHost
    from pytest_vperf.lab.kinds import Kind
    from pytest_vperf.machine.runs import Run

    Say = Callable[[str], None]

#: Seconds from the start of QEMU until libvirt answers. An emulated host takes about one minute.
TIMEOUT = 300.0
#: Seconds to wait for another process that starts the same host: a build may be part of it.
_OTHERS = 1200.0


def check() -> Readiness:
    """Whether a lab can be built and started here, as far as can be seen without doing it."""
    qemu = check_qemu()
    needed = (
        qemu,
        debian_build.check(),
        program("ssh", "openssh-client"),
        program("ssh-keygen", "openssh-client"),
        program("mke2fs", "e2fsprogs"),
    )
    for each in needed:
        if not each.usable:
            return Readiness("lab", False, each.why, each.remedy)
    try:
        sources = debian_sources.configured()
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
    """End the user's own lab of a kind, whatever state it is in; whether there was one.

    Where another process is starting it, that one finds it ended, and says so.

    Raises:
        ValueError: there is no such kind.
        CannotStart: its process does not end.
    """
    folder = state.user_folder(kind_of(kind).name)
    there = state.is_ours(folder) or bool(state.processes(folder))
    _end(folder)
    return there


def is_there(host: LabHost) -> bool:
    """Whether a host's QEMU lives; it may hang all the same."""
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
        chosen, why = accelerator.choose(kind, run, say)
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
    """Only one process at a time starts a user's lab of a kind; the others wait."""
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
