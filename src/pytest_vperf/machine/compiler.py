"""Small C programs of ours, compiled static by the host, once for the same sources, flags and compiler."""

from __future__ import annotations

import os
import re
import subprocess
from typing import TYPE_CHECKING

from pytest_vperf.machine import cache
from pytest_vperf.machine.preflight import Readiness, find_program

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path


#: How a compiler (gcc, clang) says that it lacks the C library's headers, and a linker (ld, lld) the static library.
_NO_LIBRARY = re.compile(
    r"fatal error: '?std\w+\.h'?:? (No such file|file not found)"
    r"|cannot find -l[cm]\b|unable to find library -l[cm]\b|cannot find crt\w+\.o"
)
_LIBRARY = "apt-get install libc6-dev; elsewhere its name may be glibc-static"


class CompilerMissing(Exception):
    """There is no C compiler here, or it has no static C library.

    Attributes:
        remedy: the command that installs one.
    """

    def __init__(self, why: str, remedy: str) -> None:
        super().__init__(why)
        self.remedy = remedy


class CompilerFailed(Exception):
    """The compiler did not compile; the message has its words."""


def check() -> Readiness:
    """Whether there is a C compiler; ``why`` is its path then."""
    compiler = find_program("cc") or find_program("gcc")
    if compiler is None:
        return Readiness("compiler", False, "no C compiler (cc)", "apt-get install gcc libc6-dev")
    return Readiness("compiler", True, compiler)


def build(
    kind: str,
    name: str,
    sources: Mapping[str, bytes],
    flags: Sequence[str],
    libraries: Sequence[str] = (),
) -> Path:
    """A static program from C files.

    Args:
        kind: the cache's folder, e.g. ``agent``.
        name: the program's file name.
        sources: file name → content; ``.c`` files are compiled, others can be included by them.
        flags: of the compiler, ``-static`` apart.
        libraries: e.g. ``-lm``.

    Raises:
        CompilerMissing: there is no compiler, or no static C library.
        CompilerFailed: it failed.
    """
    compiler = check()
    if not compiler.usable:
        raise CompilerMissing(compiler.why, compiler.remedy)
    command = [compiler.why, "-static", *flags]
    parts = [part for item in sources.items() for part in item]
    key = cache.content_key([name, _version(compiler.why), *command, *libraries, *parts])

    def compile_into(folder: Path) -> None:
        for file, text in sources.items():
            (folder / file).write_bytes(text)
        files = [file for file in sources if file.endswith(".c")]
        done = subprocess.run(
            [*command, "-s", "-o", name, *files, *libraries],
            cwd=folder,
            env={**os.environ, "LC_ALL": "C"},  # its words are read
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode and _NO_LIBRARY.search(done.stderr):
            raise CompilerMissing(f"{compiler.why} has no static C library", _LIBRARY)
        if done.returncode:
            raise CompilerFailed(
                f"{name} does not compile with {compiler.why}:\n{done.stderr.strip()[-800:]}"
            )

    return cache.entry(kind, key, compile_into) / name


def _version(compiler: str) -> str:
    """What the compiler says it is, all of it: distributions patch without another version number."""
    done = subprocess.run([compiler, "--version"], capture_output=True, text=True, check=False)
    return done.stdout.splitlines()[0] if done.stdout else ""
