"""The programs of an image: looked up as its own shell would, and run in place on the host.

In a container or pod the image is the root, and a program is called by its path. On the host the same file is called
through the image's own loader, with the image's libraries (ld.so(8), "--library-path"), so that host, container and
pod run the same bytes. None of the host's libraries may be used: the loader is first asked what it would load.
"""

from __future__ import annotations

import fnmatch
import functools
import hashlib
import os
import posixpath
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_vperf.targets.base import Program, Unavailable
from pytest_vperf.targets.image.elf import read_elf
from pytest_vperf.targets.image.tar import Tree, unpacked

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pytest_vperf.targets.image.rootfs import Rootfs


#: Library folders after the configured ones (ld.so(8)), with musl's (https://wiki.musl-libc.org, "Environment
#: variables").
_DEFAULT = ("/lib64", "/usr/lib64", "/lib", "/usr/lib", "/usr/local/lib")
_MAX_DEPTH = 8


def library_folders(tree: Tree) -> list[str]:
    """The folders with an image's libraries, in its loader's order, links resolved, without a leading slash."""
    folders = [*_configured(tree, "/etc/ld.so.conf"), *_default(tree)]
    found = (tree.resolve(folder) for folder in folders)
    return list(dict.fromkeys(path for path in found if path and tree.names(path)))


def _default(tree: Tree) -> Iterator[str]:
    for folder in _DEFAULT:
        # Debian's loader has the multiarch folders built in; their configuration file comes with the C library.
        for name in tree.names(folder):
            if name.endswith(("-linux-gnu", "-linux-musl")):
                yield f"{folder}/{name}"
        yield folder


def _configured(tree: Tree, path: str, depth: int = 0) -> Iterator[str]:
    """The folders named in a file in ld.so.conf's format (ldconfig(8)): one a line, or ``include PATTERN``."""
    if tree.entry(path) is None or depth > _MAX_DEPTH:
        return
    for line in tree.read(path).decode("utf-8", "replace").splitlines():
        words = line.partition("#")[0].split()
        if len(words) == 2 and words[0] == "include":
            pattern = posixpath.join(posixpath.dirname(path), words[1])
            folder, name = posixpath.split(pattern)
            for each in fnmatch.filter(tree.names(folder), name):
                yield from _configured(tree, f"{folder}/{each}", depth + 1)
        elif words and words[0].startswith("/"):
            yield words[0]


#: The PATH of shells, in containers and pods.
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
#: How deep libraries may be nested that name folders with further libraries.
_ROUNDS = 8


class ImagePrograms:
    """The programs of one image; each is looked up once.

    Args:
        rootfs: the image.
    """

    def __init__(self, rootfs: Rootfs) -> None:
        self.rootfs = rootfs
        self._found: dict[str, Program] = {}
        self._in_place: dict[str, Program] = {}
        self._files: dict[str, tuple[Path, ...]] = {}

    @functools.cached_property
    def tree(self) -> Tree:
        """The image's tree."""
        return Tree(self.rootfs.path)

    def find(self, name: str) -> Program:
        """A program as called where the image is the root.

        Args:
            name: the program's, or its absolute path in the image.

        Raises:
            Unavailable: the image does not have it.
            CannotStart: the image is damaged.
        """
        if name not in self._found:
            path = self._path(name)
            digest = hashlib.sha256(self.tree.read(path)).hexdigest()
            self._found[name] = Program(name, (path,), path, digest, "image")
        return self._found[name]

    def _path(self, name: str) -> str:
        folders = [""] if name.startswith("/") else [f"{folder}/" for folder in PATH.split(":")]
        for folder in folders:
            entry = self.tree.entry(f"{folder}{name}")
            if entry is not None and entry.kind == "file" and entry.mode & 0o111:
                return f"{folder}{name}"
        reasons = dict(self.rootfs.without)
        if name in reasons:
            raise Unavailable(f"the image {self.rootfs.name} has no {name}: {reasons[name]}")
        raise Unavailable(
            f"the image {self.rootfs.name} has no {name}",
            remedy="use the image with the tools, which a test gets by asking for the fixture of its tool where"
            " --container-image is left out, or name an image that has it",
        )

    def in_place(self, name: str, root: str = "") -> Program:
        """A program as called on the host, from the unpacked image.

        Args:
            name: the program's, or its absolute path in the image.
            root: the unpacked image's path on another host; empty for this host's.

        Raises:
            Unavailable: the image does not have it, or the host cannot run it.
            CannotStart: the image is damaged.
        """
        if name not in self._in_place:
            found = self.find(name)
            argv, self._files[name] = self._host_argv(found)
            self._in_place[name] = Program(name, argv, found.path, found.sha256, "image")
        here = self._in_place[name]
        if not root:
            return here
        # The libraries are resolved here, with the same files.
        unpacked_here = str(unpacked(self.tree, self.rootfs.sha256))
        return replace(here, argv=tuple(word.replace(unpacked_here, root) for word in here.argv))

    def files(self, name: str) -> Mapping[str, Path]:
        """The files that a program needs to run in place: itself, its loader, and the libraries that it loads.

        Args:
            name: as for `in_place`.

        Returns:
            The files of the unpacked image, by their paths below its root: with those alone, below any folder, the
            command of `in_place` is complete.

        Raises:
            Unavailable: as `in_place`, or one of them is a link that leads out of the image.
            CannotStart: the image is damaged.
        """
        self.in_place(name)
        root = unpacked(self.tree, self.rootfs.sha256)
        found = {}
        for file in self._files[name]:
            path = os.path.normpath(file)
            if not (path.startswith(f"{root}/") and file.resolve().is_relative_to(root.resolve())):
                raise self._refusal(self.find(name), f"{file.name} leads out of the image")
            found[path.removeprefix(f"{root}/")] = file
        return found

    def _host_argv(self, found: Program) -> tuple[tuple[str, ...], tuple[Path, ...]]:
        """The command, and the files that it needs."""
        elf = read_elf(self.tree.read(found.path))
        if elf is None:
            raise self._refusal(found, "it is a script, whose interpreter has another path here")
        if not elf.is_native:
            raise self._refusal(found, f"it is a program for {elf.machine}")
        root = unpacked(self.tree, self.rootfs.sha256)
        program = root / found.path.lstrip("/")
        if not elf.interpreter:
            return (str(program),), (program,)
        real = self.tree.resolve(elf.interpreter)
        if real is None:
            raise self._refusal(found, f"its loader {elf.interpreter} is not in the image")
        return self._through_loader(root, root / real, found)

    def _through_loader(
        self, root: Path, loader: Path, found: Program
    ) -> tuple[tuple[str, ...], tuple[Path, ...]]:
        words = [str(loader)]
        content = loader.read_bytes()
        # Without this, glibc's loader would find missing libraries in the host's cache. musl has no cache.
        words += ["--inhibit-cache"] if b"inhibit-cache" in content else []
        program = str(root / (self.tree.resolve(found.path) or ""))
        path, loaded = self._libraries(words, root, program, found)
        words += ["--library-path", path]
        # glibc has it since 2.33, musl since 1.2.
        words += ["--argv0", found.path] if b"argv0" in content else []
        return (*words, program), (loader, Path(program), *loaded)

    def _libraries(
        self, loader: list[str], root: Path, program: str, found: Program
    ) -> tuple[str, list[Path]]:
        """The library path with which the program loads only the image's libraries, and these.

        A library may name folders itself (DT_RUNPATH), which on the host are the host's: the image's are put into the
        library path, which is searched first.
        """
        folders = library_folders(self.tree)
        loaded: list[Path] = []
        for _ in range(_ROUNDS):
            path = ":".join(str(root / folder) for folder in folders)
            loaded, problem = self._loaded([*loader, "--library-path", path], root, program, found)
            more = [
                folder
                for library in (Path(program), *loaded)
                for folder in self._runpath(library, root)
                if folder not in folders
            ]
            if not more:
                if problem:
                    raise self._refusal(found, problem)
                return path, loaded
            folders = [*folders, *dict.fromkeys(more)]
        raise self._refusal(found, "its libraries name further folders endlessly")

    def _runpath(self, library: Path, root: Path) -> list[str]:
        elf = read_elf(library.read_bytes())
        named = elf.runpath if elf else ()
        # Folders that begin with $ORIGIN are relative to the library, wherever it is.
        places = (self.tree.resolve(folder) for folder in named if folder.startswith("/"))
        return [place for place in places if place and self.tree.names(place)]

    def _loaded(
        self, loader: list[str], root: Path, program: str, found: Program
    ) -> tuple[list[Path], str]:
        """The image's libraries that the loader uses, and any problem. Lines are ldd(1)'s ``NAME => PATH (0x…)``.

        glibc's loader is asked like ldd(1) does: with ``--list`` it prints nothing at all if a library is missing,
        while the libraries found may name the folder of the missing one. musl's has only ``--list``, and prints all
        it can.
        """
        glibc = "--inhibit-cache" in loader
        command = [*loader, program] if glibc else [*loader, "--list", program]
        environment = {"LC_ALL": "C", **({"LD_TRACE_LOADED_OBJECTS": "1"} if glibc else {})}
        try:
            done = subprocess.run(
                command,
                capture_output=True,
                text=True,
                errors="replace",
                check=False,
                timeout=30,
                env=environment,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise self._refusal(found, f"its loader does not run: {error}") from error
        inside, problem = [], ""
        for line in done.stdout.splitlines():
            name, arrow, place = line.strip().partition(" => ")
            path = (place if arrow else name).rpartition(" (0x")[0]
            if path.startswith(f"{root}/"):
                inside.append(Path(path))
            elif path.startswith("/") or place == "not found":
                problem = problem or f"{name} is not where the image's loader looks for it"
        if done.returncode and not problem:
            words = (done.stderr or done.stdout).strip().splitlines() or ["no reason"]
            problem = f"its loader says: {words[-1]}"
        return inside, problem

    def _refusal(self, found: Program, why: str) -> Unavailable:
        return Unavailable(
            f"the host cannot run {found.path} of the image {self.rootfs.name}: {why}",
            remedy="--vperf-host-tools takes the tools that are installed on the host",
            target="host",
        )


@functools.lru_cache(maxsize=4)
def programs_of(rootfs: Rootfs) -> ImagePrograms:
    """The programs of an image; the same for every target, so that the image is read once."""
    return ImagePrograms(rootfs)


def image_folder(rootfs: Rootfs) -> Path:
    """The folder that an image is unpacked to: one for all that run from it, so nothing may change it.

    Raises:
        CannotStart: the image is damaged.
    """
    return unpacked(programs_of(rootfs).tree, rootfs.sha256)


def installed_program(name: str) -> Program:
    """A tool installed on the host.

    Raises:
        Unavailable: it is not installed.
    """
    from pytest_vperf.machine.cache import file_sha256
    from pytest_vperf.machine.preflight import find_program

    path = find_program(name)
    if path is None:
        raise Unavailable(
            f"{name} is not installed on the host, whose own tools were asked for",
            remedy="install it, or leave out --vperf-host-tools to run the image's",
        )
    return Program(name, (path,), path, file_sha256(Path(path).resolve()), "host")
