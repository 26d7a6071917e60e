"""Our own formats of exported files; plug-ins add theirs by `pytest_vperf.hookspecs.pytest_vperf_export_formats`."""

from __future__ import annotations

from pytest_vperf.reporting import markdown, openmetrics
from pytest_vperf.reporting.annotations import code_quality
from pytest_vperf.reporting.ended import ExportFormat
from pytest_vperf.reporting.html import page as html

FORMATS = (
    ExportFormat("markdown", markdown.page, markdown.UNFINISHED),
    ExportFormat("html", html.page, html.UNFINISHED),
    ExportFormat("codequality", code_quality, "[]\n"),
    ExportFormat("openmetrics", openmetrics.text, "# EOF\n"),
)
