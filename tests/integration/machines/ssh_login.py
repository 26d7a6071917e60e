"""Logins on machines that are known by SSH alone: one pair of keys, and a configuration for clients."""

from __future__ import annotations

import re
import subprocess
import tarfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from pytest_vperf.machine.preflight import Readiness, find_program

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pytest_vperf.targets.base import Target

#: Where a server is put on a machine that has none, with its files.
_PLACE = "/opt/dropbear"
_START = f"""
set -e
mkdir -p -m 700 /root/.ssh
mkdir -p /var/tmp
chmod 1777 /var/tmp
cp {_PLACE}/authorized /root/.ssh/authorized_keys
chmod 600 /root/.ssh/authorized_keys
LD_LIBRARY_PATH={_PLACE}/lib {_PLACE}/dropbear -E -s -r {_PLACE}/host -p 22 >{_PLACE}/log 2>&1 </dev/null
"""


class Keys(NamedTuple):
    """The keys of a server and of its user.

    Attributes:
        folder: that has them, ``host`` and ``user``.
    """

    folder: Path

    @classmethod
    def make(cls, folder: Path) -> Keys:
        """New ones, in a folder that is made."""
        folder.mkdir(mode=0o700)
        for name in ("host", "user"):
            where = str(folder / name)
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", where], check=True)
        return cls(folder)


def settings(keys: Keys, port: int, place: str = "/etc/ssh") -> Mapping[str, str]:
    """The files of a server in ``place``: its configuration, its key, and those that it takes."""
    config = (
        f"Port {port}\nHostKey {place}/host\nPidFile none\nUsePAM no\nStrictModes no\n"
        f"AuthorizedKeysFile {place}/authorized\nPasswordAuthentication no\n"
    )
    return {
        "config": config,
        "host": (keys.folder / "host").read_text(),
        "authorized": (keys.folder / "user.pub").read_text(),
    }


class Login(NamedTuple):
    """A way into a machine.

    Attributes:
        address: the machine's.
        port: of its sshd.
        keys: that it has and takes.
        over: words of ``ssh`` that lead there, over another machine; none: directly.
    """

    address: str
    port: int
    keys: Keys
    over: Sequence[str] = ()

    @property
    def url(self) -> str:
        """For pytest."""
        return f"ssh://root@{self.address}:{self.port}"

    def await_answer(self, log: Path) -> None:
        """Wait until it lets us in."""
        config = log.with_name("ssh_config")
        config.write_text(configuration([self]))
        deadline = time.monotonic() + 60
        words = ["ssh", "-F", str(config), "-p", str(self.port), f"root@{self.address}", "true"]
        while (done := subprocess.run(words, capture_output=True, check=False)).returncode:
            assert time.monotonic() < deadline, done.stderr.decode() + log.read_text()
            time.sleep(0.2)


def configuration(logins: Sequence[Login]) -> str:
    """For ``ssh``: how each machine is reached."""
    text = ""
    for login in logins:
        known = login.keys.folder / f"known-{login.address}"
        key = (login.keys.folder / "host.pub").read_text()
        known.write_text(f"[{login.address}]:{login.port} {key}{login.address} {key}")
        over = f"  ProxyCommand {' '.join(login.over)}\n" if login.over else ""
        text += (
            f"Host {login.address}\n  IdentityFile {login.keys.folder}/user\n  IdentitiesOnly yes\n"
            f"  UserKnownHostsFile {known}\n  GlobalKnownHostsFile none\n{over}"
        )
    return text


def wrapper(folder: Path, logins: Sequence[Login]) -> None:
    """Put an ``ssh`` into a folder that reaches these machines, and others as they say with -F."""
    (folder / "ssh_config").write_text(configuration(logins))
    program = find_program("ssh")
    file = folder / "ssh"
    file.write_text(
        f'#!/bin/sh\ncase " $* " in *" -F "*) exec {program} "$@" ;; esac\n'
        f'exec {program} -F {folder}/ssh_config "$@"\n'
    )
    file.chmod(0o755)


def check() -> Readiness:
    """Whether `put_server` has what it puts there."""
    there = all(find_program(name) for name in ("dropbear", "dropbearconvert", "ssh-keygen"))
    return Readiness("dropbear", there, "it is not installed", "apt-get install dropbear-bin")


def put_server(target: Target, keys: Keys, folder: Path) -> None:
    """Run Dropbear, which is a tenth of sshd, in a target that has no server: with the libraries that it needs."""
    program = Path(find_program("dropbear") or "")
    listed = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    # The C library and its loader are the target's own.
    libraries = [
        Path(path)
        for path in re.findall(r"=> (/\S+)", listed)
        if not Path(path).name.startswith(("libc.so", "libm.so", "ld-linux"))
    ]
    host = folder / "dropbear-host"
    words = ["dropbearconvert", "openssh", "dropbear", str(keys.folder / "host"), str(host)]
    subprocess.run(words, check=True, capture_output=True)
    bundle = folder / "dropbear.tar.gz"
    with tarfile.open(bundle, "w:gz") as archive:
        archive.add(program.resolve(), "dropbear")
        archive.add(host, "host")
        archive.add(keys.folder / "user.pub", "authorized")
        for library in libraries:
            archive.add(library.resolve(), f"lib/{library.name}")
    target.run(["mkdir", "-p", _PLACE])
    target.put(bundle, f"{_PLACE}/all.tar.gz")
    unpack = ["tar", "-x", "-z", "-f", f"{_PLACE}/all.tar.gz", "-C", _PLACE, "--no-same-owner"]
    target.run(unpack, timeout=180.0)
    target.run(["sh", "-c", _START], timeout=180.0)
