"""The first root of a machine that has its root on a disk: drivers, and an init that mounts it and hands over.

Guests, domUs and the hosts of the lab start with it. A distribution's own initramfs would do, but it is made
for a machine that nobody knows, takes seconds to unpack when emulated, and is made by programs that need root.
"""

from __future__ import annotations

from importlib import resources
from typing import TYPE_CHECKING

from pytest_vperf.machine import cache, compiler
from pytest_vperf.targets.base import CannotStart, Unavailable
from pytest_vperf.targets.kernel import modules
from pytest_vperf.targets.kernel.cpio import Archive

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_vperf.targets.kernel.guest_kernel import GuestKernel

#: The name of the layout; it changes with what is in the archive, and where.
_LAYOUT = "first root 1"
_FLAGS = ("-Os", "-std=gnu11", "-Wall", "-Wextra")
#: What ext4 asks the running kernel for by another name (checksums), so that no dependency tells of it.
_ASKED_FOR = ("crc32c_generic",)
#: The file system of a root disk.
FILE_SYSTEM = ("ext4",)
#: Disk, card, and serial port of a machine that QEMU runs; and what ``systemd`` and ``udev`` would load later.
VIRTIO = (
    *("virtio_pci", "virtio_blk", "virtio_net", "virtio_console", "virtio_rng"),
    *FILE_SYSTEM,
)
#: Disk and card of a Xen domU; its console is built into the kernel.
XEN = ("xen_blkfront", "xen_netfront", *FILE_SYSTEM)


def parts(drivers: tuple[str, ...]) -> list[str | bytes]:
    """What of ours an initramfs is made of, the kernel's part apart: for the key of something that has one in it.

    Args:
        drivers: as for `build_root_initramfs`.
    """
    return [_LAYOUT, _source(), *_FLAGS, *_ASKED_FOR, *drivers]


def build_root_initramfs(kernel: GuestKernel, drivers: tuple[str, ...]) -> Path:
    """An initramfs for one kernel and kind of machine, not compressed.

    Its init understands ``root=DEVICE`` (default ``/dev/vda``), ``rootfstype=``, ``ro`` and ``init=`` (default
    ``/sbin/init``) on the kernel's command line.

    Args:
        kernel: the kernel.
        drivers: names of modules that are loaded, with what they need, in this order.

    Raises:
        CannotStart: a module is missing, or init does not compile.
        Unavailable: there is no C compiler.
    """
    init = _build_init().read_bytes()
    loaded = modules.collect(kernel.modules, drivers, useful=_ASKED_FOR) if kernel.modules else []
    archive = Archive()
    archive.folder("dev")
    # The kernel opens it as the first process's standard streams, before /dev is mounted.
    archive.device("dev/console", 5, 1)
    archive.file("init", init, 0o755)
    archive.folder("modules")
    archive.file("modules/order", "".join(f"{name}\n" for name, _ in loaded).encode())
    for name, content in loaded:
        archive.file(f"modules/{name}", content)
    whole = archive.bytes()

    def build(folder: Path) -> None:
        (folder / "initramfs").write_bytes(whole)

    key = cache.content_key([*parts(drivers), whole])
    return cache.entry("initramfs", key, build) / "initramfs"


def _source() -> bytes:
    return (resources.files(__package__) / "first_root" / "init.c").read_bytes()


def _build_init() -> Path:
    try:
        return compiler.build("init", "init", {"init.c": _source()}, _FLAGS)
    except compiler.CompilerMissing as error:
        raise Unavailable(str(error), remedy=error.remedy) from None
    except compiler.CompilerFailed as error:
        raise CannotStart(str(error)) from None
