"""The smallest size that something works with, found with few tries, and what was answered on the way.

Each try costs a start, so the search goes down by halves to a size that fails, and halves what is between. That
finds the smallest size where every size above one that works, works too. Nobody has proved that of a kernel, and a
start may fail by chance, so both sides of the border are tried once more; answers that contradict each other are
told, and a size counts only where it worked each time it was tried.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

#: By how many sizes the border may be moved up because a size that had worked did not work again.
STEPS_UP = 8


@dataclass(frozen=True)
class Answer:
    """What one try said.

    Attributes:
        works: whether it worked.
        words: of a failure what was seen, in a few words.
    """

    works: bool
    words: str = ""


@dataclass(frozen=True)
class Try:
    """One try, of a size."""

    size: int
    answer: Answer


class NoSize(Exception):
    """No size was found; the text says why.

    Attributes:
        tries: all of them, in order.
    """

    def __init__(self, message: str, tries: tuple[Try, ...]) -> None:
        super().__init__(message)
        self.tries = tries


@dataclass(frozen=True)
class Found:
    """The end of a search.

    Attributes:
        size: the smallest that worked, each time it was tried.
        tries: all of them, in order.
    """

    size: int
    tries: tuple[Try, ...]

    @property
    def contradictions(self) -> tuple[str, ...]:
        """Sizes that worked and failed, and those that failed above one that worked; empty where all agree."""
        by_size: dict[int, set[bool]] = {}
        for each in self.tries:
            by_size.setdefault(each.size, set()).add(each.answer.works)
        both = [
            f"{size} worked and failed" for size, said in sorted(by_size.items()) if len(said) > 1
        ]
        least = min((size for size, said in by_size.items() if said == {True}), default=self.size)
        above = [
            f"{size} failed, and {least} works"
            for size, said in sorted(by_size.items())
            if size > least and said == {False}
        ]
        return (*both, *above)


@dataclass
class _Search:
    ask: Callable[[int], Answer]
    tries: list[Try] = field(default_factory=list)

    def works(self, size: int) -> bool:
        answer = self.ask(size)
        self.tries.append(Try(size, answer))
        return answer.works

    def failed(self, message: str) -> NoSize:
        return NoSize(message, tuple(self.tries))


def smallest(ask: Callable[[int], Answer], top: int, *, guess: int | None = None) -> Found:
    """Search downwards.

    Args:
        ask: tries a size.
        top: a size from 1 on, at which the search begins; the answer is not larger than `STEPS_UP` above it.
        guess: where the border was before: if it still is, four tries say so.

    Returns:
        the smallest size that works. With answers that never contradict each other that takes at most
        log2(top) + 5 tries without a guess.

    Raises:
        ValueError: ``top`` or ``guess`` is below 1.
        NoSize: the first size fails already, or none above the border works twice.
    """
    if top < 1 or (guess is not None and guess < 1):
        raise ValueError(f"sizes are whole numbers from 1 on, not {min(top, guess or top)}")
    search = _Search(ask)
    fails, works = _around(search, top, guess)
    while works - fails > 1:
        middle = (works + fails) // 2
        if search.works(middle):
            works = middle
        else:
            fails = middle
    return _confirmed(search, works)


def _around(search: _Search, top: int, guess: int | None) -> tuple[int, int]:
    """A size that fails, 0 being one, and one above it that works."""
    if guess is not None and search.works(guess):
        if guess == 1 or not search.works(guess - 1):
            return guess - 1, guess
        works = guess - 1
    else:
        if not search.works(top):
            raise search.failed(f"{top} fails already: {search.tries[-1].answer.words}")
        if guess is not None and guess < top:
            return guess, top
        works = top
    while works > 1 and search.works(works // 2):
        works //= 2
    return works // 2, works


def _confirmed(search: _Search, border: int) -> Found:
    """Try the sizes on both sides of the border again; it moves up to a size that works twice."""
    if border > 1:
        search.works(
            border - 1
        )  # should it work now, the two answers are a contradiction, which is told
    for size in range(border, border + STEPS_UP + 1):
        # One above the border may not have been tried at all, and is tried twice.
        if size != border and not search.works(size):
            continue
        if search.works(size):
            return Found(size, tuple(search.tries))
    raise search.failed(f"nothing from {border} to {border + STEPS_UP} works twice")
