"""The initramfs of a machine that has its root on a disk: drivers, and an init that mounts it and hands over.

Guests, domUs and the lab's hosts start with it. A distribution's initramfs would do, but it is built for any machine,
takes seconds to unpack in emulation, and the programs that build it need root. The archive is cpio in "newc" format.

Its format: Linux kernel documentation, driver-api/early-userspace/buffer-format.
"""

from __future__ import annotations

import stat
from dataclasses import dataclass, field
from importlib import resources
from typing import TYPE_CHECKING

from pytest_vperf.machine import cache, compiler
from pytest_vperf.targets.base import CannotStart, Unavailable
from pytest_vperf.targets.kernel import guest_kernel

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_vperf.targets.kernel.guest_kernel import GuestKernel


@dataclass
class Archive:
    """A cpio archive; all files are owned by root and dated 0, so that equal input gives equal bytes."""

    _blocks: list[bytes] = field(default_factory=list)

    def folder(self, name: str) -> None:
        """Add a folder; its parents must be added first."""
        self._add(name, stat.S_IFDIR | 0o755)

    def file(self, name: str, content: bytes, mode: int = 0o644) -> None:
        """Add a regular file."""
        self._add(name, stat.S_IFREG | mode, content)

    def device(self, name: str, major: int, minor: int) -> None:
        """Add a character device."""
        self._add(name, stat.S_IFCHR | 0o600, device=(major, minor))

    def _add(
        self, name: str, mode: int, content: bytes = b"", device: tuple[int, int] = (0, 0)
    ) -> None:
        path = name.encode() + b"\0"
        # ino, mode, uid, gid, nlink, mtime, filesize, devmajor, devminor, rdevmajor, rdevminor, namesize, check
        fields = (
            len(self._blocks) + 1,
            mode,
            0,
            0,
            1,
            0,
            len(content),
            0,
            0,
            *device,
            len(path),
            0,
        )
        header = b"070701" + b"".join(b"%08x" % value for value in fields)
        self._blocks.append(_padded(header + path) + _padded(content))

    def bytes(self) -> bytes:
        """The whole archive."""
        end = Archive()
        end._add("TRAILER!!!", 0)
        return b"".join(self._blocks) + end._blocks[0]


def _padded(data: bytes) -> bytes:
    return data + b"\0" * (-len(data) % 4)


#: The version of the archive's layout, for cache keys; to be changed with the layout.
_LAYOUT = "first root 1"
_FLAGS = ("-Os", "-std=gnu11", "-Wall", "-Wextra")
#: Requested by ext4 under another name at run time (for checksums), so that it is not among its dependencies.
_ASKED_FOR = ("crc32c_generic",)
#: The file system of a root disk.
FILE_SYSTEM = ("ext4",)
#: Disk, card, and serial port of a QEMU machine; and what ``systemd`` and ``udev`` would load later.
VIRTIO = (
    *("virtio_pci", "virtio_blk", "virtio_net", "virtio_console", "virtio_rng"),
    *FILE_SYSTEM,
)
#: Disk and card of a Xen domU; its console is built into the kernel.
XEN = ("xen_blkfront", "xen_netfront", *FILE_SYSTEM)


def parts(drivers: tuple[str, ...]) -> list[str | bytes]:
    """What an initramfs depends on, apart from the kernel: for the cache key of anything that contains one.

    Args:
        drivers: as for `build_root_initramfs`.
    """
    return [_LAYOUT, _source(), *_FLAGS, *_ASKED_FOR, *drivers]


def build_root_initramfs(kernel: GuestKernel, drivers: tuple[str, ...]) -> Path:
    """Build an uncompressed initramfs for one kernel and kind of machine.

    Its init understands ``root=DEVICE`` (default ``/dev/vda``), ``rootfstype=``, ``ro`` and ``init=`` (default
    ``/sbin/init``) on the kernel's command line.

    Args:
        kernel: the kernel.
        drivers: names of the modules to load, in this order, each after its dependencies.

    Raises:
        CannotStart: a module is missing, or init does not compile.
        Unavailable: there is no C compiler.
    """
    init = _build_init().read_bytes()
    loaded = (
        guest_kernel.collect_modules(kernel.modules, drivers, useful=_ASKED_FOR)
        if kernel.modules
        else []
    )
    archive = Archive()
    archive.folder("dev")
    # The kernel opens it for the first process's standard streams, before /dev is mounted.
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
