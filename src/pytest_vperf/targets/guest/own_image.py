"""A guest's own disk image, ``--guest-image=FILE.qcow2``: an installed system with boot loader, kernel and agent.

An image may come from a stranger, and QEMU opens every file that its header names: one that names any is refused.

Format: QEMU, docs/interop/qcow2.rst.
"""

from __future__ import annotations

import functools
import hashlib
import struct
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pytest_vperf import foreign_text
from pytest_vperf.targets.base import CannotStart
from pytest_vperf.targets.guest.guest import Guest
from pytest_vperf.targets.image.brought import BroughtPrograms, installed

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from pytest_vperf.targets.base import Facts
    from pytest_vperf.targets.guest.guest import GuestAgent
    from pytest_vperf.targets.image.rootfs import Rootfs
    from pytest_vperf.targets.libvirt.domain import Domain

_MAGIC = b"QFI\xfb"
#: Magic, version, backing file's offset and length, cluster bits, virtual size, encryption.
_HEADER = struct.Struct(">4sIQIIQI")
#: Where version 3 has its incompatible features, and the bits that matter here.
_FEATURES_AT, _FEATURES = 72, struct.Struct(">Q")
HEADER_SIZE = _FEATURES_AT + _FEATURES.size
_CORRUPT, _DATA_FILE = 1 << 1, 1 << 2
_LEAST = _CHUNK = 1 << 20


@dataclass(frozen=True)
class OwnImage:
    """A guest's own image.

    Attributes:
        path: the file.
        sha256: of its content, in hexadecimal.
        size: of the disk that it is, in bytes.
    """

    path: Path
    sha256: str
    size: int

    @property
    def name(self) -> str:
        """The file's name, for records."""
        return self.path.name


def read_image(path: Path) -> OwnImage:
    """An image in the format qcow2 that needs no other file.

    Raises:
        CannotStart: it cannot be read, is none, or needs another file or a key.
    """
    try:
        # In one go: what is checked has to be what has this hash, by which the upload knows it.
        digest, size = hashlib.sha256(), 0
        with path.open("rb") as stream:
            while chunk := stream.read(_CHUNK):
                size = size or disk_size(chunk)
                digest.update(chunk)
        return OwnImage(path, digest.hexdigest(), size or disk_size(b""))
    except OSError as error:
        raise CannotStart(f"{path} cannot be read: {error.strerror or error}") from error
    except ValueError as error:
        raise CannotStart(f"{path} cannot be a guest's image: {error}") from None


def disk_size(header: bytes) -> int:
    """The size of the disk in bytes.

    Args:
        header: the beginning of its file, at least `HEADER_SIZE` bytes if it has as many.

    Raises:
        ValueError: why it cannot be used.
    """
    if not header.startswith(_MAGIC) or len(header) < _FEATURES_AT:
        raise ValueError("it is not in the format qcow2, which qemu-img convert -O qcow2 makes")
    _, version, backing, _, _, size, encryption = _HEADER.unpack_from(header)
    if version not in (2, 3):
        raise ValueError(f"it has version {version} of the format qcow2, and not 2 or 3")
    alone = "qemu-img convert -O qcow2 makes one that needs none"
    if backing:
        raise ValueError(f"it needs another file, its backing file: {alone}")
    if encryption:
        raise ValueError("it is encrypted")
    if version == 3:
        if len(header) < HEADER_SIZE:
            raise ValueError("its header is cut off")
        (features,) = _FEATURES.unpack_from(header, _FEATURES_AT)
        if features & _DATA_FILE:
            raise ValueError(f"it needs another file, with its data: {alone}")
        if features & _CORRUPT:
            raise ValueError("it is marked as corrupt: qemu-img check -r all repairs it")
    if size < _LEAST:
        raise ValueError(f"its disk has {size} bytes, which no system fits on")
    return int(size)


#: For programs that are brought; /run and /tmp are mounted noexec in many systems.
_FOLDER = "/var/tmp/vperf-XXXXXXXXXX"  # nosec B108 # mktemp makes it, for root alone


class OwnGuest(Guest):
    """A running guest with its own image, a Target, started by `pytest_vperf.targets.guest.guests.Guests`.

    Args:
        domain: as for `Guest`, like all but the last.
        agent: likewise.
        began: likewise.
        marks: likewise.
        details: likewise.
        tools: returns the image whose programs are brought into it; ``None`` runs its own.

    Raises:
        TargetError: its agent runs no commands.
    """

    def __init__(
        self,
        domain: Domain,
        agent: GuestAgent,
        began: float,
        marks: Mapping[str, float],
        details: Mapping[str, str],
        *,
        tools: Callable[[], Rootfs] | None,
    ) -> None:
        self._folder = ""
        self._brought = BroughtPrograms(self, tools, self._place, set()) if tools else None
        find = self._brought.find if self._brought else functools.partial(installed, self)
        super().__init__(domain, agent, began, marks, details, find)
        kernel = self.run(["uname", "-r"]).text.strip()
        self._details["guest_kernel"] = foreign_text.short(kernel)

    def _place(self) -> str:
        if not self._folder:
            self._folder = self.run(["mktemp", "-d", _FOLDER]).text.strip()
        return self._folder

    def facts(self) -> Facts:
        """Those of `Guest`, and the image with the tools once one of its programs was used."""
        found = super().facts()
        tools = self._brought.details() if self._brought else {}
        return replace(found, details={**found.details, **tools})
