"""A guest: a full virtual machine that QEMU runs, started and spoken to through libvirt."""

from __future__ import annotations

import os
import secrets
import time
from typing import TYPE_CHECKING

from pytest_vperf.targets.agent.target import ENVIRONMENT
from pytest_vperf.targets.base import (
    MOST_FILE,
    MOST_OUTPUT,
    CannotConnect,
    CommandFailed,
    Completed,
    Facts,
    TargetError,
    TimedOut,
    Unavailable,
)
from pytest_vperf.targets.end_marked import end_marked
from pytest_vperf.targets.guest.agent import CHUNK, MOST_PRINTED, Ended, NotExecuted
from pytest_vperf.targets.phases import startup_quantity
from pytest_vperf.targets.received import Output, received, too_large
from pytest_vperf.targets.virt.whole_machine import WholeMachine

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from pytest_vperf.quantity import Quantity
    from pytest_vperf.targets.base import Usage
    from pytest_vperf.targets.guest.agent import GuestAgent
    from pytest_vperf.targets.image import Rootfs
    from pytest_vperf.targets.program import Program
    from pytest_vperf.targets.virt.domain import Domain

#: The phases of a guest's start, in order. Each ends where the next begins:
#:
#:     process    request → libvirt has made the machine and lets it go
#:     firmware   → the kernel's first instructions have printed on the serial port
#:     kernel     → the kernel's first process has printed
#:     userspace  → the guest's agent has opened its port, which libvirt pushes as an event
#:
#: All are dated when they reach this process, on its monotonic clock: of a daemon far away later by the way.
PHASES = ("process", "firmware", "kernel", "userspace")
#: Carried by everything that a command starts, by which a time limit finds it.
_MARK = "VPERF_COMMAND"
#: Seconds for a killed command to be reported dead.
_GRACE = 10.0
#: Seconds for a file.
_COPIED_WITHIN = 600.0


class Guest(WholeMachine):
    """A running guest. Made by `pytest_vperf.targets.guest.guests.Guests`; a Target.

    Args:
        domain: runs.
        agent: answers.
        began: the request, on time.perf_counter()'s clock.
        marks: the end of each phase.
        details: for `facts`.
        rootfs: its image.
    """

    def __init__(
        self,
        domain: Domain,
        agent: GuestAgent,
        began: float,
        marks: Mapping[str, float],
        details: Mapping[str, str],
        rootfs: Rootfs,
    ) -> None:
        self._domain = domain
        self._agent = agent
        self._began = began
        self._marks = dict(marks)
        self._details = dict(details)
        self._rootfs = rootfs

    @property
    def name(self) -> str:
        """``guest kvm`` or ``guest tcg``."""
        return self._domain.name

    @property
    def identity(self) -> str:
        """Its name in libvirt, which its QEMU has in its command line."""
        return self._domain.identity

    @property
    def port(self) -> str:
        """Its host's side of its network card, e.g. ``vnet0``; empty without one.

        Raises:
            CannotConnect: it is gone.
        """
        return self._domain.port

    @property
    def startup_time(self) -> Quantity:
        """From the request until its agent was there, in ms, with `PHASES` as parts."""
        return startup_quantity(self._began, self._marks, PHASES)

    def run(
        self,
        argv: Sequence[str],
        *,
        input: bytes = b"",
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        timeout: float = 60.0,
        check: bool = True,
        max_output: int = MOST_OUTPUT,
    ) -> Completed:
        """Run a command in the guest; see `pytest_vperf.targets.base.Target.run`.

        Its output comes when it has ended, and may have 2.9 MB, whatever ``max_output`` says: one that prints without
        end is ended by the time limit alone. A child that it leaves behind with its output open
        keeps it: the agent waits for both.
        """
        command = tuple(argv)
        if not command:
            raise ValueError("a command has at least one word")
        if any("\0" in word for word in command):
            raise TargetError(f"{self.name}: a word of a command has a NUL character")
        began = time.perf_counter()
        mark = secrets.token_hex(8)
        words, spooled = self._words(command, input, cwd)
        environment = {**ENVIRONMENT, **(env or {}), _MARK: mark}
        try:
            pid = self._agent.start(words, environment, b"" if spooled else input)
        except NotExecuted as error:
            status = 127 if "No such file" in str(error) else 126
            ended = Ended(status, b"", f"{command[0]}: {error}\n".encode())
        else:
            ended = self._await(command, pid, mark, began + timeout)
        if len(ended.stdout) + len(ended.stderr) > max_output:
            output = Output(max_output)
            output.take_stdout(ended.stdout)
            output.take_stderr(ended.stderr)
            raise output.too_much(command, max_output, self.name)
        completed = Completed(
            command, ended.status, ended.stdout, ended.stderr, time.perf_counter() - began
        )
        if spooled:
            self._agent_run(["rm", "-f", spooled])
        if check and completed.returncode:
            raise CommandFailed(completed, target=self.name)
        return completed

    def _words(
        self, argv: tuple[str, ...], input: bytes, cwd: str | None
    ) -> tuple[Sequence[str], str]:
        """The words for the agent, and the file that holds the input where that is long."""
        spooled = ""
        if len(input) > CHUNK:
            spooled = f"/run/vperf-{secrets.token_hex(8)}"
            pieces = (input[at : at + CHUNK] for at in range(0, len(input), CHUNK))
            self._agent.write(spooled, pieces)
        if not spooled and cwd is None:
            return argv, ""
        # 127 and 126 are a shell's own as well. `cd` prints where it went if it was told to by CDPATH or "-".
        script = 'cd -- "$1" || exit 127; [ -z "$2" ] || exec <"$2"; shift 2; exec "$@"'
        return ["/bin/sh", "-c", script, "sh", cwd or "/", spooled, *argv], spooled

    def _await(self, argv: tuple[str, ...], pid: int, mark: str, deadline: float) -> Ended:
        try:
            ended = self._agent.wait(pid, deadline)
        except TargetError as error:
            if isinstance(error, CannotConnect | TimedOut):
                raise
            raise TargetError(
                f"{error}\n(`{' '.join(argv)}`; output may have {MOST_PRINTED} bytes)",
                target=self.name,
            ) from None
        if ended is not None:
            return ended
        self._agent_run(end_marked(_MARK, mark))
        ended = self._agent.wait(pid, time.perf_counter() + _GRACE)
        raise TimedOut(
            f"{' '.join(argv)} did not end in time in {self.name}; it was killed",
            target=self.name,
            stdout=ended.stdout if ended else b"",
            stderr=ended.stderr if ended else b"",
        )

    def _agent_run(self, argv: Sequence[str]) -> Ended | None:
        pid = self._agent.start(argv, ENVIRONMENT, b"")
        return self._agent.wait(pid, time.perf_counter() + _GRACE)

    def program(self, name: str) -> Program:
        """A program of the image; see `pytest_vperf.targets.base.Target.program`."""
        from pytest_vperf.targets.image_programs import programs_of

        try:
            return programs_of(self._rootfs).find(name)
        except Unavailable as error:
            error.target = self.name
            raise

    def put(self, source: Path, destination: str) -> None:
        """Copy a file into the guest; see `pytest_vperf.targets.base.Target.put`."""
        with source.open("rb") as stream:
            mode = os.fstat(stream.fileno()).st_mode & 0o7777
            self._agent.write(destination, iter(lambda: stream.read(CHUNK), b""))
        self.run(["chmod", f"{mode:o}", destination])

    def get(self, source: str, destination: Path, *, limit: int = MOST_FILE) -> None:
        """Copy a file out of the guest; see `pytest_vperf.targets.base.Target.get`."""
        deadline = time.perf_counter() + _COPIED_WITHIN
        left = limit
        with received(destination, self.name) as draft:
            for piece in self._agent.read(source):
                left -= len(piece)
                if left < 0:
                    raise too_large(source, limit, self.name)
                if time.perf_counter() >= deadline:
                    raise TimedOut(
                        f"get {source} from {self.name} did not end within {_COPIED_WITHIN:g} s",
                        target=self.name,
                    )
                draft.file.write(piece)

    def facts(self) -> Facts:
        """Versions, hashes and settings of this machine."""
        network = self.link.details() if self.link else {}
        return Facts("guest", self.name, {**self._details, **network})

    def usage(self) -> Usage:
        """CPU time and resident memory of its QEMU, as libvirt accounts for them."""
        return self._domain.usage()
