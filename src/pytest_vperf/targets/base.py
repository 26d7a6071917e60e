"""What every target is: a place where a command can be run, files put and fetched, and facts asked for.

A workload and a claim know a target by this Protocol alone. The errors tell four situations apart, because
each asks something else of the reader: start it another way, look at the connection, read the command's
output, or give it more time. A fifth, `Unavailable`, is not a failure at all: this machine cannot have such
a target, and the claim is *not measured*.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path
    from types import TracebackType

    from pytest_vperf.quantity import Quantity
    from pytest_vperf.targets.program import Program


class TargetError(Exception):
    """Something about a target went wrong.

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
        remedy: the command or step that mends it; empty where nothing can.
    """

    def __init__(self, reason: str, *, remedy: str = "", target: str = "") -> None:
        super().__init__(f"{reason} (to mend it: {remedy})" if remedy else reason, target=target)
        self.reason = reason
        self.remedy = remedy


class CannotStart(TargetError):
    """The target was asked to start and did not: the message ends with its last words."""


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


class TimedOut(TargetError):
    """A command, or a start, did not finish within its time limit; what it started has been ended.

    Attributes:
        stdout: what the command had printed until then.
        stderr: likewise.
    """

    def __init__(
        self, message: str, *, target: str = "", stdout: bytes = b"", stderr: bytes = b""
    ) -> None:
        super().__init__(message, target=target)
        self.stdout = stdout
        self.stderr = stderr


class TooMuchOutput(TargetError):
    """A command printed, or a file has, more than was to be taken; the command has been ended, the file is not there.

    Attributes:
        stdout: what the command had printed until then.
        stderr: likewise.
    """

    def __init__(
        self, message: str, *, target: str = "", stdout: bytes = b"", stderr: bytes = b""
    ) -> None:
        super().__init__(message, target=target)
        self.stdout = stdout
        self.stderr = stderr


#: Bytes that a command may print, and that a file may have which is fetched, where nobody says otherwise. The first
#: are held in memory, the others are not.
MOST_OUTPUT, MOST_FILE = 64 << 20, 1 << 30


@dataclass(frozen=True)
class Completed:
    """A command that ran to its end in a target.

    Attributes:
        argv: the command.
        returncode: its exit status; ``128 + N`` where signal N ended it, as a shell has it.
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
        memory: bytes of the host's memory in use now; ``None`` where the host does not account for it.
    """

    cpu_time: float
    memory: int | None


#: The detail that names the machine a target is on, where that is not this one.
ON = "on"


@dataclass(frozen=True)
class Facts:
    """What a target really is, as asked of the system that runs it.

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
    """A place where a workload runs. Leaving its context ends it and removes everything it had."""

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
            input: what the command reads on standard input.
            env: variables added to the target's environment.
            cwd: working folder in the target.
            timeout: seconds until the command is ended.
            check: raise `CommandFailed` for a status other than 0.
            max_output: bytes that it may print on both outputs together.

        Raises:
            CommandFailed: with ``check``, the command ended with another status than 0. A command that does
                not exist or cannot be executed has status 127 or 126, as in a shell.
            TimedOut: the time limit passed; the command was ended.
            TooMuchOutput: it printed more than ``max_output``; it was ended.
            CannotConnect: the target is gone.
        """
        ...

    def program(self, name: str) -> Program:
        """A program of the target's image: how it is called in the target, and which bytes it is.

        Container and pod have the image as their root; the host runs the same files in place, through the image's
        own loader and libraries, so that a comparison compares targets and not builds of a tool.

        Raises:
            Unavailable: the image does not have it; or the host cannot run the image's programs.
        """
        ...

    def put(self, source: Path, destination: str) -> None:
        """Copy a file from the host to an absolute path in the target; its permission bits are kept.

        Raises:
            CannotConnect: the target is gone.
            TargetError: the destination cannot be written; the message says why.
        """
        ...

    def get(self, source: str, destination: Path, *, limit: int = MOST_FILE) -> None:
        """Copy a file from an absolute path in the target to the host.

        It is there when it is whole: a file or link that had its name is replaced. Of its permission bits, where the
        target tells them, it keeps at most 0755.

        Args:
            source: in the target; a link there is followed.
            destination: on the host.
            limit: bytes that it may have.

        Raises:
            TooMuchOutput: it has more.
            CannotConnect: the target is gone.
            TargetError: the source cannot be read; the message says why.
        """
        ...

    def facts(self) -> Facts:
        """What the target really is. May ask the target; never called within a measured time."""
        ...

    def usage(self) -> Usage:
        """What the target has used of the host."""
        ...

    def close(self) -> None:
        """End the target and remove what it had. Safe to repeat; never raises for a target already gone."""
        ...

    def __enter__(self) -> Target: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...


class Link(Protocol):
    """How a target is on a network. `pytest_vperf.targets.network.link` has the usual one."""

    @property
    def kind(self) -> str:
        """``veth``, ``tap``, ``user`` or ``route``."""
        ...

    @property
    def ports(self) -> Sequence[int]:
        """Where a server in the target can be reached; empty where every port can."""
        ...

    @property
    def listen(self) -> str:
        """The address a server in the target binds to."""
        ...

    def address_for(self, client: Link) -> str:
        """Where a client with another link reaches the target.

        Raises:
            Unavailable: there is no way between the two.
        """
        ...

    def details(self) -> Mapping[str, str]:
        """For the target's facts: what the link really is."""
        ...

    def close(self) -> None:
        """Take the link away. Safe to repeat."""
        ...


@runtime_checkable
class Networked(Target, Protocol):
    """A target that may be on a network."""

    @property
    def link(self) -> Link | None:
        """How; ``None`` where it is on none."""
        ...


def link_of(target: object) -> Link:
    """The link of a target.

    Raises:
        TargetError: it has none; the message says how it gets one.
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
        """From the request until the container's process runs, in ms; its parts are the phases, in order.

        The phases add up to the whole: each ends where the next begins, on the host's monotonic clock.
        """
        ...
