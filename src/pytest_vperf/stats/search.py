"""A search, with few tries, for the smallest size that works, and the answers on the way.

Each try costs a start, so the search halves the size until one fails, and then bisects. That finds the smallest size
if every size above a working one works too. This is not certain for a kernel, and a start may fail by chance, so both
sides of the border are tried once more; contradictory answers are reported, and a size counts only if it worked every
time it was tried.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

#: How many sizes the border may move up because a size did not work again.
STEPS_UP = 8


@dataclass(frozen=True)
class Answer:
    """The answer of one try.

    Attributes:
        works: whether it worked.
        words: how it failed, in a few words.
    """

    works: bool
    words: str = ""


@dataclass(frozen=True)
class Try:
    """One try, of a size."""

    size: int
    answer: Answer


class NoSize(Exception):
    """No size was found; the message says why.

    Attributes:
        tries: all of them, in order.
    """

    def __init__(self, message: str, tries: tuple[Try, ...]) -> None:
        super().__init__(message)
        self.tries = tries


@dataclass(frozen=True)
class Found:
    """The result of a search.

    Attributes:
        size: the smallest that worked every time it was tried.
        tries: all of them, in order.
    """

    size: int
    tries: tuple[Try, ...]

    @property
    def contradictions(self) -> tuple[str, ...]:
        """Sizes that both worked and failed, and those that failed above a working one; empty if all answers
        agree."""
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
        top: the size at which the search begins, at least 1; the answer is at most `STEPS_UP` above it.
        guess: the previous answer; if it still holds, four tries confirm it.

    Returns:
        the smallest size that works. Without a guess and contradictions, that takes at most log2(top) + 5 tries.

    Raises:
        ValueError: ``top`` or ``guess`` is below 1.
        NoSize: the first size already fails, or none from the border up works twice.
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
    """A size that fails, with 0 counting as one, and one above it that works."""
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
    """Try the sizes on both sides of the border again, moving it up to a size that works twice."""
    if border > 1:
        search.works(border - 1)  # if it works now, that is a reported contradiction
    for size in range(border, border + STEPS_UP + 1):
        # A size above the border may not have been tried yet, so it is tried twice.
        if size != border and not search.works(size):
            continue
        if search.works(size):
            return Found(size, tuple(search.tries))
    raise search.failed(f"nothing from {border} to {border + STEPS_UP} works twice")
