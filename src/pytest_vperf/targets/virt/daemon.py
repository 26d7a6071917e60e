"""A libvirt daemon that machines are started on: its connection, its folder for files, and who runs it."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from pytest_vperf.targets.virt import address
from pytest_vperf.targets.virt.storage import Storage

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_vperf.machine.runs import Run
    from pytest_vperf.targets.image import Rootfs
    from pytest_vperf.targets.kernel.guest_kernel import GuestKernel
    from pytest_vperf.targets.virt.connection import Connection

_numbers = itertools.count(1)


class Daemon:
    """A daemon that answers, for one run.

    Args:
        connection: to it.
        run: whose machines are started.
        folder: where it keeps files for machines; empty for the usual place.
        details: for the record of every machine on it, e.g. that its host is emulated.
        stop: ends a daemon that was started for the run.

    Raises:
        CannotStart: it has no place for files.
    """

    def __init__(
        self,
        connection: Connection,
        run: Run,
        *,
        folder: str = "",
        details: dict[str, str] | None = None,
        stop: Callable[[], None] | None = None,
    ) -> None:
        self.connection = connection
        self.run = run
        self.storage = Storage(connection, folder)
        # libvirt asks QEMU what it can when it first needs to know; that takes seconds, and is no part of a start.
        connection.warm_up()
        self._details = dict(details or {})
        self._stop = stop

    @property
    def details(self) -> dict[str, str]:
        """For records: versions, address, and what is known of its host."""
        return {
            **self.connection.versions(),
            "libvirt_uri": self.connection.shown,
            **self._details,
        }

    @property
    def is_remote(self) -> bool:
        """Whether it may be on another machine."""
        return address.is_remote(self.connection.uri)

    def new_name(self) -> str:
        """A name for a machine of this run: unique, and says whose it is."""
        return f"{self.run.cgroup}-{next(_numbers)}"

    def kernel(self, kernel: GuestKernel) -> str:
        """The path of a kernel there."""
        return self.storage.cached(kernel.image, f"kernel-{kernel.sha256[:16]}")

    def root_disk(self, rootfs: Rootfs) -> str:
        """The path of an image's root disk there."""
        from pytest_vperf.targets.virt.root_disk import build_root_disk

        disk, key = build_root_disk(rootfs)
        return self.storage.cached(disk, f"root-{key}")

    def initramfs(self, kernel: GuestKernel, drivers: tuple[str, ...]) -> str:
        """The path of a first root for machines with a root disk."""
        from pytest_vperf.targets.kernel.root_initramfs import build_root_initramfs

        file = build_root_initramfs(kernel, drivers)
        return self.storage.cached(file, f"initramfs-{file.parent.name}")

    def close(self) -> None:
        """Let go of it, and end it if it was started for the run. Safe to repeat."""
        self.connection.close()
        if self._stop is not None:
            self._stop()
