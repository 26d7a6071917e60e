"""The least memory that containers start with, whatever starts them: a search by real starts.

A size works if so many containers in a row start with it. Near the border a size works by chance, in a range that
grows with the size, so the sizes of a search are eight to an octave; a fixed step is for a border that an engine sets
itself.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_vperf.quantity import Quantity
from pytest_vperf.stats.search import Answer, Found, NoSize, smallest
from pytest_vperf.targets.base import CannotStart, TargetError, Unavailable
from pytest_vperf.targets.limits import bytes_of

if TYPE_CHECKING:
    from collections.abc import Callable

#: Where a search begins, and how often a size must work where it may work by chance.
TOP, STARTS = "16 MiB", 5
#: In KiB; sizes are whole pages.
_FIRST, _EACH_OCTAVE, _PAGE = 16, 8, 4


@dataclass(frozen=True)
class Sizes:
    """The sizes of a search, by number from 1 on.

    Attributes:
        step: from one to the next, in KiB; 0 for eight to an octave, from 16 KiB on.
    """

    step: int = 0

    def size(self, number: int) -> int:
        """A size in KiB, in whole pages."""
        if self.step:
            return number * self.step
        return round(_FIRST * 2 ** (number / _EACH_OCTAVE) / _PAGE) * _PAGE

    def number(self, size: str) -> int:
        """The number of the greatest size that is not above a given one; at least 1."""
        asked = (bytes_of(size) or 1) / 1024
        if self.step:
            return max(1, int(asked // self.step))
        return max(1, math.floor(math.log2(asked / _FIRST) * _EACH_OCTAVE))

    def __str__(self) -> str:
        return f"{self.step} KiB · N" if self.step else f"{_FIRST} KiB · 2^(N/{_EACH_OCTAVE})"


@dataclass(frozen=True)
class Least:
    """The least memory that containers start with.

    Attributes:
        memory: in KiB.
        found: every size tried, by its number, with its outcome; ``sizes`` says how large it is.
        sizes: the sizes that were tried.
    """

    memory: Quantity
    found: Found
    sizes: Sizes


def search(
    start: Callable[[int], object],
    *,
    target: str,
    top: str = TOP,
    step: str = "",
    starts: int = STARTS,
) -> Least:
    """Search for the least memory.

    Args:
        start: starts a container with that many bytes, and ends it.
        target: what is started, for messages.
        top: a size with which it starts.
        step: between sizes, e.g. ``64 KiB``; empty for eight to an octave.
        starts: how often a size must work, at least once.

    Raises:
        Unavailable: nothing of the kind can be started here.
        CannotStart: it does not start with ``top``, or a size that worked failed when repeated.
        ValueError: ``step`` is no whole number of pages of 4 KiB, or ``starts`` is below 1.
    """
    if starts < 1:
        raise ValueError(f"starts is {starts}, not at least 1: a size that is not tried would work")
    each = (bytes_of(step) or 0) if step else 0
    if each % (_PAGE << 10):
        raise ValueError(f"step is {step!r}, no whole number of pages of {_PAGE} KiB")
    sizes = Sizes(each >> 10)

    def ask(number: int) -> Answer:
        for _ in range(starts):
            try:
                start(sizes.size(number) << 10)
            except Unavailable:
                raise
            except TargetError as error:
                return Answer(False, str(error).splitlines()[0])
        return Answer(True)

    try:
        found = smallest(ask, sizes.number(top))
    except NoSize as error:
        raise CannotStart(
            f"no least memory was found: {error} (number N is {sizes})", target=target
        ) from error
    memory = Quantity(sizes.size(found.size), "KiB", direction="lower", discrete=True)
    return Least(memory, found, sizes)
