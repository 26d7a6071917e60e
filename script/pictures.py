"""The gallery with its pictures, made whenever the site is built: an extension of Sphinx.

The record of one run is in the repository, with all its samples. A report of it is written to ``docs/reports``, which
Git ignores; on the site the verdicts of ``docs/gallery.md`` lead there.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sphinx.application import Sphinx

ROOT = Path(__file__).parents[1]
FOLDER = "docs/reports"
REPORT = f"{FOLDER}/gallery-report.html"


def setup(app: Sphinx) -> dict[str, Any]:
    """Called by Sphinx."""
    (ROOT / FOLDER).mkdir(
        exist_ok=True
    )  # before Sphinx looks whether the configuration's folders are there
    app.connect("builder-inited", lambda _: write())
    app.connect("source-read", _with_pictures)
    return {"parallel_read_safe": True}


def write() -> None:
    """Write the report."""
    _vperf("report", "docs/gallery/record.json", f"--output={REPORT}", f"--store={FOLDER}/none")


def _with_pictures(_: Sphinx, name: str, content: list[str]) -> None:
    if name == "gallery":
        page = _vperf(name, "docs/gallery/verdicts.json", "--markdown", f"--pictures={REPORT}")
        # On the site that folder's files are beside the pages, and MyST leaves what leads to one as it is written.
        content[0] = page.replace(f"]({FOLDER}/", "](reports:")


def _vperf(*words: str) -> str:
    """What a command prints; what it says of a mistake is seen where the site is built."""
    command = [sys.executable, "-m", "pytest_vperf", *words]
    return subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout
