"""A pod's initramfs (the agent as /init, and modules), its image's disk (squashfs), and the run's further disks."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

from pytest_vperf.machine import cache
from pytest_vperf.machine.preflight import find_program
from pytest_vperf.targets.agent.build import build_agent
from pytest_vperf.targets.base import CannotStart, Unavailable
from pytest_vperf.targets.disks import put_disks
from pytest_vperf.targets.kernel import guest_kernel
from pytest_vperf.targets.kernel.guest_kernel import Archive

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pytest_vperf.targets.base import Target
    from pytest_vperf.targets.disks import Disk
    from pytest_vperf.targets.kernel.guest_kernel import GuestKernel


#: Finds a disk by the serial number that QEMU gave it (virtio-blk shows it as block/NAME/serial), creates its device
#: node, and mounts its file system, if any. Arguments: serial, path, type of file system or nothing.
_PUT = """
for entry in /sys/block/*; do
    if [ "$(cat "$entry/serial" 2>/dev/null)" = "$1" ]; then
        numbers=$(cat "$entry/dev")
        node=$2
        if [ -n "$3" ]; then node=/dev/$1; fi
        mknod "$node" b "${numbers%:*}" "${numbers#*:}" || exit 1
        if [ -z "$3" ]; then exit 0; fi
        mkdir -p "$2" && mount -o nosuid,nodev -t "$3" "$node" "$2" && exit 0
        exit 1
    fi
done
echo "no disk has the serial number $1" >&2
exit 1
"""


def serial(disk: Disk) -> str:
    """The serial number by which the guest finds a disk; virtio-blk allows 20 characters."""
    return f"vperf-{disk.name}"


def put_in_place(pod: Target, disks: Sequence[Disk]) -> None:
    """Create the disks' devices in the pod's container, and mount file systems.

    Raises:
        CannotStart: one is missing or cannot be mounted; with the guest's message.
    """
    put_disks(pod, _PUT, [(disk, serial(disk)) for disk in disks])


def build_initramfs(
    kernel: GuestKernel,
    more: tuple[str, ...] = (),
    *,
    needed: tuple[str, ...] = guest_kernel.MODULES_NEEDED,
) -> Path:
    """The initramfs for one kernel, uncompressed: unpacking takes longer than reading, above all in emulation.

    Args:
        kernel: the guest kernel.
        more: further modules.
        needed: those that every pod needs.

    Raises:
        CannotStart: a module is missing or the agent does not compile.
        Unavailable: there is no C compiler.
    """
    agent = build_agent().read_bytes()
    drivers = guest_kernel.collect_modules(kernel.modules, needed + more) if kernel.modules else []
    content = _archive(agent, drivers)

    def build(folder: Path) -> None:
        (folder / "initramfs").write_bytes(content)

    return cache.entry("initramfs", cache.content_key([content]), build) / "initramfs"


def _archive(agent: bytes, drivers: list[tuple[str, bytes]]) -> bytes:
    archive = Archive()
    archive.folder("dev")
    # The kernel opens it for the first process's standard streams, before /dev is mounted.
    archive.device("dev/console", 5, 1)
    archive.file("init", agent, 0o755)
    if drivers:
        archive.folder("modules")
        archive.file("modules/order", "".join(f"{name}\n" for name, _ in drivers).encode())
        for name, content in drivers:
            archive.file(f"modules/{name}", content)
    return archive.bytes()


#: No compression, so that a start does not pay for unpacking; dated 0, so that equal input gives equal bytes.
OPTIONS = ("-no-progress", "-quiet", "-noI", "-noD", "-noF", "-noX", "-mkfs-time", "0")


def build_disk(tar: Path, sha256: str) -> Path:
    """The disk for a root file system given as a tar archive.

    Args:
        tar: the archive, e.g. as ``docker export`` writes it.
        sha256: of the archive.

    Raises:
        Unavailable: squashfs-tools is not installed.
        CannotStart: the archive cannot be converted.
    """
    program = find_program("sqfstar")
    if program is None:
        raise Unavailable("sqfstar is not installed", remedy="apt-get install squashfs-tools")

    def build(folder: Path) -> None:
        with tar.open("rb") as stream:
            done = subprocess.run(
                [program, *OPTIONS, str(folder / "image.squashfs")],
                stdin=stream,
                capture_output=True,
                text=True,
                check=False,
            )
        if done.returncode:
            raise CannotStart(f"{tar} cannot be made into a disk: {done.stderr.strip()[-300:]}")

    return cache.entry("disk", cache.content_key([sha256, *OPTIONS]), build) / "image.squashfs"
