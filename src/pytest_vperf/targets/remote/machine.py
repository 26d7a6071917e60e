"""A machine elsewhere that targets are started on: its connection, its files, its lock, and what it is."""

from __future__ import annotations

import itertools
import statistics
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_vperf.machine import fingerprint
from pytest_vperf.targets.base import ON, CannotConnect, Unavailable
from pytest_vperf.targets.remote.files import SentFiles
from pytest_vperf.targets.remote.hold import Hold
from pytest_vperf.targets.remote.lines import Lines
from pytest_vperf.targets.ssh_connection import SshConnection
from pytest_vperf.targets.ssh_host import SshHost

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pytest_vperf.machine.runs import Run
    from pytest_vperf.targets.remote.address import Address

_READ = 'for f; do [ ! -r "/$f" ] || { printf "\\001%s\\002" "$f"; cat "/$f"; }; done'
_ROUNDS = 5
_BOOT_ID = "/proc/sys/kernel/random/boot_id"


class RemoteMachine:
    """A machine that lets us in, for one run.

    Args:
        address: how it is reached.
        run: whose targets are started there.
        say: is told what takes long.

    Attributes:
        address: how it is reached.
        ssh: the machine as a target; ``name`` is that of people.
        sent: files that are brought there.
        lines: connections for what stays connected.
        folder: of the run, there; it goes with the run, however that ends.
        fingerprint: what the machine is.
        details: for the record of every target on it.

    Raises:
        Unavailable: there is no ``ssh`` here, or it has another kind of processor.
        CannotConnect: it does not let us in; with the words of ``ssh``.
        CannotStart: another measurement has held it for an hour; or it has no place for files.
    """

    def __init__(self, address: Address, run: Run, *, say: Callable[[str], None]) -> None:
        self.address = address
        self._numbers = itertools.count(1)

        def connect() -> SshConnection:
            # Kept open by what is done over it; where nobody is left, it ends by itself.
            return SshConnection(
                address.url, run, config=address.config, name=address.where, persist="60"
            )

        self._connection = connect()
        self._hold: Hold | None = None
        self.lines = Lines(self._connection, connect)
        try:
            self.ssh = SshHost(address.url, run, name=address.where, connection=self._connection)
            self.fingerprint = self._fingerprint(run.subfolder("on"))
            self._check_architecture()
            self.boot_id = self.read(_BOOT_ID).strip()
            # This machine's own lock is taken by each claim: taken here too, they would wait for one another.
            same = self.boot_id == Path(_BOOT_ID).read_text().strip()
            self._hold = Hold(self._connection, lock=not same, say=say)
            self.folder = self._hold.folder
            self._connection.watch = self._hold.check
            round_trip = f"{self._round_trip() * 1e3:.1f} ms"
        except BaseException:
            self.close()
            raise
        self.sent = SentFiles(self.ssh, say)
        self.details: Mapping[str, str] = {
            ON: address.where,
            **{f"{ON}_{name}": value for name, value in self.fingerprint.as_dict().items()},
            **dict(address.details),
            "ssh_round_trip": round_trip,
        }

    @property
    def mark(self) -> str:
        """What the names of targets on it end with."""
        return f" ({self.address.where})"

    def read(self, path: str | Path) -> str:
        """The text of a small file there.

        Raises:
            OSError: it cannot be read.
            CannotConnect: the machine is gone.
        """
        done = self.ssh.run(["cat", str(path)], check=False, timeout=20.0)
        if done.returncode:
            said = done.stderr.decode("utf-8", "replace").strip().rpartition(": ")[2]
            raise FileNotFoundError(0, said, str(path))
        return done.text

    def check(self) -> None:
        """Make sure that nobody else measures on it, and that the run's folder is there.

        Raises:
            CannotConnect: the lock was lost, with the connection or without.
        """
        self._connection.watch()

    @property
    def is_gone(self) -> bool:
        """Whether it has to be reached anew: the connection broke, or somebody ended what holds the lock."""
        try:
            self.check()
        except CannotConnect:
            return True
        return False

    def need_root(self, what: str) -> None:
        """Make sure that we are root there.

        Args:
            what: needs it.

        Raises:
            Unavailable: we are not.
        """
        if self.ssh.run(["id", "-u"]).text.strip() != "0":
            raise Unavailable(
                f"{what} on {self.address.where} need root there",
                remedy="log in as root: --on=ssh://root@HOST",
            )

    def new_folder(self, prefix: str) -> str:
        """A new folder in the run's there, private to the user.

        Raises:
            CommandFailed: it cannot be made.
        """
        path = f"{self.folder}/{prefix}{next(self._numbers)}"
        self.ssh.run(["mkdir", "-m", "700", path])
        return path

    def close(self) -> None:
        """Let go of it: of its lock, of the run's folder there, and of the connections. Safe to repeat."""
        if self._hold is not None:
            self._hold.close()
        self.lines.close()
        self._connection.close()

    def _fingerprint(self, root: Path) -> fingerprint.Fingerprint:
        """Of that machine: its files are brought below a folder here, and read as this one's are."""
        said = self.ssh.run(["sh", "-c", _READ, "sh", *fingerprint.FILES], check=False).stdout
        for part in said.split(b"\x01")[1:]:
            name, _, content = part.partition(b"\x02")
            if name.decode("ascii", "replace") in fingerprint.FILES:
                file = root / name.decode()
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(content)
        return fingerprint.read(root)

    def _round_trip(self) -> float:
        """Median seconds of a command that does nothing, over the connection that is open."""
        return statistics.median(self.ssh.run(["true"]).duration for _ in range(_ROUNDS))

    def _check_architecture(self) -> None:
        here = fingerprint.read().architecture
        there = self.ssh.facts().details["architecture"]
        if there != here:
            raise Unavailable(
                f"{self.address.where} has another kind of processor ({there}) than this machine ({here}), whose"
                " image and kernel it would run",
                remedy=f"call pytest-vperf on a machine of the kind {there}",
            )
