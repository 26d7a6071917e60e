"""How a machine is loaded, and what an answer's time is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_vperf.quantity import Quantity
from pytest_vperf.workloads.loaded import CONDITIONS, MOST_LOADERS, loaders_for
from pytest_vperf.workloads.netperf import RoundTrips


@pytest.mark.parametrize(
    ("cpus", "loaders"),
    [
        (24, (4,) * 6),
        (1, (1,)),
        (2, (1, 1)),
        (8, (2, 2, 1, 1, 1, 1)),
        (64, (11, 11, 11, 11, 10, 10)),
    ],
)
def test_the_published_six_and_less_on_a_smaller_machine(
    cpus: int, loaders: tuple[int, ...]
) -> None:
    assert loaders_for(cpus) == loaders


@given(st.integers(1, 4096))
def test_there_is_a_busy_loop_for_every_cpu(cpus: int) -> None:
    loaders = loaders_for(cpus)
    assert sum(loaders) == cpus
    assert 1 <= len(loaders) <= MOST_LOADERS
    assert max(loaders) - min(loaders) <= 1


def test_a_machine_has_a_cpu() -> None:
    with pytest.raises(ValueError, match="at least one CPU, not 0"):
        loaders_for(0)


def test_the_three_conditions_are_those_of_the_field() -> None:
    assert list(CONDITIONS) == ["idle", "loaded_system", "loaded_both"]


def test_the_time_of_an_answer_is_one_over_the_rate() -> None:
    rate = Quantity(8000, "operation/s", better="higher")
    trips = RoundTrips(rate, None, Quantity(12, "us", better="lower"), None, None)
    assert (trips.time.value, trips.time.unit, trips.time.better) == (125, "us", "lower")
    # What a build does not keep is left out, and is no zero.
    assert [name for name, _ in trips.time.beside] == ["p50"]
    assert trips.transactions.value == 8000
    assert dict(trips.transactions.beside)["p50"].values == (12,)
