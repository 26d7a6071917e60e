"""The judge of fresh runs against stored ones, for when the old artefact itself can no longer be run.

A machine's level varies more between runs than samples do within a run, so the run is the unit: one median each,
stored and fresh. If the old kernel, binary or image still exists, run both and use `pytest_vperf.stats.pair` instead:
it resolves differences that are invisible here.
"""

from __future__ import annotations

import math
from statistics import median, stdev
from typing import TYPE_CHECKING, Literal

from pytest_vperf.stats.rule import Ending, State, check_error, count

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_vperf.stats.rule import Arm, Side

#: Numbers of fresh runs after which a verdict is possible; each look has its share of the errors.
LOOKS = (3, 5, 8)
#: The fewest stored runs to judge by, spread over two days or more.
LEAST_STORED = 20
#: Eight fresh runs do not detect a difference smaller than this many standard deviations of run medians.
_RESOLUTION = 2.6


class BaselineRule(Ending):
    """Takes medians of fresh runs until a rank test against the stored ones decides.

    The test is Mann and Whitney's with the exact law of its statistic, one-sided, at alpha / 3 and beta / 3 per look
    (Bonferroni): after dividing by the threshold, "fresh runs are no larger" and "no smaller".
    """

    def __init__(
        self,
        stored: Sequence[float],
        threshold: float,
        side: Side = "at_most",
        *,
        alpha: float = 0.01,
        beta: float = 0.01,
    ) -> None:
        """Make the rule; it ends at once, as ``unstable``, if the stored runs differ too much among themselves.

        Args:
            stored: medians of earlier runs, positive, 20 or more.
            threshold: the ratio fresh / stored: 1.1 for "at most 10 % more".
            side: its good side.
            alpha: greatest chance that a true claim is refuted.
            beta: greatest chance that an untrue claim holds.

        Raises:
            ValueError: fewer than 20 stored runs, a value that is not positive, or an invalid argument.
        """
        super().__init__()
        if len(stored) < LEAST_STORED:
            raise ValueError(
                f"{count(len(stored), 'stored run')}: at least {LEAST_STORED} are needed, over two days or more"
            )
        if not (math.isfinite(threshold) and threshold > 0):
            raise ValueError(f"the threshold is {threshold!r}, not a positive number")
        if side not in ("at_most", "at_least"):
            raise ValueError(f"side is {side!r}, not 'at_most' or 'at_least'")
        self._sign = 1.0 if side == "at_most" else -1.0
        self._stored = [self._log(value) for value in stored]
        self._shift = self._sign * math.log(threshold)
        self._alpha, self._beta = check_error("alpha", alpha), check_error("beta", beta)
        self._fresh: list[float] = []
        spread, distance = stdev(self._stored), abs(self._shift)
        if _RESOLUTION * spread > distance:
            self._end(
                "inconclusive",
                "unstable",
                f"the stored runs differ by {math.expm1(spread):.1%} (standard deviation): "
                f"a difference of {math.expm1(distance):.1%} cannot be seen, only one of "
                f"{math.expm1(_RESOLUTION * spread):.1%} or more",
            )

    def next(self) -> Arm:
        """The only arm: a fresh run."""
        return "a"

    @property
    def warming_up(self) -> bool:
        """Never: a run's own warm-up is left out of its median."""
        return False

    @property
    def paused(self) -> bool:
        """Whether to wait before the next run: always, after the first one."""
        return not self.decided and bool(self._fresh)

    def add(self, value: float) -> None:
        """Take the median of a fresh run.

        Raises:
            ValueError: it is not a positive number.
        """
        log = self._log(value)
        if self.decided:
            return
        self._fresh.append(log)
        size = len(self._fresh)
        if size not in LOOKS:
            return
        shifted = [fresh - self._shift for fresh in self._fresh]
        after = f"after {count(size, 'run')}"
        if _rank_test(shifted, self._stored, "greater") <= self._alpha / len(LOOKS):
            self._end("refuted", "", f"{after} the fresh ones rank beyond the threshold")
        elif _rank_test(shifted, self._stored, "less") <= self._beta / len(LOOKS):
            self._end("holds", "", f"{after} the fresh ones rank within the threshold")
        elif size == LOOKS[-1]:
            self._end("inconclusive", "budget", f"undecided {after}, all that are allowed")

    @property
    def state(self) -> State:
        """The current state; the estimate is the ratio of the median of fresh runs to that of stored ones."""
        size = len(self._fresh)
        estimate = None
        if size:
            log = median(self._fresh) - median(self._stored)
            estimate = math.exp(self._sign * log)
        return State(
            decided=self.decided,
            decision=self.decision,
            reason=self._why or count(size, "run"),
            estimate=estimate,
            low=None,
            high=None,
            confidence=1 - self._alpha - self._beta,
            samples=size,
            cause=self.cause,
        )

    def _log(self, value: float) -> float:
        if not (math.isfinite(value) and value > 0):
            raise ValueError(f"a run's median is {value!r}, not a positive number")
        return self._sign * math.log(value)


def _rank_test(
    fresh: Sequence[float], stored: Sequence[float], alternative: Literal["greater", "less"]
) -> float:
    """The probability of ranks at least as extreme if fresh and stored runs have the same distribution.

    The exact distribution assumes values without ties, so ties are broken against the alternative and count as
    evidence for neither side.
    """
    from scipy.stats import mannwhitneyu

    nudge = -1e-12 if alternative == "greater" else 1e-12
    values = [value + nudge for value in fresh]
    return float(mannwhitneyu(values, stored, alternative=alternative, method="exact").pvalue)
