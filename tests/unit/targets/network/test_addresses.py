"""The choice of a subnet for a run's network."""

from __future__ import annotations

from ipaddress import IPv4Network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_vperf.targets.base import TargetError, Unavailable
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


def test_addresses_come_round_again_after_all_others() -> None:
    subnet = IPv4Network("198.18.3.0/24")
    pool = addresses.Addresses(subnet)
    all_of_them = [pool.take() for _ in range(254)]
    assert str(all_of_them[0]) == "198.18.3.1/24"
    assert len(set(all_of_them)) == len({addresses.mac(each) for each in all_of_them}) == 254
    with pytest.raises(
        TargetError, match=r"all addresses of 198\.18\.3\.0/24 are in use by this run"
    ):
        pool.take()
    first, last = all_of_them[0], all_of_them[-1]
    for each in (last, first, last):
        pool.give_back(each)
    assert [pool.take(), pool.take()] == [last, first]
    with pytest.raises(TargetError, match="are in use"):
        pool.take()


def test_an_address_has_one_link_layer_address() -> None:
    address = addresses.Addresses(IPv4Network("198.18.3.0/24")).take()
    assert addresses.mac(address) == "02:76:70:66:03:01"
