"""iperf3: what a TCP connection or a stream of UDP packets moves. Versions 3.1 to 3.x, by their JSON.

The client prints one JSON document at the end (``-J``), also when it fails: then with a key ``error``. What counts is
what the *receiver* got: the server sends its figures to the client over the control connection.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from pytest_vperf.quantity import amount
from pytest_vperf.workloads.iperf3.tcp import Iperf3Tcp, TcpResult
from pytest_vperf.workloads.iperf3.udp import Iperf3Udp, UdpResult
from pytest_vperf.workloads.network_server import Server, serving

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_vperf.targets.base import Target
    from pytest_vperf.workloads.bench import Bench

__all__ = ["Iperf3", "Iperf3Tcp", "Iperf3Udp", "TcpResult", "UdpResult"]


class Iperf3:
    """iperf3 for tests: ``iperf3.tcp(container, to=other_host, time=5).throughput``.

    ``to`` is a target, where a server is started for the one test and ended with it; or a server that is kept:
    ``with iperf3.serve(other_host) as server: iperf3.tcp(container, to=server)``. Both ends are on the run's network.

    Args:
        bench: runs it.
    """

    def __init__(self, bench: Bench) -> None:
        self._bench = bench

    @contextlib.contextmanager
    def serve(self, target: Target) -> Iterator[Server]:
        """A server in a target; it is ready when the block begins, and ended with it.

        Raises:
            Unavailable: the target does not have iperf3.
            CannotStart: the server does not start.
        """
        program = target.program("iperf3")
        self._bench.version(target, program, Iperf3Tcp("localhost"))
        # Bound to the network's own address: it cannot be reached from elsewhere.
        with serving(target, program, ("-s", "-B", "{address}", "-p", "{port}")) as server:
            yield server

    def tcp(
        self,
        client: Target,
        *,
        to: Target | Server,
        time: int = 10,
        omit: int = 1,
        streams: int = 1,
        reverse: bool = False,
    ) -> TcpResult:
        """One test of TCP; parameters as of `Iperf3Tcp`.

        Raises:
            Unavailable: a target does not have iperf3, or there is no way between the two.
        """
        with self._server(to) as server:
            address = server.address_for(client)
            test = Iperf3Tcp(address, server.port, time, omit, streams, reverse)
            return self._bench.run(client, test)

    def udp(
        self,
        client: Target,
        *,
        to: Target | Server,
        rate: str,
        length: int = 1448,
        time: int = 10,
        omit: int = 0,
        streams: int = 1,
    ) -> UdpResult:
        """One test of UDP; ``rate`` is of each stream, e.g. ``100 Mbit/s``; the rest as of `Iperf3Udp`.

        Raises:
            Unavailable: a target does not have iperf3, or there is no way between the two.
        """
        bits = round(amount("rate", rate, "bit/s", such_as="100 Mbit/s"))
        with self._server(to) as server:
            address = server.address_for(client)
            test = Iperf3Udp(address, server.port, time, omit, streams, bits, length)
            return self._bench.run(client, test)

    def _server(self, to: Target | Server) -> contextlib.AbstractContextManager[Server]:
        return contextlib.nullcontext(to) if isinstance(to, Server) else self.serve(to)
