"""Machines of a fleet that are none: namespaces of this one, each with its own sshd, on a network of their own.

A machine has namespaces of processes, mounts, host names and networks, another name of its processor, and folders for
locks and runs that no other sees. Whoever calls is in a further namespace of networks, with the bridge that all are
at. All of it is held by processes that end with this one; nothing is left of it when they have ended.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pytest_vperf.machine.ending import start_bound
from pytest_vperf.machine.preflight import Readiness, find_program

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

#: The names of processors that the types of machines have.
MODELS = {"type-a": "Example A 3000 v3 @ 3.40GHz", "type-b": "Example B 7443P 24-Core Processor"}
_SPACES = ("--uts", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "--net")
_INIT = """
hostname {name}
mount -t tmpfs -o mode=1777 none /var/tmp
mount -t tmpfs none /run; mkdir -m 1777 /run/lock; mkdir /run/sshd /run/munge
mount --bind {folder}/cpu-{name} /proc/cpuinfo
ip link set lo up
{before}
exec {sshd} -D -e -f {folder}/sshd_config
"""
_SSHD = """
Port 22
HostKey {folder}/host
PidFile none
UsePAM no
StrictModes no
AuthorizedKeysFile {folder}/user.pub
PasswordAuthentication no
PermitRootLogin prohibit-password
MaxStartups 200
"""
_SSH = """
Host *
  IdentityFile {folder}/user
  IdentitiesOnly yes
  UserKnownHostsFile /dev/null
  StrictHostKeyChecking no
  LogLevel ERROR
  User root
"""


def check() -> Readiness:
    """Whether such machines can be made here."""
    if os.geteuid() != 0:
        return Readiness(
            "fleet", False, "only root can make namespaces and links", "run it as root"
        )
    missing = [
        name
        for name in ("sshd", "ssh-keygen", "unshare", "nsenter", "ip")
        if not find_program(name)
    ]
    why = f"{', '.join(missing)} not installed"
    return Readiness("fleet", not missing, why, "apt-get install openssh-server iproute2")


@dataclass
class Rig:
    """The machines.

    Attributes:
        folder: with their files.
        types: of the machines that are up, by name.
        ssh_config: for ``ssh``.
    """

    folder: Path
    types: dict[str, str] = field(default_factory=dict)
    _held: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    @property
    def ssh_config(self) -> Path:
        """The configuration for ``ssh``, which knows the machines by name."""
        return self.folder / "ssh_config"

    def inside(self, words: Sequence[str]) -> list[str]:
        """The words that run a command where the machines can be reached."""
        return [*self._enter, "--", *words]

    @property
    def _enter(self) -> list[str]:
        return ["nsenter", f"--net=/proc/{self._inner('')}/ns/net"]

    def begin(self) -> None:
        """Make the bridge, and the keys."""
        for name in ("host", "user"):
            words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(self.folder / name)]
            subprocess.run(words, check=True)
        (self.folder / "sshd_config").write_text(_SSHD.format(folder=self.folder))
        self.ssh_config.write_text(_SSH.format(folder=self.folder))
        self._hold("", ["unshare", *_SPACES, "sleep", "infinity"])
        self._ip(
            "link set lo up",
            "link add br0 type bridge",
            "addr add 10.77.0.1/16 dev br0",
            "link set br0 up",
        )

    def up(self, name: str, type_: str, *, before: str = "") -> None:
        """Start a machine.

        Args:
            name: ``h1``, ``h2`` and so on.
            type_: of its hardware.
            before: lines that its shell executes before it listens.
        """
        number = int(name[1:])
        address = f"10.77.{number // 250 + 1}.{number % 250 + 1}"
        info = (line.partition(":") for line in open("/proc/cpuinfo").read().splitlines())  # noqa: SIM115, PTH123
        lines = (
            f"{key}: {MODELS[type_]}" if key.strip() == "model name" else f"{key}{colon}{value}"
            for key, colon, value in info
        )
        (self.folder / f"cpu-{name}").write_text("\n".join(lines) + "\n")
        if name not in self.types:
            with self.ssh_config.open("a") as stream:
                stream.write(f"Host {name}\n  HostName {address}\n")
        sshd = find_program("sshd")
        init = self.folder / f"init-{name}"
        init.write_text(_INIT.format(name=name, folder=self.folder, before=before, sshd=sshd))
        self._hold(name, ["unshare", *_SPACES, "sh", str(init)])
        self.types[name] = type_
        pid = self._inner(name)
        # Of a machine that has died, the link may not be gone yet.
        gone = [*self._enter, "ip", "link", "del", name]
        subprocess.run(gone, capture_output=True, check=False)
        self._ip(
            f"link add {name} type veth peer name eth0 netns {pid}",
            f"link set {name} master br0 up",
        )
        there = ["nsenter", f"--net=/proc/{pid}/ns/net", "ip"]
        for words in (f"addr add {address}/16 dev eth0", "link set eth0 up"):
            subprocess.run([*there, *words.split()], check=True)

    def die(self, name: str) -> None:
        """Cut a machine's power: it ends, and not a packet says so."""
        self.mute(name)
        self.crash(name)

    def crash(self, name: str) -> None:
        """End all of a machine's processes; its network says so."""
        held = self._held.pop(name)
        held.kill()
        held.wait()

    def mute(self, name: str) -> None:
        """Lose all that goes to and from a machine, which goes on."""
        self._ip(f"link set {name} down")

    def unmute(self, name: str) -> None:
        """Lose it no longer."""
        self._ip(f"link set {name} up")

    def processes(self, name: str) -> list[str]:
        """The command lines of what runs on a machine."""
        listed = subprocess.run(
            ["nsenter", "-t", str(self._inner(name)), "-p", "-m", "ps", "-e", "-o", "args="],
            capture_output=True,
            text=True,
            check=True,
        )
        return listed.stdout.splitlines()

    def close(self) -> None:
        """End all of them."""
        while self._held:
            self.crash(next(reversed(self._held)))

    def _hold(self, name: str, words: Sequence[str]) -> None:
        log = (self.folder / f"log-{name or 'here'}").open("wb")
        self._held[name] = start_bound(
            words, signal.SIGKILL, stdin=subprocess.DEVNULL, stdout=log, stderr=log
        )
        log.close()
        deadline = time.monotonic() + 10
        while self._inner(name) == 0:
            if time.monotonic() > deadline:
                raise AssertionError((self.folder / f"log-{name or 'here'}").read_text())
            time.sleep(0.01)

    def _inner(self, name: str) -> int:
        """The first process inside; 0 if there is none yet."""
        pid = self._held[name].pid
        try:
            children = open(f"/proc/{pid}/task/{pid}/children").read().split()  # noqa: SIM115, PTH123
        except FileNotFoundError:
            return 0
        return int(children[0]) if children else 0

    def _ip(self, *lines: str) -> None:
        for line in lines:
            subprocess.run([*self._enter, "ip", *shlex.split(line)], check=True)


@contextmanager
def machines(folder: Path, types: Mapping[str, str]) -> Iterator[Rig]:
    """Start machines.

    Args:
        folder: for their files; is made.
        types: by name.
    """
    folder.mkdir(mode=0o700)
    with ExitStack() as stack:
        rig = Rig(folder)
        stack.callback(rig.close)
        rig.begin()
        for name, type_ in types.items():
            rig.up(name, type_)
        yield rig
