"""What decisions whose right answer is known say of a judge and a metric: A against A, and against a slower A.

With the threshold "no difference", A against A lies exactly on it: the only right answer is ``inconclusive``, and
each of the two others may be given with probability `SIDE_ERROR` at most. A slower A must be refuted.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Error of each side of an A/A decision: ``refuted`` and ``holds`` are both wrong.
SIDE_ERROR = 0.01
#: A/A decisions of a whole self-check.
DECISIONS = 200
#: For each A/A decision so many are made about a slower A: 60 for 200.
SLOWER_SHARE = 0.3
#: The share of the slower ones that must be found.
MUST_FIND = 0.95
#: The chance that a sound metric is called unstable. At 200 decisions it allows 11 wrong ones.
_FALSE_ALARM = 0.001
#: Error of each bound on a share.
_BOUND_ERROR = 0.05
#: What the bounds must exclude before a metric is called stable: more wrong verdicts than one in ten (200 decisions
#: with 11 wrong ones just do, and so do 29 without), and fewer slower ones found than four in five.
_WRONG_BELOW = 0.10
_FOUND_ABOVE = 0.80
#: With so many of them a share below `MUST_FIND` counts by itself.
_ENOUGH_SLOWER = 20

Finding = Literal["stable", "unstable", "too noisy", "too few"]


def most_wrong(decisions: int) -> int:
    """How many of so many A/A decisions may be wrong in a sound metric: 11 of 200.

    The smallest k with P(Binomial(decisions, 0.02) > k) < 0.001: a one-sided exact binomial test (Conover, Practical
    Nonparametric Statistics, section 3.1) of "a decision is wrong with the promised probability at most", twice
    `SIDE_ERROR`. Decisions on samples of their own, with coins of their own, are independent enough: given what came
    before, each errs with that probability at most, so that the number of errors is at most binomial.
    """
    from scipy.special import bdtrc

    allowed = 0
    while allowed < decisions and bdtrc(allowed, decisions, 2 * SIDE_ERROR) >= _FALSE_ALARM:
        allowed += 1
    return allowed


def share_at_most(count: int, of: int, error: float = _BOUND_ERROR) -> float:
    """The upper bound of a share, exact (Clopper and Pearson 1934): the truth is above it with that error at most."""
    from scipy.special import betaincinv

    return 1.0 if count >= of else float(betaincinv(count + 1, of - count, 1 - error))


def share_at_least(count: int, of: int, error: float = _BOUND_ERROR) -> float:
    """The lower bound, likewise."""
    return 1.0 - share_at_most(of - count, of, error)


def slower_decisions(decisions: int) -> int:
    """How many decisions about a slower A go with so many A/A decisions."""
    return math.ceil(decisions * SLOWER_SHARE)


def order(decisions: int) -> Iterator[bool]:
    """Of each decision in turn whether it is one about a slower A: spread evenly, so that an early end has both."""
    slower, asked = slower_decisions(decisions), 0
    for number in range(1, decisions + 1):
        yield False
        while asked < number * slower // decisions:
            yield True
            asked += 1


@dataclass(frozen=True)
class Tally:
    """What a self-check counted.

    Attributes:
        decisions: A/A decisions made.
        refuted: those of them that were refuted, which is wrong.
        held: those that held, which is wrong.
        slower: decisions made about a slower A.
        found: those of them that were refuted, which is right.
    """

    decisions: int
    refuted: int
    held: int
    slower: int
    found: int

    @property
    def wrong(self) -> int:
        """Wrong A/A decisions."""
        return self.refuted + self.held

    @property
    def limit(self) -> int:
        """How many may be wrong."""
        return most_wrong(self.decisions)

    @property
    def finding(self) -> Finding:
        """What the counts say: the first of these that applies.

        ``unstable``: more wrong A/A decisions than `most_wrong`. ``too noisy``: fewer slower ones found than
        `MUST_FIND`, of enough or by the upper bound. ``too few``: the bounds do not exclude that one in ten verdicts
        is wrong, or that one in five slower ones is missed. Else ``stable``.
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
        """What can be concluded, in one line with its bounds."""
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
