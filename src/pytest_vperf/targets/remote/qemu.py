"""The QEMU process of a pod on another machine.

Its three channels are Unix sockets that ``sshd`` listens on there and brings here. They, and a shell that waits for
the word to start QEMU, are there before the clock of a start runs, so that no login is in it; QEMU connects to the
sockets as soon as it is executed, and nothing is polled for. What the machine says is dated when it arrives here.

The shell stays beside QEMU and waits for the end of its input: however this process ends, QEMU is ended there, too.
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

from pytest_vperf.machine.ending import end_by_input
from pytest_vperf.targets.base import CannotConnect, CannotStart, Usage
from pytest_vperf.targets.pod.command_line import Channels, MachineConfig, command_line
from pytest_vperf.targets.ssh_connection import remote_line

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_vperf.machine.runs import Run
    from pytest_vperf.targets.remote.machine import RemoteMachine

_CHANNELS = ("qmp", "console", "agent")
#: Seconds in which the shell there is ready, and in which QEMU connects to its channels.
_ANSWERS = 60.0
#: A job in the background has no input of its own (POSIX, "Asynchronous Lists"), hence the descriptor 3. Words: the
#: folder, and the command.
_GUARD = """
folder=$1; shift
trap 'rm -rf -- "$folder"' EXIT
exec 3<&0 </dev/null
echo ready
read -r word <&3 || exit 1
"$@" >&2 3<&- & qemu=$!
echo $qemu >"$folder/pid"
{ cat <&3; kill -9 $qemu; } >/dev/null 2>&1 & watch=$!
exec 3<&-
wait $qemu; status=$?
kill $watch 2>/dev/null
exit $status
"""
_USAGE = 'cat "/proc/$1/stat" "/proc/$1/statm" && getconf CLK_TCK && getconf PAGESIZE'


class RemoteStart:
    """A start that is prepared: the sockets are there on both sides, and the shell waits. Called, it is done.

    Args:
        machine: where.
        qemu: the program there.
        config: the machine; its files are there.
        run: owns the process.

    Raises:
        CannotConnect: sockets cannot be brought here, or the machine is gone.
        CannotStart: its shell does not answer.
        TargetError: there is no folder for them.
    """

    def __init__(self, machine: RemoteMachine, qemu: str, config: MachineConfig, run: Run) -> None:
        self.machine = machine
        self.folder = run.subfolder("pod")
        self.there = machine.new_folder("pod")
        self._line = machine.lines.take()
        self._listeners: list[socket.socket] = []
        self._brought: list[tuple[str, Path]] = []
        self._log = (self.folder / "qemu.log").open("w+b")
        self._process: subprocess.Popen[bytes] | None = None
        paths = [f"{self.there}/{name}" for name in _CHANNELS]
        try:
            for name, there in zip(_CHANNELS, paths, strict=True):
                here = self.folder / name
                listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
                self._listeners.append(listener)
                listener.bind(str(here))
                listener.listen(1)
                self._line.listen(there, here)
                self._brought.append((there, here))
            channels = Channels(*(f"path={there}" for there in paths))
            argv = command_line(qemu, config, channels, name=f"vperf-{run.id}")
            line = remote_line(["sh", "-c", _GUARD, "sh", self.there, *argv], {}, None, "")
            self._process = subprocess.Popen(
                self._line.words(line),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._log,
                env=run.environment,
                start_new_session=True,
            )
            self._await_shell()
        except BaseException:
            self.end()
            raise

    def __call__(self) -> RemoteQemu:
        """Start it.

        Raises:
            CannotStart: QEMU ended, with its words, or did not connect to its channels.
        """
        process = self._process
        assert process is not None
        assert process.stdin is not None
        accepted: dict[socket.socket, socket.socket] = {}
        try:
            with contextlib.suppress(BrokenPipeError):  # it has ended, which is seen at once
                process.stdin.write(b"go\n")
                process.stdin.flush()
            self._accept(process, accepted)
        except BaseException:
            for connected in accepted.values():
                connected.close()
            self.end()
            raise
        return RemoteQemu(self, process, [accepted[each] for each in self._listeners])

    def _await_shell(self) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        stream = self._process.stdout
        ready, _, _ = select.select([stream], [], [], _ANSWERS)
        if not ready or os.read(stream.fileno(), 100) != b"ready\n":
            raise CannotStart(
                f"the shell on {self.machine.address.where} that is to start QEMU does not answer: {self.said()}"
            )

    def _accept(
        self, process: subprocess.Popen[bytes], accepted: dict[socket.socket, socket.socket]
    ) -> None:
        deadline = time.monotonic() + _ANSWERS
        ended = os.pidfd_open(process.pid)
        try:
            while len(accepted) < len(self._listeners):
                waiting = [each for each in self._listeners if each not in accepted]
                watched: list[socket.socket | int] = [*waiting, ended]
                left = max(0.0, deadline - time.monotonic())
                ready, _, _ = select.select(watched, [], [], left)
                for listener in waiting:
                    if listener in ready:
                        accepted[listener] = listener.accept()[0]
                if not ready or ended in ready:
                    what = f"ended with status {process.poll()}" if ready else "said nothing"
                    words = self.said()
                    raise CannotStart(
                        f"QEMU on {self.machine.address.where} {what}"
                        + (f": {words}" if words else "")
                    )
        finally:
            os.close(ended)

    def said(self) -> str:
        """The end of what QEMU printed, or ``ssh`` for it."""
        self._log.flush()
        self._log.seek(0)
        return self._log.read()[-600:].decode("utf-8", "replace").strip()

    def end(self) -> None:
        """End QEMU, by the end of the input of the shell beside it; where that is not heard, with the connection."""
        process, self._process = self._process, None
        if process is not None:
            end_by_input(process, 20.0)
        for listener in self._listeners:
            listener.close()
        while self._brought:
            self._line.unlisten(*self._brought.pop())
        if not self._log.closed:
            self._log.close()
            self.machine.lines.give(self._line)
        shutil.rmtree(self.folder, ignore_errors=True)


class RemoteQemu:
    """A QEMU on another machine; see `pytest_vperf.targets.pod.process.QemuProcess`.

    Args:
        start: has started it.
        process: the ``ssh`` whose shell is beside it.
        channels: the connected sockets: QMP, console, agent.
    """

    def __init__(
        self, start: RemoteStart, process: subprocess.Popen[bytes], channels: list[socket.socket]
    ) -> None:
        self._start = start
        self._process = process
        self._pid = 0
        self.qmp, self.console, self.agent = channels

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
        return self._start.said()

    def usage(self) -> Usage:
        """CPU time and resident memory, by /proc there (proc(5), ``stat`` and ``statm``)."""
        done = self._start.machine.ssh.run(["sh", "-c", _USAGE, "sh", str(self.pid)], check=False)
        lines = done.text.splitlines()
        if done.returncode or len(lines) != 4:
            said = done.stderr.decode("utf-8", "replace").strip()
            raise CannotConnect(f"QEMU is gone, or what it uses cannot be read there: {said}")
        # The name, the second field, may have spaces and parentheses.
        fields = lines[0].rpartition(")")[2].split()
        ticks, page = int(lines[2]), int(lines[3])
        return Usage((int(fields[11]) + int(fields[12])) / ticks, int(lines[1].split()[1]) * page)

    def end(self) -> None:
        """End it. Safe to repeat."""
        self._start.end()
