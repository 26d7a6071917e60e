"""Names of links, limits as tc prints them, and routes between targets."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_vperf.machine import networks
from pytest_vperf.targets.base import TargetError, Unavailable, link_of
from pytest_vperf.targets.host import Host
from pytest_vperf.targets.network.card import Card
from pytest_vperf.targets.network.link import Port, RouteLink, SwitchLink, tbf_rate
from pytest_vperf.targets.network.user_mode import LoopbackLink, UserLink, UserNetwork

SWITCH = SwitchLink("veth", "198.18.4.2", "198.18.4.0/24", Port(Path("/run/netns/x"), "p", "i"))
OTHER = SwitchLink("tap", "198.18.5.2", "198.18.5.0/24", Port(Path("/run/netns/y"), "p", "i"))
SAME = SwitchLink("tap", "198.18.4.3", "198.18.4.0/24", Port(Path("/run/netns/x"), "t", "j"))


def test_names_hold_the_run() -> None:
    assert networks.link_name("0a1b2c3d", "p12345"[:5]) == "vp0a1b2c3dp1234"
    assert networks.namespace_name("0a1b2c3d", "switch") == "vperf-0a1b2c3d-switch"
    with pytest.raises(
        ValueError, match=r"vp0a1b2c3dp12345 is longer than a link's name can be, 15"
    ):
        networks.link_name("0a1b2c3d", "p12345")


def test_rate_is_read_as_bytes_per_second() -> None:
    # As iproute2 6.1 printed it for "rate 100mbit".
    printed = (
        '[{"kind":"tbf","handle":"8001:","root":true,"options":'
        '{"rate":12500000,"burst":50000,"lat":50000}}]'
    )
    assert tbf_rate(printed) == 100_000_000
    assert tbf_rate('[{"kind":"noqueue","handle":"0:","root":true,"options":{}}]') is None
    assert tbf_rate("[]") is None


@given(
    st.text(max_size=80)
    | st.sampled_from(['[{"kind":"tbf"}]', "{}", "[1]", '[{"kind":"tbf","options":{"rate":"1"}}]'])
)
def test_output_of_tc_is_parsed_or_refused(printed: str) -> None:
    rate = None
    with contextlib.suppress(TargetError):
        rate = tbf_rate(printed)
    assert rate is None


def test_switch_joins_what_is_on_it_and_nothing_else() -> None:
    assert SWITCH.address_for(SAME) == "198.18.4.2"
    for stranger in (OTHER, RouteLink("192.0.2.1"), UserLink((1, 2)), LoopbackLink()):
        with pytest.raises(
            Unavailable, match=rf"there is no route from a {stranger.kind} link to 198\.18\.4\.2: "
        ):
            SWITCH.address_for(stranger)


def test_pod_with_a_user_mode_network_reaches_host_and_other_pods_by_the_host() -> None:
    pod, host = UserLink((20_001, 20_002), reaches_host=True), LoopbackLink()
    assert pod.address_for(host) == "127.0.0.1"
    assert host.address_for(pod) == "10.0.2.2"
    assert pod.address_for(UserLink((1, 2), reaches_host=True)) == "10.0.2.2"
    assert pod.listen == "10.0.2.15"
    with pytest.raises(Unavailable, match="which joins a pod to the host alone"):
        pod.address_for(SWITCH)


def test_pod_with_a_user_mode_network_is_reached_and_reaches_nothing() -> None:
    """The host's loopback is closed to it unless a test opens it."""
    pod, host = UserLink((20_001, 20_002)), LoopbackLink()
    assert pod.address_for(host) == "127.0.0.1"
    for server in (host, UserLink((1, 2))):
        with pytest.raises(Unavailable, match="accepts connections and opens none") as caught:
            server.address_for(pod)
        assert caught.value.remedy.startswith("pods.start(network=network, reaches_host=True)")
    assert pod.details()["network_reach"] == "nothing"
    network = UserNetwork()
    backend = network.card().arguments()[1]
    assert ",restrict=on," in backend
    backend = network.card(reaches_host=True).arguments()[1]
    assert ",restrict=off," in backend


def test_machine_reached_by_ssh_talks_with_the_host_alone() -> None:
    assert RouteLink("192.0.2.7").address_for(RouteLink("192.0.2.1")) == "192.0.2.7"
    with pytest.raises(Unavailable, match=r"no route from a tap link to 192\.0\.2\.7"):
        RouteLink("192.0.2.7").address_for(SAME)


def test_target_without_a_network_is_told_how_to_get_one() -> None:
    with pytest.raises(
        TargetError,
        match=r"host is on no network: let the test ask for it \(the fixture `network`\)",
    ):
        link_of(Host())


def test_card_of_a_user_mode_network_forwards_its_ports() -> None:
    network = UserNetwork()
    one, other = network.card(), network.card()
    first, second = one.link.ports
    backend, device = one.arguments()[1], one.arguments()[3]
    for port in (first, second):
        for kind in ("tcp", "udp"):
            assert f"hostfwd={kind}:127.0.0.1:{port}-10.0.2.15:{port}" in backend
    assert one.mac != other.mac
    assert f"mac={one.mac}" in device
    assert one.descriptors == ()
    with pytest.raises(Unavailable, match="vhost-net needs a tap, and only root can make one"):
        network.card(vhost=True)


def test_given_card_closes_its_descriptors() -> None:
    both = os.pipe()
    card = Card("tap", "02:00:00:00:00:01", "198.18.4.2/24", SWITCH, both)
    card.given()
    for each in both:
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(each)
    card.given()
