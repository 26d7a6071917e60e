"""What an ELF program says of itself: for which machine it is, and which loader it wants (elf(5))."""

from __future__ import annotations

import platform
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_PT_LOAD, _PT_DYNAMIC, _PT_INTERP = 1, 2, 3
_DT_NULL, _DT_STRTAB, _DT_RUNPATH = 0, 5, 29
#: Bytes of the headers of segments, as Linux has it (load_elf_phdrs in fs/binfmt_elf.c), and of a loader's path.
_MOST_HEADERS, _MOST_PATH = 65_536, 4096
#: Bytes of the dynamic section: it has some thirty entries, and one more for each library.
_MOST_DYNAMIC = 65_536
#: e_machine of <elf.h>, as `platform.machine` names it.
_MACHINES = {3: "i686", 40: "armv7l", 62: "x86_64", 183: "aarch64", 243: "riscv64"}


@dataclass(frozen=True)
class Elf:
    """The header of an ELF program.

    Attributes:
        machine: e.g. ``x86_64``; ``machine N`` where it has no name here.
        interpreter: the path of its loader; empty for a static program.
        runpath: the folders where its loader looks for libraries after the usual ones, as they are written.
    """

    machine: str
    interpreter: str
    runpath: tuple[str, ...] = ()

    @property
    def is_native(self) -> bool:
        """Whether this machine runs such programs."""
        return self.machine == platform.machine()


def read_elf(data: bytes) -> Elf | None:
    """Read a program's header; ``None`` for what is no whole ELF file."""
    if data[:4] != b"\x7fELF" or len(data) < 64:
        return None
    order = "<" if data[5] == 1 else ">"
    # Where 64 bits differ: the size of a word, and where the fields of the headers are.
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
    except (struct.error, OverflowError):  # an offset outside of the file, or of any file
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
        return  # Linux executes no such file
    for number in range(count):
        at = table + number * length
        (kind,) = struct.unpack_from(order + "I", data, at)
        fields = (8, 16, 32) if wide else (4, 8, 16)
        offset, address, size = (struct.unpack_from(word, data, at + each)[0] for each in fields)
        yield kind, offset, address, size


def _runpath(data: bytes, segments: list[tuple[int, int, int, int]], word: str) -> bytes:
    """DT_RUNPATH, an offset in the string table, which is found by its address."""
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
        break  # there is one, and reading each of many would take for ever
    if _DT_RUNPATH not in values or _DT_STRTAB not in values:
        return b""
    for kind, offset, address, size in segments:
        if kind == _PT_LOAD and address <= values[_DT_STRTAB] < address + size:
            begin = offset + values[_DT_STRTAB] - address + values[_DT_RUNPATH]
            return data[begin : begin + 4096].partition(b"\0")[0]
    return b""
