"""Our own programs, for images that lack the classic ones: Dhrystone, STREAM, system calls and others.

They are compiled once with the host's compiler, and static, so that host, container and machine run the same bytes.
Each checks its results, and ends with a status other than 0 if one is wrong; each uses the monotonic clock of the
system it runs in. Their names distinguish them from the originals: ``vperf-dhrystone 1.1``.
"""

from __future__ import annotations

from importlib import resources
from typing import TYPE_CHECKING

from pytest_vperf.machine import compiler
from pytest_vperf.targets.base import Unavailable

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

#: Plain code for the architecture's baseline: no vectorisation, no loop turned into a call of memcpy, no fused
#: multiply-add, so that the compiler's version matters as little as possible.
FLAGS = (
    "-O2",
    "-std=gnu11",
    "-Wall",
    "-Wextra",
    "-fno-tree-vectorize",
    "-fno-tree-loop-distribute-patterns",
    "-ffp-contract=off",
)

#: Program → its C files; all include measure.h.
PROGRAMS: Mapping[str, tuple[str, ...]] = {
    "vperf-dhrystone": ("dhrystone.c", "dhrystone_parts.c", "dhrystone.h"),
    "vperf-stream": ("stream.c",),
    "vperf-switches": ("switches.c",),
    "vperf-syscalls": ("syscalls.c",),
    "vperf-whetstone": ("whetstone.c",),
}

_SHARED = ("measure.c", "measure.h")

#: Where an image has them.
FOLDER = "/usr/local/bin"


def build() -> Mapping[str, Path]:
    """The compiled programs, by their path in an image, e.g. ``/usr/local/bin/vperf-stream``.

    Raises:
        Unavailable: there is no C compiler, or it has no static C library.
    """
    return {f"{FOLDER}/{name}": _build(name) for name in PROGRAMS}


def _build(name: str) -> Path:
    folder = resources.files(__package__) / "source"
    sources = {file: (folder / file).read_bytes() for file in (*PROGRAMS[name], *_SHARED)}
    try:
        return compiler.build("programs", name, sources, FLAGS, ("-lm",))
    except compiler.CompilerMissing as error:
        raise Unavailable(str(error), remedy=error.remedy) from None
    except compiler.CompilerFailed as error:
        raise Unavailable(str(error), remedy="apt-get install gcc libc6-dev") from None
