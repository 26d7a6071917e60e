"""A guest: a full QEMU machine, started through libvirt, with commands run by its agent, qemu-guest-agent.

The agent is reached through libvirt too, so this also works on a remote machine. Commands: QEMU documentation,
interop/qemu-ga-ref. The agent only answers requests, so the end of a command is polled for; the longer it runs the
less often, since each request costs the guest some CPU time.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import re
import secrets
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pytest_vperf.targets.agent.target import ENVIRONMENT
from pytest_vperf.targets.base import (
    MOST_FILE,
    CannotConnect,
    Completed,
    Facts,
    RunsCommands,
    TargetError,
    TimedOut,
    end_marked,
    named,
    startup_quantity,
)
from pytest_vperf.targets.libvirt.connection import is_lost, words
from pytest_vperf.targets.libvirt.domain import WholeMachine
from pytest_vperf.targets.process import Output, received, too_large

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from pytest_vperf.quantity import Quantity
    from pytest_vperf.targets.base import Command, Program, Usage
    from pytest_vperf.targets.libvirt.connection import Connection
    from pytest_vperf.targets.libvirt.domain import Domain


#: Seconds for one answer; a busy guest in emulation is slow.
ANSWER = 30
#: Bytes of a file moved by one command; in base64 well below 4 MiB, the limit of a string in libvirt's protocol.
CHUNK = 1 << 16
#: Most bytes of a command's output, which arrives in such a string too.
MOST_PRINTED = 2_900_000
_POLL_FIRST, _POLL_LAST, _POLL_SHARE = 0.01, 0.5, 0.05
#: Beginning of libvirt's message when a working agent refuses a command.
_REFUSED = "unable to execute QEMU agent command"
#: libvirt's message when it drops an agent because an answer exceeds 10 MiB (qemu_agent.c).
_TOO_MUCH = "No complete agent response found"
#: The agent's message for a program that is missing or cannot be executed (GLib's g_spawn_async_with_pipes).
_NOT_EXECUTED = re.compile(r"Failed to (?:execute|spawn|change).*\((?P<why>[^()]*)\)")


@dataclass(frozen=True)
class Ended:
    """An ended command: its exit status, as in a shell, and its output."""

    status: int
    stdout: bytes
    stderr: bytes


class NotExecuted(Exception):
    """The guest could not execute a program; the message is its reason."""


class GuestAgent:
    """The agent of one guest.

    Args:
        connection: to the daemon.
        domain: the guest.
    """

    def __init__(self, connection: Connection, domain: Domain) -> None:
        self._libvirt = connection.libvirt
        self._domain = domain

    def ask(self, command: str, *, timeout: float = ANSWER, **arguments: Any) -> Any:
        """Send one command and return its result.

        Raises:
            CannotConnect: guest, agent or daemon is gone.
            TimedOut: the agent does not answer within ``timeout`` seconds.
            TargetError: the agent refuses; with its message.
        """
        import libvirt_qemu

        order = {"execute": command, **({"arguments": arguments} if arguments else {})}
        try:
            said = libvirt_qemu.qemuAgentCommand(
                self._domain.handle, json.dumps(order), max(1, round(timeout)), 0
            )
        except self._libvirt.libvirtError as error:
            raise self._failure(error, command, timeout) from None
        try:
            return json.loads(said)["return"]
        except (ValueError, LookupError, TypeError, RecursionError):
            raise self._nonsense(command) from None

    def _nonsense(self, command: str) -> TargetError:
        """The error for an invalid answer: root in the guest may have replaced the agent."""
        name = self._domain.name
        return TargetError(f"{name}: its agent's answer to {command} is invalid", target=name)

    def _failure(self, error: Any, command: str, timeout: float) -> TargetError:
        name, said, code = self._domain.name, words(error), error.get_error_code()
        libvirt = self._libvirt
        if code == libvirt.VIR_ERR_RPC and self._domain.connection.is_alive:
            return TargetError(
                f"{name}: its agent's answer to {command} is too long for libvirt: {said}",
                target=name,
            )
        if _TOO_MUCH in said:
            return TargetError(
                f"{name}: its agent's answer to {command} is more than libvirt reads, and libvirt no"
                f" longer speaks to this agent: {said}",
                target=name,
            )
        stopped = "" if _REFUSED in said or is_lost(error) else self._domain.why_stopped()
        if stopped:
            return CannotConnect(f"{name} was stopped: {stopped}", target=name)
        # A machine's end can cause any error of a call to its agent; the event about it arrives a moment later.
        gone = _REFUSED not in said and self._domain.ended
        if gone or is_lost(error):
            return CannotConnect(
                f"{name} is gone: {self._domain.why_gone()}{self._domain.last_words()}", target=name
            )
        if code == getattr(libvirt, "VIR_ERR_AGENT_COMMAND_TIMEOUT", -1) or "timeout" in said:
            return TimedOut(
                f"{name}: its agent did not answer {command} within {timeout:g} s{self._domain.last_words()}",
                target=name,
            )
        if code == libvirt.VIR_ERR_AGENT_UNRESPONSIVE and self._domain.watch.agent is not None:
            # Its port is open, so it hangs. libvirt reports the same for the request after one that timed out.
            return TimedOut(
                f"{name}: its agent does not answer {command}: {said}{self._domain.last_words()}",
                target=name,
            )
        if code == libvirt.VIR_ERR_AGENT_UNRESPONSIVE:
            return CannotConnect(
                f"{name}: its agent is gone: {said}{self._domain.last_words()}", target=name
            )
        if code in (libvirt.VIR_ERR_NO_DOMAIN, libvirt.VIR_ERR_OPERATION_INVALID):
            return CannotConnect(f"{name} is gone: {said}{self._domain.last_words()}", target=name)
        return TargetError(f"{name}: its agent refuses {command}: {said}", target=name)

    def start(self, argv: Sequence[str], env: Mapping[str, str], input: bytes) -> int:
        """Start a command; return its PID.

        Raises:
            NotExecuted: the program is missing or cannot be executed.
            TargetError: as `ask`.
        """
        arguments: dict[str, Any] = {
            "path": argv[0],
            "arg": list(argv[1:]),
            "env": [f"{name}={value}" for name, value in env.items()],
            "capture-output": True,
        }
        if input:
            arguments["input-data"] = base64.b64encode(input).decode()
        try:
            return self._number(self.ask("guest-exec", **arguments), "pid", "guest-exec")
        except (CannotConnect, TimedOut):
            raise
        except TargetError as error:
            found = _NOT_EXECUTED.search(str(error))
            if found is None:
                raise
            raise NotExecuted(found["why"]) from None

    def ended(self, pid: int) -> Ended | None:
        """How a command ended; ``None`` while it runs. The result can be read only once.

        Raises:
            TargetError: as `ask`; or the output exceeds what the agent keeps.
        """
        command = "guest-exec-status"
        answer = self.ask(command, pid=pid)
        if not isinstance(answer, dict) or not isinstance(answer.get("exited"), bool):
            raise self._nonsense(command)
        if not answer["exited"]:
            return None
        if answer.get("out-truncated") or answer.get("err-truncated"):
            raise TargetError(
                f"{self._domain.name}: a command printed more than its agent keeps: have it write to a file,"
                " and get() that",
                target=self._domain.name,
            )
        if "exitcode" in answer:
            status = self._number(answer, "exitcode", command)
        else:
            status = 128 + self._number({"signal": 0, **answer}, "signal", command)
        out, err = (self._bytes(answer, name, command) for name in ("out-data", "err-data"))
        return Ended(status, out, err)

    def _number(self, answer: Any, name: str, command: str) -> int:
        """A number in an answer.

        Raises:
            TargetError: it is missing or not a number.
        """
        found = answer.get(name) if isinstance(answer, dict) else answer
        if isinstance(found, bool) or not isinstance(found, int) or not 0 <= found < 1 << 63:
            raise self._nonsense(command)
        return found

    def _bytes(self, answer: Mapping[str, Any], name: str, command: str) -> bytes:
        """Bytes in an answer; empty if it has none.

        Raises:
            TargetError: it is not base64.
        """
        try:
            return base64.b64decode(answer.get(name, ""))
        except (ValueError, TypeError):
            raise self._nonsense(command) from None

    def wait(self, pid: int, deadline: float) -> Ended | None:
        """Wait for a command's end until a deadline on time.perf_counter()'s clock; ``None`` if it still runs."""
        began = time.perf_counter()
        while (ended := self.ended(pid)) is None:
            now = time.perf_counter()
            if now >= deadline:
                return None
            pause = min(_POLL_LAST, max(_POLL_FIRST, _POLL_SHARE * (now - began)))
            self._domain.pause(min(pause, deadline - now))
        return ended

    def write(self, path: str, chunks: Iterator[bytes]) -> None:
        """Write a file.

        Raises:
            TargetError: as `ask`.
        """
        file = self._open(path, "wb")
        try:
            for chunk in chunks:
                left = chunk
                while left:
                    part: dict[str, Any] = {"buf-b64": base64.b64encode(left).decode()}
                    said = self.ask("guest-file-write", handle=file, **part)
                    written = self._number(said, "count", "guest-file-write")
                    if not 0 < written <= len(left):
                        raise self._nonsense("guest-file-write")
                    left = left[written:]
        except BaseException:
            with contextlib.suppress(TargetError):  # the first error tells more
                self.ask("guest-file-close", handle=file)
            raise
        self.ask("guest-file-close", handle=file)

    def _open(self, path: str, mode: str) -> int:
        said = self.ask("guest-file-open", path=path, mode=mode)
        return self._number(said, "return", "guest-file-open")

    def read(self, path: str) -> Iterator[bytes]:
        """Read a file, piece by piece.

        Raises:
            TargetError: as `ask`.
        """
        file = self._open(path, "rb")
        try:
            while True:
                answer = self.ask("guest-file-read", handle=file, count=CHUNK)
                if not isinstance(answer, dict):
                    raise self._nonsense("guest-file-read")
                piece = self._bytes(answer, "buf-b64", "guest-file-read")
                if piece:
                    yield piece
                if answer.get("eof") or not piece:
                    break
        except BaseException:
            with contextlib.suppress(TargetError):  # the first error tells more
                self.ask("guest-file-close", handle=file)
            raise
        self.ask("guest-file-close", handle=file)


#: The phases of a guest's start, in order. Each ends where the next begins:
#:
#:     process    request → libvirt has created the machine and resumes it
#:     firmware   → the kernel's first instructions have printed on the serial port
#:     kernel     → the kernel's first process has printed
#:     userspace  → the guest's agent has opened its port, which libvirt reports as an event
#:
#: Each is timestamped on arrival in this process, on its monotonic clock; for a remote daemon that adds the latency.
PHASES = ("process", "firmware", "kernel", "userspace")
#: Environment variable that marks all processes of a command, so that a time limit can kill them.
_MARK = "VPERF_COMMAND"
#: Seconds for a killed command to be reported dead.
_GRACE = 10.0
#: Seconds for copying a file.
_COPIED_WITHIN = 600.0


class Guest(WholeMachine, RunsCommands):
    """A running guest, a Target, started by `pytest_vperf.targets.guest.guests.Guests`.

    Attributes:
        name: ``guest kvm`` or ``guest tcg``.

    Args:
        domain: the running machine.
        agent: its agent.
        began: time of the request, on time.perf_counter()'s clock.
        marks: the end of each phase.
        details: for `facts`.
        find: looks up one of its programs.
    """

    def __init__(
        self,
        domain: Domain,
        agent: GuestAgent,
        began: float,
        marks: Mapping[str, float],
        details: Mapping[str, str],
        find: Callable[[str], Program],
    ) -> None:
        self.name = domain.name
        self._domain = domain
        self._agent = agent
        self._began = began
        self._marks = dict(marks)
        self._details = dict(details)
        self._find = find

    @property
    def identity(self) -> str:
        """Its name in libvirt, which is also on its QEMU's command line."""
        return self._domain.identity

    @property
    def port(self) -> str:
        """The host's side of its network card, e.g. ``vnet0``; empty without a card.

        Raises:
            CannotConnect: it is gone.
        """
        return self._domain.port

    @property
    def startup_time(self) -> Quantity:
        """Time in ms from the request until its agent was ready, with `PHASES` as parts."""
        return startup_quantity(self._began, self._marks, PHASES)

    def _run(self, command: Command) -> Completed:
        """Run a command in the guest.

        Its output arrives when it has ended, 2.9 MB at most, whatever ``max_output`` is, so only the time limit ends
        a command that prints endlessly. The agent also waits for any child that keeps the output open.
        """
        argv = command.argv
        if any("\0" in word for word in argv):
            raise TargetError(f"{self.name}: an argument of a command has a NUL character")
        began = time.perf_counter()
        mark = secrets.token_hex(8)
        words, spooled = self._words(argv, command.input, command.cwd)
        environment = {**ENVIRONMENT, **command.env, _MARK: mark}
        try:
            pid = self._agent.start(words, environment, b"" if spooled else command.input)
        except NotExecuted as error:
            status = 127 if "No such file" in str(error) else 126
            ended = Ended(status, b"", f"{argv[0]}: {error}\n".encode())
        else:
            ended = self._await(argv, pid, mark, began + command.timeout)
        if len(ended.stdout) + len(ended.stderr) > command.max_output:
            output = Output(command.max_output)
            output.take_stdout(ended.stdout)
            output.take_stderr(ended.stderr)
            raise output.too_much(argv, command.max_output, self.name)
        completed = Completed(
            argv, ended.status, ended.stdout, ended.stderr, time.perf_counter() - began
        )
        if spooled:
            self._agent_run(["rm", "-f", spooled])
        return completed

    def _words(
        self, argv: tuple[str, ...], input: bytes, cwd: str | None
    ) -> tuple[Sequence[str], str]:
        """The command line for the agent, and the file that holds a long input."""
        spooled = ""
        if len(input) > CHUNK:
            spooled = f"/run/vperf-{secrets.token_hex(8)}"
            pieces = (input[at : at + CHUNK] for at in range(0, len(input), CHUNK))
            self._agent.write(spooled, pieces)
        if not spooled and cwd is None:
            return argv, ""
        # A shell uses 127 and 126 too. `cd` prints the folder only with CDPATH or "-".
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
        """One of its programs; see `pytest_vperf.targets.base.Target.program`."""
        with named(self.name):
            return self._find(name)

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
        """CPU time and resident memory of its QEMU, as accounted by libvirt."""
        return self._domain.usage()
