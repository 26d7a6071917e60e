"""Something costly that many tests share: made when it is first wanted, and made again where it died."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

from pytest_vperf.targets.base import CannotConnect, TargetError

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

#: How often something is made in a run. What dies again and again has a cause that the next one has, too.
_MOST = 3


class Once(Generic[T]):
    """A function that is called once; its result is kept, and so is a `TargetError`.

    A second try at an engine that does not start, or a kernel that cannot be had, would take as long as the
    first, for every claim. What was there and has died meanwhile is another matter: the claim under which it died has
    its error, and for those that follow it is made again, see `renew`.

    Args:
        make: is called.
        gone: whether what was made has died.
        end: removes what is left of it, before another one is made.
    """

    def __init__(
        self,
        make: Callable[[], T],
        *,
        gone: Callable[[T], bool] | None = None,
        end: Callable[[T], None] | None = None,
    ) -> None:
        self._make = make
        self._gone = gone
        self._end = end
        self._times = 0
        self._made: list[T] = []
        self._error: TargetError | None = None

    @property
    def made(self) -> tuple[T, ...]:
        """What was made, and was not let go of: one thing, or none."""
        return tuple(self._made)

    def __call__(self) -> T:
        """The thing.

        Raises:
            TargetError: it could not be made, or died too often; the same one each time.
        """
        if self._error is not None:
            raise self._error
        if not self._made:
            try:
                if self._times == _MOST:
                    raise CannotConnect(
                        f"it died {_MOST} times in this run, and is not started once more; what it said is in the"
                        " errors of the claims under which it died"
                    )
                self._times += 1
                self._made.append(self._make())
            except TargetError as error:
                self._error = error
                raise
        return self._made[0]

    def renew(self) -> None:
        """Let go of what has died, so that the next call makes another one. Called between tests: under one, a new
        one would hide that the old one died.
        """
        if self._made and self._gone is not None and self._gone(self._made[0]):
            dead = self._made.pop()
            if self._end is not None:
                self._end(dead)
