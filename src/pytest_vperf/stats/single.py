"""The samples of one arm: warm-up set apart, every value checked."""

from __future__ import annotations

from pytest_vperf.stats.plain import check_number, check_whole


class SingleSamples:
    """Samples in the order they were taken.

    Attributes:
        judged: the values that count.
    """

    def __init__(self, warm_up: int) -> None:
        """Begin; the first ``warm_up`` values will not count: they are off by 5 to 50 %."""
        self.judged: list[float] = []
        self._warm_up = check_whole("warm_up", warm_up)

    @property
    def warming_up(self) -> bool:
        """Whether the next value is a warm-up."""
        return self._warm_up > 0

    def add(self, value: float) -> None:
        """Take a value.

        Raises:
            ValueError: it is not finite.
        """
        value = check_number("a sample", value)
        if self._warm_up > 0:
            self._warm_up -= 1
        else:
            self.judged.append(value)
