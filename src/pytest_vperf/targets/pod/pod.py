"""A pod: a container image inside its own small virtual machine, started by QEMU directly."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

from pytest_vperf.targets.base import (
    CannotConnect,
    CommandFailed,
    Completed,
    Facts,
    TargetError,
    Unavailable,
    Usage,
)
from pytest_vperf.targets.phases import startup_quantity
from pytest_vperf.targets.pod.agent_wire import Frame, Type, command_payload
from pytest_vperf.targets.pod.conversation import Conversation
from pytest_vperf.targets.pod.machine import PHASES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path
    from types import TracebackType

    from pytest_vperf.quantity import Quantity
    from pytest_vperf.targets.base import Link
    from pytest_vperf.targets.disks import Disk
    from pytest_vperf.targets.image import Rootfs
    from pytest_vperf.targets.pod.machine import Machine
    from pytest_vperf.targets.program import Program

#: What a container's process finds in its environment before its own variables, as Docker has it.
DEFAULT_ENVIRONMENT = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": "/root",
    "HOSTNAME": "pod",
}
_CHUNK = 1 << 16


class Pod:
    """A running pod. Made by `pytest_vperf.targets.pod.pods.Pods`; a Target.

    Args:
        machine: has reached the end of its last phase.
        began: the request, on time.perf_counter()'s clock.
        details: for `facts`.
        rootfs: its image.
        disks: of the run, that it was started with.

    Attributes:
        link: how it is on a network, if it is.
    """

    link: Link | None = None

    def __init__(
        self,
        machine: Machine,
        began: float,
        details: Mapping[str, str],
        rootfs: Rootfs,
        disks: tuple[Disk, ...] = (),
    ) -> None:
        self.disks = disks
        self._machine = machine
        self._began = began
        self._details = dict(details)
        self._rootfs = rootfs
        self._stream = 1
        # One conversation at a time: the wire belongs to the thread that runs a command.
        self._lock = threading.Lock()

    @property
    def name(self) -> str:
        """``pod ACCELERATOR FIRMWARE``."""
        return self._machine.name

    @property
    def pid(self) -> int:
        """The process ID of its QEMU."""
        return self._machine.pid

    @property
    def startup_time(self) -> Quantity:
        """From the request until the container's process ran, in ms, with its phases as parts.

        `pytest_vperf.targets.pod.machine` defines the phases.
        """
        return startup_quantity(self._began, self._machine.marks, PHASES)

    def run(
        self,
        argv: Sequence[str],
        *,
        input: bytes = b"",
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        timeout: float = 60.0,
        check: bool = True,
    ) -> Completed:
        """Run a command in the pod's container; see `pytest_vperf.targets.base.Target.run`."""
        command = tuple(argv)
        try:
            payload = command_payload(command, {**DEFAULT_ENVIRONMENT, **(env or {})}, cwd or "")
        except ValueError as error:
            raise TargetError(f"{self.name}: {error}", target=self.name) from error
        completed = self._converse(Type.EXEC, payload, command, iter([input]), timeout)
        if check and completed.returncode:
            raise CommandFailed(completed, target=self.name)
        return completed

    def program(self, name: str) -> Program:
        """A program of the image; see `pytest_vperf.targets.base.Target.program`."""
        from pytest_vperf.targets.image_programs import programs_of

        try:
            return programs_of(self._rootfs).find(name)
        except Unavailable as error:
            error.target = self.name
            raise

    def put(self, source: Path, destination: str) -> None:
        """Copy a file into the container; see `pytest_vperf.targets.base.Target.put`."""
        with source.open("rb") as stream:
            mode = os.fstat(stream.fileno()).st_mode & 0o7777
            payload = os.fsencode(destination) + b"\0" + f"{mode:o}".encode() + b"\0"
            chunks = iter(lambda: stream.read(_CHUNK), b"")
            self._transfer(Type.WRITE, payload, ("put", str(source), destination), chunks)

    def get(self, source: str, destination: Path) -> None:
        """Copy a file out of the container; see `pytest_vperf.targets.base.Target.get`."""
        payload = os.fsencode(source) + b"\0"
        completed = self._transfer(Type.READ, payload, ("get", source, str(destination)), iter(()))
        destination.write_bytes(completed.stdout)

    def _transfer(
        self, kind: Type, payload: bytes, what: tuple[str, ...], chunks: Iterator[bytes]
    ) -> Completed:
        completed = self._converse(kind, payload, what, chunks, timeout=600.0)
        if completed.returncode:
            message = completed.stderr.decode("utf-8", "replace").strip()
            raise TargetError(f"{' '.join(what)} in {self.name}: {message}", target=self.name)
        return completed

    def _converse(
        self,
        kind: Type,
        payload: bytes,
        argv: tuple[str, ...],
        chunks: Iterator[bytes],
        timeout: float,
    ) -> Completed:
        with self._lock:
            # Stream 1 is the container's own process; numbers come round again after 65,534 commands.
            self._stream = 2 + (self._stream - 1) % 0xFFFD
            conversation = Conversation(self._machine, self._stream, argv)
            return conversation.hold(Frame(kind, self._stream, payload), chunks, timeout)

    def facts(self) -> Facts:
        """Versions, hashes and settings of this machine."""
        network = self.link.details() if self.link else {}
        return Facts("pod", self.name, {**self._details, **network})

    def usage(self) -> Usage:
        """CPU time and resident memory of the QEMU process.

        Raises:
            CannotConnect: QEMU is gone.
        """
        import psutil

        try:
            if not self._machine.is_running():
                raise psutil.NoSuchProcess(self.pid)
            process = psutil.Process(self.pid)
            times = process.cpu_times()
            return Usage(times.user + times.system, process.memory_info().rss)
        except psutil.Error as error:
            raise CannotConnect(f"{self.name}: QEMU is gone", target=self.name) from error

    def close(self) -> None:
        """End the machine."""
        self._machine.close()
        for disk in self.disks:
            disk.give_back()
        if self.link is not None:
            self.link.close()

    def __enter__(self) -> Pod:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
