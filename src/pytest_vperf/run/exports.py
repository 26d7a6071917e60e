"""Files that a run writes at its end for others, besides its record: pages, and formats of other programs.

A file is begun empty before anything is measured: one of an earlier run must not be taken for this run's, and a place
that cannot be written is known then.
"""

from __future__ import annotations

import os
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from pytest_vperf.machine.whole_file import write_whole
from pytest_vperf.run.doors import export_formats
from pytest_vperf.thresholds.text_file import nearest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytest_vperf.reporting.ended import EndedRun
    from pytest_vperf.run.options import Settings

#: Where GitHub wants a page; what is appended there is shown with the job.
STEP_SUMMARY = "GITHUB_STEP_SUMMARY"


class Export(NamedTuple):
    """One file.

    Attributes:
        option: that names it.
        path: the file.
        empty: its content until the run has ended.
        make: makes its content.
    """

    option: str
    path: Path
    empty: str
    make: Callable[[EndedRun], str]

    def begin(self) -> None:
        """Write the file without a run.

        Raises:
            OSError: it cannot be written.
        """
        write_whole(self.path, self.empty)

    def write(self, run: EndedRun) -> str:
        """Write the file; return why it could not be written, empty if it was."""
        try:
            # A copy: what one format does to the records, no other one sees.
            write_whole(self.path, self.make(replace(run, claims=deepcopy(run.claims))))
        except Exception as error:  # nothing that a record has may end the run here
            why = getattr(error, "strerror", "") or f"{type(error).__name__}: {error}"
            return f"{self.path} cannot be written: {why}"
        return ""


def exports(config: pytest.Config, settings: Settings) -> Iterator[Export]:
    """The files that this run is asked for.

    Raises:
        pytest.UsageError: a format is not known.
    """
    if not settings.exports:
        return
    known = export_formats(config)
    for asked in settings.exports:
        found = known.get(asked.format)
        if found is None:
            hint = nearest(asked.format, known) or f"; the formats are {', '.join(sorted(known))}"
            raise pytest.UsageError(f"{asked.option}: there is no format {asked.format!r}{hint}")
        yield Export(asked.option, asked.path, found.unfinished, found.make)


def write_step_summary(run: EndedRun) -> str:
    """Append the page to GitHub's summary of the step, if there is one; return why that failed."""
    path = os.environ.get(STEP_SUMMARY, "")
    if not path:
        return ""
    from pytest_vperf.reporting.markdown import page

    try:
        with Path(path).open("a", encoding="utf-8") as stream:
            stream.write(page(run) + "\n")
    except OSError as error:
        return f"{STEP_SUMMARY}: {path} cannot be written: {error.strerror or error}"
    return ""


def annotated(run: EndedRun) -> list[str]:
    """The lines that GitHub takes for annotations; none elsewhere."""
    if os.environ.get("GITHUB_ACTIONS") != "true":
        return []
    from pytest_vperf.reporting.annotations import github

    return list(github(run))


def seen_from() -> Path | None:
    """The root of the repository, from which GitHub and GitLab see files."""
    for name in ("GITHUB_WORKSPACE", "CI_PROJECT_DIR"):
        if found := os.environ.get(name):
            return Path(found)
    return None
