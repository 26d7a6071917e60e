"""A private real ``sshd`` with its own keys, on the loopback or in a network namespace."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_vperf.machine.preflight import Readiness, find_program

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


@dataclass(frozen=True)
class Server:
    """A listening server.

    Attributes:
        port: its port.
        config: a configuration for clients, with a key that it takes and the key that it shows; it knows the server
            as ``loopback``, too.
        process: it.
    """

    port: int
    config: Path
    process: subprocess.Popen[bytes]


def check() -> Readiness:
    """Whether a server can be run here."""
    there = find_program("sshd") is not None and find_program("ssh-keygen") is not None
    return Readiness("sshd", there, "it is not installed", "apt-get install openssh-server")


@contextlib.contextmanager
def serve(
    folder: Path,
    address: str = "127.0.0.1",
    *,
    inside: Sequence[str] = (),
    settings: str = "",
) -> Iterator[Server]:
    """Run a server for this user.

    Args:
        folder: for its files; is made.
        address: that it listens at.
        inside: the words that enter where it is to run.
        settings: more lines for sshd_config(5).
    """
    folder.mkdir(mode=0o700)
    for name in ("host", "user"):
        subprocess.run(
            ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)], check=True
        )
    (folder / "authorized").write_bytes((folder / "user.pub").read_bytes())
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))  # in its own namespace every port is free
        port: int = probe.getsockname()[1]
    (folder / "sshd_config").write_text(
        f"Port {port}\nListenAddress {address}\nHostKey {folder}/host\nPidFile none\nUsePAM no\n"
        f"AuthorizedKeysFile {folder}/authorized\nStrictModes no\nPasswordAuthentication no\n"
        f"PermitRootLogin prohibit-password\n{settings}\n"
    )
    (folder / "ssh_config").write_text(
        f"Host *\n  IdentityFile {folder}/user\n  IdentitiesOnly yes\n"
        f"  UserKnownHostsFile {folder}/known\n  GlobalKnownHostsFile none\n"
        f"Host loopback\n  HostName {address}\n"
    )
    key = (folder / "host.pub").read_text()
    (folder / "known").write_text(f"[{address}]:{port} {key}")
    # Where it changes its root to before a login; Debian's service makes it at each start, too.
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
    # In the foreground, so that its number is known.
    server = subprocess.Popen(
        [*inside, str(find_program("sshd")), "-D", "-e", "-f", str(folder / "sshd_config")],
        stderr=(folder / "log").open("wb"),
        start_new_session=True,
    )
    try:
        _await(server, address, port, folder / "log")
        yield Server(port, folder / "ssh_config", server)
    finally:
        server.kill()
        server.wait()


def _await(server: subprocess.Popen[bytes], address: str, port: int, log: Path) -> None:
    deadline = time.monotonic() + 10
    while True:
        with contextlib.suppress(OSError), socket.create_connection((address, port), 1):
            return
        assert server.poll() is None, f"sshd does not start here: {log.read_text()[-300:]}"
        assert time.monotonic() < deadline, (
            f"{address}:{port} cannot be reached: {log.read_text()[-300:]}"
        )
        time.sleep(0.02)
