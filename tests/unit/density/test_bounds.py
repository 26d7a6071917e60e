"""What a host keeps, and what it says of its memory."""

from __future__ import annotations

import psutil

from pytest_vperf.density import bounds


def test_a_large_host_keeps_half_a_gibibyte_and_a_small_one_an_eighth() -> None:
    assert bounds.reserve(16 << 30) == 512 << 20
    assert bounds.reserve(1 << 30) == 128 << 20


def test_this_host_says_what_it_has() -> None:
    assert 0 < bounds.available() <= psutil.virtual_memory().total
    assert bounds.reserve() <= 512 << 20
