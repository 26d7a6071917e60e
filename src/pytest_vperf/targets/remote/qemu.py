"""The QEMU process of a pod on another machine.

Its three channels are Unix sockets that ``sshd`` listens on there and brings here, made before the clock of a start
runs: QEMU connects to them as soon as it is executed, and nothing is polled for. What the machine says is dated when
it arrives here, so that each time has the connection's way in it; the record says how long that is.

A shell stays beside it and waits for the end of its input: however this process ends, QEMU is ended there, too.
"""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import socket
import subprocess
import time
from typing import TYPE_CHECKING

from pytest_vperf.targets.base import CannotConnect, CannotStart, TargetError, Usage
from pytest_vperf.targets.pod.command_line import Channels, MachineConfig, command_line
from pytest_vperf.targets.ssh_connection import remote_line

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_vperf.machine.runs import Run
    from pytest_vperf.targets.remote.machine import RemoteMachine

_CHANNELS = ("qmp", "console", "agent")
#: Seconds in which QEMU connects to its channels.
_CONNECTS = 60.0
#: A job in the background has no input of its own (POSIX, "Asynchronous Lists"), hence the descriptor 3. Words: the
#: folder, and the command.
_GUARD = """
folder=$1; shift
exec 3<&0 </dev/null
"$@" 3<&- & qemu=$!
echo $qemu >"$folder/pid"
{ cat <&3 >/dev/null 2>&1; kill -9 $qemu; } >/dev/null 2>&1 & watch=$!
exec 3<&-
wait $qemu; status=$?
kill $watch 2>/dev/null
rm -rf -- "$folder"
exit $status
"""
_USAGE = 'cat "/proc/$1/stat" "/proc/$1/statm" && getconf CLK_TCK && getconf PAGESIZE'


class RemoteStart:
    """A start that is prepared: the sockets are there on both sides. Called, it is done.

    Args:
        machine: where.
        qemu: the program there.
        config: the machine; its files are there.
        run: owns the process.

    Raises:
        CannotConnect: sockets cannot be brought here, or the machine is gone.
        TargetError: there is no folder for them.
    """

    def __init__(self, machine: RemoteMachine, qemu: str, config: MachineConfig, run: Run) -> None:
        self.machine = machine
        self.run = run
        self.folder = run.subfolder("pod")
        self.there = machine.new_folder("pod")
        self._pairs = [(f"{self.there}/{name}", self.folder / name) for name in _CHANNELS]
        self._listeners: list[socket.socket] = []
        self._brought: list[tuple[str, Path]] = []
        try:
            for there, here in self._pairs:
                listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
                self._listeners.append(listener)
                listener.bind(str(here))
                listener.listen(1)
                machine.ssh.connection.listen(there, here)
                self._brought.append((there, here))
        except BaseException:
            self.close()
            raise
        channels = Channels(*(f"path={there}" for there, _ in self._pairs))
        argv = command_line(qemu, config, channels, name=f"vperf-{run.id}")
        line = remote_line(["sh", "-c", _GUARD, "sh", self.there, *argv], {}, None, "")
        self.words = machine.ssh.connection.words(line)

    def __call__(self) -> RemoteQemu:
        """Start it.

        Raises:
            CannotStart: QEMU ended, with its words, or did not connect to its channels.
        """
        try:
            return RemoteQemu(self, self._listeners)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Take the sockets away. Safe to repeat; quiet if the machine is gone."""
        for listener in self._listeners:
            listener.close()
        while self._brought:
            self.machine.ssh.connection.unlisten(*self._brought.pop())
        shutil.rmtree(self.folder, ignore_errors=True)


class RemoteQemu:
    """A QEMU on another machine; see `pytest_vperf.targets.pod.process.QemuProcess`."""

    def __init__(self, start: RemoteStart, listeners: list[socket.socket]) -> None:
        self._start = start
        self._pid = 0
        self._log = (start.folder / "qemu.log").open("w+b")
        self._process = subprocess.Popen(
            start.words,
            stdin=subprocess.PIPE,
            stdout=self._log,
            stderr=self._log,
            env=start.run.environment,
            start_new_session=True,
        )
        accepted: dict[socket.socket, socket.socket] = {}
        try:
            self._accept(listeners, accepted)
        except BaseException:
            for connected in accepted.values():
                connected.close()
            self.end()
            raise
        self.qmp, self.console, self.agent = (accepted[each] for each in listeners)

    def _accept(
        self, listeners: list[socket.socket], accepted: dict[socket.socket, socket.socket]
    ) -> None:
        deadline = time.monotonic() + _CONNECTS
        ended = os.pidfd_open(self._process.pid)
        try:
            # An agent's port is only there with a disk; without it, nothing connects to its socket.
            while len(accepted) < len(listeners):
                waiting = [each for each in listeners if each not in accepted]
                watched: list[socket.socket | int] = [*waiting, ended]
                left = max(0.0, deadline - time.monotonic())
                ready, _, _ = select.select(watched, [], [], left)
                for listener in waiting:
                    if listener in ready:
                        accepted[listener] = listener.accept()[0]
                if not ready or ended in ready:
                    what = f"ended with status {self.poll()}" if ready else "said nothing"
                    words = self.said()
                    raise CannotStart(
                        f"QEMU on {self._start.machine.address.where} {what}"
                        + (f": {words}" if words else "")
                    )
        finally:
            os.close(ended)

    @property
    def pid(self) -> int:
        """Its process ID, there."""
        if not self._pid:
            try:
                self._pid = int(self._start.machine.read(f"{self._start.there}/pid"))
            except (OSError, ValueError):
                raise CannotConnect("QEMU is gone") from None
        return self._pid

    def poll(self) -> int | None:
        """Its status, as the shell beside it has it: ``128 + N`` after signal N."""
        return self._process.poll()

    def wait(self, timeout: float) -> int:
        """Its status, once it has ended."""
        return self._process.wait(timeout)

    def said(self) -> str:
        """The end of what it printed, or ``ssh`` for it."""
        self._log.flush()
        self._log.seek(0)
        return self._log.read()[-600:].decode("utf-8", "replace").strip()

    def usage(self) -> Usage:
        """CPU time and resident memory, by /proc there (proc(5), ``stat`` and ``statm``)."""
        done = self._start.machine.ssh.run(["sh", "-c", _USAGE, "sh", str(self.pid)], check=False)
        lines = done.text.splitlines()
        if done.returncode or len(lines) != 4:
            raise CannotConnect("QEMU is gone")
        # The name, the second field, may have spaces and parentheses.
        fields = lines[0].rpartition(")")[2].split()
        ticks, page = int(lines[2]), int(lines[3])
        return Usage((int(fields[11]) + int(fields[12])) / ticks, int(lines[1].split()[1]) * page)

    def end(self) -> None:
        """End it, by the end of the input of the shell beside it; where that is not heard, with the connection."""
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        try:
            self._process.wait(20.0)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        with contextlib.suppress(TargetError):
            self._start.close()
        self._log.close()
