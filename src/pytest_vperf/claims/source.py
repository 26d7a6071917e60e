"""Where a threshold comes from: a document that publishes it, or a calibration."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_vperf.quantity import Quantity


@dataclass(frozen=True)
class Calibration:
    """The runs on one machine that a limit was made from; its figures as the file has them.

    Attributes:
        date: of the last run, ISO 8601.
        figures: one of each run.
        margin: how far the limit is from them.
        confidence: the probability that the next runs are within the limit.
        next_runs: how many.
        noisy: what made the machine noisy; empty where it was quiet.
    """

    date: str
    figures: tuple[str, ...]
    margin: str
    confidence: str
    next_runs: int
    noisy: str = ""

    def __str__(self) -> str:
        noisy = f"; on a noisy machine: {self.noisy}" if self.noisy else ""
        return (
            f"calibrated {self.date} by {len(self.figures)} runs ({', '.join(self.figures)}), margin {self.margin}, "
            f"{self.confidence} for the next {self.next_runs} runs{noisy}"
        )


@dataclass(frozen=True)
class Source:
    """The provenance of a threshold.

    Attributes:
        document: the publication; empty where the threshold is from a calibration.
        section: where in it; may be empty.
        published: its figures by name.
        written: the same figures, exactly as the file has them.
        also: what is published beside them and measures something else, exactly as the file has it.
        rule: how the threshold follows from the published figures; may be empty.
        calibration: the runs that the threshold was made from; ``None`` where it is published.
    """

    document: str
    section: str = ""
    published: Mapping[str, Quantity] = field(default_factory=dict)
    written: Mapping[str, str] = field(default_factory=dict)
    also: Mapping[str, str] = field(default_factory=dict)
    rule: str = ""
    calibration: Calibration | None = None

    def __str__(self) -> str:
        if self.calibration is not None:
            return str(self.calibration)
        section = f" §{self.section}" if self.section else ""
        figures = ", ".join(f"{name} {text}" for name, text in self.written.items())
        rule = f": {self.rule}" if self.rule else ""
        return f"{self.document}{section}{f' ({figures})' if figures else ''}{rule}"
