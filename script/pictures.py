"""The gallery and the page of claims with their pictures, made whenever the site is built: an extension of Sphinx.

The records of some of their runs are in the repository, with all samples. A report of each page's is written to
``docs/reports``, which Git ignores; on the site the verdicts lead there.
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
#: The command of each page that shows verdicts, which is also its name, and that command's further options.
PAGES = {"gallery": (), "claims": ("--all", "--rows=docs/claims/rows.yaml")}


def setup(app: Sphinx) -> dict[str, Any]:
    """Called by Sphinx."""
    (ROOT / FOLDER).mkdir(
        exist_ok=True
    )  # before Sphinx looks whether the configuration's folders are there
    app.connect("builder-inited", lambda _: write())
    app.connect("source-read", _with_pictures)
    return {"parallel_read_safe": True}


def write() -> None:
    """Write the reports."""
    for page in PAGES:
        records = sorted(str(each) for each in (ROOT / "docs" / page).glob("record*.json"))
        _vperf("report", *records, f"--output={_report(page)}", f"--store={FOLDER}/none")


def _report(page: str) -> str:
    return f"{FOLDER}/{page}-report.html"


def _with_pictures(_: Sphinx, name: str, content: list[str]) -> None:
    if name in PAGES:
        verdicts, pictures = f"docs/{name}/verdicts.json", f"--pictures={_report(name)}"
        page = _vperf(name, verdicts, *PAGES[name], "--markdown", pictures)
        # On the site that folder's files are beside the pages, and MyST leaves what leads to one as it is written.
        content[0] = page.replace(f"]({FOLDER}/", "](reports:")


def _vperf(*words: str) -> str:
    """What a command prints; what it says of a mistake is seen where the site is built."""
    command = [sys.executable, "-m", "pytest_vperf", *words]
    return subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout
