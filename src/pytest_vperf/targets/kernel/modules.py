"""The kernel modules that a pod needs, with what they need, in an order they can be loaded in."""

from __future__ import annotations

import lzma
import re
import subprocess
import zlib
from pathlib import Path

from pytest_vperf.machine.preflight import find_program
from pytest_vperf.targets.base import CannotStart

#: The port to the agent, the disk with the image, and the two file systems the container's root is made of.
NEEDED = ("virtio_pci", "virtio_console", "virtio_blk", "squashfs", "overlay")

#: The same on Xen, where the console carries the agent's frames.
NEEDED_ON_XEN = ("xen_blkfront", "squashfs", "overlay")

#: What a machine with a network card needs besides.
NETWORK = ("virtio_net",)


def collect(
    folder: Path, needed: tuple[str, ...] = NEEDED, *, useful: tuple[str, ...] = ()
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
