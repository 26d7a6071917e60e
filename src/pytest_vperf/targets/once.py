"""Something costly that many tests share: made when it is first wanted, and tried once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

from pytest_vperf.targets.base import TargetError

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


class Once(Generic[T]):
    """A function that is called once; its result is kept, and so is a `TargetError`.

    A second try at an engine that does not start, or a kernel that cannot be had, would take as long as the
    first, for every claim.
    """

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._made: list[T] = []
        self._error: TargetError | None = None

    @property
    def made(self) -> tuple[T, ...]:
        """What was made: one thing, or none yet."""
        return tuple(self._made)

    def __call__(self) -> T:
        """The thing.

        Raises:
            TargetError: it could not be made; the same one each time.
        """
        if self._error is not None:
            raise self._error
        if not self._made:
            try:
                self._made.append(self._make())
            except TargetError as error:
                self._error = error
                raise
        return self._made[0]
