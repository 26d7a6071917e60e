"""Another host that is a machine of its own, reached by SSH: ``--load-host=ssh://user@host:port``.

The system's own ``ssh`` is called, and no library: it has the user's keys, agent, jump hosts, host keys and settings,
and needs no dependency. One connection is opened and kept (ControlMaster, ssh_config(5)); commands share it, so that
each costs a round trip. It never asks: a key that is not known, or a password, is an error.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import secrets
import shlex
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from pytest_vperf.machine.preflight import find_program
from pytest_vperf.targets.base import (
    CannotConnect,
    CommandFailed,
    Completed,
    Facts,
    TargetError,
    TimedOut,
    Unavailable,
    Usage,
)
from pytest_vperf.targets.network.link import RouteLink
from pytest_vperf.targets.process import Finished, OutOfTime, run_process
from pytest_vperf.targets.program import Program

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path
    from types import TracebackType

    from pytest_vperf.machine.runs import Run
    from pytest_vperf.targets.base import Link

_MARK = "VPERF_SSH"
_CONNECT_TIMEOUT = 15
#: What ``ssh`` ends with when it, and not the command, failed (ssh(1), "EXIT STATUS"); commands may end so, too.
_FAILED = 255
_END_MARKED = (
    f'for e in /proc/[0-9]*/environ; do if grep -q "{_MARK}=$1" "$e" 2>/dev/null; then'
    " p=${e#/proc/}; kill -9 ${p%/environ}; fi; done"
)
_numbers = itertools.count(1)


class SshHost:
    """A machine reached by SSH as a target.

    Args:
        url: ``ssh://[user@]host[:port]``; the host may be a name of the user's ``~/.ssh/config``.
        run: owns the connection.
        config: another configuration file for ``ssh``.

    Raises:
        ValueError: the URL is none.
        Unavailable: there is no ``ssh`` here.
        CannotConnect: the machine does not let us in; with the words of ``ssh``.
    """

    name = "other host (ssh)"

    def __init__(self, url: str, run: Run, *, config: Path | None = None) -> None:
        self._destination = parse_url(url)
        program = find_program("ssh")
        if program is None:
            raise Unavailable("ssh is not installed", remedy="apt-get install openssh-client")
        self._run = run
        control = run.folder / f"ssh{next(_numbers)}"
        self._ssh = [
            program,
            *(("-F", str(config)) if config else ()),
            *("-o", "BatchMode=yes", "-o", f"ConnectTimeout={_CONNECT_TIMEOUT}"),
            *("-o", f"ControlPath={control}", "-o", "ServerAliveInterval=15"),
        ]
        self._open = False
        # In the background once it is connected; a process of the run, which ends it if we cannot.
        self._call(["-M", "-N", "-f", "-o", "ControlPersist=yes", *self._destination], timeout=60.0)
        self._open = True
        try:
            said = self.run(["sh", "-c", 'echo "$SSH_CONNECTION"; uname -sr; uname -m']).text
            self.link, self.local, self._details = _seen(said)
        except BaseException:
            self.close()
            raise

    def run(
        self,
        argv: Sequence[str],
        *,
        input: bytes = b"",
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        timeout: float = 60.0,
        check: bool = True,
    ) -> Completed:
        """Run a command there to its end; see `pytest_vperf.targets.base.Target.run`."""
        if not argv:
            raise ValueError("a command has at least one word")
        mark = secrets.token_hex(8)
        line = remote_line(argv, {**(env or {}), _MARK: mark}, cwd, mark)
        words = [*self._destination, "--", line]
        try:
            done = run_process(
                [*self._ssh, *words], env=self._run.environment, input=input, timeout=timeout
            )
        except OutOfTime as error:
            self._end(mark)
            raise TimedOut(
                f"{' '.join(argv)} did not end within {timeout:g} s on {self.name} and was killed",
                target=self.name,
                stdout=error.stdout,
                stderr=error.stderr,
            ) from None
        except BaseException:  # the command there does not notice that nobody waits for it any more
            self._end(mark)
            raise
        stderr = done.stderr
        if done.returncode == _FAILED:
            if not stderr.endswith(mark.encode()):
                raise self._lost(done)
            stderr = stderr.removesuffix(mark.encode())
        completed = Completed(tuple(argv), done.returncode, done.stdout, stderr, done.duration)
        if check and completed.returncode != 0:
            raise CommandFailed(completed, target=self.name)
        return completed

    def _end(self, mark: str) -> None:
        """End everything there that carries a mark."""
        line = remote_line(["sh", "-c", _END_MARKED, "sh", mark], {}, None, "")
        words = [*self._ssh, *self._destination, "--", line]
        with contextlib.suppress(OutOfTime, OSError):
            run_process(words, env=self._run.environment, timeout=20.0)

    def program(self, name: str) -> Program:
        """A program that is installed there; see `pytest_vperf.targets.base.Target.program`."""
        find = 'p=$(command -v -- "$1") && p=$(readlink -f "$p") && echo "$p" && sha256sum <"$p"'
        done = self.run(["sh", "-c", find, "sh", name], check=False)
        found = re.fullmatch(r"(/\S.*)\n([0-9a-f]{64})\s+-\n", done.text)
        if done.returncode or found is None:
            raise Unavailable(
                f"{name} is not installed on {self.name}",
                remedy=f"apt-get install {name}, there",
                target=self.name,
            )
        return Program(name, (found[1],), found[1], found[2], "host")

    def put(self, source: Path, destination: str) -> None:
        """Copy a file to an absolute path there, its permission bits kept."""
        _absolute(destination, self.name)
        mode = f"{source.stat().st_mode & 0o7777:o}"
        write = ["sh", "-c", 'cat >"$1" && chmod "$2" "$1"', "sh", destination, mode]
        done = self.run(write, input=source.read_bytes(), timeout=600.0, check=False)
        self._copied(done, destination)

    def get(self, source: str, destination: Path) -> None:
        """Copy a file from an absolute path there."""
        _absolute(source, self.name)
        done = self.run(["cat", source], timeout=600.0, check=False)
        self._copied(done, source)
        destination.write_bytes(done.stdout)

    def _copied(self, done: Completed, path: str) -> None:
        if done.returncode:
            said = done.stderr.decode("utf-8", "replace").strip()
            raise TargetError(f"{path} on {self.name}: {said}", target=self.name)

    def facts(self) -> Facts:
        """Kernel and architecture there, and how it is reached."""
        details = {**self._details, **self.link.details(), "placement": "machine reached by SSH"}
        return Facts("host", self.name, details)

    def usage(self) -> Usage:
        """Not known: the machine's other users are not told apart.

        Raises:
            Unavailable: always.
        """
        raise Unavailable("what a machine reached by SSH uses is not known", target=self.name)

    def close(self) -> None:
        """End the connection. Safe to repeat; quiet if it is gone."""
        if self._open:
            self._open = False
            with contextlib.suppress(TargetError):
                self._call(["-O", "exit", *self._destination], timeout=20.0)

    def _call(self, words: Sequence[str], timeout: float) -> None:
        try:
            done = run_process([*self._ssh, *words], env=self._run.environment, timeout=timeout)
        except OutOfTime:
            raise CannotConnect(
                f"{self.name}: ssh did not answer within {timeout:g} s", target=self.name
            ) from None
        if done.returncode:
            raise self._lost(done)

    def _lost(self, done: Finished) -> CannotConnect:
        said = done.stderr.decode("utf-8", "replace").strip() or f"status {done.returncode}"
        where = self._destination[-1]
        return CannotConnect(f"{self.name}: ssh cannot reach {where}: {said}", target=self.name)

    def __enter__(self) -> SshHost:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def parse_url(url: str) -> list[str]:
    """The words for ``ssh`` that name a machine.

    Raises:
        ValueError: it is no ``ssh://[user@]host[:port]``.
    """
    wrong = f"{url!r} is not ssh://[user@]host[:port]"
    parts = urlsplit(url)
    try:
        port = parts.port
    except ValueError:
        raise ValueError(wrong) from None
    host, user = parts.hostname or "", parts.username or ""
    extra = parts.path.strip("/") or parts.query or parts.fragment or parts.password
    # A name that began with "-" would be an option of ssh.
    fine = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:%-]*")
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
    own = f"[ $s -ne {_FAILED} ] || printf %s {shlex.quote(mark)} >&2"
    return shlex.join(["exec", "sh", "-c", f"{place}{line}; s=$?; {own}; exit $s"])


def _seen(said: str) -> tuple[Link, RouteLink, dict[str, str]]:
    """The links of the machine and of this one, by the addresses that the connection has there, and the facts."""
    lines = said.splitlines()
    words = lines[0].split() if lines else []
    if len(words) != 4 or len(lines) < 3:
        raise CannotConnect(
            f"other host (ssh): its SSH_CONNECTION is not understood: {said[:200]!r}"
        )
    here, _, there, _ = words
    return RouteLink(there), RouteLink(here), {"kernel": lines[1], "architecture": lines[2]}


def _absolute(path: str, target: str) -> None:
    if not os.path.isabs(path):  # noqa: PTH117 - a path of another machine
        raise TargetError(f"{path} is not an absolute path", target=target)
