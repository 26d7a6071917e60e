"""Behind a token bucket that lets 3000 packets a second through, a sweep of UDP packets saturates at that rate.

The bucket counts Ethernet frames: with packets of one size, a header of Ethernet (14), IPv4 (20) and UDP (8) bytes
on top of the payload, its rate is a number of packets. The sender shares this machine: where it waits for the queue
in front of the bucket, it is held back and could have offered more, which is part of what is shown here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from known_truth import Row, settings

from pytest_vperf.machine import lock
from pytest_vperf.stats.plateau import PlateauRule
from pytest_vperf.targets.base import Unavailable
from pytest_vperf.targets.network.mirror import mirrored
from pytest_vperf.workloads.iperf import Iperf
from pytest_vperf.workloads.processors import command

if TYPE_CHECKING:
    from known_truth import Table
    from lab import Lab

    from pytest_vperf.targets.network.switch import Switch

PAYLOAD, FRAME = 1000, 1042
#: Packets a second, and how far off they may be found, as a share.
LEVEL, WITHIN = 3000.0, 0.05
#: Of the level, what is asked of the sender.
LOADS = (0.4, 0.7, 1.3, 2.0, 4.0)


def test_a_bucket_of_known_rate_is_the_plateau(lab: Lab, table: Table, switch: Switch) -> None:
    host, target = lab.start("host"), lab.start("container", network=switch)
    host.link = switch.host  # type: ignore[attr-defined]
    target.link.limit(f"{LEVEL * FRAME * 8 / 1e6:g} Mbit/s")  # type: ignore[attr-defined]
    iperf = Iperf(lab.bench)
    sender = command("the sender", "iperf", f" -c {target.link.listen} ", source=True)  # type: ignore[attr-defined]
    rule = PlateauRule(len(LOADS), value=LEVEL, tolerance=WITHIN, sessions=1, rounds=4)
    seen = []
    with lock.measuring():
        while not rule.decided:
            rate = LOADS[rule.point] * LEVEL * PAYLOAD * 8
            load = iperf.load(
                host,
                to=target,
                rate=f"{rate:.0f} bit/s",
                time=1,
                length=PAYLOAD,
                on=host,
                who=[sender],
            )
            seen.append(load)
            rule.loaded(load.asked.value, offered=load.counts)
            rule.add(load.carried.value)
    state, curve = rule.state, rule.curve
    assert curve is not None
    text = f"{curve.level.estimate:.0f} [{curve.level.low or 0:.0f}, {curve.level.high or 0:.0f}] packet/s"
    table.add(
        Row(
            f"bucket of {LEVEL:g} packets a second",
            target.name,
            settings(target, "network_rate"),
            f"{LEVEL:g} ± {WITHIN * LEVEL:g} packet/s",
            text,
            state.samples,
            state.decision,
        )
    )
    told = [f"{x.asked} {x.offered} {x.carried} {x.busy}" for x in seen]
    if state.decision == "inconclusive" and state.cause in ("too close to call", "sender"):
        pytest.skip(f"not decided: {text}: {state.reason}: {told}")
    assert state.decision == "holds", (state.reason, told)
    assert curve.knee == pytest.approx(LEVEL, rel=0.1)


def test_a_mirror_copies_what_goes_to_a_target_and_ends(lab: Lab, switch: Switch) -> None:
    host, target = lab.start("host"), lab.start("container", network=switch)
    host.link = switch.host  # type: ignore[attr-defined]
    with mirrored(target, host=host) as mirror:
        before = mirror.copied
        sent = Iperf(lab.bench).udp(host, to=target, rate="8 Mbit/s", time=1, length=PAYLOAD)
        copied = mirror.copied - before
    # Every packet once, and a few of other protocols.
    assert sent.datagrams <= copied <= sent.datagrams + 100
    links = host.run(["ip", "link"]).text
    assert mirror.monitor not in links
    with mirrored(target, host=host):  # nothing is in the way of another one
        pass
    # The run's own bridge is the kernel's, wherever Open vSwitch is installed.
    with (
        pytest.raises(
            Unavailable,
            match=r"is on no switch of Open vSwitch's: .*; or mirror the port with tc|ovs-vsctl",
        ),
        mirrored(target, host=host, by="ovs"),
    ):
        pass
