"""How the sampling of a judge ends: what every rule has of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_vperf.stats.rule import Cause, Decision


class Ending:
    """A verdict that is open until it is not.

    Attributes:
        decided: whether sampling is to end.
        decision: the verdict; ``inconclusive`` until there is another.
        cause: of a decided ``inconclusive``, which kind it is.
    """

    def __init__(self) -> None:
        self.decided = False
        self.decision: Decision = "inconclusive"
        self.cause: Cause = ""
        self._why = ""

    @property
    def paused(self) -> bool:
        """Never, for a rule of one session."""
        return False

    def resume(self) -> None:
        """Nothing to resume, for a rule of one session."""

    def stop(self, cause: Cause, reason: str) -> None:
        """End the sampling without a decision, if there is none yet."""
        if not self.decided:
            self._end("inconclusive", cause, reason)

    def _end(self, decision: Decision, cause: Cause, why: str) -> None:
        self.decided = True
        self.decision, self.cause, self._why = decision, cause, why
