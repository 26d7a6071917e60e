"""`pytest --claims-export=csv=claims.csv` writes one line for each claim, for spreadsheets and `pandas.read_csv`."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING

from pytest_vperf import ExportFormat

if TYPE_CHECKING:
    from pytest_vperf import EndedRun

COLUMNS = ("claim", "verdict", "target", "estimate", "unit", "limit", "n", "test")


def table(run: EndedRun) -> str:
    """The claims of a run that has ended, in the order they were judged; the first line has the columns' names."""
    text = io.StringIO()
    lines = csv.writer(text, lineterminator="\n")
    lines.writerow(COLUMNS)
    for each in run.claims:
        figures = each["estimate"], each["unit"], each["threshold"], each["n"]
        names = each["name"], each["verdict"], each["target"]
        lines.writerow([*map(harmless, names), *figures, harmless(each["nodeid"])])
    return text.getvalue()


def harmless(text: str) -> str:
    """A text that no spreadsheet takes for a formula: a target may have named itself."""
    return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t", "\r")) else text


def pytest_vperf_export_formats() -> list[ExportFormat]:
    """Add the format."""
    return [ExportFormat("csv", table, unfinished=",".join(COLUMNS) + "\n")]
