"""What becomes of a load: what was asked for, what the sender offered, what came through, and who was busy meanwhile.

Both ends' accounts are needed: a rate that does not grow any more may be the path's, the receiver's, or that of a
sender which cannot do more. The latter says nothing about what lies behind the sender.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_vperf.quantity import Quantity

#: A sender that offers less than this share of what it was asked for could not, or was held back.
IN_FULL = 0.95
#: Where less than this share of what was offered came through, the way is full; one that loses some of everything,
#: full or not, loses less.
OVERRUN = 0.5
#: A thread that ran, or waited for a processor, for this share of the time had no time left, in %.
WHOLE = 90.0


@dataclass(frozen=True)
class Busy:
    """How busy a thread was, or another user of a processor.

    Attributes:
        name: for people: ``vhost-1234 of the sender``.
        share: of one processor that it had, in %.
        wanted: the same with the time that it waited for a processor, in %.
        source: whether it is the sender itself, or what the sender runs on, and no part of the way behind it.
    """

    name: str
    share: float
    wanted: float
    source: bool = False

    @property
    def had_time_left(self) -> bool:
        """Whether it could have done more."""
        return self.wanted < WHOLE


@dataclass(frozen=True)
class Load:
    """What became of a load; three quantities of one dimension.

    Attributes:
        asked: what the sender was asked to offer.
        offered: what it did offer, by its own account.
        carried: what came through, by the receiver's account.
        busy: who was, meanwhile; empty where nobody looked.
    """

    asked: Quantity
    offered: Quantity
    carried: Quantity
    busy: tuple[Busy, ...] = ()

    @property
    def in_full(self) -> bool:
        """Whether the sender offered what it was asked for."""
        return self.offered.to(self.asked.unit).value >= IN_FULL * self.asked.value

    @property
    def held_back(self) -> bool:
        """Whether the sender had time left and waited for the way behind it: then it is no limit of its own.

        Only where somebody looked: without evidence a sender that offers too little could not offer more.
        """
        own = [each.had_time_left for each in self.busy if each.source]
        return not self.in_full and bool(own) and all(own)

    @property
    def overrun(self) -> bool:
        """Whether far more was offered than came through: then it is not the sender that limits it."""
        return (
            self.carried.to(self.asked.unit).value
            < OVERRUN * self.offered.to(self.asked.unit).value
        )

    @property
    def counts(self) -> bool:
        """Whether it says something of the way behind the sender, and not of the sender alone."""
        return self.in_full or self.held_back or self.overrun
