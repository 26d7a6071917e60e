"""The host of whole machines that is reached by SSH, with the programs of their image.

Claims hold a machine against its host. Where libvirt's daemon is on another machine, that one is the host, and runs
the same bytes: the image's root disk is there already, so it is mounted read-only, and its programs are run in place.
The image may be a stranger's: no set-user-ID program and no device of it may be one for the users of that machine.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from pytest_vperf.targets.base import CommandFailed, Unavailable
from pytest_vperf.targets.image_programs import programs_of
from pytest_vperf.targets.remote.hold import Hold
from pytest_vperf.targets.ssh_host import SshHost

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from pytest_vperf.machine.runs import Run
    from pytest_vperf.targets.base import Facts, Link
    from pytest_vperf.targets.image import Rootfs
    from pytest_vperf.targets.program import Program
    from pytest_vperf.targets.ssh_connection import SshConnection

#: Words: disk, mount point. Prints the user's number if that user may not.
_MOUNT = """
mkdir -m 700 "$2" && mount -o loop,ro,nosuid,nodev "$1" "$2" && exit
rmdir "$2"; id -u; exit 1
"""
_numbers = itertools.count(1)


class ImageHost(SshHost):
    """A machine that runs machines, as a target.

    Args:
        url: as of `SshHost`, like ``run``, ``config`` and ``connection``.
        rootfs: gives the machines' image.
        disk: gives the path, there, of its root disk.
        name: in reports.
        details: as of `SshHost`.
        folder: a folder of the run there, private to it; without one, it is made when one is first needed.
    """

    def __init__(
        self,
        url: str,
        run: Run,
        *,
        rootfs: Callable[[], Rootfs],
        disk: Callable[[Rootfs], str],
        name: str = "host",
        details: Mapping[str, str] | None = None,
        config: Path | None = None,
        connection: SshConnection | None = None,
        folder: str = "",
    ) -> None:
        super().__init__(url, run, config=config, name=name, connection=connection, details=details)
        self._rootfs = rootfs
        self._disk = disk
        self._used: list[Rootfs] = []
        self._folder = folder
        self._hold: Hold | None = None
        self._point = ""
        self.network_link: Link | None = None

    @property
    def folder(self) -> str:
        """A folder of the run there, private to it: what is in it goes with the run, however that ends.

        Raises:
            CannotStart: there is no place for it.
        """
        if not self._folder:
            self._hold = Hold(self.connection, lock=False, say=lambda _: None)
            self._folder = self._hold.folder
        return self._folder

    def program(self, name: str) -> Program:
        """A program of the image, run in place; see `pytest_vperf.targets.base.Target.program`.

        Raises:
            Unavailable: the image does not have it, or its disk cannot be mounted there.
        """
        rootfs = self._rootfs()
        if not self._used:
            self._mount(self._disk(rootfs))
            self._used.append(rootfs)
        try:
            return programs_of(rootfs).in_place(name, self._point)
        except Unavailable as error:
            error.target = self.name
            raise

    def _mount(self, disk: str) -> None:
        point = f"{self.folder}/image{next(_numbers)}"
        try:
            self.run(["sh", "-c", _MOUNT, "sh", disk, point])
        except CommandFailed as error:
            said = error.completed.stderr.decode("utf-8", "replace").strip()
            is_root = error.completed.text.strip() == "0"
            raise Unavailable(
                f"{self.name}: the image's disk cannot be mounted there: {said}",
                remedy="--host-tools, for programs of its own"
                if is_root
                else "log in as root: ssh://root@HOST",
                target=self.name,
            ) from None
        self._point = point

    def facts(self) -> Facts:
        """As of a machine reached by SSH, with the image once a program of it was wanted."""
        from dataclasses import replace

        found = super().facts()
        image = (
            {"rootfs": self._used[0].name, "rootfs_sha256": self._used[0].sha256}
            if self._used
            else {}
        )
        return replace(found, details={**found.details, **image})

    def close(self) -> None:
        """Take the image away and end the connection. Safe to repeat; quiet if it is gone."""
        if self._used and self.connection.is_open:
            self._used.clear()
            script = 'umount -l "$1" && rmdir "$1"'
            self._quietly(["sh", "-c", script, "sh", self._point])
        if self._hold is not None:
            self._hold.close()
            self._hold, self._folder = None, ""
        super().close()

    def _quietly(self, argv: list[str]) -> None:
        from contextlib import suppress

        from pytest_vperf.targets.base import TargetError

        with suppress(TargetError):
            self.run(argv, timeout=20.0, check=False)
