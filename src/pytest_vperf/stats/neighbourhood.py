"""The values of the last pairs, in order of size: where does a new value stand among them?"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import deque


class Neighbourhood:
    """The last values of a stream, sorted."""

    def __init__(self, pairs: int) -> None:
        """Keep the values of the last ``pairs`` pairs."""
        self._room = 2 * pairs
        self._recent: deque[float] = deque()
        self._sorted: list[float] = []

    def add(self, first: float, second: float) -> None:
        """Take the two values of a pair; the oldest two go when there is no more room."""
        for value in (first, second):
            self._recent.append(value)
            insort(self._sorted, value)
        while len(self._recent) > self._room:
            del self._sorted[bisect_left(self._sorted, self._recent.popleft())]

    def below(self, value: float) -> float:
        """How many of the values are smaller; one that is equal counts half."""
        ordered = self._sorted
        left = bisect_left(ordered, value)
        if left < len(ordered) and ordered[left] == value:
            return (left + bisect_right(ordered, value, lo=left)) / 2
        return left
