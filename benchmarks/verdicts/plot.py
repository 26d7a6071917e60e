"""The plot: how often each rule says "refuted", and after how many samples, against the true slowdown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from verdicts import ours
from verdicts.cells import TOLERANCES, comparison

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from matplotlib.axes import Axes

    from verdicts.cells import Cell
    from verdicts.decisions import Tally


class NoPlot(Exception):
    """matplotlib is not installed."""


def plot(tallies: Mapping[Cell, Tally], path: Path) -> None:
    """Write it; the ending of the file's name says which format.

    Raises:
        NoPlot: matplotlib is missing.
    """
    try:
        import matplotlib as mpl
    except ImportError as error:
        raise NoPlot("--plot needs matplotlib: pip install matplotlib") from error
    mpl.use("Agg")
    # So that equal results give equal files.
    mpl.rcParams["svg.hashsalt"] = "verdicts"
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(
        len(TOLERANCES), 2, figsize=(11, 4.2 * len(TOLERANCES)), squeeze=False
    )
    for (left, right), tolerance in zip(axes, TOLERANCES, strict=True):
        _draw(left, right, tallies, tolerance)
    handles, labels = axes[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="lower center", ncols=3, frameon=False)
    figure.tight_layout(rect=(0, 0.1, 1, 1))
    figure.savefig(path, dpi=110, metadata={"Date": None} if path.suffix == ".svg" else None)
    pyplot.close(figure)


def _draw(left: Axes, right: Axes, tallies: Mapping[Cell, Tally], tolerance: float) -> None:
    table = comparison(tolerance)
    rules = dict.fromkeys(cell.rule for cell in tallies if cell.table == table)
    for rule in rules:
        points = sorted(
            (cell.truth, tally)
            for cell, tally in tallies.items()
            if (cell.table, cell.rule) == (table, rule)
        )
        slowdowns = [truth for truth, _ in points]
        width = 2.5 if rule == ours.COMPARE else 1.0
        left.plot(
            slowdowns,
            [100 * tally.refuted / tally.total for _, tally in points],
            marker="o",
            markersize=3,
            linewidth=width,
            label=rule,
        )
        right.plot(
            slowdowns,
            [tally.mean_samples for _, tally in points],
            marker="o",
            markersize=3,
            linewidth=width,
        )
    left.axvline(tolerance, color="grey", linestyle=":")
    left.set_ylabel("% refuted")
    left.set_title(f"tolerance {tolerance:g} %: false alarms left of the line, found right of it")
    right.axvline(tolerance, color="grey", linestyle=":")
    right.set_yscale("log")
    right.set_ylabel("mean samples")
    right.set_title("time to verdict")
    for axis in (left, right):
        axis.set_xlabel("true slowdown of B, %")
