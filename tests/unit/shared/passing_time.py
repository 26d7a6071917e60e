"""A clock for tests of what takes time: it tells the same on every machine, however busy that is."""

from __future__ import annotations


class Clock:
    """In place of a module's `time`: it passes where somebody sleeps, and nowhere else."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
