"""The lines that say by what this run judges."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_vperf.claims.hardware import Selection
    from pytest_vperf.settings import Settings

_MODES = {
    "judge": "",
    "strict": ", strict: what is not shown to hold fails",
    "advisory": ", advisory: no verdict fails a test",
}


def header_lines(selection: Selection, settings: Settings) -> list[str]:
    """The header: profiles, how they were chosen, budget and mode."""
    lines = [
        f"claims: hardware {selection.describe()}",
        f"claims: budget {settings.budget:g} s per claim{_MODES[settings.mode]}",
    ]
    if settings.json is not None:
        lines.append(f"claims: record in {settings.json}")
    return lines
