"""The Protocol of every target: run a command, copy files in and out, report facts and usage.

Workloads and claims only use this Protocol. The errors distinguish situations by what the reader has to do: start it
differently, check the connection, read the command's output, or allow more time. `Unavailable` is not a failure: this
machine cannot have such a target, and the claim is *not measured*.

Also here is what several kinds of targets share: ending marked commands, reading logs, the phases of a start,
programs, and expensive things that are made once.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar, runtime_checkable

from pytest_vperf.quantity import Quantity

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path
    from types import TracebackType

    from typing_extensions import Self


#: Repeated until none is found: a process may be created between search and signal. Needs a shell and grep.
_SCRIPT = (
    "for turn in 1 2 3 4 5; do found=;"
    ' for e in /proc/[0-9]*/environ; do if grep -q "{variable}=$1" "$e" 2>/dev/null; then'
    " p=${{e#/proc/}}; kill -9 ${{p%/environ}} && found=yes; fi; done;"
    ' [ "$found" ] || break; done'
)


def end_marked(variable: str, mark: str) -> list[str]:
    """The command that kills every process with ``variable=mark`` in its environment; its own must not have it.

    Args:
        variable: its name.
        mark: its value: letters and digits.
    """
    return ["sh", "-c", _SCRIPT.format(variable=variable), "sh", mark]


#: Most lines to show, and characters of each.
_COUNT, _WIDTH = 8, 400


def last_lines(log: Path) -> str:
    """The last lines of a log, long ones truncated; ``(none)`` if it is empty.

    Raises:
        OSError: it cannot be read.
    """
    lines = log.read_text(errors="replace").strip().splitlines()[-_COUNT:]
    return "\n".join(line[:_WIDTH] for line in lines) or "(none)"


def startup_quantity(began: float, marks: Mapping[str, float], phases: Iterable[str]) -> Quantity:
    """The time of a start in ms, broken down by phases, in order.

    If the end of a phase was not seen (a kernel that prints nothing), it is joined with the next:
    ``firmware+kernel``. So is one whose end was seen too late, after that of a later phase: consoles, agents and
    calls of libvirt arrive on ways of their own, and no phase is negative.

    Args:
        began: the request, in seconds.
        marks: when each phase ended, on the same clock.
        phases: all of them, in order.
    """
    parts: list[tuple[str, float]] = []
    waiting: list[str] = []
    order = tuple(phases)
    for place, phase in enumerate(order):
        waiting.append(phase)
        if phase in marks:
            ended = marks[phase]
            if any(marks.get(later, ended) < ended for later in order[place + 1 :]):
                continue
            parts.append(("+".join(waiting), (ended - began) * 1e3))
            began, waiting = ended, []
    return Quantity(sum(value for _, value in parts), "ms", tuple(parts), direction="lower")


@dataclass(frozen=True)
class Program:
    """A program as one target runs it. Made by `pytest_vperf.targets.base.Target.program`.

    Attributes:
        name: as requested, e.g. ``sysbench``.
        argv: the command before its arguments. On the host more than a path, since the image's program runs through
            the image's own loader.
        path: of the file in the image, e.g. ``/usr/bin/sysbench``; or on the host, for an installed tool.
        sha256: of the file, in hexadecimal; equal in two targets if both run the same bytes.
        origin: ``image``, or ``host`` for a tool that is installed there.
    """

    name: str
    argv: tuple[str, ...]
    path: str
    sha256: str
    origin: str


class TargetError(Exception):
    """An error of a target.

    Attributes:
        target: which target, e.g. ``pod tcg qboot``.
    """

    def __init__(self, message: str, *, target: str = "") -> None:
        super().__init__(message)
        self.target = target


class Unavailable(TargetError):
    """This machine cannot have the target: a claim on it is *not measured*, which is not a failure.

    Attributes:
        reason: what is missing or not usable.
        remedy: the command or step that would help; empty if there is none.
    """

    def __init__(self, reason: str, *, remedy: str = "", target: str = "") -> None:
        super().__init__(f"{reason} (to mend it: {remedy})" if remedy else reason, target=target)
        self.reason = reason
        self.remedy = remedy


class CannotStart(TargetError):
    """The target did not start; the message has the end of its output."""


class CannotConnect(TargetError):
    """The target should be there but does not answer: engine stopped, machine gone."""


class CommandFailed(TargetError):
    """A command ran in the target and ended with a status other than 0.

    Attributes:
        completed: the command with its status and output.
    """

    def __init__(self, completed: Completed, *, target: str = "") -> None:
        tail = (completed.stderr or completed.stdout).decode("utf-8", "replace").strip()[-500:]
        super().__init__(
            f"{' '.join(completed.argv)} ended with status {completed.returncode} in {target or 'the target'}"
            + (f":\n{tail}" if tail else ""),
            target=target,
        )
        self.completed = completed


class _CutShort(TargetError):
    """A command was ended before it finished.

    Attributes:
        stdout: its output until then.
        stderr: likewise.
    """

    def __init__(
        self, message: str, *, target: str = "", stdout: bytes = b"", stderr: bytes = b""
    ) -> None:
        super().__init__(message, target=target)
        self.stdout = stdout
        self.stderr = stderr


class TimedOut(_CutShort):
    """A command or a start exceeded its time limit; all that it started has been ended."""


class TooMuchOutput(_CutShort):
    """A command's output or a file exceeded its limit; the command was ended, or the file not copied."""


#: Default limits in bytes of a command's output, which is held in memory, and of a fetched file, which is not.
MOST_OUTPUT, MOST_FILE = 64 << 20, 1 << 30


@dataclass(frozen=True)
class Completed:
    """A command that ran to its end in a target.

    Attributes:
        argv: the command.
        returncode: its exit status; ``128 + N`` if signal N ended it, as in a shell.
        stdout: what it printed, as bytes.
        stderr: likewise.
        duration: wall time on the *host's* monotonic clock, in seconds.
    """

    argv: tuple[str, ...]
    returncode: int
    stdout: bytes
    stderr: bytes
    duration: float

    @property
    def text(self) -> str:
        """Standard output as text; bytes that are not UTF-8 are replaced, never dropped."""
        return self.stdout.decode("utf-8", "replace")


@dataclass(frozen=True)
class Usage:
    """What a target has used of the host since it started.

    Attributes:
        cpu_time: seconds of CPU time, user and system.
        memory: bytes of the host's memory in use now; ``None`` if the host does not account for it.
    """

    cpu_time: float
    memory: int | None


#: The detail that names the machine of a target on another machine.
ON = "on"


@dataclass(frozen=True)
class Facts:
    """What a target really is, as read back from the system that runs it.

    Attributes:
        kind: ``host``, ``container`` or ``pod``.
        name: kind and variant, as printed in reports: ``container runsc``, ``pod tcg qboot``.
        details: versions, hashes and settings read back, e.g. ``accelerator``, ``firmware_sha256``.
    """

    kind: str
    name: str
    details: Mapping[str, str] = field(default_factory=dict)


@runtime_checkable
class Target(Protocol):
    """A place where a workload runs. Leaving its context ends it and removes all that it had."""

    @property
    def name(self) -> str:
        """Kind and variant, e.g. ``container runc``."""
        ...

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
        """Run a command to its end; no shell is involved.

        Args:
            argv: the command and its arguments.
            input: its standard input.
            env: variables added to the target's environment.
            cwd: working folder in the target.
            timeout: seconds until the command is ended.
            check: raise `CommandFailed` for a status other than 0.
            max_output: limit in bytes of both outputs together.

        Raises:
            CommandFailed: with ``check``, the command ended with a status other than 0. A command that does not exist
                or cannot be executed has status 127 or 126, as in a shell.
            TimedOut: it exceeded its time limit and was ended.
            TooMuchOutput: it printed more than ``max_output``; it was ended.
            CannotConnect: the target is gone.
        """
        ...

    def program(self, name: str) -> Program:
        """A program of the target's image: its command in the target, and the hash of its file.

        The image is the root of containers and pods; the host runs the same files in place, with the image's loader
        and libraries, so that a comparison is between targets and not between builds of a tool.

        Raises:
            Unavailable: the image does not have it; or the host cannot run the image's programs.
        """
        ...

    def put(self, source: Path, destination: str) -> None:
        """Copy a file from the host to an absolute path in the target, keeping its permission bits.

        Raises:
            CannotConnect: the target is gone.
            TargetError: the destination cannot be written; says why.
        """
        ...

    def get(self, source: str, destination: Path, *, limit: int = MOST_FILE) -> None:
        """Copy a file from an absolute path in the target to the host.

        It appears once it is complete, and replaces a file or link of that name. It keeps its permission bits, at
        most 0755, if the target reports them.

        Args:
            source: in the target; a link there is followed.
            destination: on the host.
            limit: of its size in bytes.

        Raises:
            TooMuchOutput: it is larger.
            CannotConnect: the target is gone.
            TargetError: the source cannot be read; says why.
        """
        ...

    def facts(self) -> Facts:
        """What the target really is. May run commands in it; never called while time is measured."""
        ...

    def usage(self) -> Usage:
        """What the target has used of the host."""
        ...

    def close(self) -> None:
        """End the target and remove all that it had. Safe to repeat; no error if it is already gone."""
        ...

    def __enter__(self) -> Target: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...


@dataclass(frozen=True)
class Command:
    """A command for a target; the fields are the arguments of `Target.run`."""

    argv: tuple[str, ...]
    input: bytes = b""
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: str | None = None
    timeout: float = 60.0
    max_output: int = MOST_OUTPUT

    def __post_init__(self) -> None:
        if not self.argv:
            raise ValueError("a command has at least one word")

    def __str__(self) -> str:
        return " ".join(self.argv)


class RunsCommands:
    """Implements `Target.run` and the context of a target; subclasses implement `_run`."""

    name: str

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
        """Run a command to its end; see `Target.run`."""
        done = self._run(Command(tuple(argv), input, env or {}, cwd, timeout, max_output))
        if check and done.returncode != 0:
            raise CommandFailed(done, target=self.name)
        return done

    def _run(self, command: Command) -> Completed:
        """Run a command to its end, whatever its status.

        Raises:
            TargetError: as for `Target.run`, except `CommandFailed`.
        """
        raise NotImplementedError

    def close(self) -> None:
        """See `Target.close`."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


class Link(Protocol):
    """A target's link to a network. `pytest_vperf.targets.network.link` has the usual one."""

    @property
    def kind(self) -> str:
        """``veth``, ``tap``, ``user`` or ``route``."""
        ...

    @property
    def ports(self) -> Sequence[int]:
        """The ports at which a server in the target can be reached; empty if all can."""
        ...

    @property
    def listen(self) -> str:
        """The address a server in the target binds to."""
        ...

    def address_for(self, client: Link) -> str:
        """The address by which a client with another link reaches the target.

        Raises:
            Unavailable: the two cannot reach each other.
        """
        ...

    def details(self) -> Mapping[str, str]:
        """What the link really is, for the target's facts."""
        ...

    def close(self) -> None:
        """Remove the link. Safe to repeat."""
        ...


def link_of(target: object) -> Link:
    """The link of a target.

    Raises:
        TargetError: it has none; says how to give it one.
    """
    link: Link | None = getattr(target, "link", None)
    if link is None:
        name = getattr(target, "name", type(target).__name__)
        how = "let the test ask for it" if name == "host" else "start it with network=network"
        raise TargetError(
            f"{name} is on no network: {how} (the fixture `network`)",
            target=name,
        )
    return link


@runtime_checkable
class Started(Target, Protocol):
    """A target whose start was timed."""

    @property
    def startup_time(self) -> Quantity:
        """From the request until the container's process runs, in ms, broken down by phases, in order.

        The phases add up to the whole: each ends where the next begins, on the host's monotonic clock.
        """
        ...


@contextlib.contextmanager
def named(target: str) -> Iterator[None]:
    """Add the target's name to `Unavailable`: engine and image are shared, so their errors do not know the target."""
    try:
        yield
    except Unavailable as error:
        error.target = target
        raise


T = TypeVar("T")

#: Most times that a thing is made in a run: if it keeps dying, a new one would die, too.
_MOST = 3


class Once(Generic[T]):
    """A function that is called once; its result is kept, and so is a `TargetError`.

    Trying again to start an engine that does not start would cost each claim as much time as the first. A thing that
    worked and then died is different: the claim during which it died gets the error, and for later ones it is made
    again, see `renew`.

    Args:
        make: makes the thing.
        gone: whether it has died.
        end: removes its remains before another one is made.
    """

    def __init__(
        self,
        make: Callable[[], T],
        *,
        gone: Callable[[T], bool] | None = None,
        end: Callable[[T], None] | None = None,
    ) -> None:
        self._make = make
        self._gone = gone
        self._end = end
        self._times = 0
        self._made: list[T] = []
        self._error: TargetError | None = None

    @property
    def made(self) -> tuple[T, ...]:
        """The current thing, if any."""
        return tuple(self._made)

    def __call__(self) -> T:
        """The thing.

        Raises:
            TargetError: it could not be made, or died too often; the same error each time.
        """
        if self._error is not None:
            raise self._error
        if not self._made:
            try:
                if self._times == _MOST:
                    raise CannotConnect(
                        f"it died {_MOST} times in this run, and is not started again; its output is in the errors"
                        " of the claims during which it died"
                    )
                self._times += 1
                self._made.append(self._make())
            except TargetError as error:
                self._error = error
                raise
        return self._made[0]

    def renew(self) -> None:
        """Drop a thing that has died, so that the next call makes another one. Called between tests: during one, a
        new thing would hide that the old one died.
        """
        if self._made and self._gone is not None and self._gone(self._made[0]):
            dead = self._made.pop()
            if self._end is not None:
                self._end(dead)
