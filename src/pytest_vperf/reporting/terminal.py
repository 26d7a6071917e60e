"""The line that shows how sampling goes, on a terminal only, and gone when the claim has ended.

It is written below the line that pytest is writing, and the cursor is put back to where it was, so that
pytest's own lines come out as if nothing had been there.

The colour of pytest's last line, which knows no categories but pytest's own: all others make it yellow.

What pytest itself prints of a test, or a worker sends: texts of errors and skips come from tools and guests.
"""

from __future__ import annotations

import contextlib
import os
import time
from typing import TYPE_CHECKING, Any, TextIO

from _pytest import terminal

from pytest_vperf import foreign_text
from pytest_vperf.claims.sampling import rough_time, roughly
from pytest_vperf.quantity import format_number
from pytest_vperf.reporting.summary import say_notice
from pytest_vperf.reporting.words import CATEGORIES
from pytest_vperf.stats.rule import count

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    import pytest
    from _pytest.terminal import TerminalReporter

    from pytest_vperf.claims.sampling import Progress, Snapshot


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


#: As deep as an error's representation is; what it is raised from lies side by side in it.
_DEEPEST = 12
#: Whose objects a representation is made of.
_PYTEST = "_pytest._code"


def clean_report(report: pytest.TestReport) -> None:
    """Make the texts of a report's error or skip fit for a terminal and for JUnit's XML, which pytest makes of them.

    What the test printed, and pytest shows as captured output, is left as it is.
    """
    report.longrepr = _mapped(report.longrepr, foreign_text.lines)


def sendable(data: dict[str, Any]) -> dict[str, Any]:
    """A report as pytest-xdist sends it, without the halves of surrogate pairs over which it would break down."""
    found: dict[str, Any] = _mapped(data, foreign_text.without_surrogates)
    return found


def _mapped(value: Any, change: Callable[[str], str], depth: int = 0) -> Any:
    """A value with all texts in it changed; objects of pytest's are changed in place."""
    if isinstance(value, str):
        return change(value)
    if depth > _DEEPEST:
        return value
    if isinstance(value, dict):
        return {
            _mapped(key, change, depth + 1): _mapped(part, change, depth + 1)
            for key, part in value.items()
        }
    if type(value) in (list, tuple):
        return type(value)(_mapped(part, change, depth + 1) for part in value)
    if type(value).__module__.startswith(_PYTEST):
        for name, part in vars(value).items():
            setattr(value, name, _mapped(part, change, depth + 1))
    return value


#: Seconds between two writes; a sampler of microseconds must not be measured between terminal writes.
_INTERVAL = 0.1


def progress_for(config: pytest.Config) -> Progress:
    """The line, if there is a terminal that can show it and nobody else writes there."""
    reporter: Any = config.pluginmanager.get_plugin("terminalreporter")
    stream = getattr(getattr(reporter, "_tw", None), "_file", None)
    if (
        stream is None
        or not reporter.isatty  # the stream itself says no while pytest captures
        or os.environ.get("TERM", "dumb") == "dumb"
        or config.getoption("verbose") <= -2
        or config.getoption("capture") == "no"  # what the test prints would get between
    ):
        return LogProgress(config)
    return TerminalProgress(reporter, stream, config.pluginmanager.get_plugin("capturemanager"))


class LogProgress:
    """A line that stays, once for each claim that waits: a log that stands still would look like a hang.

    Args:
        config: of the run.
    """

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._said = ""

    def waiting(self, claim: str, holder: str) -> None:
        """Say whom the claim waits for."""
        if claim != self._said:
            self._said = claim
            say_notice(
                self._config, f"{claim} waits for another measurement on this machine, {holder}"
            )

    def sampled(self, standing: Snapshot) -> None:
        """Ignore it."""

    def note(self, text: str) -> None:
        """Ignore it."""

    def done(self) -> None:
        """Nothing to take away."""


class TerminalProgress:
    """One transient line on a terminal."""

    def __init__(self, reporter: Any, stream: TextIO, capture: Any) -> None:
        self._reporter = reporter
        self._stream = stream
        self._capture = capture
        self._shown = False
        self._column = 0
        self._last = -_INTERVAL

    def waiting(self, claim: str, holder: str) -> None:
        """Say whom the claim waits for."""
        self._show(f"{claim}: waiting for another measurement, {holder}")

    def sampled(self, standing: Snapshot) -> None:
        """Say what is known so far."""
        self._show(progress_text(standing))

    def note(self, text: str) -> None:
        """Say it."""
        self._show(text)

    def done(self) -> None:
        """Take the line away."""
        if self._shown:
            # Away with the line, one up, and to the column where pytest had stopped.
            move = f"\x1b[{self._column}C" if self._column else ""
            self._write(f"\r\x1b[K\x1b[A\r{move}")
            self._shown = False
        self._last = -_INTERVAL

    def _show(self, text: str) -> None:
        now = time.monotonic()
        if now - self._last < _INTERVAL:
            return
        self._last = now
        width = self._reporter._tw.fullwidth
        start = "\r\x1b[K"
        if not self._shown:
            self._column = self._reporter._tw.width_of_current_line % max(width, 1)
            start = "\n" + start
            self._shown = True
        self._write(start + foreign_text.line(text)[: width - 1])

    def _write(self, text: str) -> None:
        aside: AbstractContextManager[object] = contextlib.nullcontext()
        if self._capture is not None:
            aside = self._capture.global_and_fixture_disabled()
        with aside, contextlib.suppress(OSError, UnicodeEncodeError):
            self._stream.write(text)
            self._stream.flush()


def progress_text(standing: Snapshot) -> str:
    """How sampling goes, in one line.

    ``startup.pod.tcg.qboot: session 2 of 3, 6 samples, 1367 ms ± 23, 14 of 60 s``, and with a forecast
    ``cpu.overhead.container: 24 pairs, 1.02, needs ~120 pairs, 40 s; budget 60 s, 8 s over``: a comparison has no
    interval while it runs.
    """
    state = standing.state
    parts = [standing.session, count(state.samples, standing.noun)]
    if state.estimate is not None:
        shown = f"{format_number(state.estimate)} {standing.unit}".rstrip()
        if state.low is not None and state.high is not None:
            shown += f" ± {format_number((state.high - state.low) / 2)}"
        parts.append(shown)
    if (need := standing.need) is not None:
        number = count(roughly(need.samples), standing.noun)
        parts.append(f"needs ~{number}, {rough_time(need.seconds)}")
        time = f"budget {standing.budget:g} s, {standing.spent:.0f} s over"
    else:
        time = f"{standing.spent:.0f} of {standing.budget:g} s"
    text = ", ".join(filter(None, parts))
    return f"{standing.claim}: {text}{'; ' if need else ', '}{time}"
