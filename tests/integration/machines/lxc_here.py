"""System containers of LXC with an ``sshd`` of their own, which is all that is known of them."""

from __future__ import annotations

import contextlib
import os
import secrets
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
from ssh_login import Keys, Login, settings

from pytest_vperf.machine.preflight import Readiness, find_program
from pytest_vperf.targets.network.addresses import Addresses, free_subnet, taken

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Seconds until its sshd answers, and until it has ended.
_LONG = 30.0
#: The first process; one that rewrites its own environment, such as sshd, would hide what LXC says in it.
_INIT = "#!/bin/sh\n/usr/sbin/sshd -D -e -f /etc/ssh/config &\nwait\n"
#: The host's programs, a network of its own with an address, and no more memory than the document's containers have.
_CONFIG = """
lxc.uts.name = {name}
lxc.rootfs.path = dir:{root}
lxc.init.cmd = /init
lxc.mount.auto = proc:mixed sys:ro
lxc.mount.entry = /usr usr none ro,bind 0 0
lxc.autodev = 1
lxc.tty.max = 0
lxc.pty.max = 16
lxc.apparmor.profile = unconfined
lxc.net.0.type = veth
lxc.net.0.veth.pair = {link}
lxc.net.0.name = eth0
lxc.net.0.flags = up
lxc.net.0.ipv4.address = {address}
"""


def check() -> Readiness:
    """Whether containers of LXC can be started here."""
    there = find_program("lxc-start") is not None and os.geteuid() == 0
    return Readiness("lxc", there, "it is not installed, or we are not root", "apt-get install lxc")


@contextlib.contextmanager
def container(folder: Path, keys: Keys) -> Iterator[Login]:
    """A container with an address that is free here, and its link; it ends with the block.

    Args:
        folder: for its files; is made.
        keys: that its server has, and takes.
    """
    folder.mkdir()
    link = f"vpx{secrets.token_hex(4)}"
    addresses = Addresses(free_subnet(taken(), secrets.randbelow(500)))
    here, there = addresses.take(), addresses.take()
    _fill(folder / "rootfs", keys)
    (folder / "config").write_text(
        _CONFIG.format(name=link, root=folder / "rootfs", link=link, address=there)
    )
    words = ["lxc-start", "-F", "-n", link, "-P", str(folder), "-f", str(folder / "config")]
    with (folder / "log").open("wb") as log:
        started = subprocess.Popen(words, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
    try:
        _await_link(link, started, folder / "log")
        for change in (["address", "add", str(here), "dev", link], ["link", "set", link, "up"]):
            subprocess.run(["ip", *change], check=True)
        login = Login(str(there.ip), 22, keys)
        login.await_answer(folder / "log")
        yield login
    finally:
        _end(started)
        for leftover in Path("/sys/fs/cgroup").glob("**/lxc.pivot"):
            with contextlib.suppress(OSError):  # of other containers
                leftover.rmdir()


def _fill(root: Path, keys: Keys) -> None:
    for name in ("proc", "sys", "dev", "run/sshd", "tmp", "var/tmp", "root", "usr", "etc/ssh"):
        (root / name).mkdir(parents=True)
    (root / "var/tmp").chmod(0o1777)
    for name in ("bin", "sbin", "lib", "lib64"):
        (root / name).symlink_to(f"usr/{name}")
    (root / "etc/passwd").write_text(
        "root:x:0:0::/root:/bin/sh\nsshd:x:100:65534::/run/sshd:/usr/sbin/nologin\n"
    )
    (root / "etc/group").write_text("root:x:0:\nnogroup:x:65534:\n")
    for name, text in settings(keys, 22).items():
        place = root / "etc/ssh" / name
        place.write_text(text)
        place.chmod(0o600)
    (root / "init").write_text(_INIT)
    (root / "init").chmod(0o755)


def _await_link(link: str, started: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + _LONG
    while not Path("/sys/class/net", link).exists():
        assert started.poll() is None, log.read_text()
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.05)


def _end(started: subprocess.Popen[bytes]) -> None:
    inside = psutil.Process(started.pid).children(recursive=True) if started.poll() is None else []
    for process in inside:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    started.wait(_LONG)
