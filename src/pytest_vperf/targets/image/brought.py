"""Programs on a machine that does not have the image as its root: those of the image, brought there, or its own.

Claims compare targets that run the same programs. Each program is brought when it is first needed, with its loader
and libraries, and run in place. That needs no root there, nothing to mount, and nothing installed but a shell and
``tar``, so a container will do.
"""

from __future__ import annotations

import io
import re
import tarfile
from typing import TYPE_CHECKING

from pytest_vperf.targets.base import CommandFailed, Program, Unavailable
from pytest_vperf.targets.image.programs import programs_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from pytest_vperf.targets.base import Target
    from pytest_vperf.targets.image.rootfs import Rootfs

#: Seconds to bring a program: a few MB, over whatever line it is.
_TIMEOUT = 600.0
#: Arguments: the folder, a program of it. Where a file system forbids its execution, -x is false for root, too.
_UNPACK = """
mkdir -p -m 700 "$1" && tar -x -o -f - -C "$1" || exit 1
[ -x "$2" ] || { echo "nothing in $1 may be executed: its file system is mounted noexec" >&2; exit 1; }
"""
_FIND = 'p=$(command -v -- "$1") && p=$(readlink -f "$p") && echo "$p" && sha256sum <"$p"'


class BroughtPrograms:
    """The programs of an image on one machine.

    Args:
        target: the machine.
        rootfs: returns the image; called when a program is first needed.
        folder: returns a folder there for them, which the caller removes.
        files: those that are in that folder already; added to.
    """

    def __init__(
        self,
        target: Target,
        rootfs: Callable[[], Rootfs],
        folder: Callable[[], str],
        files: set[str],
    ) -> None:
        self._target = target
        self._rootfs = rootfs
        self._folder = folder
        self._files = files
        self._used: Rootfs | None = None

    def find(self, name: str) -> Program:
        """A program of the image, run in place; see `pytest_vperf.targets.base.Target.program`.

        Raises:
            Unavailable: the image does not have it, or it cannot be run there.
        """
        rootfs = self._rootfs()
        programs = programs_of(rootfs)
        place = f"{self._folder()}/image-{rootfs.sha256[:16]}"
        try:
            found = programs.in_place(name, place)
            files = programs.files(name)
        except Unavailable as error:
            error.target = self._target.name
            raise
        new = {path: file for path, file in files.items() if f"{place}/{path}" not in self._files}
        if new:
            self._bring(new, place, found, rootfs)
        self._used = self._used or rootfs
        return found

    def _bring(
        self, files: Mapping[str, Path], place: str, program: Program, rootfs: Rootfs
    ) -> None:
        words = ["sh", "-c", _UNPACK, "sh", place, program.argv[0]]
        try:
            self._target.run(words, input=packed(files), timeout=_TIMEOUT)
        except CommandFailed as error:
            said = error.completed.stderr.decode("utf-8", "replace").strip()
            raise Unavailable(
                f"{self._target.name}: {program.name} of the image {rootfs.name} cannot be brought there:"
                f" {said}",
                remedy="--vperf-host-tools, to use the machine's own programs",
                target=self._target.name,
            ) from None
        self._files.update(f"{place}/{path}" for path in files)

    def details(self) -> dict[str, str]:
        """The image, for the record, once one of its programs was used."""
        if self._used is None:
            return {}
        return {"rootfs": self._used.name, "rootfs_sha256": self._used.sha256}


def installed(target: Target, name: str) -> Program:
    """A program that is installed on a machine.

    Raises:
        Unavailable: it is not.
    """
    done = target.run(["sh", "-c", _FIND, "sh", name], check=False)
    found = re.fullmatch(r"(/\S.*)\n([0-9a-f]{64})\s+-\n", done.text)
    if done.returncode or found is None:
        raise Unavailable(
            f"{name} is not installed on {target.name}",
            remedy=f"apt-get install {name}, there",
            target=target.name,
        )
    return Program(name, (found[1],), found[1], found[2], "host")


def packed(files: Mapping[str, Path]) -> bytes:
    """Files as a tar archive: regular ones that everybody may run, and nothing else of theirs.

    An image may come from a stranger: a set-user-ID bit would be one for the users of the other machine, too.

    Args:
        files: by their paths in the archive; links are followed.
    """
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        for path, file in files.items():
            member = tarfile.TarInfo(path)
            member.mode = 0o755
            member.size = file.stat().st_size
            with file.open("rb") as source:
                archive.addfile(member, source)
    return stream.getvalue()
