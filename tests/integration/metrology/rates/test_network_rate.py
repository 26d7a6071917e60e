"""A link limited to 100 Mbit/s moves 100 Mbit/s, in both directions, as iperf3 finds.

The token bucket counts Ethernet frames, iperf3 the payload: with time stamps and an MTU of 1500 bytes, 1448 of the
1514 bytes of a full frame are payload (header of Ethernet 14, IPv4 20, TCP 32).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from known_truth import judge, settings

from pytest_vperf.workloads.iperf3 import Iperf3

if TYPE_CHECKING:
    from known_truth import Table
    from lab import Lab

    from pytest_vperf.targets.network.switch import Switch

FRAME, PAYLOAD = 1514, 1448
RATE = 100.0
#: 100 Mbit/s take a few hundredths of a CPU, so that most of its time may be taken away without a change of the rate;
#: what counts is that it is not taken for longer than the bucket and the queue last.
MOST_STOLEN = 0.15


@pytest.mark.parametrize("kind", ["container", "pod"])
@pytest.mark.parametrize("way", ["to", "from"])
def test_limited_link_moves_its_rate(
    lab: Lab, table: Table, switch: Switch, kind: str, way: str
) -> None:
    host, target = lab.start("host"), lab.start(kind, network=switch)
    host.link = switch.host  # type: ignore[attr-defined]
    assert target.link.limit(f"{RATE:g} Mbit/s").to("Mbit/s").value == RATE  # type: ignore[attr-defined]
    iperf3 = Iperf3(lab.bench)

    with iperf3.serve(target) as server:

        def wire() -> float:
            # The first second is left out: a connection finds its speed, and the bucket is full.
            moved = iperf3.tcp(host, to=server, time=2, omit=1, reverse=way == "from")
            return moved.throughput.to("Mbit/s").value * FRAME / PAYLOAD / RATE

        judge(
            table,
            setting=f"link {RATE:g} Mbit/s, {way} the target",
            target=target.name,
            read_back=settings(target, "network_rate"),
            measured=wire,
            expected=1.0,
            within=0.03,
            scale=RATE,
            unit="Mbit/s",
            bearable=MOST_STOLEN,
        )
