"""The QEMU process of a pod: watched through the phases of its start, and ended.

Every boundary between phases is something that the machine *does*: the host waits for it on a socket, and dates it by
its monotonic clock when the read returns. The resolution is one wake-up by the host's scheduler (well below 1 ms on
an idle host).

    process    request → QEMU has answered QMP's greeting, said which accelerator runs, and been told to go
    firmware   → the guest kernel's first instructions have printed on the serial port
    kernel     → the agent, the kernel's first process, has printed
    agent      → the agent has loaded its drivers and reports on its own port that it is ready
    container  → the container's process has been executed (the agent sees exec close a pipe) Afterwards the container
    is watched for a moment: one that ends at once has not started, as with an engine.
"""

from __future__ import annotations

import contextlib
import subprocess
import time
from collections import deque
from typing import TYPE_CHECKING

from pytest_vperf.targets.agent.wire import Frame, Type, Wire, WireError, number
from pytest_vperf.targets.base import CannotStart, TimedOut
from pytest_vperf.targets.kernel.guest_kernel import KERNEL_LINE
from pytest_vperf.targets.pod.endings import (
    MachineEnded,
    NotReady,
    how_it_ended,
    last_words,
    no_container,
)
from pytest_vperf.targets.pod.qmp import Qmp, QmpError, QmpTimeout
from pytest_vperf.targets.process import ready

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Iterable
    from pathlib import PurePath

    from pytest_vperf.targets.base import Usage
    from pytest_vperf.targets.pod.config import MachineConfig
    from pytest_vperf.targets.pod.qemu import QemuProcess


#: Least seconds that the container's process is watched for; not part of the startup time.
SETTLED = 0.05
#: Bytes kept of the end of its output.
_KEPT = 1 << 16
#: In emulation or on a busy host "at once" takes longer: this share of the start, and this multiple of its last
#: phase. The last phase alone is not enough: if two messages arrive together, the second seems to have taken no time.
_OF_START, _OF_PHASE = 0.05, 2


def settling_time(start: float, phase: float) -> float:
    """How long to watch, in seconds.

    Args:
        start: duration of the whole start, in seconds.
        phase: of its last phase, the container's.
    """
    return max(SETTLED, _OF_START * start, _OF_PHASE * phase)


def settle(
    frames: Callable[[float], Iterable[Frame]], name: str, command: tuple[str, ...], seconds: float
) -> None:
    """Make sure that the container's process still runs a moment later.

    Args:
        frames: returns the agent's frames until a time of time.perf_counter().
        name: the target's.
        command: the container's.
        seconds: to wait.

    Raises:
        CannotStart: it ended at once; with its status and the end of its output.
    """
    said = b""
    deadline = time.perf_counter() + seconds
    late = False
    while not late:
        # A last look after the deadline: frames that arrived before it count, even if this thread was delayed.
        late = time.perf_counter() >= deadline
        for frame in frames(deadline):
            if frame.type in (Type.OUTPUT, Type.ERRORS):
                said = (said + frame.payload)[-_KEPT:]
            elif frame.type is Type.EXIT:
                try:
                    status = f"status {number(frame.payload, frame.type)}"
                except WireError as error:
                    status = f"no status: {error}"
                words = said.decode("utf-8", "replace").strip()[-500:]
                raise CannotStart(
                    f"{name}: its container ended at once ({' '.join(command)}) with {status}"
                    + (f":\n{words}" if words else " and no output"),
                    target=name,
                )


#: The agent's first line (agent/source/main.c).
AGENT_LINE = b"vperf-agent: up"
PHASES = ("process", "firmware", "kernel", "agent", "container")
_CONSOLE_KEPT = 1 << 16


class Machine:
    """One QEMU process with its three channels.

    Args:
        process: started, but paused before its first instruction (``-S``); ended by `close`.
        config: the machine's.
        name: for messages.

    Attributes:
        name: for messages.
        marks: phase → the time.perf_counter() at which it ended, in the order seen.
        console: the last 64 KiB of the serial port's output.
        qmp: QEMU's control connection.
    """

    def __init__(self, process: QemuProcess, config: MachineConfig, name: str) -> None:
        self.name = name
        self.config = config
        self.marks: dict[str, float] = {}
        self.console = bytearray()
        self._process = process
        self.qmp = Qmp(process.qmp)
        self._console = process.console
        self._console.setblocking(False)
        self._console_open = True
        self._first_byte: float | None = None
        self._seen: deque[tuple[float, Frame]] = deque()
        self._words: str | None = None
        self.wire = Wire(process.agent)

    @property
    def pid(self) -> int:
        """QEMU's process ID."""
        return self._process.pid

    def go(self, timeout: float) -> None:
        """Check which accelerator is in use, and let the machine run.

        Raises:
            CannotStart: QEMU refused its command line, died, or uses another accelerator than requested.
            TimedOut: it did not answer in time.
        """
        try:
            self.qmp.connect(timeout)
            # Checked at every start: design rule 8.
            kvm = self.qmp.field("query-kvm", "enabled", bool)
            if kvm != (self.config.accelerator == "kvm"):
                actual = "kvm" if kvm else "tcg"
                raise CannotStart(
                    f"{self.name}: QEMU runs {actual}, not {self.config.accelerator}",
                    target=self.name,
                )
            self.qmp.execute("cont")
        except QmpTimeout as error:
            raise self.late(self.phase, str(error)) from error
        except QmpError as error:
            raise self.ended("process", str(error)) from error
        self.marks["process"] = time.perf_counter()

    def await_frame(self, wanted: Type, phase: str, deadline: float) -> Frame:
        """Wait for the agent's next frame of a type during the boot; console output is dated as it comes.

        Args:
            wanted: the type.
            phase: the phase that ends with it.
            deadline: on time.perf_counter()'s clock.

        Raises:
            CannotStart: the machine ended, or the agent reported an error instead.
            TimedOut: the deadline passed.
        """
        self.marks[phase], frame = self.next_of((wanted,), "", deadline)
        return frame

    def next_of(self, wanted: tuple[Type, ...], phase: str, deadline: float) -> tuple[float, Frame]:
        """The agent's next frame of some types, and the time of its arrival; others before it are dropped.

        Args:
            wanted: the types.
            phase: the current one, for messages; empty for `phase`.
            deadline: on time.perf_counter()'s clock.

        Raises:
            CannotStart: the machine ended, or the agent reported an error instead.
            TimedOut: the deadline passed.
        """
        while True:
            # One read may return the frames of two phases: later ones are kept, with their time of arrival.
            while self._seen:
                at, frame = self._seen.popleft()
                if at >= deadline:
                    raise self.late(phase or self.phase)
                if frame.type is Type.FAILED:
                    raise no_container(self.name, frame.payload)
                if frame.type in wanted:
                    return at, frame
            # Checked before reading: an agent that keeps sending other frames is late, too.
            if time.perf_counter() >= deadline:
                raise self.late(phase or self.phase)
            frames = self.wait(deadline)
            if frames is None:
                raise self.ended(phase or self.phase)
            now = time.perf_counter()
            self._seen.extend((now, frame) for frame in frames)

    def next_frames(self, deadline: float) -> list[Frame]:
        """The frames since the last awaited one, or those until the deadline; raises the errors of `next_of`."""
        if self._seen:
            frames = [frame for _, frame in self._seen]
            self._seen.clear()
            return frames
        found = self.wait(deadline)
        if found is None:
            raise self.ended("container")
        return found

    def await_console(self, line: bytes, deadline: float) -> None:
        """Wait until a line has been printed on the serial port (the floor of the benchmark has no agent).

        Raises:
            CannotStart: the machine ended.
            TimedOut: the deadline passed.
        """
        while line not in self.console:
            if self.wait(deadline) is None:
                raise self.ended(self.phase)
            if time.perf_counter() >= deadline:
                raise TimedOut(
                    f"{self.name}: no {line!r} in time{self.last_words()}", target=self.name
                )

    def wait(self, deadline: float) -> list[Frame] | None:
        """Wait for the agent's frames, at most until the deadline; ``None`` if the machine ended.

        Without an agent's port (no disk) the machine has ended when its console closes.
        """
        if self._words is not None:
            return None
        readers: list[socket.socket] = [self._console] if self._console_open else []
        if self.config.disk is not None:
            readers.append(self.wire.socket)
        writers = [self.wire.socket] if self.wire.has_unsent else []
        readable, writable = ready(readers, writers, deadline - time.perf_counter())
        if writable:
            self.wire.flush()
        if self._console in readable and not self._read_console() and self.config.disk is None:
            return None
        if self.wire.socket in readable:
            try:
                frames = self.wire.receive()
                if frames is None:
                    # QEMU's sockets close a moment before it ends.
                    with contextlib.suppress(subprocess.TimeoutExpired):
                        self._process.wait(5.0)
                return frames
            except WireError as error:
                raise CannotStart(
                    f"{self.name}: {error}{self.last_words()}", target=self.name
                ) from error
        return []

    def _read_console(self) -> bool:
        now = time.perf_counter()
        try:
            data = self._console.recv(1 << 16)
        except BlockingIOError:
            return True
        except OSError:
            data = b""
        self.console += data
        del self.console[:-_CONSOLE_KEPT]
        self._console_open = bool(data)
        if data and self._first_byte is None:
            self._first_byte = now
        if "firmware" not in self.marks and self._first_byte and _is_kernel(self.console):
            self.marks["firmware"] = self._first_byte
        if "kernel" not in self.marks and AGENT_LINE in self.console:
            self.marks["kernel"] = now
        return self._console_open

    @property
    def phase(self) -> str:
        """The phase that the machine is in."""
        return next(
            (phase for phase in reversed(PHASES[1:]) if _before(phase) in self.marks), "process"
        )

    def last_words(self) -> str:
        """The end of QEMU's and the console's output, to end an error message with."""
        if self._words is not None:
            return self._words
        return last_words(self._process.said(), self._text())

    def _text(self) -> str:
        return self.console.decode("utf-8", "replace")

    def late(self, phase: str, detail: str = "") -> NotReady:
        """The error for a machine that did not leave a phase in time."""
        return NotReady(
            f"{self.name} was not ready in time: it never left its phase {phase!r}"
            + (f" ({detail})" if detail else "")
            + self.last_words(),
            target=self.name,
            phase=phase,
            console=self._text(),
        )

    def ended(self, phase: str, detail: str = "") -> MachineEnded:
        """The error for a machine that ended during a phase."""
        try:
            status: int | None = self._process.wait(2.0)
        except subprocess.TimeoutExpired:
            status = None
        how = how_it_ended(status, detail)
        return MachineEnded(
            f"{self.name}: QEMU {how} in the phase {phase!r}{self.last_words()}",
            target=self.name,
            phase=phase,
            status=status,
            console=self._text(),
        )

    def hand_over(self, file: PurePath) -> PurePath:
        """Let QEMU open a further file on the machine that it runs on; return the path that QEMU has for it.

        Raises:
            QmpError: QEMU refused, or is gone.
            OSError: the file cannot be opened.
        """
        return self._process.hand_over(self.qmp, file)

    @property
    def is_there(self) -> bool:
        """Whether it still runs."""
        return self._words is None and self._process.poll() is None

    def usage(self) -> Usage:
        """CPU time and resident memory of QEMU.

        Raises:
            CannotConnect: it is gone.
        """
        return self._process.usage()

    def close(self) -> None:
        """End the machine. Safe to repeat."""
        self._words = self.last_words()
        self._process.end()
        self.qmp.close()
        self._console.close()
        self.wire.socket.close()


def _is_kernel(console: bytearray) -> bool:
    """Whether the console's first line is the kernel's; its letters are doubled if firmware prints there, too."""
    line, newline, _ = bytes(console).replace(b"\r", b"").partition(b"\n")
    return bool(newline) and KERNEL_LINE in (line, line[::2])


def _before(phase: str) -> str:
    return PHASES[PHASES.index(phase) - 1]
