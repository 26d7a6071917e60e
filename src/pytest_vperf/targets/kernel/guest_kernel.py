"""The kernel of a machine, given by the user or unpacked from a distribution's package; its modules and initramfs.

The initramfs is for machines with their root on a disk (guests, domUs, the lab's hosts): drivers, and an init that
mounts it and hands over. A distribution's initramfs would do, but it is built for any machine, takes seconds to
unpack in emulation, and the programs that build it need root. The archive is cpio in "newc" format: Linux kernel
documentation, driver-api/early-userspace/buffer-format.
"""

from __future__ import annotations

import lzma
import re
import stat
import struct
import subprocess
import tempfile
import zlib
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path

from pytest_vperf.machine import cache, compiler
from pytest_vperf.machine.preflight import find_program
from pytest_vperf.targets.base import CannotStart, Unavailable
from pytest_vperf.targets.image import apt

#: The kernel's first line, from its setup code (arch/x86/boot/main.c) with "debug" and "earlyprintk".
KERNEL_LINE = b"early console in setup code"
#: The first line of our init in a machine with a root disk (first_root/init.c).
INIT_LINE = b"vperf-init: up"


#: Drivers for the agent's port and the image's disk, and the two file systems of the container's root.
MODULES_NEEDED = ("virtio_pci", "virtio_console", "virtio_blk", "squashfs", "overlay")

#: The same for Xen, where the console carries the agent's frames.
MODULES_NEEDED_ON_XEN = ("xen_blkfront", "squashfs", "overlay")

#: Further modules for a machine with a network card.
NETWORK_MODULES = ("virtio_net",)


def collect_modules(
    folder: Path, needed: tuple[str, ...] = MODULES_NEEDED, *, useful: tuple[str, ...] = ()
) -> list[tuple[str, bytes]]:
    """The modules of one kernel, each after its dependencies, without those built in.

    Dependencies are read from the modules themselves (``.modinfo``), because ``modules.dep`` only exists for
    installed kernels.

    Args:
        folder: ``lib/modules/RELEASE``.
        needed: module names.
        useful: names of modules that a kernel may lack; they come first.

    Returns:
        (file name, uncompressed content) in loading order.

    Raises:
        CannotStart: a needed module is neither found nor built in.
    """
    files = {_name(path): path for path in folder.rglob("*.ko*")}
    built_in = _built_in(folder)
    order: dict[str, bytes] = {}

    def add(name: str) -> None:
        if name in order or name in built_in:
            return
        if name not in files:
            raise CannotStart(f"guest kernel module {name} is neither in {folder} nor built in")
        content = _without_signature(_uncompressed(files[name]))
        for dependency in _dependencies(content):
            add(dependency)
        order[name] = content

    for name in (*(name for name in useful if name in files), *needed):
        add(name)
    return [(f"{name}.ko", content) for name, content in order.items()]


def _name(path: Path) -> str:
    return path.name.split(".ko", 1)[0].replace("-", "_")


def _built_in(folder: Path) -> set[str]:
    try:
        lines = (folder / "modules.builtin").read_text().splitlines()
    except OSError:
        return set()
    return {_name(Path(line)) for line in lines}


def _dependencies(content: bytes) -> list[str]:
    match = re.search(rb"\0depends=([^\0]*)\0", content)
    return (
        [name.replace("-", "_") for name in match[1].decode().split(",") if name] if match else []
    )


def _uncompressed(path: Path) -> bytes:
    data = path.read_bytes()
    if path.suffix == ".xz":
        return lzma.decompress(data)
    if path.suffix == ".gz":
        return zlib.decompress(data, wbits=31)
    if path.suffix == ".zst":
        program = find_program("zstd")
        if program is None:
            raise CannotStart(f"{path.name} is compressed with zstd: apt-get install zstd")
        return subprocess.run([program, "-dc"], input=data, capture_output=True, check=True).stdout
    return data


def _without_signature(content: bytes) -> bytes:
    """The module without its signature: checking ten RSA signatures takes a tenth of an emulated start.

    Signatures protect a kernel from foreign modules; these come from the same source as the kernel. The file ends
    with a magic string, preceded by the signature's 12-byte descriptor, whose last four bytes are its length,
    big-endian (Linux, include/linux/module_signature.h).
    """
    magic = b"~Module signature appended~\n"
    if not content.endswith(magic):
        return content
    body = content[: -len(magic)]
    length = int.from_bytes(body[-4:], "big")
    return body[: -12 - length]


#: Meta packages of the kernels for virtual machines: Debian's, then Ubuntu's.
PACKAGES = ("linux-image-cloud-amd64", "linux-image-virtual")
#: Those of the kernels with all drivers, as a Xen host and a host of machines need.
GENERIC_PACKAGES = ("linux-image-amd64", "linux-image-generic")


@dataclass(frozen=True)
class GuestKernel:
    """A kernel to start machines with.

    Attributes:
        image: the compressed kernel (bzImage).
        release: as ``uname -r`` will report it, read from the image.
        modules: the folder of its modules; ``None`` if all that is needed has to be built in.
        sha256: of the image.
    """

    image: Path
    release: str
    modules: Path | None
    sha256: str


def from_file(path: Path) -> GuestKernel:
    """A kernel file; its modules are looked for near it and in ``/lib/modules``.

    Raises:
        CannotStart: the file cannot be read, or is not a Linux kernel for x86.
    """
    try:
        release = read_release(path)
        digest = cache.file_sha256(path)
    except OSError as error:
        raise CannotStart(f"guest kernel {path}: {error.strerror or error}") from error
    places = (
        path.parent.parent / "lib/modules",
        path.parent.parent / "usr/lib/modules",
        Path("/lib/modules"),
    )
    modules = next((place / release for place in places if (place / release).is_dir()), None)
    return GuestKernel(path, release, modules, digest)


def read_release(path: Path) -> str:
    """The release string in the header of a bzImage.

    Source: Linux kernel documentation, arch/x86/boot: boot_flag at 0x1fe, "HdrS" at 0x202, and at 0x20e the offset of
    the version string minus 0x200.

    Raises:
        OSError: the file cannot be read.
        CannotStart: it is not a bzImage.
    """
    with path.open("rb") as stream:
        head = stream.read(0x10000)
    if len(head) < 0x210 or head[0x1FE:0x200] != b"\x55\xaa" or head[0x202:0x206] != b"HdrS":
        raise CannotStart(
            f"guest kernel {path}: not a Linux kernel for x86 (no boot header at offset 0x202); "
            "give a bzImage, usually named vmlinuz-*"
        )
    (offset,) = struct.unpack_from("<H", head, 0x20E)
    text = head[offset + 0x200 : offset + 0x200 + 256].split(b"\0", 1)[0].split(b" ", 1)[0]
    release = text.decode("ascii", "replace")
    return release if re.fullmatch(r"[\w.+~-]{1,64}", release) else "unknown"


def distribution_kernel(packages: tuple[str, ...] = PACKAGES) -> GuestKernel:
    """The newest kernel that apt knows for these packages, downloaded once and unpacked into the cache.

    If apt or the download fails, the newest one in the cache is used.

    Args:
        packages: the meta packages, by distribution.

    Raises:
        Unavailable: none is available.
    """
    reasons: list[str] = []
    for package in packages:
        concrete = _concrete_package(package)
        if concrete is None:
            reasons.append(f"apt does not know {package}")
            continue
        try:
            return _in_folder(_unpacked(*concrete))
        except (CannotStart, Unavailable) as error:
            reasons.append(str(error))
    # Debian's kernels for virtual machines are named "cloud"; Ubuntu's are the generic ones.
    small = packages == PACKAGES
    cached = sorted(
        (
            path
            for path in (cache.root() / "kernel").glob("*/boot/vmlinuz-*")
            if ("cloud" in path.name) == small or path.name.endswith("-generic")
        ),
        key=lambda path: path.stat().st_mtime,
    )
    if cached:
        return from_file(cached[-1])
    raise Unavailable(
        f"no guest kernel: {'; '.join(reasons)}",
        remedy="apt-get update, or name a kernel with --guest-kernel=FILE",
    )


def _in_folder(folder: Path) -> GuestKernel:
    return from_file(next((folder / "boot").glob("vmlinuz-*")))


def _concrete_package(package: str) -> tuple[str, str] | None:
    """The image package that a meta package depends on, and its version; ``None`` if apt has none."""
    depends = _apt("apt-cache", "depends", "--important", package)
    names = re.findall(r"Depends: (linux-image-\d\S*)", depends)
    if not names:
        return None
    version = re.search(
        r"^Version: (\S+)", _apt("apt-cache", "show", "--no-all-versions", names[0]), re.M
    )
    return (names[0], version[1]) if version else None


def _apt(*argv: str) -> str:
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout


def _unpacked(package: str, version: str) -> Path:
    def build(folder: Path) -> None:
        # Ubuntu has the modules in a separate package.
        extra = package.replace("linux-image-", "linux-modules-", 1)
        packages = [f"{package}={version}"]
        if extra != package and f"Package: {extra}" in _apt("apt-cache", "show", extra):
            packages.append(extra)
        # Not in $TMPDIR, which may be in another user's folder (`sudo -E`).
        with tempfile.TemporaryDirectory(prefix=".", dir=folder) as downloads:
            for archive in apt.fetch(packages, Path(downloads)):
                apt.unpack(archive, folder)

    return cache.entry("kernel", cache.content_key([package, version]), build)


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
    loaded = collect_modules(kernel.modules, drivers, useful=_ASKED_FOR) if kernel.modules else []
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
