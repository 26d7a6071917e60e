"""Which files of a project go to the machines of a fleet."""

from __future__ import annotations

import contextlib
import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_vperf.fleet.cargo import CannotSend, pack
from pytest_vperf.fleet.lines import ORDER, REPORTS
from pytest_vperf.results.journal import is_journal_of
from pytest_vperf.run.stash import claims_session

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pytest

    from pytest_vperf.fleet.cargo import Cargo
    from pytest_vperf.fleet.file import FleetFile
    from pytest_vperf.run.options import Settings

#: Folders that no machine needs, where no repository says so.
_NEVER = {"__pycache__", "node_modules", "venv"}
#: Seconds for Git to list a project's files.
_LISTING = 60.0


class Project:
    """The project of a run, which goes to the machines.

    Args:
        config: of the run.
        file: of the fleet.
        items: the tests.

    Attributes:
        cargo: its files.

    Raises:
        ThresholdError: they cannot be sent, or a test is not among them.
    """

    def __init__(
        self, config: pytest.Config, file: FleetFile, items: Iterable[pytest.Item]
    ) -> None:
        self._root, self._ini = config.rootpath, config.inipath
        self._folder = config.invocation_params.dir
        if not self._folder.is_relative_to(self._root):
            message = f"the project {self._root} is sent: run pytest in it, or say project: there"
            raise file.wrong(message, "engine")
        self._results = frozenset(results(config))
        self.cargo = self._pack(file, claims_session(config).settings)
        for path in dict.fromkeys(item.path for item in items):
            if not path.is_relative_to(self._root) or not path.is_file():
                continue
            name = path.relative_to(self._root).as_posix()
            if name not in self.cargo.names:
                key, why = (
                    ("files", "files: does not name it")
                    if file.files
                    else ("engine", "Git ignores it")
                )
                raise file.wrong(f"{name} has tests, and is not sent: {why}", key)

    def _pack(self, file: FleetFile, settings: Settings) -> Cargo:
        root, key = self._root, "files"
        try:
            found = [*(named(root, file.files) if file.files else files_of(root))]
            files = [each for each in found if not self._is_result(each)]
            files += given(root, settings)
            key = "wheels"
            wheels = [*named(file.path.parent, file.wheels)]
            key = "files" if file.files else "engine"
            return pack(root, files, wheels)
        except CannotSend as error:
            hint = "; files: names those that tests need" if key == "engine" else ""
            raise file.wrong(f"{error}{hint}", key) from None

    def _is_result(self, path: Path) -> bool:
        """Whether a file is one of the run's results, an order, or the reports of one: of no use to what is measured,
        and another one each time."""
        return (
            path in self._results
            or path.suffix in (ORDER, REPORTS)
            or any(
                is_journal_of(path.name, each.name)
                for each in self._results
                if each.parent == path.parent
            )
        )

    @property
    def order(self) -> dict[str, str | None]:
        """What a machine is told: the cargo, the root, and from there the folder of the run and the ini file."""
        root, ini = self._root, self._ini
        within = ini is not None and ini.is_relative_to(root)
        return {
            "digest": self.cargo.digest,
            "root": str(root),
            "folder": str(self._folder.relative_to(root)),
            "ini": str(ini.relative_to(root)) if ini is not None and within else None,
        }


def files_of(folder: Path) -> Iterator[Path]:
    """The files of a project that are no build's or tool's: those that Git knows or would add, or without Git those
    that are in no hidden folder.
    """
    words = ["git", "-C", str(folder), "ls-files", "-z", "--cached", "--others"]
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        listed = subprocess.run(
            [*words, "--exclude-standard"], capture_output=True, timeout=_LISTING, check=False
        )
        if listed.returncode == 0:
            for name in filter(None, listed.stdout.split(b"\0")):
                path = folder / os.fsdecode(name)
                if path.is_dir() and not path.is_symlink():  # another repository in this one
                    yield from files_of(path)
                else:
                    yield path
            return
    for place, folders, names in os.walk(folder):
        folders[:] = [
            each
            for each in folders
            if not each.startswith(".") and each not in _NEVER and not each.endswith(".egg-info")
        ]
        yield from (Path(place, name) for name in names if not name.endswith(".pyc"))


def results(config: pytest.Config) -> Iterator[Path]:
    """The files that a run writes its results to."""
    settings = claims_session(config).settings
    own = (settings.json, settings.benchmark_json, *(each.path for each in settings.exports))
    others = (config.getoption(name, None) for name in ("xmlpath", "report_log", "log_file"))
    for path in filter(None, (*own, *others)):
        yield Path(os.path.normpath(config.invocation_params.dir / path))


def named(root: Path, patterns: Iterable[str]) -> Iterator[Path]:
    """The files that patterns name, seen from a folder; of a folder, all that are in it.

    Raises:
        CannotSend: a pattern names nothing, or what is elsewhere.
    """
    for pattern in patterns:
        try:
            found = sorted(root.glob(pattern))
        except (ValueError, NotImplementedError):
            found = []
        if not found or any(not each.is_relative_to(root) or ".." in each.parts for each in found):
            raise CannotSend(f"there is no file {pattern!r} in {root}")
        for each in found:
            yield from _all_in(each)


def given(root: Path, settings: Settings) -> Iterator[Path]:
    """The files of a project that options name for its tests to use, such as a kernel that was just built."""
    image = None if settings.image is None else Path(settings.image)
    for path in (settings.guest_kernel, settings.guest_image, image, *settings.thresholds):
        if path is not None and path.is_relative_to(root):
            yield from _all_in(path)


def _all_in(path: Path) -> Iterator[Path]:
    """A file, or those in a folder."""
    if path.is_dir():
        yield from (Path(at, name) for at, _, names in os.walk(path) for name in names)
    else:
        yield path
