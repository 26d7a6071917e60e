"""What pytest would make of this folder: its root, its threshold files, where its records go.

pytest itself is asked, with the plugin's own reading of options and ini settings, and ends before it collects a test:
whatever decides where a run finds its thresholds (rootdir, ini files, ``PYTEST_ADDOPTS``) decides it here too.
"""

from __future__ import annotations

import contextlib
import os
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from pytest_vperf.claims.thresholds import shipped_folder
from pytest_vperf.settings import read_settings

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from pytest_vperf.settings import Settings


class ProjectError(Exception):
    """pytest does not start here; it has said why on standard error."""


@dataclass(frozen=True)
class Project:
    """Where things are.

    Attributes:
        root: what the ids of tests are seen from.
        folders: of threshold files; of two files of one name the one in the earlier folder counts.
        json: where runs leave their record, by the project's settings; ``None`` where they leave none.
    """

    root: Path
    folders: tuple[Path, ...]
    json: Path | None


class _Question:
    """Ends pytest once the settings are known."""

    def __init__(self) -> None:
        self.root: Path | None = None
        self.settings: Settings | None = None

    @pytest.hookimpl(tryfirst=True)
    def pytest_cmdline_main(self, config: pytest.Config) -> int:
        """Read, and end."""
        self.root = config.rootpath
        self.settings = read_settings(config)
        return 0


def ask(thresholds: Sequence[str] = ()) -> Project:
    """Find out.

    Args:
        thresholds: folders of threshold files, instead of those that the project names.

    Raises:
        ProjectError: pytest, or the plugin, does not understand the project's settings or these folders.
    """
    question = _Question()
    words = ["-p", "no:cacheprovider", "--capture=no"]  # a question leaves no traces
    words += [f"--claims-thresholds={folder}" for folder in thresholds]
    with _silent_stdout():
        status = pytest.main(words, plugins=[question])
    if question.settings is None or question.root is None:
        raise ProjectError(f"pytest ended with status {int(status)}")
    shipped = shipped_folder()
    folders = (*question.settings.thresholds, *([shipped] if shipped else []))
    return Project(question.root, folders, question.settings.json)


@contextlib.contextmanager
def _silent_stdout() -> Iterator[None]:
    """What a conftest prints, or starts, is no part of a table: it goes to standard error."""
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)
