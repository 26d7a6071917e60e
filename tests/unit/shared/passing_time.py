"""A clock for tests of timing: the same on every machine, however busy."""

from __future__ import annotations


class Clock:
    """In place of a module's `time`: it advances only in sleeps."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
