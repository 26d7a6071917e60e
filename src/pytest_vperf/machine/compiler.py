"""Our small C programs, compiled statically on the host, once for each set of sources, flags and compiler."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from typing import TYPE_CHECKING

from pytest_vperf.machine import cache
from pytest_vperf.machine.preflight import Readiness, find_program

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path


#: The errors of compilers (gcc, clang) without the C library's headers, and of linkers (ld, lld) without the static
#: library.
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
    """Compilation failed; the message has the compiler's errors."""


def check() -> Readiness:
    """Whether there is a C compiler; if so, ``why`` is its path."""
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
    """Build a static program from C files.

    Args:
        kind: the cache's folder, e.g. ``agent``.
        name: the program's file name.
        sources: file name → content; ``.c`` files are compiled, others can be included by them.
        flags: compiler flags, apart from ``-static``.
        libraries: e.g. ``-lm``.

    Raises:
        CompilerMissing: there is no compiler, or no static C library.
        CompilerFailed: compilation failed.
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
        # One that is killed leaves its files, which go with the folder.
        with tempfile.TemporaryDirectory(prefix=".", dir=folder) as temporary:
            done = subprocess.run(
                [*command, "-s", "-o", name, *files, *libraries],
                cwd=folder,
                env={**os.environ, "LC_ALL": "C", "TMPDIR": temporary},  # its errors are parsed
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
    """The compiler's whole version line: distributions patch without changing the version number."""
    done = subprocess.run([compiler, "--version"], capture_output=True, text=True, check=False)
    return done.stdout.splitlines()[0] if done.stdout else ""
