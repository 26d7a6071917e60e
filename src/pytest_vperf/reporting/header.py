"""The lines that say by what this run judges."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_vperf import foreign_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_vperf.claims.hardware import Selection
    from pytest_vperf.machine.noise_warnings import NoiseWarning
    from pytest_vperf.settings import Settings

#: How many things that make noise the header names; the doctor names them all.
NAMED = 4

_MODES = {
    "judge": "",
    "strict": ", strict: what is not shown to hold fails",
    "advisory": ", advisory: no verdict fails a test",
}


def header_lines(
    selection: Selection, settings: Settings, noise: Sequence[NoiseWarning] = ()
) -> list[str]:
    """The header: profiles, how they were chosen, budget and mode, and what makes this machine noisy."""
    lines = [
        f"claims: hardware {selection.describe()}",
        f"claims: budget {settings.budget:g} s per claim{_MODES[settings.mode]}",
    ]
    if selection.elsewhere:
        lines.append(f"claims: targets on {selection.elsewhere}")
    if settings.json is not None:
        lines.append(f"claims: record in {settings.json}")
    if noise:
        lines.append(noise_line(noise))
    return [foreign_text.line(line) for line in lines]


def noise_line(noise: Sequence[NoiseWarning]) -> str:
    """One line that names what makes this machine noisy, and where to read how to change it."""
    named = ", ".join(warning.short for warning in noise[:NAMED])
    more = f", and {len(noise) - NAMED} more" if len(noise) > NAMED else ""
    told = "prints the commands" if any(each.by_command for each in noise) else "says why"
    return f"claims: noisy machine: {named}{more}; `vperf doctor --tune` {told}"
