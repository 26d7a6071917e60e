"""Everything about pytest's terminal reporter: the progress line, the colour of the last line, and clean texts. The
progress line is written only on a terminal, below the line that pytest is writing; when the claim ends it is erased
and the cursor put back, so that pytest's own lines are unaffected. pytest colours its last line yellow for any
category but its own. Errors and skips quote tools and guests, so their texts are cleaned before pytest prints them or
a worker sends them.
"""

from __future__ import annotations

import contextlib
import os
import time
from typing import TYPE_CHECKING, Any, TextIO

from rich.cells import cell_len, set_cell_size

from pytest_vperf import foreign_text, pytest_internals
from pytest_vperf.claims.sampling import rough_time, roughly
from pytest_vperf.quantity import format_number
from pytest_vperf.reporting.encodings import encodable
from pytest_vperf.reporting.summary import say_notice
from pytest_vperf.reporting.words import CATEGORIES
from pytest_vperf.stats.rule import count

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager

    import pytest

    from pytest_vperf.claims.sampling import Progress, Snapshot
    from pytest_vperf.pytest_internals import Part, TerminalReporter


def colour_by_verdicts(reporter: TerminalReporter) -> None:
    """Colour the last line red if a claim failed, and green if all tests passed or held.

    pytest has no hook for this; if a version of pytest lacks the methods, the line keeps pytest's colour.
    """

    def main(usual: Callable[[bool], str], known: frozenset[str]) -> str:
        categories = {name for name in reporter.stats if name}
        if _failed(reporter):
            return "red"
        colour = usual(bool(categories - known - CATEGORIES))
        held = "held" in categories and not categories & {"warnings", "xpassed"}
        if colour == "yellow" and held and categories <= {*known, *CATEGORIES}:
            return "green"
        return colour

    pytest_internals.colour_last_line(
        reporter, main, lambda part, colour: _recolour(part, colour, reporter)
    )


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


def fit_encoding(reporter: TerminalReporter) -> None:
    """Write signs that the terminal does not have as ASCII: pytest would escape the whole line."""
    stream = pytest_internals.terminal_stream(reporter)
    encoding = getattr(stream, "encoding", None)
    if encoding is not None and encodable("≤", encoding) != "≤":
        pytest_internals.write_through(reporter, lambda text: encodable(text, encoding))


#: How deep an error's representation is nested; chained errors are side by side in it.
_DEEPEST = 12


def clean_report(report: pytest.TestReport) -> None:
    """Clean the texts of a report's error or skip for the terminal and for JUnit XML.

    Captured output is left as it is.
    """
    report.longrepr = _mapped(report.longrepr, foreign_text.lines)


def sendable(data: dict[str, Any]) -> dict[str, Any]:
    """A report without lone surrogates, which pytest-xdist could not send."""
    found: dict[str, Any] = _mapped(data, foreign_text.without_surrogates)
    return found


def _mapped(value: Any, change: Callable[[str], str], depth: int = 0) -> Any:
    """A value with all its texts changed; pytest's objects are changed in place."""
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
    for name, part in pytest_internals.fields_of_representation(value):
        setattr(value, name, _mapped(part, change, depth + 1))
    return value


#: Minimum seconds between two writes: they must not slow down a sampler that takes microseconds.
_INTERVAL = 0.1


def progress_for(config: pytest.Config, place: Callable[[], str]) -> Progress:
    """The progress line, if there is a terminal that can show it and nobody else writes there; otherwise a log
    line.

    Args:
        config: pytest's.
        place: returns where the run is: ``3 of 32, ~12 min left``; empty if that is unknown.
    """
    reporter: Any = config.pluginmanager.get_plugin("terminalreporter")
    stream = pytest_internals.terminal_stream(reporter)
    if (
        stream is None
        or not reporter.isatty  # the stream itself says no while pytest captures
        or os.environ.get("TERM", "dumb") == "dumb"
        or config.getoption("verbose") <= -2
        or config.getoption("capture") == "no"  # the test's own output would mix with it
    ):
        return LogProgress(config)
    capture = config.pluginmanager.get_plugin("capturemanager")
    return TerminalProgress(reporter, stream, capture, place)


class LogProgress:
    """Prints a permanent line once for each claim that waits: a silent log would look like a hang.

    Args:
        config: pytest's.
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
        """Do nothing: there is no line to erase."""


class TerminalProgress:
    """One transient line on a terminal: what is measured or waited for, and where the run is."""

    def __init__(
        self, reporter: Any, stream: TextIO, capture: Any, place: Callable[[], str]
    ) -> None:
        self._reporter = reporter
        self._place = place
        self._stream = stream
        self._capture = capture
        self._shown = False
        self._column = 0
        self._last = -_INTERVAL

    def waiting(self, claim: str, holder: str) -> None:
        """Say whom the claim waits for."""
        self._show([f"{claim}: waiting for another measurement, {holder}"])

    def sampled(self, standing: Snapshot) -> None:
        """Show the progress so far."""
        self._show(progress_texts(standing))

    def note(self, text: str) -> None:
        """Show the text."""
        self._show([text])

    def done(self) -> None:
        """Erase the line."""
        if self._shown:
            # Erase the line, and go up to the column where pytest had stopped.
            move = f"\x1b[{self._column}C" if self._column else ""
            with self._uncaptured():
                self._write(f"\r\x1b[K\x1b[A\r{move}")
            self._shown = False
        self._last = -_INTERVAL

    def _show(self, texts: Sequence[str]) -> None:
        now = time.monotonic()
        if now - self._last < _INTERVAL:
            return
        self._last = now
        with self._uncaptured():
            width = pytest_internals.terminal_width(self._reporter)
            start = "\r\x1b[K"
            if not self._shown:
                column = pytest_internals.terminal_column(self._reporter)
                self._column = column % max(width, 1)
                start = "\n" + start
                self._shown = True
            self._write(start + fitted(texts, self._place(), width - 1))

    def _uncaptured(self) -> AbstractContextManager[object]:
        """While output is captured, the terminal can neither be written to nor asked for its width."""
        if self._capture is None:
            return contextlib.nullcontext()
        aside: AbstractContextManager[object] = self._capture.global_and_fixture_disabled()
        return aside

    def _write(self, text: str) -> None:
        with contextlib.suppress(OSError, UnicodeEncodeError):
            self._stream.write(encodable(text, self._stream.encoding))
            self._stream.flush()


def fitted(texts: Sequence[str], place: str, width: int) -> str:
    """The longest text that fits a line together with the place of the run; without it where none does.

    Args:
        texts: of the same meaning, the longest first.
        place: of the run; may be empty.
        width: of the line.
    """
    known = [foreign_text.line(text) for text in texts]
    whole = [f"{text} ({place})" for text in known] if place else []
    found = next((line for line in (*whole, *known) if cell_len(line) <= width), known[-1])
    return set_cell_size(found, width).rstrip()


def progress_texts(standing: Snapshot) -> list[str]:
    """The progress of sampling in one line, and shorter lines for terminals that have no room for it.

    ``startup.pod.tcg.qboot: session 2 of 3, 6 samples, 1367 ms ± 23, 14 of 60 s``, and with a forecast
    ``cpu.overhead.container: 24 pairs, 1.02, needs ~120 pairs, 40 s; budget 60 s, 8 s spent``: a comparison has no
    interval while it runs.
    """
    state, spent = standing.state, f"{standing.spent:.0f} of {standing.budget:g} s"
    taken, figures, needs, time = count(state.samples, standing.noun), "", "", spent
    if state.estimate is not None:
        figures = f"{format_number(state.estimate)} {standing.unit}".rstrip()
    exact = figures
    if figures and state.low is not None and state.high is not None:
        exact += f" ± {format_number((state.high - state.low) / 2)}"
    if (need := standing.need) is not None:
        number = count(roughly(need.samples), standing.noun)
        needs = f"needs ~{number}, {rough_time(need.seconds)}"
        time = f"budget {standing.budget:g} s, {standing.spent:.0f} s spent"

    def line(*parts: str) -> str:
        return f"{standing.claim}: {', '.join(filter(None, parts))}"

    whole = line(standing.session, taken, exact, needs) + ("; " if needs else ", ") + time
    return [
        whole,
        line(standing.session, taken, figures, needs, spent),
        line(standing.session, taken, needs, spent),
        line(taken, spent),
    ]
