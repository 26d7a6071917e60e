"""What a host keeps, and what it says of its memory."""

from __future__ import annotations

from typing import Any

import psutil
import pytest

from pytest_vperf.density import bounds


def test_a_large_host_keeps_half_a_gibibyte_and_a_small_one_an_eighth() -> None:
    assert bounds.reserve(16 << 30) == 512 << 20
    assert bounds.reserve(1 << 30) == 128 << 20


def test_this_host_says_what_it_has() -> None:
    assert 0 < bounds.available() <= psutil.virtual_memory().total
    assert bounds.reserve() <= 512 << 20


@pytest.mark.parametrize(
    "wish", [{"most": 0}, {"most": True}, {"memory": 0}, {"memory": 5.5}, {"floor": -(1 << 30)}]
)
def test_a_wish_that_makes_no_sense_is_refused(wish: dict[str, Any]) -> None:
    """A reserve below nothing would be none."""
    with pytest.raises(ValueError, match="a host cannot be filled with"):
        bounds.Bounds(**wish)
    assert bounds.Bounds(1, 1, 0) != bounds.Bounds()
