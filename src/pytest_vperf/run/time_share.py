"""The time of a run, which its claims share: ``--claims-time``.

In a first round each test has an equal part, and stops as soon as it is known that this does not do: after a pair or
two if they take long, after 16 if their noise does. Then the time goes where a verdict is nearest: to the claim with
the shortest remaining need, and so on, until it is over or nothing that is left fits into it. Serving the shortest
first ends the most claims in a time. What remains is concluded with what it would have needed, in the user's order.

Comparisons are continued in as many visits as it takes. A limit, whose sessions have a schedule of their own
(`pytest_vperf.run.visits`), and a test that cannot be visited again, have their equal share as a budget.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from pytest_vperf.claims.plan import time_told
from pytest_vperf.claims.sampling import BELIEVED_FROM, SHOWN_FROM, rough_time

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from pytest_vperf.claims.judgement import Judgement

#: No visit is shorter, nor than its setup takes, or setting up would be all that it does.
_LEAST = 1.0
#: Seconds of waiting for other measurements that a reason names.
_TOLD = 1.0


class Slice:
    """How long a claim may go on in one visit; see `pytest_vperf.claims.sampling.Share`."""

    def __init__(self, ends: float, clock: Callable[[], float], *, first: bool) -> None:
        self._ends, self._clock, self.holds_back = ends, clock, not first

    def over(self, samples: int, rest: float | None) -> bool:
        """Whether the visit ends: its time is over, or in the first round it is known that this does not do."""
        left = self._ends - self._clock()
        if left <= 0:
            return True
        known = samples < SHOWN_FROM or samples >= BELIEVED_FROM
        return known and not self.holds_back and rest is not None and rest > left


class TimeShare:
    """The time of one run; in a worker of pytest-xdist, of that worker's share of the tests.

    Args:
        seconds: for all of it.
        tests: how many ask for claims.
        clock: seconds that go on.
    """

    def __init__(
        self, seconds: float, tests: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.seconds = seconds
        self._clock = clock
        self._ends = clock() + seconds
        self._tests = tests
        self._begun: set[str] = set()
        #: Seconds that a visit takes besides sampling, by test.
        self._beside: dict[str, float] = {}
        self._granted: dict[str, float] = {}

    def took(self, test: str, seconds: float) -> None:
        """Note what setting a test up and tearing it down took."""
        self._beside[test] = seconds

    def left(self, waiting: int = 0) -> float:
        """Seconds that may be sampled yet, if so many tests have to be concluded after it."""
        beside = sorted(self._beside.values())
        each = beside[len(beside) // 2] if beside else 0.0
        return max(0.0, self._ends - self._clock() - waiting * each)

    def equal(self, test: str) -> float:
        """The share of a test that begins, or is begun: what is left, divided by those that have not."""
        self._begun.add(test)
        return self.left() / max(1, self._tests - len(self._begun) + 1)

    def visit(self, test: str) -> Slice:
        """How long the claim of a test may go on now."""
        granted = self._granted.pop(test, None)
        first = granted is None
        seconds = granted
        if seconds is None:
            seconds = min(self.equal(test), self.seconds / max(1, self._tests))
        return Slice(self._clock() + seconds, self._clock, first=first)

    def choose(self, waiting: Mapping[str, Judgement]) -> str | None:
        """The test to visit next, and how long, of those whose claim waits for more time; ``None`` if none will do.

        Args:
            waiting: by test.
        """
        left = self.left(len(waiting))
        needs = {test: each.sampling.rest for test, each in waiting.items() if not each.decided}
        known = sorted((*each, test) for test, each in needs.items() if each is not None)
        unknown = [test for test, each in needs.items() if each is None]
        if left < _LEAST:
            return None
        for expected, at_best, test in known:
            if at_best <= left:
                self._granted[test] = min(left, max(expected, self._shortest(test)))
                return test
        if unknown:  # too few samples for a forecast
            test = unknown[0]
            self._granted[test] = min(left, max(left / len(unknown), self._shortest(test)))
            return test
        return None

    def _shortest(self, test: str) -> float:
        return max(_LEAST, self._beside.get(test, 0.0))

    def end(self, waiting: Iterable[Judgement]) -> None:
        """End the claims that no time is left for, each with what it would have needed."""
        for each in waiting:
            if not each.decided:
                told = time_told(self.seconds)
                if each.waited >= _TOLD:
                    told += f", and {rough_time(each.waited)} went by while others measured"
                each.sampling.out_of_share(told)
