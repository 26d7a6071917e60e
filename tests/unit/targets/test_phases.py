"""Marks between phases become parts that add up, whichever marks were seen."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_vperf.targets.base import startup_quantity

PHASES = ("process", "firmware", "kernel", "userspace")


def test_each_phase_ends_where_the_next_begins() -> None:
    marks = {"process": 10.5, "firmware": 11.0, "kernel": 13.0, "userspace": 17.0}
    found = startup_quantity(10.0, marks, PHASES)
    assert (found.value, found.unit, found.direction) == (7000.0, "ms", "lower")
    assert found.breakdown == (
        ("process", 500.0),
        ("firmware", 500.0),
        ("kernel", 2000.0),
        ("userspace", 4000.0),
    )


@pytest.mark.parametrize(
    ("seen", "names"),
    [
        (("process", "kernel", "userspace"), ("process", "firmware+kernel", "userspace")),
        (("process", "userspace"), ("process", "firmware+kernel+userspace")),
        (("firmware", "userspace"), ("process+firmware", "kernel+userspace")),
        (("userspace",), ("process+firmware+kernel+userspace",)),
    ],
)
def test_a_missing_mark_joins_two_phases(seen: tuple[str, ...], names: tuple[str, ...]) -> None:
    marks = {name: 1.0 + PHASES.index(name) for name in seen}
    found = startup_quantity(0.0, marks, PHASES)
    assert tuple(name for name, _ in found.breakdown) == names
    assert found.value == 4000.0


@pytest.mark.parametrize(
    ("marks", "parts"),
    [
        # The call that let the machine run returned after the kernel had printed.
        ((12.0, 11.0, 13.0, 17.0), (("process+firmware", 1000), ("kernel", 2000), ("userspace", 4000))),
        # The kernel's last words arrived after its agent's.
        ((10.5, 11.0, 18.0, 17.0), (("process", 500), ("firmware", 500), ("kernel+userspace", 6000))),
        ((19.0, 11.0, 18.0, 17.0), (("process+firmware", 1000), ("kernel+userspace", 6000))),
    ],
)  # fmt: skip
def test_a_phase_whose_end_was_seen_too_late_is_joined_with_the_next(
    marks: tuple[float, ...], parts: tuple[tuple[str, float], ...]
) -> None:
    found = startup_quantity(10.0, dict(zip(PHASES, marks, strict=True)), PHASES)
    assert found.breakdown == parts
    assert found.value == 7000.0


def test_an_absent_phase_is_left_out() -> None:
    """As with a full machine on Xen, which has no container."""
    found = startup_quantity(0.0, {"process": 1.0, "agent": 2.0}, ("process", "agent", "container"))
    assert found.breakdown == (("process", 1000.0), ("agent", 1000.0))


@given(
    st.floats(0, 1e7),
    st.lists(st.floats(0, 600), min_size=4, max_size=4),
    st.sets(st.sampled_from(PHASES[:-1])),
)
def test_phases_add_up_to_the_whole(began: float, lengths: list[float], unseen: set[str]) -> None:
    marks, now = {}, began
    for phase, length in zip(PHASES, lengths, strict=True):
        now += length
        if phase not in unseen:
            marks[phase] = now
    found = startup_quantity(began, marks, PHASES)
    assert found.value == sum(value for _, value in found.breakdown)
    assert found.value == pytest.approx((now - began) * 1e3, abs=1e-6)
    assert "+".join(name for name, _ in found.breakdown) == "+".join(PHASES)
    assert all(value >= 0 for _, value in found.breakdown)
