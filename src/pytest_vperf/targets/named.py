"""Says of what cannot be had which target wanted it."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from pytest_vperf.targets.base import Unavailable

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextlib.contextmanager
def named(target: str) -> Iterator[None]:
    """Say of what cannot be had which container wanted it: engine and image know none, and are kept for several."""
    try:
        yield
    except Unavailable as error:
        error.target = target
        raise
