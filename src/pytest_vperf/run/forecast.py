"""Where a run is among its tests with claims, and how long it still takes, roughly.

A test with a claim that is judged in several sessions is visited several times (`pytest_vperf.run.visits`). A visit
still to come is taken to last as long as those so far did on average. These had what starts once, such as an engine,
in them, so a forecast is too long at first, not too short.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from pytest_vperf.claims.sampling import rough_time
from pytest_vperf.run.outcomes import TEST_CLAIMS

if TYPE_CHECKING:
    from collections.abc import Collection, Generator


class Forecast:
    """The forecast of one run. A plug-in of its own.

    Args:
        tests: that ask for a claim.
        visits: the most that a test is visited.
        seconds: that all of them share; ``None``: each has its budget alone.
    """

    def __init__(
        self, tests: Collection[pytest.Item], visits: int, seconds: float | None = None
    ) -> None:
        self._tests = tests
        self._most = visits
        self._seconds = seconds
        self._began = self._last = time.monotonic()
        #: By test, in the order in which they began: how often it was visited.
        self._visited: dict[pytest.Item, int] = {}
        self._over: set[pytest.Item] = set()
        self._current: pytest.Item | None = None

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Count a visit."""
        if item not in self._tests:
            return (yield)
        self._current = item
        self._visited.setdefault(item, 0)
        try:
            return (yield)
        finally:
            self._last = time.monotonic()
            self._visited[item] += 1
            claims = item.stash.get(TEST_CLAIMS, None)
            if claims is None or not claims.continues:
                self._over.add(item)

    @property
    def test(self) -> str:
        """The name of the test that runs; empty before the first."""
        return self._current.name if self._current is not None else ""

    @property
    def over(self) -> str:
        """``3 of 32``: how many are over with the one that runs."""
        return f"{len(self._over | {self._current})} of {len(self._tests)}"

    @property
    def place(self) -> str:
        """``3 of 32, ~12 min left``: which test runs, and how long the run still takes; of one test alone the
        latter."""
        number = list(self._visited).index(self._current) + 1 if self._current is not None else 0
        parts = [f"{number} of {len(self._tests)}"] if len(self._tests) > 1 else []
        if (left := self.left) is not None:
            parts.append(f"~{rough_time(max(1, left))} left")
        return ", ".join(parts)

    @property
    def left(self) -> float | None:
        """Seconds until the last of these tests is over; ``None`` if there is nothing yet to tell it from."""
        now = time.monotonic()
        if self._seconds is not None:
            left = self._seconds - (now - self._began)
            return left if left > 0 else None
        visits = sum(self._visited.values())
        if not visits:
            return None
        known = {
            test: count if test in self._over else max(self._most, count + 1)
            for test, count in self._visited.items()
        }
        of_others = sum(known.values()) / len(known) * (len(self._tests) - len(known))
        to_come = sum(known.values()) - visits + of_others
        return max(0.0, (self._last - self._began) / visits * to_come - (now - self._last))
