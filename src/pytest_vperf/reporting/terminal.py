"""The line that shows how sampling goes, on a terminal only, and gone when the claim has ended.

It is written below the line that pytest is writing, and the cursor is put back to where it was, so that
pytest's own lines come out as if nothing had been there.
"""

from __future__ import annotations

import contextlib
import os
import time
from typing import TYPE_CHECKING, Any, TextIO

from pytest_vperf import foreign_text
from pytest_vperf.claims.forecast import rough_time, roughly
from pytest_vperf.quantity import format_number
from pytest_vperf.reporting.notice import say
from pytest_vperf.stats.plain import count

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    import pytest

    from pytest_vperf.claims.sampling import Progress, Standing

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
            say(self._config, f"{claim} waits for another measurement on this machine, {holder}")

    def sampled(self, standing: Standing) -> None:
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

    def sampled(self, standing: Standing) -> None:
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


def progress_text(standing: Standing) -> str:
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
