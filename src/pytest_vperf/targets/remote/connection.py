"""One SSH connection to a machine, opened once and shared by all its users.

The system's ``ssh`` is used rather than a library: it has the user's keys, agent, jump hosts, host keys and settings,
and adds no dependency. It keeps the connection open (ControlMaster, ssh_config(5)), so that each use costs one round
trip. It never prompts: an unknown host key, or a password, is an error. Whatever those settings allow the user's own
logins, nothing of this machine is exposed to the other one: no agent, display, port or tunnel.

On the other machine, a run holds a folder and the measuring lock. One command there has both and waits for its input
to close, so that they are released however this process ends.

What a run makes there it also removes, by commands. In case it is killed or the connection breaks, one such command
waits there for its input to close; a run that is still alive tells it that there is nothing to do.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import shlex
import socket
import subprocess
from importlib import resources
from typing import IO, TYPE_CHECKING, BinaryIO
from urllib.parse import urlsplit

from pytest_vperf import foreign_text
from pytest_vperf.machine.ending import end_by_input
from pytest_vperf.machine.preflight import find_program
from pytest_vperf.targets.base import (
    MOST_OUTPUT,
    CannotConnect,
    CannotStart,
    TargetError,
    Unavailable,
)
from pytest_vperf.targets.process import Finished, OutOfRoom, OutOfTime, Stopped, ready, run_process

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from pytest_vperf.machine.runs import Run


_CONNECT_TIMEOUT = 15
#: The exit status of ``ssh`` if it failed itself (ssh(1), "EXIT STATUS"); a command may have the same one.
FAILED = 255
#: A hint for sockets that cannot be forwarded.
FORWARDING = "its sshd has to forward Unix sockets: AllowStreamLocalForwarding yes, sshd_config(5)"
#: Options that switch off features (ssh(1), ssh_config(5)): root there could use the agent, or Kerberos's credentials
#: (``-k``, which every build of ssh knows), to log in elsewhere as the user, and the display to read the keyboard. A
#: ``LocalCommand`` is meant for interactive logins.
KEEPS_TO_ITSELF = (
    "-k",
    *(
        word
        for option in (
            "ForwardAgent=no",
            "ForwardX11=no",
            "ClearAllForwardings=yes",
            "Tunnel=no",
            "PermitLocalCommand=no",
        )
        for word in ("-o", option)
    ),
)
_numbers = itertools.count(1)


class SshConnection:
    """A connection that is open until it is closed.

    Args:
        url: ``ssh://[user@]host[:port]``; the host may be a name of the user's ``~/.ssh/config``.
        run: owns the connection.
        config: another configuration file for ``ssh``.
        name: the machine's, for messages.
        persist: how long it stays open while unused, as for ``ControlPersist`` of ssh_config(5).

    Attributes:
        watch: called before each use; raises an error to prevent it.

    Raises:
        ValueError: the URL is invalid.
        Unavailable: there is no ``ssh`` here.
        CannotConnect: the login failed; with the message of ``ssh``.
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
        # For requests to the open connection, without any settings: the user's would request their forwardings along
        # with ours, and `KEEPS_TO_ITSELF` would clear ours.
        self._ask = [program, "-F", "none", *control]
        self.is_open = False
        self.watch: Callable[[], None] = lambda: None
        # It goes into the background once connected; it carries the run's mark, so that it is ended even if we
        # cannot.
        persistent = ["-M", "-N", "-f", "-o", f"ControlPersist={persist}"]
        self._call(self._ssh, persistent, timeout=60.0)
        self.is_open = True

    def words(self, line: str) -> list[str]:
        """The local command that has the remote login shell run a line."""
        # Over this connection or not at all: ssh would otherwise silently log in anew, which takes longer.
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
        """Have the remote login shell run a line to its end; see `pytest_vperf.targets.process.run_process`.

        Raises:
            OutOfTime: it did not end in time; the caller has to end what still runs there.
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
        """Forward connections from a Unix socket here to one there, until the connection is closed.

        Args:
            here: is created.
            there: is connected to.

        Raises:
            CannotConnect: the machine does not allow it, or is gone.
        """
        self._call(self._ask, ["-O", "forward", "-L", f"{here}:{there}"], timeout=20.0)

    def listen(self, there: str, here: Path) -> None:
        """Forward connections from a Unix socket there to one here, until `unlisten`.

        Args:
            there: is created.
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
        """Stop forwarding; no error if the connection is gone."""
        with contextlib.suppress(TargetError):
            self._call(self._ask, ["-O", "cancel", "-R", f"{there}:{here}"], timeout=20.0)

    def close(self) -> None:
        """Close the connection. Safe to repeat; no error if it is gone."""
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
        """The error for an ``ssh`` that failed, with its message."""
        said = done.stderr.decode("utf-8", "replace").strip() or f"status {done.returncode}"
        if "Session open refused" in said:
            said = (
                f"more sessions at once than its sshd allows (MaxSessions, sshd_config(5)): {said}"
            )
        where = self._destination[-1]
        return CannotConnect(f"{self.name}: ssh cannot reach {where}: {said}", target=self.name)


def parse_url(url: str) -> list[str]:
    """The arguments for ``ssh`` that name a machine.

    Raises:
        ValueError: it is not ``ssh://[user@]host[:port]``.
    """
    wrong = f"{url!r} is not ssh://[user@]host[:port]"
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise ValueError(wrong) from None
    # As written, not in lower case: it may be a name in the user's own configuration.
    host = re.sub(r":\d*$", "", parts.netloc.rpartition("@")[2]).removeprefix("[").removesuffix("]")
    user = parts.username or ""
    extra = parts.path.strip("/") or parts.query or parts.fragment or parts.password
    # A name beginning with "-" would be an option of ssh.
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
    """The line for the remote login shell, with all words of the command quoted.

    The login shell need not be a POSIX one, so it only starts one. That one stays, to turn a signal that ended the
    command into a status. If the command itself ends with the status that ``ssh`` has for a lost connection, the
    shell prints a mark.

    Args:
        argv: the command.
        env: its variables.
        cwd: its folder.
        mark: ends standard error if that status is the command's own.
    """
    settings = [f"{name}={value}" for name, value in env.items()]
    line = shlex.join(["env", *settings, *argv])
    place = f"cd -- {shlex.quote(cwd)} && " if cwd else ""
    own = f"[ $s -ne {FAILED} ] || printf %s {shlex.quote(mark)} >&2"
    return shlex.join(["exec", "sh", "-c", f"{place}{line}; s=$?; {own}; exit $s"])


#: Seconds to wait for the lock: another run may measure for a long time.
WAIT = 3600
_ANSWER = 60.0
#: Seconds to wait for further output of a failed command.
_LAST_WORDS = 2.0
#: Most bytes of a line of the machine's, and of its last words, which may never end.
_MOST_WORDS = 1 << 16


class Hold:
    """A folder of the run there and, if asked for, the machine's measuring lock.

    Args:
        connection: to the machine.
        lock: whether to take the lock.
        say: is told if another run has it.

    Attributes:
        folder: private to the user; removed on `close`.

    Raises:
        CannotStart: another run held the lock for an hour, or the machine lacks space or a program.
    """

    def __init__(
        self, connection: SshConnection, *, lock: bool, say: Callable[[str], None]
    ) -> None:
        self._connection = connection
        self._where = connection.name
        self.folder = ""
        self._limit = _ANSWER
        asked = "yes" if lock else "no"
        who = f"a run of user {os.getuid()} on {socket.gethostname()}"
        line = _line(asked, str(WAIT), who)
        self._process = subprocess.Popen(
            connection.words(line),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=connection.environment,
            start_new_session=True,
        )
        try:
            self.folder = self._await(say)
        except BaseException:
            self.close()
            raise

    def _await(self, say: Callable[[str], None]) -> str:
        folder = ""
        for line in self._lines():
            word, _, rest = line.partition(" ")
            if word == "folder":
                folder = rest
            elif word == "waiting":
                self._limit = WAIT + _ANSWER
                say(f"{self._where} is being measured by another run ({rest}): waiting for it")
            elif word == "late":
                raise CannotStart(
                    f"{self._where}: another measurement held it for {WAIT} s", target=self._where
                )
            elif word == "held":
                return folder
        assert self._process.stderr is not None
        said = foreign_text.short(_last_words(self._process.stderr)) or "no answer"
        raise CannotStart(
            f"{self._where}: cannot create a folder or take the measuring lock there: {said}",
            target=self._where,
        )

    def _lines(self) -> Iterator[str]:
        """The command's output, line by line, until it ends, is silent for longer than the limit, or has a line that
        is too long.
        """
        assert self._process.stdout is not None
        descriptor, left = self._process.stdout.fileno(), b""
        while True:
            readable, _ = ready([descriptor], [], self._limit)
            data = os.read(descriptor, 4096) if readable else b""
            if not data:
                return
            left += data
            *lines, left = left.split(b"\n")
            for line in lines:
                yield line.decode("utf-8", "replace")
            if len(left) > _MOST_WORDS:
                return

    def check(self) -> None:
        """Make sure that the lock and the folder are still held.

        Raises:
            CannotConnect: they are not: measurements since may have been disturbed.
        """
        if self._process.poll() is not None:
            raise CannotConnect(
                f"{self._where}: the command that holds its measuring lock and our folder there has ended"
                " (somebody ended it, or the connection broke)",
                target=self._where,
            )

    def _end_for_it(self) -> None:
        """Clean up in place of the command, in case it was killed."""
        if self.folder and self._connection.is_open:
            self._connection.watch = lambda: None
            with contextlib.suppress(Stopped, OSError):
                self._connection.call(_line("end", self.folder), timeout=20.0)

    def close(self) -> None:
        """Release the lock and remove the folder. Safe to repeat."""
        if self._process.poll() is not None:
            self._end_for_it()
        end_by_input(self._process, 10.0)


def _line(*words: str) -> str:
    script = resources.files(__package__).joinpath("hold.sh").read_text()
    return remote_line(["sh", "-c", script, "sh", *words], {}, None, "")


def _last_words(stream: IO[bytes]) -> str:
    """The output until the stream ends, is silent for a moment, since ``ssh`` may keep it open, or is too long."""
    said = b""
    while len(said) < _MOST_WORDS and ready([stream], [], _LAST_WORDS)[0]:
        data = os.read(stream.fileno(), 4096)
        if not data:
            break
        said += data
    return said.decode("utf-8", "replace")


#: Signals are ignored: when the connection ends, the input closes as well.
_WAIT = """
trap '' HUP PIPE
read -r word && exit
exec "$@" >/dev/null 2>&1
"""
_GOODBYE = b"nothing\n"


class AtEnd:
    """A command that runs on another machine if this process ends without `close`.

    Args:
        connection: to the machine.
        argv: the command.
    """

    def __init__(self, connection: SshConnection, argv: Sequence[str]) -> None:
        line = remote_line(["sh", "-c", _WAIT, "sh", *argv], {}, None, "")
        self._process = subprocess.Popen(
            connection.words(line),
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=connection.environment,
            start_new_session=True,
        )

    def close(self) -> None:
        """Dismiss the command without running it. Safe to repeat; no error if the machine is gone."""
        stream = self._process.stdin
        if stream is not None and not stream.closed:
            with contextlib.suppress(OSError):
                stream.write(_GOODBYE)
                stream.flush()
        end_by_input(self._process, 10.0)
