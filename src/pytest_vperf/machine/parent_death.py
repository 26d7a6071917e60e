"""Processes that the kernel ends with the one that started them, however that dies."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from signal import Signals

_PR_SET_PDEATHSIG = 1  # prctl(2)


def at_parents_death(number: Signals) -> Callable[[], None]:
    """What a new process calls (``preexec_fn``) to be sent a signal when the thread that started it ends.

    Args:
        number: the signal. What the process starts itself does not get it.
    """
    # Found here: between fork and exec there may be no locks to take.
    prctl = ctypes.CDLL(None).prctl

    def ask() -> None:
        prctl(_PR_SET_PDEATHSIG, number)

    return ask
