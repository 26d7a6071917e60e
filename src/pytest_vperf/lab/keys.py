"""The SSH keys of one start of a host: made for it, passed in on a small disk, and removed with it.

The host's own key is made here, so it is known, and checked, from the first connection on. The user's keys,
``known_hosts`` and ssh configuration are neither used nor changed.
"""

from __future__ import annotations

import os
import shlex
import subprocess
from typing import TYPE_CHECKING

from pytest_vperf.machine.preflight import find_program
from pytest_vperf.targets.base import CannotStart, Unavailable
from pytest_vperf.targets.image.tar import TarWriter

if TYPE_CHECKING:
    from pathlib import Path

#: Configuration for ``ssh -F``, and the program that calls ssh with it.
CONFIG, WRAPPER = "ssh_config", "ssh"
#: The disk with the keys: a tar file, which the host unpacks (vperf-keys.service).
DISK = "keys.tar"
_HOST_KEY, _KEY, _KNOWN = "host_key", "key", "known_hosts"
#: Seconds to wait for a connection, and how often a silent one is asked whether it lives.
_PATIENCE = 30


def make(folder: Path) -> None:
    """Make the keys and the disk with them, readable by this user alone.

    Args:
        folder: private to the user.

    Raises:
        Unavailable: the programs of OpenSSH are not installed.
        CannotStart: no key can be made.
    """
    for name in (_HOST_KEY, _KEY):
        _generate(folder / name)
    (folder / DISK).touch(mode=0o600)
    with TarWriter(folder / DISK) as disk:
        disk.folder("root", 0o700)
        disk.folder("root/.ssh", 0o700)
        disk.file("root/.ssh/authorized_keys", _read(folder / f"{_KEY}.pub"), 0o600)
        disk.file("etc/ssh/ssh_host_ed25519_key", _read(folder / _HOST_KEY), 0o600)
        disk.file("etc/ssh/ssh_host_ed25519_key.pub", _read(folder / f"{_HOST_KEY}.pub"))
    (folder / _HOST_KEY).unlink()  # only the host needs it from now on


def write_access(folder: Path, name: str, port: int) -> None:
    """Write the ssh configuration that reaches the host.

    Args:
        folder: with the keys.
        name: another name for the host, for people.
        port: of this machine's 127.0.0.1, that leads to the host.

    Raises:
        Unavailable: there is no ``ssh`` here.
    """
    kind, key = _read(folder / f"{_HOST_KEY}.pub").decode().split()[:2]
    (folder / _KNOWN).write_text(f"[127.0.0.1]:{port} {kind} {key}\n")
    (folder / CONFIG).write_text(_config(folder, name, port))
    wrapper = folder / WRAPPER
    # libvirt can be told which program to call (command=), but not which configuration that is to read.
    words = shlex.join([_program("ssh"), "-F", str(folder / CONFIG)])
    wrapper.write_text(f'#!/bin/sh\nexec {words} "$@"\n')
    wrapper.chmod(0o700)


def forget_disk(folder: Path) -> None:
    """Remove the disk with the host's key, which QEMU has open and nobody else needs."""
    (folder / DISK).unlink(missing_ok=True)


def _config(folder: Path, name: str, port: int) -> str:
    return f"""Host {name} 127.0.0.1
  HostName 127.0.0.1
  HostKeyAlias [127.0.0.1]:{port}
  Port {port}
  User root
  IdentityFile "{folder / _KEY}"
  IdentitiesOnly yes
  IdentityAgent none
  UserKnownHostsFile "{folder / _KNOWN}"
  GlobalKnownHostsFile /dev/null
  StrictHostKeyChecking yes
  UpdateHostKeys no
  BatchMode yes
  ForwardAgent no
  ConnectTimeout {_PATIENCE}
  ServerAliveInterval {_PATIENCE}
  LogLevel ERROR
"""


def _generate(path: Path) -> None:
    words = [_program("ssh-keygen"), "-q", "-t", "ed25519", "-N", "", "-C", "vperf-lab"]
    try:
        done = subprocess.run(
            [*words, "-f", str(path)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
    except subprocess.TimeoutExpired:
        raise CannotStart("ssh-keygen made no key within 60 s") from None
    if done.returncode:
        raise CannotStart(f"ssh-keygen made no key: {done.stderr.strip()[-200:]}")
    assert not os.stat(path).st_mode & 0o077  # noqa: PTH116 - what ssh-keygen promises


def _program(name: str) -> str:
    path = find_program(name)
    if path is None:
        raise Unavailable(f"{name} is not installed", remedy="apt-get install openssh-client")
    return path


def _read(path: Path) -> bytes:
    return path.read_bytes()
