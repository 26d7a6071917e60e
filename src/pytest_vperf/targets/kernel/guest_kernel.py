"""The kernel of a machine: a file of the user's, or one of the distribution's, unpacked, not installed.

Lines on a console by which the host dates what a machine does.

The kernel modules that a pod needs, with what they need, in an order they can be loaded in.
"""

from __future__ import annotations

import lzma
import re
import struct
import subprocess
import tempfile
import zlib
from dataclasses import dataclass
from pathlib import Path

from pytest_vperf.machine import cache
from pytest_vperf.machine.preflight import find_program
from pytest_vperf.targets.base import CannotStart, Unavailable
from pytest_vperf.targets.image import apt

#: What the kernel's setup code prints first (arch/x86/boot/main.c) under "debug" and "earlyprintk".
KERNEL_LINE = b"early console in setup code"
#: What the first process of a machine with a root disk prints first (first_root/init.c).
INIT_LINE = b"vperf-init: up"


#: The port to the agent, the disk with the image, and the two file systems the container's root is made of.
MODULES_NEEDED = ("virtio_pci", "virtio_console", "virtio_blk", "squashfs", "overlay")

#: The same on Xen, where the console carries the agent's frames.
MODULES_NEEDED_ON_XEN = ("xen_blkfront", "squashfs", "overlay")

#: What a machine with a network card needs besides.
NETWORK_MODULES = ("virtio_net",)


def collect_modules(
    folder: Path, needed: tuple[str, ...] = MODULES_NEEDED, *, useful: tuple[str, ...] = ()
) -> list[tuple[str, bytes]]:
    """The modules of one kernel, each after everything it depends on, without those built in.

    Dependencies are read from the modules themselves (``.modinfo``), because ``modules.dep`` is made when a
    kernel is installed, and this one is not.

    Args:
        folder: ``lib/modules/RELEASE``.
        needed: module names.
        useful: likewise, those that a kernel may have, or do without; they come first.

    Returns:
        (file name, uncompressed content) in loading order.

    Raises:
        CannotStart: a module is neither there nor built in.
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
    """The module less its signature: checking ten RSA signatures is a tenth of an emulated start.

    The signature protects a kernel from modules of strangers; this kernel gets its own modules from the file
    that it came from itself. The trailer ends with a magic string, before it the length of the signature
    (Linux, include/linux/module_signature.h: 12 bytes, the last four the length, big-endian).
    """
    magic = b"~Module signature appended~\n"
    if not content.endswith(magic):
        return content
    body = content[: -len(magic)]
    length = int.from_bytes(body[-4:], "big")
    return body[: -12 - length]


#: The kernel meant for virtual machines, by distribution: first what Debian, then what Ubuntu calls it.
PACKAGES = ("linux-image-cloud-amd64", "linux-image-virtual")
#: The kernel for any machine, with every driver: what a Xen host needs, and one that runs machines itself.
GENERIC_PACKAGES = ("linux-image-amd64", "linux-image-generic")


@dataclass(frozen=True)
class GuestKernel:
    """A kernel that a machine can start with.

    Attributes:
        image: the compressed kernel (bzImage).
        release: what ``uname -r`` will say, read from the image.
        modules: the folder of its modules; ``None``: everything needed must be built in.
        sha256: of the image.
    """

    image: Path
    release: str
    modules: Path | None
    sha256: str


def from_file(path: Path) -> GuestKernel:
    """A kernel file named by the user; its modules are looked for beside it and in ``/lib/modules``.

    Raises:
        CannotStart: the file cannot be read or is no x86 Linux kernel.
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

    Source: Linux kernel documentation, arch/x86/boot: boot_flag at 0x1fe, "HdrS" at 0x202, and at 0x20e the
    offset of the version string, less 0x200.

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
    """The newest such kernel that apt knows, downloaded once and unpacked into the cache.

    Where apt cannot be asked or the download fails, the newest one in the cache serves.

    Args:
        packages: the meta packages that name it, by distribution.

    Raises:
        Unavailable: none can be had.
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
    # Debian's kernels for virtual machines are named "cloud", Ubuntu's are its generic ones.
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
    """The image package that a meta package stands for, and its version; ``None`` where apt has none."""
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
        # Ubuntu keeps the modules in a package of their own.
        extra = package.replace("linux-image-", "linux-modules-", 1)
        packages = [f"{package}={version}"]
        if extra != package and f"Package: {extra}" in _apt("apt-cache", "show", extra):
            packages.append(extra)
        with tempfile.TemporaryDirectory() as downloads:
            for archive in apt.fetch(packages, Path(downloads)):
                apt.unpack(archive, folder)

    return cache.entry("kernel", cache.content_key([package, version]), build)
