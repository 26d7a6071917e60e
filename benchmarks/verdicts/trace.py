"""Recorded noise: what one unchanged workload took, sample after sample."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: The recordings that come with the benchmark.
SHIPPED = Path(__file__).parent / "traces"


class TraceError(Exception):
    """A folder or file of traces cannot be used; the text says which and why."""


@dataclass(frozen=True)
class Trace:
    """A recording.

    Attributes:
        name: of the file, without its ending.
        values: the samples in the order they were taken, positive; lower is better.
    """

    name: str
    values: NDArray[np.float64]

    @property
    def median(self) -> float:
        """The middle value: what the stream of a block bootstrap has as its true median."""
        return float(np.median(self.values))


def load(folder: Path) -> list[Trace]:
    """All traces of a folder, by name.

    A trace is a JSON object with ``v`` (values, in order), ``t`` (seconds since the first began, as many) and
    ``metric`` (what was measured). Other keys are ignored.

    Raises:
        TraceError: there is none, or one is not of that form.
    """
    paths = sorted(folder.glob("*.json"))
    if not paths:
        raise TraceError(f"no trace (*.json) in {folder}; `record` makes some")
    return [_read(path) for path in paths]


def _read(path: Path) -> Trace:
    try:
        found: Any = json.loads(path.read_text("utf-8"))
        values = np.asarray(found["v"], dtype=np.float64)
        times, metric = found["t"], found["metric"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise TraceError(f"{path}: not a trace with t, v and metric: {error!r}") from error
    if not isinstance(metric, str) or values.ndim != 1 or len(times) != len(values):
        raise TraceError(f"{path}: t and v must be lists of one length, metric a text")
    if len(values) < 20:
        raise TraceError(f"{path}: {len(values)} values are too few, 20 is the least")
    if not (np.isfinite(values).all() and (values > 0).all()):
        raise TraceError(f"{path}: every value must be a positive number")
    return Trace(path.stem, values)
