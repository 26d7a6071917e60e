"""The container's image as the machine's disk: one read-only squashfs, made once per image.

Disks of the run in a pod: further virtio disks of its machine, put where the container finds them.

The first root of a pod's machine: the agent as /init, and the modules it loads.
"""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

from pytest_vperf.machine import cache
from pytest_vperf.machine.preflight import find_program
from pytest_vperf.targets.agent.build import build_agent
from pytest_vperf.targets.base import CannotStart, Unavailable
from pytest_vperf.targets.disks import put_disks
from pytest_vperf.targets.kernel import guest_kernel
from pytest_vperf.targets.kernel.initramfs import Archive

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pytest_vperf.targets.base import Target
    from pytest_vperf.targets.disks import Disk
    from pytest_vperf.targets.kernel.guest_kernel import GuestKernel


#: Finds the disk by the serial number that QEMU gave it (virtio-blk shows it as block/NAME/serial), makes its device,
#: and mounts its file system where it has one. Words: serial, path, kind of file system or nothing.
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
    """The serial number under which the guest knows a disk; virtio-blk has room for 20 characters."""
    return f"vperf-{disk.name}"


def put_in_place(pod: Target, disks: Sequence[Disk]) -> None:
    """Make the devices in the pod's container, and mount file systems.

    Raises:
        CannotStart: one is not there, or cannot be mounted; with the guest's words.
    """
    put_disks(pod, _PUT, [(disk, serial(disk)) for disk in disks])


def build_initramfs(
    kernel: GuestKernel,
    more: tuple[str, ...] = (),
    *,
    needed: tuple[str, ...] = guest_kernel.MODULES_NEEDED,
) -> Path:
    """The initramfs for one kernel, not compressed: unpacking costs more than reading, most of all emulated.

    Args:
        kernel: the guest kernel.
        more: modules besides those that every pod needs.
        needed: those.

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
    # The kernel opens it as the first process's standard streams, before /dev is mounted.
    archive.device("dev/console", 5, 1)
    archive.file("init", agent, 0o755)
    if drivers:
        archive.folder("modules")
        archive.file("modules/order", "".join(f"{name}\n" for name, _ in drivers).encode())
        for name, content in drivers:
            archive.file(f"modules/{name}", content)
    return archive.bytes()


#: Nothing compressed (a start must not pay for unpacking), the file system dated 0 so that equal input gives
#: equal bytes.
OPTIONS = ("-no-progress", "-quiet", "-noI", "-noD", "-noF", "-noX", "-mkfs-time", "0")


def build_disk(tar: Path, sha256: str) -> Path:
    """The disk for a root file system given as a tar archive.

    Args:
        tar: the archive, e.g. as ``docker export`` writes it.
        sha256: of the archive.

    Raises:
        Unavailable: squashfs-tools is not installed.
        CannotStart: the archive cannot be turned into a file system.
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
            raise CannotStart(f"{tar} cannot be made a disk: {done.stderr.strip()[-300:]}")

    return cache.entry("disk", cache.content_key([sha256, *OPTIONS]), build) / "image.squashfs"
