"""Checks a judge and a metric by decisions with a known answer: A against A, and against a slower A.

A against A lies exactly on the threshold "no difference": the only right answer is ``inconclusive``, and each of the
others may occur with a probability of at most `SIDE_ERROR`. A slower A must be refuted.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Error of each side of an A/A decision: ``refuted`` and ``holds`` are both wrong.
SIDE_ERROR = 0.01
#: A/A decisions of a full self-check.
DECISIONS = 200
#: Decisions about a slower A per A/A decision: 60 for 200.
SLOWER_SHARE = 0.3
#: The share of slower ones that must be found.
MUST_FIND = 0.95
#: The chance that a sound metric is called unstable. At 200 decisions it allows 11 wrong ones.
_FALSE_ALARM = 0.001
#: Error of each bound on a share.
_BOUND_ERROR = 0.05
#: What the bounds must exclude before a metric is called stable: that more than one in ten verdicts are wrong (11
#: wrong of 200 just does, as does none of 29), and that fewer than four in five slower ones are found.
_WRONG_BELOW = 0.10
_FOUND_ABOVE = 0.80
#: From this many slower ones on, a share below `MUST_FIND` is enough without its bound.
_ENOUGH_SLOWER = 20

Finding = Literal["stable", "unstable", "too noisy", "too few"]


def most_wrong(decisions: int) -> int:
    """How many A/A decisions may be wrong for a sound metric: 11 of 200.

    The smallest k with P(Binomial(decisions, 0.02) > k) < 0.001: a one-sided exact binomial test (Conover, Practical
    Nonparametric Statistics, section 3.1) of "a decision is wrong with the promised probability at most", twice
    `SIDE_ERROR`. Decisions on separate samples, with separate coins, are independent enough: given the past, each
    errs with at most that probability, so the number of errors is at most binomial.
    """
    from scipy.special import bdtrc

    allowed = 0
    while allowed < decisions and bdtrc(allowed, decisions, 2 * SIDE_ERROR) >= _FALSE_ALARM:
        allowed += 1
    return allowed


def share_at_most(count: int, of: int, error: float = _BOUND_ERROR) -> float:
    """The exact upper bound of a share (Clopper and Pearson 1934): the truth exceeds it with at most that error."""
    from scipy.special import betaincinv

    return 1.0 if count >= of else float(betaincinv(count + 1, of - count, 1 - error))


def share_at_least(count: int, of: int, error: float = _BOUND_ERROR) -> float:
    """The lower bound, likewise."""
    return 1.0 - share_at_most(of - count, of, error)


def slower_decisions(decisions: int) -> int:
    """The number of decisions about a slower A for a number of A/A decisions."""
    return math.ceil(decisions * SLOWER_SHARE)


def order(decisions: int) -> Iterator[bool]:
    """For each decision in turn, whether it is about a slower A: spread evenly, so that an early end has both
    kinds."""
    slower, asked = slower_decisions(decisions), 0
    for number in range(1, decisions + 1):
        yield False
        while asked < number * slower // decisions:
            yield True
            asked += 1


@dataclass(frozen=True)
class Tally:
    """The counts of a self-check.

    Attributes:
        decisions: A/A decisions made.
        refuted: those that were refuted, which is wrong.
        held: those that held, which is wrong.
        slower: decisions made about a slower A.
        found: those that were refuted, which is right.
    """

    decisions: int
    refuted: int
    held: int
    slower: int
    found: int

    @property
    def wrong(self) -> int:
        """The number of wrong A/A decisions."""
        return self.refuted + self.held

    @property
    def limit(self) -> int:
        """How many A/A decisions may be wrong."""
        return most_wrong(self.decisions)

    @property
    def finding(self) -> Finding:
        """The finding: the first of these that applies.

        ``unstable``: more wrong A/A decisions than `most_wrong`. ``too noisy``: fewer slower ones found than
        `MUST_FIND`, among enough of them or by the upper bound. ``too few``: the bounds do not exclude that one in
        ten verdicts is wrong, or that one in five slower ones is missed. Otherwise ``stable``.
        """
        if self.wrong > self.limit:
            return "unstable"
        if self.found < MUST_FIND * self.slower and (
            self.slower >= _ENOUGH_SLOWER or share_at_most(self.found, self.slower) < MUST_FIND
        ):
            return "too noisy"
        enough = share_at_most(self.wrong, self.decisions) < _WRONG_BELOW
        if not enough or share_at_least(self.found, self.slower) < _FOUND_ABOVE:
            return "too few"
        return "stable"

    @property
    def conclusion(self) -> str:
        """The conclusion in one line, with its bounds."""
        if not self.decisions:
            return "no decision was made"
        wrong = share_at_most(self.wrong, self.decisions)
        text = f"wrong at most {_percent(wrong)} of A/A verdicts"
        if self.slower:
            found = share_at_least(self.found, self.slower)
            text += f", found at least {_percent(found)} of the slower ones"
        return f"{text} (each bound {_percent(1 - _BOUND_ERROR)})"


def _percent(share: float) -> str:
    return f"{100 * share:.3g} %"
