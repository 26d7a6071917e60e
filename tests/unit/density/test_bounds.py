"""The bounds of a filling, the host's reserve, and its memory."""

from __future__ import annotations

from typing import Any

import psutil
import pytest

from pytest_vperf.density import bounds


def test_the_reserve_is_half_a_gibibyte_or_an_eighth_of_a_small_host() -> None:
    assert bounds.reserve(16 << 30) == 512 << 20
    assert bounds.reserve(1 << 30) == 128 << 20


def test_the_memory_of_this_host_is_read() -> None:
    assert 0 < bounds.available() <= psutil.virtual_memory().total
    assert bounds.reserve() <= 512 << 20


@pytest.mark.parametrize(
    "wish", [{"most": 0}, {"most": True}, {"memory": 0}, {"memory": 5.5}, {"floor": -(1 << 30)}]
)
def test_invalid_bounds_are_refused(wish: dict[str, Any]) -> None:
    """A negative reserve would be no reserve."""
    with pytest.raises(ValueError, match="a host cannot be filled with"):
        bounds.Bounds(**wish)
    assert bounds.Bounds(1, 1, 0) != bounds.Bounds()
