"""Reading an ELF program's headers: its machine, its loader and its library folders (elf(5))."""

from __future__ import annotations

import platform
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_PT_LOAD, _PT_DYNAMIC, _PT_INTERP = 1, 2, 3
_DT_NULL, _DT_STRTAB, _DT_RUNPATH = 0, 5, 29
#: Most bytes of the program headers (Linux, load_elf_phdrs in fs/binfmt_elf.c), and of a loader's path.
_MOST_HEADERS, _MOST_PATH = 65_536, 4096
#: Most bytes of the dynamic section, which has some thirty entries, and one for each library.
_MOST_DYNAMIC = 65_536
#: e_machine of <elf.h>, as `platform.machine` names it.
_MACHINES = {3: "i686", 40: "armv7l", 62: "x86_64", 183: "aarch64", 243: "riscv64"}


@dataclass(frozen=True)
class Elf:
    """The header of an ELF program.

    Attributes:
        machine: e.g. ``x86_64``; ``machine N`` for those without a name here.
        interpreter: the path of its loader; empty for a static program.
        runpath: its own library folders (DT_RUNPATH), as written.
    """

    machine: str
    interpreter: str
    runpath: tuple[str, ...] = ()

    @property
    def is_native(self) -> bool:
        """Whether this machine runs such programs."""
        return self.machine == platform.machine()


def read_elf(data: bytes) -> Elf | None:
    """Read a program's headers; ``None`` if it is not a complete ELF file."""
    if data[:4] != b"\x7fELF" or len(data) < 64:
        return None
    order = "<" if data[5] == 1 else ">"
    # The 64-bit format differs in the word size and in the offsets of the header's fields.
    wide = data[4] == 2
    word = order + ("Q" if wide else "I")
    (machine,) = struct.unpack_from(order + "H", data, 18)
    try:
        segments = list(_segments(data, order, word, wide=wide))
        interpreter = b""
        for kind, offset, _, size in segments:
            if kind == _PT_INTERP:
                interpreter = data[offset : offset + min(size, _MOST_PATH)].rstrip(b"\0")
        runpath = _runpath(data, segments, word)
    except (struct.error, OverflowError):  # an offset outside the file, or any file
        return None
    return Elf(
        _MACHINES.get(machine, f"machine {machine}"),
        interpreter.decode("utf-8", "replace"),
        tuple(folder for folder in runpath.decode("utf-8", "replace").split(":") if folder),
    )


def _segments(
    data: bytes, order: str, word: str, *, wide: bool
) -> Iterator[tuple[int, int, int, int]]:
    """Type, offset, address and size in the file of each segment."""
    (table,) = struct.unpack_from(word, data, 32 if wide else 28)
    length, count = struct.unpack_from(order + "HH", data, 54 if wide else 42)
    if length != (56 if wide else 32) or length * count > _MOST_HEADERS:
        return  # Linux refuses to execute such a file
    for number in range(count):
        at = table + number * length
        (kind,) = struct.unpack_from(order + "I", data, at)
        fields = (8, 16, 32) if wide else (4, 8, 16)
        offset, address, size = (struct.unpack_from(word, data, at + each)[0] for each in fields)
        yield kind, offset, address, size


def _runpath(data: bytes, segments: list[tuple[int, int, int, int]], word: str) -> bytes:
    """The text of DT_RUNPATH, which is an offset into the string table, located by its address."""
    step = struct.calcsize(word)
    values: dict[int, int] = {}
    for kind, offset, _, size in segments:
        if kind != _PT_DYNAMIC:
            continue
        for at in range(offset, offset + min(size, _MOST_DYNAMIC), 2 * step):
            (tag,), (value,) = (
                struct.unpack_from(word, data, at),
                struct.unpack_from(word, data, at + step),
            )
            if tag == _DT_NULL:
                break
            values[tag] = value
        break  # a valid file has one; a forged one could have endlessly many
    if _DT_RUNPATH not in values or _DT_STRTAB not in values:
        return b""
    for kind, offset, address, size in segments:
        if kind == _PT_LOAD and address <= values[_DT_STRTAB] < address + size:
            begin = offset + values[_DT_STRTAB] - address + values[_DT_RUNPATH]
            return data[begin : begin + 4096].partition(b"\0")[0]
    return b""
