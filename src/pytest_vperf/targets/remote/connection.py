"""One connection to a machine by SSH: opened once, kept, and shared by whatever is done there.

The system's own ``ssh`` is called, and no library: it has the user's keys, agent, jump hosts, host keys and settings,
and needs no dependency. The connection is kept by it (ControlMaster, ssh_config(5)), so that each use costs a round
trip. It never asks: a key that is not known, or a password, is an error. It gives the machine nothing of this one,
whatever those settings say for the user's own logins: not the agent, not the display, no port, no tunnel.
"""

from __future__ import annotations

import contextlib
import itertools
import re
import shlex
from typing import TYPE_CHECKING, BinaryIO
from urllib.parse import urlsplit

from pytest_vperf.machine.preflight import find_program
from pytest_vperf.targets.base import MOST_OUTPUT, CannotConnect, TargetError, Unavailable
from pytest_vperf.targets.process import Finished, OutOfRoom, OutOfTime, run_process

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from pytest_vperf.machine.runs import Run

_CONNECT_TIMEOUT = 15
#: What ``ssh`` ends with when it, and not the command, failed (ssh(1), "EXIT STATUS"); commands may end so, too.
FAILED = 255
#: What else may be the matter where a socket is not brought here.
FORWARDING = "its sshd has to forward Unix sockets: AllowStreamLocalForwarding yes, sshd_config(5)"
#: What a login of ours is without (ssh_config(5)): who is root there could use the agent to log in as the user
#: elsewhere, and the display to read the keyboard. ``LocalCommand`` is one of the user's own, for logins by hand.
KEEPS_TO_ITSELF = tuple(
    word
    for option in (
        "ForwardAgent=no",
        "ForwardX11=no",
        "ClearAllForwardings=yes",
        "Tunnel=no",
        "PermitLocalCommand=no",
    )
    for word in ("-o", option)
)
_numbers = itertools.count(1)


class SshConnection:
    """A connection that is open until it is closed.

    Args:
        url: ``ssh://[user@]host[:port]``; the host may be a name of the user's ``~/.ssh/config``.
        run: owns the connection.
        config: another configuration file for ``ssh``.
        name: of the machine, for messages.
        persist: for how long it stays without anything that uses it, as ``ControlPersist`` of ssh_config(5) has it.

    Attributes:
        watch: called before each use; raises what speaks against it.

    Raises:
        ValueError: the URL is none.
        Unavailable: there is no ``ssh`` here.
        CannotConnect: the machine does not let us in; with the words of ``ssh``.
    """

    def __init__(
        self, url: str, run: Run, *, config: Path | None = None, name: str, persist: str = "yes"
    ) -> None:
        self._destination = parse_url(url)
        program = find_program("ssh")
        if program is None:
            raise Unavailable("ssh is not installed", remedy="apt-get install openssh-client")
        self.name = name
        self.environment = run.environment
        control = ("-o", f"ControlPath={run.folder / f'ssh{next(_numbers)}'}")
        self._ssh = [
            program,
            *(("-F", str(config)) if config else ()),
            *("-o", "BatchMode=yes", "-o", f"ConnectTimeout={_CONNECT_TIMEOUT}"),
            *(*control, "-o", "ServerAliveInterval=15"),
            *(*KEEPS_TO_ITSELF, "-o", "RemoteCommand=none"),
        ]
        # What is asked of the connection that is open. A forwarding that the user's settings have would be asked for
        # along with ours, and `KEEPS_TO_ITSELF` would take ours away.
        self._ask = [program, "-F", "none", *control]
        self.is_open = False
        self.watch: Callable[[], None] = lambda: None
        # In the background once it is connected; a process of the run, which ends it if we cannot.
        persistent = ["-M", "-N", "-f", "-o", f"ControlPersist={persist}"]
        self._call(self._ssh, persistent, timeout=60.0)
        self.is_open = True

    def words(self, line: str) -> list[str]:
        """The command, here, that has the login shell there run a line."""
        # By this connection or not at all: a login of its own would take longer, and nobody would know.
        return [*self._ssh, "-T", "-o", "ProxyCommand=false", *self._destination, "--", line]

    def call(
        self,
        line: str,
        *,
        input: bytes = b"",
        timeout: float,
        max_output: int = MOST_OUTPUT,
        stdout: BinaryIO | None = None,
    ) -> Finished:
        """Have the login shell there run a line, to its end; see `pytest_vperf.targets.process.run_process`.

        Raises:
            OutOfTime: it did not end in time; what goes on there is for the caller to end.
            OutOfRoom: it printed too much; likewise.
        """
        self.watch()
        return run_process(
            self.words(line),
            env=self.environment,
            input=input,
            timeout=timeout,
            max_output=max_output,
            stdout=stdout,
        )

    def forward(self, here: Path, there: str) -> None:
        """Take connections to a Unix socket here to one there, until the connection is closed.

        Args:
            here: is made.
            there: is connected to.

        Raises:
            CannotConnect: the machine does not allow it, or is gone.
        """
        self._call(self._ask, ["-O", "forward", "-L", f"{here}:{there}"], timeout=20.0)

    def listen(self, there: str, here: Path) -> None:
        """Take connections to a Unix socket there to one here, until `unlisten`.

        Args:
            there: is made.
            here: is connected to.

        Raises:
            CannotConnect: the machine does not allow it, or is gone.
        """
        self.watch()
        try:
            self._call(self._ask, ["-O", "forward", "-R", f"{there}:{here}"], timeout=20.0)
        except CannotConnect as error:
            raise CannotConnect(f"{error} ({FORWARDING})", target=self.name) from None

    def unlisten(self, there: str, here: Path) -> None:
        """Take none any more; quiet if the connection is gone."""
        with contextlib.suppress(TargetError):
            self._call(self._ask, ["-O", "cancel", "-R", f"{there}:{here}"], timeout=20.0)

    def close(self) -> None:
        """End the connection. Safe to repeat; quiet if it is gone."""
        if self.is_open:
            self.is_open = False
            with contextlib.suppress(TargetError):
                self._call(self._ask, ["-O", "exit"], timeout=20.0)

    def _call(self, ssh: Sequence[str], words: Sequence[str], timeout: float) -> None:
        argv = [*ssh, *words, *self._destination]
        try:
            done = run_process(argv, env=self.environment, timeout=timeout)
        except OutOfTime:
            raise CannotConnect(
                f"{self.name}: ssh did not answer within {timeout:g} s", target=self.name
            ) from None
        except OutOfRoom as error:
            raise error.output.too_much(argv, MOST_OUTPUT, self.name) from None
        if done.returncode:
            raise self.lost(done)

    def lost(self, done: Finished) -> CannotConnect:
        """The error for an ``ssh`` that failed, with its words."""
        said = done.stderr.decode("utf-8", "replace").strip() or f"status {done.returncode}"
        if "Session open refused" in said:
            said = (
                f"more sessions at once than its sshd allows (MaxSessions, sshd_config(5)): {said}"
            )
        where = self._destination[-1]
        return CannotConnect(f"{self.name}: ssh cannot reach {where}: {said}", target=self.name)


def parse_url(url: str) -> list[str]:
    """The words for ``ssh`` that name a machine.

    Raises:
        ValueError: it is no ``ssh://[user@]host[:port]``.
    """
    wrong = f"{url!r} is not ssh://[user@]host[:port]"
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise ValueError(wrong) from None
    # As it is written, and not in lower case: it may be a name of the user's own.
    host = re.sub(r":\d*$", "", parts.netloc.rpartition("@")[2]).removeprefix("[").removesuffix("]")
    user = parts.username or ""
    extra = parts.path.strip("/") or parts.query or parts.fragment or parts.password
    # A name that began with "-" would be an option of ssh.
    fine = re.compile(r"[A-Za-z0-9_:][A-Za-z0-9_.:%-]*")
    if (
        parts.scheme != "ssh"
        or extra
        or not fine.fullmatch(host)
        or (user and not fine.fullmatch(user))
    ):
        raise ValueError(wrong)
    return [
        *(("-p", str(port)) if port else ()),
        *(("-l", user) if user else ()),
        host,
    ]


def remote_line(argv: Sequence[str], env: Mapping[str, str], cwd: str | None, mark: str) -> str:
    """The line that the login shell there is given: no word of the command means anything to a shell.

    The login shell need not be a POSIX one, so it has nothing to do but to start one. That one stays, and tells the
    number of a signal that ended the command. Where the command itself ends with the status that ``ssh`` has for a
    lost connection, the shell says so by a mark.

    Args:
        argv: the command.
        env: its variables.
        cwd: its folder.
        mark: what standard error ends with where the status is the command's own.
    """
    settings = [f"{name}={value}" for name, value in env.items()]
    line = shlex.join(["env", *settings, *argv])
    place = f"cd -- {shlex.quote(cwd)} && " if cwd else ""
    own = f"[ $s -ne {FAILED} ] || printf %s {shlex.quote(mark)} >&2"
    return shlex.join(["exec", "sh", "-c", f"{place}{line}; s=$?; {own}; exit $s"])
