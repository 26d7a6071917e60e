"""What rules decided, and how often: counts, rates and their bounds."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.stats import beta

if TYPE_CHECKING:
    from numpy.typing import NDArray

HOLDS, REFUTED, UNDECIDED = 0, 1, 2
CODES = {"holds": HOLDS, "refuted": REFUTED, "inconclusive": UNDECIDED}


@dataclass(frozen=True)
class Decisions:
    """Verdicts of one rule, one for each row of its source.

    Attributes:
        verdicts: `HOLDS`, `REFUTED` or `UNDECIDED`.
        samples: how many were taken for each, of both arms together.
    """

    verdicts: NDArray[np.int8]
    samples: NDArray[np.int64]


def fixed(refuted: NDArray[np.bool_], samples: int) -> Decisions:
    """The decisions of a rule that always takes so many samples and then says one or the other."""
    verdicts = np.where(refuted, REFUTED, HOLDS).astype(np.int8)
    return Decisions(verdicts, np.full(len(refuted), samples, dtype=np.int64))


@dataclass(frozen=True)
class Tally:
    """Counts of many decisions.

    Attributes:
        holds: verdicts.
        refuted: verdicts.
        undecided: verdicts.
        samples: taken in all, of both arms, warm-up too.
        squares: the sum of the squares of the samples of each decision.
    """

    holds: int = 0
    refuted: int = 0
    undecided: int = 0
    samples: int = 0
    squares: int = 0

    @classmethod
    def of(cls, made: Decisions) -> Tally:
        """Count them."""
        counts = np.bincount(made.verdicts, minlength=3)
        return cls(
            int(counts[HOLDS]),
            int(counts[REFUTED]),
            int(counts[UNDECIDED]),
            int(made.samples.sum()),
            int((made.samples**2).sum()),
        )

    def __add__(self, other: Tally) -> Tally:
        return Tally(
            self.holds + other.holds,
            self.refuted + other.refuted,
            self.undecided + other.undecided,
            self.samples + other.samples,
            self.squares + other.squares,
        )

    @property
    def total(self) -> int:
        """How many decisions."""
        return self.holds + self.refuted + self.undecided

    @property
    def mean_samples(self) -> float:
        """Samples for a decision."""
        return self.samples / self.total

    @property
    def samples_error(self) -> float:
        """The standard error of that mean."""
        variance = self.squares / self.total - self.mean_samples**2
        return math.sqrt(max(0.0, variance) / self.total)


def upper_bound(count: int, total: int, level: float = 0.95) -> float:
    """The one-sided upper bound of a rate (Clopper and Pearson, Biometrika 26, 1934)."""
    return 1.0 if count >= total else float(beta.ppf(level, count + 1, total - count))


def lower_bound(count: int, total: int, level: float = 0.95) -> float:
    """The one-sided lower bound of a rate, from the same source."""
    return 0.0 if count <= 0 else float(beta.ppf(1 - level, count, total - count + 1))
