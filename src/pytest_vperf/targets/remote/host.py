"""Another machine itself as a target, with the programs of the image that containers and pods on it have."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from pytest_vperf.targets.pod.disk import build_disk
from pytest_vperf.targets.remote.ssh import ImageHost, SshHost

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_vperf.machine.runs import Run
    from pytest_vperf.targets.image.rootfs import Rootfs
    from pytest_vperf.targets.remote.machine import RemoteMachine


_numbers = itertools.count(1)


def host_of(machine: RemoteMachine, run: Run, rootfs: Callable[[], Rootfs] | None) -> SshHost:
    """The machine as the host of what runs on it; ended by the caller, which leaves the machine's connection open.

    Args:
        machine: the machine.
        run: owns what is mounted there.
        rootfs: gives the image; called when its first program is wanted. ``None``: it runs its own programs.
    """
    name, shared = f"host{machine.mark}", machine.ssh.connection
    if rootfs is None:
        return SshHost(
            machine.address.url, run, name=name, connection=shared, details=machine.details
        )

    def disk(image: Rootfs) -> str:
        return machine.sent.keep(build_disk(image.path, image.sha256), "image")

    return ImageHost(
        machine.address.url,
        run,
        rootfs=rootfs,
        disk=disk,
        name=name,
        details=machine.details,
        connection=shared,
        folder=machine.folder,
    )
