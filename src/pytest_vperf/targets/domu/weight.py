"""Weights and caps of Xen's credit schedulers, by the names that they have on every target.

Source: xl(1), sched-credit2: a weight is from 1 to 65535, 256 by default; a cap is in percent of one processor, and
0 is none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_vperf.targets.base import CannotStart

if TYPE_CHECKING:
    from pytest_vperf.targets.limits import Limits

DEFAULT_WEIGHT = 256
_DEFAULT_SHARES = 1024


def weight_of(limits: Limits) -> int | None:
    """Xen's weight for ``cpu_shares``: the ratio of two is kept, and both defaults are each other's.

    Raises:
        CannotStart: it is beyond what Xen takes.
    """
    if limits.cpu_shares is None:
        return None
    weight = round(limits.cpu_shares * DEFAULT_WEIGHT / _DEFAULT_SHARES)
    if not 1 <= weight <= 65_535:
        raise CannotStart(
            f"cpu_shares is {limits.cpu_shares!r}, a weight of {weight} for Xen, which takes 1 to 65535"
        )
    return weight


def cap_of(limits: Limits) -> int | None:
    """Xen's cap for ``cpus``, in percent of one processor."""
    return None if limits.cpus is None else max(1, round(limits.cpus * 100))
