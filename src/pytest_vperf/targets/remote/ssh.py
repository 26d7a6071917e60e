"""Machines reached by SSH as targets: the other host (``--load-host=ssh://user@host:port``), and the host of
machines.

Claims compare a machine with its host. If libvirt's daemon is on another machine, that one is the host and has to run
the same programs, see `pytest_vperf.targets.image.brought`.
"""

from __future__ import annotations

import contextlib
import secrets
from dataclasses import replace
from typing import TYPE_CHECKING, BinaryIO

from pytest_vperf.targets.base import (
    MOST_FILE,
    CannotConnect,
    Command,
    Completed,
    Facts,
    Program,
    TimedOut,
    Unavailable,
    Usage,
    end_marked,
)
from pytest_vperf.targets.by_commands import CommandTarget
from pytest_vperf.targets.image.brought import BroughtPrograms, installed
from pytest_vperf.targets.network.link import RouteLink
from pytest_vperf.targets.process import OutOfRoom, OutOfTime, Stopped, received, too_large
from pytest_vperf.targets.remote.connection import FAILED, Hold, SshConnection, remote_line

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from pytest_vperf.machine.runs import Run
    from pytest_vperf.targets.base import Link
    from pytest_vperf.targets.image.rootfs import Rootfs


_MARK = "VPERF_SSH"
_READ = '[ -f "$1" ] || [ ! -e "$1" ] || { echo "it is not a regular file" >&2; exit 1; }; exec cat -- "$1"'


class SshHost(CommandTarget):
    """A machine reached by SSH as a target.

    Args:
        url: ``ssh://[user@]host[:port]``; the host may be a name of the user's ``~/.ssh/config``.
        run: owns the connection.
        config: another configuration file for ``ssh``.
        name: the machine's, in reports and messages.
        connection: one already open, which is left open.
        details: further facts for the record.

    Attributes:
        connection: to the machine.
        link: how targets reach it.
        local: how it reaches this machine.

    Raises:
        ValueError: the URL is invalid.
        Unavailable: there is no ``ssh`` here.
        CannotConnect: the login failed; with the message of ``ssh``.
    """

    #: Of its facts.
    kind = "host"

    def __init__(
        self,
        url: str,
        run: Run,
        *,
        config: Path | None = None,
        name: str = "other host (ssh)",
        connection: SshConnection | None = None,
        details: Mapping[str, str] | None = None,
    ) -> None:
        self.name = name
        self._more = dict(details or {})
        self._shared = connection is not None
        self.connection = connection or SshConnection(url, run, config=config, name=name)
        try:
            self.link, self.local, self._details = self._look()
        except BaseException:
            self.close()
            raise

    def _run(self, command: Command) -> Completed:
        try:
            return self._call(command)
        except OutOfRoom as error:
            raise error.output.too_much(command.argv, command.max_output, self.name) from None

    def _call(self, command: Command, stdout: BinaryIO | None = None) -> Completed:
        """Run a command there.

        Raises:
            OutOfRoom: it printed too much; it was ended.
            TargetError: as for `run`.
        """
        mark = secrets.token_hex(8)
        line = remote_line(command.argv, {**command.env, _MARK: mark}, command.cwd, mark)
        try:
            done = self.connection.call(
                line,
                input=command.input,
                timeout=command.timeout,
                max_output=command.max_output,
                stdout=stdout,
            )
        except OutOfTime as error:
            self._end(mark)
            raise TimedOut(
                f"{command} did not end within {command.timeout:g} s on {self.name} and was killed",
                target=self.name,
                stdout=error.output.stdout,
                stderr=error.output.stderr,
            ) from None
        except BaseException:  # the remote command does not notice that nobody waits for it
            self._end(mark)
            raise
        stderr = done.stderr
        if done.returncode == FAILED:
            if not stderr.endswith(mark.encode()):
                raise self.connection.lost(done)
            stderr = stderr.removesuffix(mark.encode())
        return Completed(command.argv, done.returncode, done.stdout, stderr, done.duration)

    def _end(self, mark: str) -> None:
        """End all processes there that carry a mark."""
        line = remote_line(end_marked(_MARK, mark), {}, None, "")
        with contextlib.suppress(Stopped, OSError):
            self.connection.call(line, timeout=20.0)

    def _look(self) -> tuple[Link, RouteLink, dict[str, str]]:
        """The links of the machine and of this one, by the addresses of the SSH connection, and the facts."""
        mark = secrets.token_hex(8)
        said = self.run(
            ["sh", "-c", 'echo "$1"; echo "$SSH_CONNECTION"; uname -sr; uname -m', "sh", mark]
        ).text
        before, _, after = said.partition(f"{mark}\n")
        if before:
            raise CannotConnect(
                f"{self.name}: its shell prints at each login, which would be in the output of every command:"
                f" {before.strip()[:200]!r}; make it silent where it is not interactive (~/.bashrc, there)",
                target=self.name,
            )
        lines = after.splitlines()
        words = lines[0].split() if lines else []
        if len(words) != 4 or len(lines) < 3:
            raise CannotConnect(
                f"{self.name}: its SSH_CONNECTION is not understood: {said[:200]!r}",
                target=self.name,
            )
        here, _, there, _ = words
        details = {"kernel": lines[1], "architecture": lines[2]}
        return RouteLink(there), RouteLink(here), details

    def program(self, name: str) -> Program:
        """A program installed there; see `pytest_vperf.targets.base.Target.program`."""
        return installed(self, name)

    def get(self, source: str, destination: Path, *, limit: int = MOST_FILE) -> None:
        """Copy a file from an absolute path there; see `pytest_vperf.targets.base.Target.get`."""
        self._require_absolute(source)
        with received(destination, self.name) as draft:
            read = Command(("sh", "-c", _READ, "sh", source), timeout=600.0, max_output=limit)
            try:
                done = self._call(read, draft.file)
            except OutOfRoom:
                raise too_large(source, limit, self.name) from None
            self._require_copied(done, source)

    def facts(self) -> Facts:
        """Kernel and architecture there, and how it is reached."""
        found = {**self._details, **self.link.details(), "placement": "machine reached by SSH"}
        return Facts(self.kind, self.name, {**found, **self._more})

    def usage(self) -> Usage:
        """Unknown: it cannot be told apart from the usage of others on that machine.

        Raises:
            Unavailable: always.
        """
        raise Unavailable("the usage of a machine reached by SSH is unknown", target=self.name)

    def close(self) -> None:
        """Close the connection unless it is shared. Safe to repeat; no error if it is gone."""
        if not self._shared:
            self.connection.close()


class ImageHost(SshHost):
    """A remote host of machines as a target, running the programs of their image.

    Args:
        url: as for `SshHost`, like ``run``, ``config`` and ``connection``.
        rootfs: returns the machines' image; called when a program is first needed. ``None`` runs the machine's own
            programs.
        name: in reports.
        details: as for `SshHost`.
        folder: the run's own folder there; empty to create one when it is first needed.
        brought: the files that are in that folder already, which this adds to.
    """

    def __init__(
        self,
        url: str,
        run: Run,
        *,
        rootfs: Callable[[], Rootfs] | None,
        name: str = "host",
        details: Mapping[str, str] | None = None,
        config: Path | None = None,
        connection: SshConnection | None = None,
        folder: str = "",
        brought: set[str] | None = None,
    ) -> None:
        super().__init__(url, run, config=config, name=name, connection=connection, details=details)
        self._brought = set() if brought is None else brought
        self._programs = (
            BroughtPrograms(self, rootfs, lambda: self.folder, self._brought) if rootfs else None
        )
        self._folder = folder
        self._hold: Hold | None = None
        self.network_link: Link | None = None

    @property
    def folder(self) -> str:
        """The run's own folder there, removed with the run, however that ends.

        Raises:
            CannotStart: it cannot be created.
        """
        if not self._folder:
            self._hold = Hold(self.connection, lock=False, say=lambda _: None)
            self._folder = self._hold.folder
        return self._folder

    def program(self, name: str) -> Program:
        """A program of the image, run in place; see `pytest_vperf.targets.base.Target.program`.

        Raises:
            Unavailable: the image does not have it, or it cannot be run there.
        """
        if self._programs is None:
            return super().program(name)
        return self._programs.find(name)

    def facts(self) -> Facts:
        """Those of `SshHost`, and the image once one of its programs was used."""
        found = super().facts()
        image = self._programs.details() if self._programs else {}
        return replace(found, details={**found.details, **image})

    def close(self) -> None:
        """Close the connection; its own folder goes with it. Safe to repeat; no error if it is gone."""
        if self._hold is not None:
            self._hold.close()
            self._hold, self._folder = None, ""
            self._brought.clear()
        super().close()
