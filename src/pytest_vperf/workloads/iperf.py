"""iperf 2: how many UDP packets arrive in a second. Versions 2.0.4 to 2.1.x, by the text that they print.

The client prints what it sent, and then, for each stream, the server's report of what arrived; that report is one UDP
packet itself and may be lost, so that a test reads the figures of arrival from what the server printed (`Iperf.udp`).
"""

from __future__ import annotations

import contextlib
import time as clock
from dataclasses import replace
from typing import TYPE_CHECKING

from pytest_vperf.load import Load
from pytest_vperf.quantity import Quantity, amount
from pytest_vperf.workloads.base import Output, ParseError
from pytest_vperf.workloads.iperf.report import Arrival, UdpResult
from pytest_vperf.workloads.iperf.udp import IperfUdp
from pytest_vperf.workloads.network_server import Server, serving
from pytest_vperf.workloads.processors import Watch

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from contextlib import AbstractContextManager

    from pytest_vperf.targets.base import Target
    from pytest_vperf.workloads.bench import Bench
    from pytest_vperf.workloads.processors import Who

__all__ = ["Arrival", "Iperf", "IperfUdp", "UdpResult"]

#: How long the server's figures may take to be printed after the client has ended, in seconds.
_REPORT_WITHIN = 5.0


class Iperf:
    """iperf 2 for tests: ``iperf.udp(host, to=container, rate="1 Gbit/s", streams=2).packets``.

    The server is started for the one test and ended with it, because what it prints is read: that is surer than its
    report to the client, which may be lost as any packet. Both ends are on the run's network.

    Args:
        bench: runs it.
    """

    def __init__(self, bench: Bench) -> None:
        self._bench = bench

    @contextlib.contextmanager
    def serve(self, target: Target) -> Iterator[Server]:
        """A server in a target; it is ready when the block begins, and ended with it.

        Raises:
            Unavailable: the target does not have iperf.
            CannotStart: the server does not start.
        """
        program = target.program("iperf")
        self._bench.version(target, program, IperfUdp("localhost"))
        arguments = ("-s", "-u", "-B", "{address}", "-p", "{port}")
        with serving(target, program, arguments, transport="udp") as server:
            yield server

    def udp(
        self,
        client: Target,
        *,
        to: Target,
        rate: str = "1 Gbit/s",
        time: int = 10,
        streams: int = 1,
        length: int = 1470,
        during: AbstractContextManager[object] | None = None,
    ) -> UdpResult:
        """One test of UDP; ``rate`` is of each stream; the rest as of `IperfUdp`.

        ``during`` is entered when the server is ready, and left when the client has ended.

        Returns:
            What was sent, and what the server counted; ``arrival`` is there.

        Raises:
            Unavailable: a target does not have iperf, or there is no way between the two.
            ParseError: the server did not count every stream.
        """
        bits = round(amount("rate", rate, "bit/s", such_as="100 Mbit/s"))
        self._bench.check_clock(client)  # takes a while, and once only
        with self.serve(to) as server:
            address = server.address_for(client)
            test = IperfUdp(address, server.port, bits, time, streams, length)
            with during or contextlib.nullcontext():
                result = self._bench.run(client, test)
            return replace(result, arrival=_counted(test, server))

    def load(
        self,
        client: Target,
        *,
        to: Target,
        rate: str = "1 Gbit/s",
        time: int = 10,
        streams: int = 1,
        length: int = 1470,
        on: Target | None = None,
        who: Sequence[Who] = (),
    ) -> Load:
        """A load of UDP packets: how many a second were asked for, sent and received, and who was busy meanwhile.

        Args:
            client: the sender.
            to: the receiver.
            rate: of each stream, of payload.
            time: seconds.
            streams: how many.
            length: bytes of payload of one packet.
            on: the host whose processors are looked at, in the middle of that time; ``None``: nobody looks.
            who: is looked for there.

        Raises:
            whatever `udp` raises.
            TargetError: somebody that was looked for is not there.
        """
        bits = amount("rate", rate, "bit/s", such_as="100 Mbit/s")
        asked = Quantity(streams * bits / (8 * length), "packet/s")
        watch = Watch(on, who, after=0.25 * time, window=0.5 * time) if on is not None else None
        sent = self.udp(
            client, to=to, rate=rate, time=time, streams=streams, length=length, during=watch
        )
        busy = watch.busy() if watch is not None else ()
        return Load(asked, sent.sent, sent.packets, busy)


def _counted(test: IperfUdp, server: Server) -> Arrival:
    """What the server printed of a test that has just ended: it takes the last packet for the end."""
    deadline = clock.monotonic() + _REPORT_WITHIN
    while True:
        printed = Output(server.said().decode("utf-8", "replace"))
        try:
            return test.parse_server(printed)
        except ParseError:
            if clock.monotonic() > deadline:
                raise
            clock.sleep(0.1)
