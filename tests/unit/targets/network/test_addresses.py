"""Which subnet a run's network takes."""

from __future__ import annotations

from ipaddress import IPv4Network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_vperf.targets.base import Unavailable
from pytest_vperf.targets.network import addresses

NETWORKS = st.builds(
    lambda base, length: IPv4Network((base, length), strict=False),
    st.integers(0, 2**32 - 1),
    st.integers(8, 32),
)


@given(st.lists(NETWORKS, max_size=20), st.integers(0, 2**32 - 1))
def test_subnet_overlaps_with_nothing(taken: list[IPv4Network], start: int) -> None:
    found = addresses.free_subnet(taken, start)
    assert found.prefixlen == 24
    assert any(found.subnet_of(block) for block in addresses.BLOCKS)
    assert not any(found.overlaps(other) for other in taken)


def test_default_route_takes_nothing() -> None:
    assert addresses.free_subnet([IPv4Network("0.0.0.0/0")]) == IPv4Network("198.18.0.0/24")


def test_runs_at_the_same_time_begin_elsewhere() -> None:
    assert addresses.free_subnet([], 1) == IPv4Network("198.18.1.0/24")
    assert addresses.free_subnet([], 511) == IPv4Network("198.19.255.0/24")
    assert addresses.free_subnet([IPv4Network("198.19.255.7/32")], 511) == IPv4Network(
        "198.18.0.0/24"
    )


def test_second_block_is_taken_where_the_first_is_full() -> None:
    assert addresses.free_subnet([IPv4Network("198.18.0.0/15")]) == IPv4Network("100.64.0.0/24")


def test_machine_whose_routes_cover_everything_has_none() -> None:
    with pytest.raises(
        Unavailable,
        match=r"no free subnet for the run's own network: routes cover all of 198\.18\.0\.0/15 and 100\.64\.0\.0/10",
    ):
        addresses.free_subnet([IPv4Network("128.0.0.0/1"), IPv4Network("0.0.0.0/1")])


def test_addresses_are_given_out_once() -> None:
    given_out = list(addresses.hosts(IPv4Network("198.18.3.0/24")))
    assert given_out[0] == "198.18.3.1"
    assert len(given_out) == len(set(given_out)) == 254
