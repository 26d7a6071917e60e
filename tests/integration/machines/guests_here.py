"""Shared by the tests of guests: a private libvirt daemon, and machines on it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import psutil

from pytest_vperf.machine import cache, cgroups
from pytest_vperf.targets.guest.guests import Guests
from pytest_vperf.targets.libvirt.connect import PrivateDaemon
from pytest_vperf.targets.libvirt.daemon import Daemon
from pytest_vperf.targets.scope import Scope

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_vperf.machine.runs import Run
    from pytest_vperf.targets.image.rootfs import Rootfs
    from pytest_vperf.targets.kernel.guest_kernel import GuestKernel

#: Seconds for a start on a busy machine.
LIMIT = 180.0


@dataclass
class Place:
    """A daemon with the files that guests are started from."""

    run: Run
    daemon: Daemon
    own: PrivateDaemon
    rootfs: Rootfs
    kernel: GuestKernel

    def renew(self) -> None:
        """Start another daemon where a test has lost this one."""
        if not self.daemon.connection.is_alive:
            self.daemon.close()
            self.own, self.daemon = start_daemon(self.run, cache.root() / "libvirt")

    def guests(self, rootfs: Rootfs | None = None, timeout: float = LIMIT) -> Guests:
        """Guests whose scope only the test closes."""
        image = rootfs or self.rootfs
        return Guests(
            lambda: self.daemon,
            lambda: image,
            lambda: self.kernel,
            Scope(),
            accelerator="tcg",
            timeout=timeout,
        )

    def machines(self) -> list[str]:
        """The names of the machines that the daemon has."""
        return [domain.name() for domain in self.daemon.connection.handle.listAllDomains()]

    def traces(self) -> list[str]:
        """All remaining traces of its machines."""
        return [
            *self.machines(),
            *(name for name in self.daemon.storage.names() if self.run.cgroup in name),
            *qemus(self.run),
            *map(str, cgroups.of_machines(self.run.cgroup)),
        ]


def start_daemon(run: Run, folder: Path | str) -> tuple[PrivateDaemon, Daemon]:
    """A private daemon of the run, even where another is installed; files for machines are in ``folder``."""
    from pytest_vperf.targets.libvirt.connection import Connection

    own = PrivateDaemon.start(run)
    try:
        return own, Daemon(Connection.open(own.uri), run, folder=str(folder), stop=own.stop)
    except BaseException:
        own.stop()
        raise


def qemus(run: Run) -> list[str]:
    """The QEMU processes of a run's machines: ``PID NAME``."""
    found = []
    for process in psutil.process_iter():
        try:
            words = process.cmdline()
        except psutil.Error:
            continue
        if words and "qemu-system" in words[0] and any(run.cgroup in word for word in words):
            found.append(f"{process.pid} qemu")
    return found
