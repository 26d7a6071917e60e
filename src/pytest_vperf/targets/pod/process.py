"""The QEMU process of a pod with its three channels, on this machine."""

from __future__ import annotations

import contextlib
import shutil
import socket
import subprocess
from typing import TYPE_CHECKING, Protocol

from pytest_vperf.targets.base import CannotConnect, Usage
from pytest_vperf.targets.pod import hotplug
from pytest_vperf.targets.pod.command_line import Channels, MachineConfig, command_line
from pytest_vperf.targets.pod.sandbox import Sandbox, confine, environment

if TYPE_CHECKING:
    from pathlib import PurePath

    from pytest_vperf.machine.runs import Run
    from pytest_vperf.targets.control_group import Group
    from pytest_vperf.targets.pod.qmp import Qmp


class QemuProcess(Protocol):
    """A QEMU that was started, wherever it runs.

    Attributes:
        qmp: the connected socket of its control channel.
        console: of its serial port.
        agent: of the agent's port.
    """

    qmp: socket.socket
    console: socket.socket
    agent: socket.socket

    @property
    def pid(self) -> int:
        """Its process ID, on the machine that it runs on."""
        ...

    def poll(self) -> int | None:
        """Its status, as `subprocess.Popen.poll` has it; ``None`` while it runs."""
        ...

    def wait(self, timeout: float) -> int:
        """Its status, once it has ended.

        Raises:
            subprocess.TimeoutExpired: it has not, within ``timeout`` seconds.
        """
        ...

    def hand_over(self, qmp: Qmp, file: PurePath) -> PurePath:
        """Let it open a file of its machine that it was not started with; the file as QEMU names it.

        Raises:
            QmpError: it refused, or is gone.
            OSError: the file cannot be opened.
        """
        ...

    def said(self) -> str:
        """The end of what it printed, its own words and not the machine's."""
        ...

    def usage(self) -> Usage:
        """CPU time and resident memory.

        Raises:
            CannotConnect: it is gone.
        """
        ...

    def end(self) -> None:
        """End it and remove what it had, the sockets apart. Safe to repeat."""
        ...


class LocalQemu:
    """A QEMU on this machine; its sockets are inherited: no paths, nothing left in the file system.

    Args:
        qemu: the program.
        config: the machine.
        run: owns the process.
        group: what holds it to its limits; ended with it.
        sandbox: what confines it; ``None``: as `pytest_vperf.targets.pod.sandbox.confine` has it.

    Raises:
        OSError: it cannot be executed.
        TargetError: it cannot be confined.
    """

    def __init__(
        self,
        qemu: str,
        config: MachineConfig,
        run: Run,
        group: Group | None = None,
        sandbox: Sandbox | None = None,
    ) -> None:
        self._group = group
        with contextlib.closing(sandbox or confine(qemu, config)) as confined:
            self._user = confined.user
            self._start(qemu, config, run, confined)

    def _start(self, qemu: str, config: MachineConfig, run: Run, sandbox: Sandbox) -> None:
        group = self._group
        self._folder = run.subfolder("pod")
        self._log = (self._folder / "qemu.log").open("w+b")
        pairs = [socket.socketpair() for _ in range(3)]
        self.qmp, self.console, self.agent = (pair[0] for pair in pairs)
        theirs = [pair[1].fileno() for pair in pairs]
        channels = Channels(*(f"fd={descriptor}" for descriptor in theirs))
        argv = sandbox.command(command_line(qemu, sandbox.config, channels, name=f"vperf-{run.id}"))
        try:
            # A session of its own: Ctrl-C in a terminal reaches pytest, which ends the machine in order.
            self._process = subprocess.Popen(
                group.entered(argv) if group else argv,
                stdin=subprocess.DEVNULL,
                stdout=self._log,
                stderr=self._log,
                pass_fds=(*theirs, *config.descriptors, *sandbox.descriptors),
                env=environment(run.environment),
                start_new_session=True,
            )
        except BaseException:
            for pair in pairs:
                pair[0].close()
            self._log.close()
            raise
        finally:
            for pair in pairs:
                pair[1].close()

    @property
    def pid(self) -> int:
        """Its process ID."""
        return self._process.pid

    def poll(self) -> int | None:
        """Its status; see `QemuProcess.poll`."""
        return self._process.poll()

    def wait(self, timeout: float) -> int:
        """Its status, once it has ended; see `QemuProcess.wait`."""
        return self._process.wait(timeout)

    def hand_over(self, qmp: Qmp, file: PurePath) -> PurePath:
        """Let it open a file; see `QemuProcess.hand_over`."""
        return file if self._user is None else hotplug.hand_over(qmp, file)

    def said(self) -> str:
        """The end of its log."""
        self._log.flush()
        self._log.seek(0)
        return self._log.read()[-600:].decode("utf-8", "replace").strip()

    def usage(self) -> Usage:
        """CPU time and resident memory; see `QemuProcess.usage`."""
        import psutil

        try:
            if self.poll() is not None:
                raise psutil.NoSuchProcess(self.pid)
            process = psutil.Process(self.pid)
            times = process.cpu_times()
            return Usage(times.user + times.system, process.memory_info().rss)
        except psutil.Error as error:
            raise CannotConnect("QEMU is gone") from error

    def end(self) -> None:
        """End it. It has nothing to save, so it is not asked politely."""
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        self._log.close()
        if self._group is not None:
            self._group.close()
        shutil.rmtree(self._folder, ignore_errors=True)
