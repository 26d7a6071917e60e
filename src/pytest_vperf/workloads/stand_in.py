"""A target that is another one in all but how it runs a command."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pytest_vperf.targets.base import Target


class StandIn:
    """Stands in for a target; what is known of the target is known of it.

    Args:
        target: the real one.
    """

    def __init__(self, target: Target) -> None:
        self._target = target

    def __getattr__(self, name: str) -> Any:
        return getattr(self._target, name)

    def __hash__(self) -> int:
        return hash(self._target)

    def __eq__(self, other: object) -> bool:
        """A target is the same whoever stands in for it."""
        return other is self or other is self._target
