"""Another machine that targets are started on: its connections, its lock, its fingerprint, and files sent there.

A file is sent once, and kept there by its content. More connections are opened as needed, because by default an
``sshd`` allows ten sessions on each (MaxSessions, sshd_config(5)).
"""

from __future__ import annotations

import itertools
import secrets
import statistics
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_vperf.machine import cache, fingerprint
from pytest_vperf.targets.base import ON, CannotConnect, TargetError, Unavailable
from pytest_vperf.targets.remote.connection import Hold, SshConnection
from pytest_vperf.targets.remote.ssh import ImageHost, SshHost

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from pytest_vperf.machine.runs import Run
    from pytest_vperf.targets.base import Target
    from pytest_vperf.targets.image.rootfs import Rootfs
    from pytest_vperf.targets.remote.address import Address


_FOLDER = 'echo "${VPERF_CACHE_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/vperf}"'
#: Arguments: folder, name, draft, minutes after which a draft is an abandoned upload, bytes.
_BRING = """
set -e
mkdir -p "$1"
find "$1" -maxdepth 1 -name '.draft-*' -mmin +"$4" -exec rm -f {} +
cat >"$1/$3"
[ "$(wc -c <"$1/$3")" -eq "$5" ] || { rm -f "$1/$3"; echo "it arrived incomplete" >&2; exit 1; }
mv "$1/$3" "$1/$2"
"""
_OLD = "60"
_TIMEOUT = 1800.0
_LARGE = 16 << 20


class SentFiles:
    """Files sent to another machine, in its user's cache.

    Args:
        host: the machine.
        say: is told about long uploads.
    """

    def __init__(self, host: Target, say: Callable[[str], None]) -> None:
        self._host = host
        self._say = say
        self._folder = ""
        self._known: set[str] = set()

    def keep(self, source: Path, what: str) -> str:
        """The path there of a file with the content of ``source``, sent if it does not exist.

        Args:
            source: a file here that does not change.
            what: what it is, in a word.

        Raises:
            TargetError: it cannot be sent; says why.
            CannotConnect: the machine is gone.
        """
        if not self._folder:
            self._folder = f"{self._host.run(['sh', '-c', _FOLDER]).text.strip()}/sent"
        name = f"{what}-{cache.kept_sha256(source)[:16]}"
        path = f"{self._folder}/{name}"
        if name not in self._known:
            # The content is checked as well as the name: a full disk leaves truncated files.
            told = self._host.run(["sha256sum", path], check=False, timeout=_TIMEOUT)
            if told.text.partition(" ")[0] != cache.kept_sha256(source):
                self._bring(source, name)
            self._known.add(name)
        return path

    def _bring(self, source: Path, name: str) -> None:
        data = source.read_bytes()
        if len(data) > _LARGE:
            self._say(f"sending {name} to {self._host.name}, once: {len(data) >> 20} MiB")
        draft = f".draft-{secrets.token_hex(4)}"
        words = ["sh", self._folder, name, draft, _OLD, str(len(data))]
        done = self._host.run(
            ["sh", "-c", _BRING, *words], input=data, timeout=_TIMEOUT, check=False
        )
        if done.returncode:
            said = done.stderr.decode("utf-8", "replace").strip()
            raise TargetError(
                f"{source.name} cannot be sent to {self._folder} on {self._host.name}: {said}",
                target=self._host.name,
            )


#: Of the ten sessions, less one for the hold, one for commands, and a spare one.
_ROOM = 7


class Lines:
    """Connections among which sessions are distributed.

    Args:
        first: already open; not closed by this.
        connect: opens a further one.
    """

    def __init__(self, first: SshConnection, connect: Callable[[], SshConnection]) -> None:
        self._connect = connect
        self._first = first
        self._sessions = {first: 0}

    def take(self) -> SshConnection:
        """A connection with room for one more session, to be given back with `give`.

        Raises:
            CannotConnect: a further one cannot be opened.
        """
        line = next((each for each, used in self._sessions.items() if used < _ROOM), None)
        if line is None:
            line = self._connect()
            self._sessions[line] = 0
        self._sessions[line] += 1
        return line

    def give(self, line: SshConnection) -> None:
        """Give a connection back after its session. A further one that is now unused is closed."""
        self._sessions[line] -= 1
        if line is not self._first and not self._sessions[line]:
            del self._sessions[line]
            line.close()

    def close(self) -> None:
        """Close the further connections. Safe to repeat."""
        for line in self._sessions:
            if line is not self._first:
                line.close()


_READ = 'for f; do [ ! -r "/$f" ] || { printf "\\001%s\\002" "$f"; cat "/$f"; }; done'
_ROUNDS = 5
_BOOT_ID = "/proc/sys/kernel/random/boot_id"


class RemoteMachine:
    """Another machine during one run.

    Args:
        address: how it is reached.
        run: owns the targets started there.
        say: is told about long waits.
        held: the `boot_id` of each machine whose lock the run has already.

    Attributes:
        address: how it is reached.
        ssh: the machine as a target.
        sent: files that are sent there.
        brought: the image's files in that folder, see `ImageHost`.
        lines: connections for long sessions.
        folder: the run's, there; removed with the run, however that ends.
        fingerprint: the machine's.
        boot_id: differs from that of any other running kernel; LXC gives each container one of its own.
        details: for the record of every target on it.

    Raises:
        Unavailable: there is no ``ssh`` here, or its architecture differs.
        CannotConnect: the login failed; with the message of ``ssh``.
        CannotStart: another measurement held it for an hour; or it has no space for files.
    """

    def __init__(
        self,
        address: Address,
        run: Run,
        *,
        say: Callable[[str], None],
        held: Collection[str] = (),
    ) -> None:
        self.address = address
        self._numbers = itertools.count(1)
        self.brought: set[str] = set()

        def connect() -> SshConnection:
            # Sessions keep it open; once none is left, it ends by itself.
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
            # Each claim takes this machine's lock: if the run held the same one, its claims would wait for itself.
            taken = {Path(_BOOT_ID).read_text().strip(), *held}
            self._hold = Hold(self._connection, lock=self.boot_id not in taken, say=say)
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
        """The suffix of the names of targets on it."""
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
        """Make sure that nobody else measures on it, and that the run's folder exists.

        Raises:
            CannotConnect: the lock was lost, with the connection or without.
        """
        self._connection.watch()

    @property
    def is_gone(self) -> bool:
        """Whether a new connection is needed: the old one broke, or somebody ended the holder of the lock."""
        try:
            self.check()
        except CannotConnect:
            return True
        return False

    def need_root(self, what: str) -> None:
        """Make sure that we are root there.

        Args:
            what: needs root, for the message.

        Raises:
            Unavailable: we are not.
        """
        if self.ssh.run(["id", "-u"]).text.strip() != "0":
            raise Unavailable(
                f"{what} on {self.address.where} need root there",
                remedy="log in as root: --vperf-on=ssh://root@HOST",
            )

    def new_folder(self, prefix: str) -> str:
        """Create a folder in the run's folder there, private to the user.

        Raises:
            CommandFailed: it cannot be created.
        """
        path = f"{self.folder}/{prefix}{next(self._numbers)}"
        self.ssh.run(["mkdir", "-m", "700", path])
        return path

    def close(self) -> None:
        """Release its lock, remove the run's folder there, and close the connections. Safe to repeat."""
        if self._hold is not None:
            self._hold.close()
        self.lines.close()
        self._connection.close()

    def _fingerprint(self, root: Path) -> fingerprint.Fingerprint:
        """The machine's fingerprint, read from copies of its files below ``root``."""
        said = self.ssh.run(["sh", "-c", _READ, "sh", *fingerprint.FILES], check=False).stdout
        for part in said.split(b"\x01")[1:]:
            name, _, content = part.partition(b"\x02")
            if name.decode("ascii", "replace") in fingerprint.FILES:
                file = root / name.decode()
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(content)
        return fingerprint.read(root)

    def _round_trip(self) -> float:
        """Median seconds of a no-op command over the open connection."""
        return statistics.median(self.ssh.run(["true"]).duration for _ in range(_ROUNDS))

    def _check_architecture(self) -> None:
        here = fingerprint.read().architecture
        there = self.ssh.facts().details["architecture"]
        if there != here:
            raise Unavailable(
                f"{self.address.where} has another architecture ({there}) than this machine ({here}), whose"
                " image and kernel it would run",
                remedy=f"run pytest on a machine with the architecture {there}",
            )


def host_of(machine: RemoteMachine, run: Run, rootfs: Callable[[], Rootfs] | None) -> SshHost:
    """The machine as the host target of a test; the caller closes it, which leaves the machine's connection open.

    Args:
        machine: the machine.
        run: owns what is brought there.
        rootfs: as for `ImageHost`.
    """
    return ImageHost(
        machine.address.url,
        run,
        rootfs=rootfs,
        brought=machine.brought,
        name=f"host{machine.mark}",
        details=machine.details,
        connection=machine.ssh.connection,
        folder=machine.folder,
    )
