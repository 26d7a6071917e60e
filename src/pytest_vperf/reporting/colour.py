"""The colour of pytest's last line, which knows no categories but pytest's own: all others make it yellow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from _pytest import terminal

from pytest_vperf.outcomes import CATEGORIES

if TYPE_CHECKING:
    from _pytest.terminal import TerminalReporter

Part = tuple[str, dict[str, bool]]


def colour_by_verdicts(reporter: TerminalReporter) -> None:
    """Make the line red with a claim that failed, and green where all that ran passed or held.

    pytest has no hook for this. Two methods of this one reporter are wrapped; where a version of pytest does
    not have them, the line stays as pytest colours it.
    """
    main: Any = getattr(reporter, "_determine_main_color", None)
    parts: Any = getattr(reporter, "build_summary_stats_line", None)
    known: Any = getattr(terminal, "KNOWN_TYPES", None)
    if main is None or parts is None or known is None:
        return

    def determine_main_color(unknown_type_seen: bool) -> str:
        categories = {name for name in reporter.stats if name}
        if _failed(reporter):
            return "red"
        colour: str = main(bool(categories - set(known) - CATEGORIES))
        held = "held" in categories and not categories & {"warnings", "xpassed"}
        if colour == "yellow" and held and categories <= {*known, *CATEGORIES}:
            return "green"
        return colour

    def build_summary_stats_line() -> tuple[list[Part], str]:
        line, colour = parts()
        return [_recolour(part, colour, reporter) for part in line], colour

    reporter._determine_main_color = determine_main_color  # type: ignore[method-assign]
    reporter.build_summary_stats_line = build_summary_stats_line  # type: ignore[method-assign]


def _failed(reporter: TerminalReporter, *names: str) -> bool:
    return any(
        getattr(report, "failed", False)
        for name in names or CATEGORIES
        for report in reporter.stats.get(name, ())
    )


def _recolour(part: Part, main: str, reporter: TerminalReporter) -> Part:
    text, _ = part
    category = text.partition(" ")[2]
    if category not in CATEGORIES:
        return part
    colour = "red" if _failed(reporter, category) else "green" if category == "held" else "yellow"
    return text, {colour: True, "bold": colour == main}
