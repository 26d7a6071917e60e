"""Where a rule takes its samples from: simulated streams, many decisions at once, or samplers that really run."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Literal, Protocol

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from verdicts.draws import Draws

Arm = Literal["a", "b"]


class Source(Protocol):
    """Samples of both arms, in the order they are asked for. Lower is better, A is the baseline."""

    @property
    def rows(self) -> int:
        """How many decisions are made at once."""
        ...

    def take(self, arm: Arm, count: int) -> NDArray[np.float64]:
        """The next ``count`` samples of an arm, a row for each decision."""
        ...


class Simulated:
    """Both arms draw the next value of one stream; arm B's is multiplied by a factor."""

    def __init__(self, draws: Draws, factor: float) -> None:
        self._draws = draws
        self._factor = factor
        self._calls = 0

    @property
    def rows(self) -> int:
        """How many decisions are made at once."""
        return len(self._draws.numbers)

    def take(self, arm: Arm, count: int) -> NDArray[np.float64]:
        """The next ``count`` values of every stream."""
        begin, self._calls = self._calls, self._calls + count
        values = self._draws.columns(begin, self._calls)
        return values * self._factor if arm == "b" else values


class Measured:
    """One decision from two samplers that measure."""

    rows = 1

    def __init__(self, a: Callable[[], float], b: Callable[[], float]) -> None:
        self._samplers = {"a": a, "b": b}

    def take(self, arm: Arm, count: int) -> NDArray[np.float64]:
        """Call an arm's sampler ``count`` times."""
        sampler = self._samplers[arm]
        return np.array([[sampler() for _ in range(count)]])


class Skipping:
    """A sampler of arm A for a rule with sessions: `pause` lets so much of the stream pass that its level is another.

    That is five blocks on average: what comes then belongs to the block of before in 1 of 150 cases.
    """

    def __init__(self, draws: Draws, row: int) -> None:
        self._stream = _values(draws, row)
        self._skip = int(5 * draws.noise.block)

    def __call__(self) -> float:
        return next(self._stream)

    def pause(self) -> None:
        """The time between two sessions."""
        next(itertools.islice(self._stream, self._skip, self._skip), None)


def samplers(
    draws: Draws, row: int, factor: float
) -> tuple[Callable[[], float], Callable[[], float]]:
    """The two samplers of one decision, as `pytest_vperf.stats` takes them: both call one stream."""
    stream = _values(draws, row)

    def sample_a() -> float:
        return next(stream)

    def sample_b() -> float:
        return next(stream) * factor

    return sample_a, sample_b


def _values(draws: Draws, row: int) -> Iterator[float]:
    begin, size = 0, 1024
    while True:
        yield from draws.columns(begin, begin + size)[row].tolist()
        begin += size
