"""netperf TCP_RR: how many requests are answered per second, one after the other.

Versions 2.4 to 2.7. One connection, one request at a time: a transaction is a request and its response. Since 2.5.0
netperf's "omni" tests print figures requested by name (``-k``), with statistics of single transactions (``-j``); 2.4
only prints a table with the rate.

A transaction of one outstanding request takes the inverse of the rate, so the two are checked against each other: a
"burst" keeps several under way, and its rate is another figure.

Formats: netperf's manual, "Using Netperf to Measure Request/Response Performance" and "The Omni Tests";
nettest_omni.c of 2.5 to 2.7: latencies are in µs, and ``-1`` if a build or system keeps none.
"""

from __future__ import annotations

import contextlib
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from pytest_vperf.quantity import Quantity
from pytest_vperf.workloads.base import (
    WORD,
    Output,
    Reader,
    Unsupported,
    check_address,
    check_whole,
    release,
)
from pytest_vperf.workloads.network_server import Server, serving

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pytest_vperf.targets.base import Target
    from pytest_vperf.workloads.bench import Bench

#: The oldest version with a table that is supported here, and the first that uses omni tests by default.
_OLDEST, _OMNI = (2, 4), (2, 5)
_LATENCIES = ("MEAN", "P50", "P90", "P99")
_SELECTED = (
    *("TRANSACTION_RATE", "REQUEST_SIZE", "RESPONSE_SIZE"),
    *(f"{name}_LATENCY" for name in _LATENCIES),
    # Last, so that truncated output is noticed.
    "ELAPSED_TIME",
)
#: The table's banner with its notes: "MIGRATED" by the omni code, and the requests sent at first ("burst").
_BANNER = r"^(?:MIGRATED )?TCP REQUEST/RESPONSE TEST from (.*)$"
#: The third and fourth line of its heading. Another unit of the rate (``-f``) replaces "per sec".
_HEADING = (
    r"^Send +Recv +Size +Size +Time +Rate(?: .*)?\n"
    r"bytes +[Bb]ytes +bytes +bytes +secs\. +per sec(?: .*)?$"
)
#: Its row: sizes of the sockets, of request and response, seconds, transactions per second; with -c and -C four
#: figures of CPU use; then the sizes of the other side's sockets.
_ROW = (
    rf"^({WORD}) +({WORD}) +({WORD}) +({WORD}) +([0-9.,]+) +({WORD})(?:(?: +-?[0-9.]+){{4}})? *\n"
    r"[0-9]+ +[0-9]+ *$"
)
#: How far the mean latency may be from the inverse of the rate: a share of it, for what netperf itself does between
#: two transactions; and µs, since each latency is truncated to a whole one. The time of the test has one transaction
#: more than is counted, which did not end in it.
_APART, _TRUNCATED = 0.15, 1.5
#: Printed by the omni tests for a statistic that was not kept.
_NOT_KEPT = re.compile(r"-1(?:\.0+)?")


@dataclass(frozen=True)
class RoundTrips:
    """The result of a request-response test.

    Attributes:
        rate: transactions, in operation/s.
        mean: time of one transaction, in µs; ``None`` until 2.4, and if a build keeps no statistics.
        p50: half of the transactions took no longer, in µs; ``None`` likewise.
        p90: 90 % took no longer; ``None`` likewise.
        p99: 99 % took no longer; ``None`` likewise.
    """

    rate: Quantity
    mean: Quantity | None
    p50: Quantity | None
    p90: Quantity | None
    p99: Quantity | None

    @property
    def transactions(self) -> Quantity:
        """The rate, with the times of single transactions."""
        return self.rate.with_extra(mean=self.mean, p50=self.p50, p90=self.p90, p99=self.p99)

    @property
    def time(self) -> Quantity:
        """The time of a request and its response in µs, the inverse of the rate, with those of single transactions.

        With one request at a time on one connection, a test contains no other time.
        """
        whole = Quantity(1e6 / self.rate.to("operation/s").value, "us", direction="lower")
        return whole.with_extra(mean=self.mean, p50=self.p50, p90=self.p90, p99=self.p99)


@dataclass(frozen=True)
class TcpRr:
    """One test of TCP_RR.

    Attributes:
        server: the address of the server.
        port: of its control connection.
        data_port: of the measured connection; 0 lets the server choose.
        time: seconds.
        request: bytes of a request.
        response: bytes of a response.
        cpu: the processor that the client is bound to (-T); ``None`` for any.
        server_cpu: likewise of the server. One that it may not use binds nothing.

    Raises:
        ValueError: a parameter is invalid; the message names it.
    """

    server: str
    port: int = 12865
    data_port: int = 0
    time: int = 10
    request: int = 128
    response: int = 128
    cpu: int | None = None
    server_cpu: int | None = None

    tool: ClassVar[str] = "netperf"
    version_argv: ClassVar[Sequence[str]] = ("-V",)

    def __post_init__(self) -> None:
        check_address("server", self.server)
        for name, value, least, most in (
            ("port", self.port, 1, 65_535),
            ("data_port", self.data_port, 0, 65_535),
            ("time", self.time, 1, 86_400),
            ("request", self.request, 1, 1 << 20),
            ("response", self.response, 1, 1 << 20),
        ):
            check_whole(name, value, least, most)
        for name, cpu in (("cpu", self.cpu), ("server_cpu", self.server_cpu)):
            if cpu is not None:
                check_whole(name, cpu, 0, 8191)

    def argv(self, version: str) -> tuple[str, ...]:
        """The test as options.

        Raises:
            Unsupported: the version is older than 2.4.
        """
        known = release(version)
        if known < _OLDEST:
            raise Unsupported("netperf before 2.4 prints other tables")
        omni = known >= _OMNI
        return (
            *("-H", self.server, "-p", str(self.port), "-t", "TCP_RR", "-l", str(self.time)),
            *(("-T", bound) if (bound := self._bound) != "," else ()),
            *(("-P", "0", "-j") if omni else ()),
            *("--", "-r", f"{self.request},{self.response}"),
            *(("-P", f",{self.data_port}") if self.data_port else ()),
            *(("-k", ",".join(_SELECTED)) if omni else ()),
        )

    @property
    def _bound(self) -> str:
        """The processors of client and server, either of them empty for any."""
        return ",".join("" if cpu is None else str(cpu) for cpu in (self.cpu, self.server_cpu))

    @property
    def timeout(self) -> float:
        """Three times the seconds of the test, and a minute."""
        return 60.0 + 3 * self.time

    def parse(self, output: Output) -> RoundTrips:
        """Read names and values, or the table.

        Raises:
            ParseError: there is neither, it is of another test, or a figure is invalid.
        """
        reader = Reader(self.tool, output)
        if re.search(r"^[A-Z0-9_]+=", reader.text, re.MULTILINE):
            return self._omni(reader)
        return self._table(reader)

    def _omni(self, reader: Reader) -> RoundTrips:
        def value(name: str) -> str:
            return reader.need(rf"^{name}=({WORD})$", name)[1]

        def latency(name: str) -> Quantity | None:
            text = value(f"{name}_LATENCY")
            if _NOT_KEPT.fullmatch(text):
                return None
            # Percentiles are whole µs: below one they are 0, which is valid if the mean is low.
            found = reader.number(text, f"{name}_LATENCY", positive=name == "MEAN")
            return Quantity(found, "us", direction="lower", discrete=name != "MEAN")

        lasted = self._check(
            reader, value("REQUEST_SIZE"), value("RESPONSE_SIZE"), value("ELAPSED_TIME")
        )
        rate = reader.quantity(
            value("TRANSACTION_RATE"),
            "TRANSACTION_RATE",
            "operation/s",
            "higher",
            positive=True,
        )
        mean, p50, p90, p99 = map(latency, _LATENCIES)
        known = [each.value for each in (p50, p90, p99) if each is not None]
        if known != sorted(known):
            raise reader.error(f"its percentiles fall: {', '.join(f'{each:g}' for each in known)}")
        single = 1e6 / rate.value
        share = _APART + 1 / (rate.value * lasted)
        if mean is not None and abs(mean.value - single) > share * single + _TRUNCATED:
            raise reader.error(
                f"{rate.value:g} transactions a second, one at a time, do not take {mean.value:g} us each"
            )
        return RoundTrips(rate, mean, p50, p90, p99)

    def _table(self, reader: Reader) -> RoundTrips:
        notes = reader.need(_BANNER, "banner of a TCP_RR test")[1]
        burst = re.search(r"first burst ([0-9]+)", notes)
        if burst and burst[1].strip("0"):
            raise reader.error(f"it is a test with a burst of {burst[1][:20]} more requests")
        reader.need(_HEADING, "heading of a TCP_RR table, with a rate per second")
        row = reader.need(_ROW, "row of a TCP_RR table, with that of the other side")
        self._check(reader, row[3], row[4], row[5])
        rate = reader.quantity(row[6], "Trans. Rate", "operation/s", "higher", positive=True)
        return RoundTrips(rate, None, None, None, None)

    def _check(self, reader: Reader, request: str, response: str, seconds: str) -> float:
        """Refuse another test; return the seconds that this one lasted."""
        sizes = reader.whole(request, "request size"), reader.whole(response, "response size")
        if sizes != (self.request, self.response):
            raise reader.error(
                f"it is a test of {sizes[0]}/{sizes[1]} bytes, not of {self.request}/{self.response}"
            )
        lasted = reader.number(seconds, "elapsed time", positive=True)
        if lasted < self.time / 2:
            raise reader.error(f"it lasted {lasted:g} s of {self.time} s")
        return lasted

    @classmethod
    def version_of(cls, output: Output) -> str:
        """``2.7.0`` of ``Netperf version 2.7.0``; netserver prints it likewise."""
        text = "\n".join((output.stdout, output.stderr))
        reader = Reader(cls.tool, replace(output, stdout=text))
        return reader.need(r"^Net(?:perf|server) version ([0-9]+\.[0-9]\S*)$", "version")[1]


class Netperf:
    """netperf for tests: ``netperf.tcp_rr(other_host, to=container).rate``.

    ``to`` is a target, where ``netserver`` is started for the one test and ended with it; or a running server:
    ``with netperf.serve(container) as server: netperf.tcp_rr(other_host, to=server)``. Both ends are on the run's
    network.

    Args:
        bench: runs it.
    """

    def __init__(self, bench: Bench) -> None:
        self._bench = bench

    @contextlib.contextmanager
    def serve(self, target: Target) -> Iterator[Server]:
        """Run ``netserver`` in a target during the block; it is ready when the block begins.

        Raises:
            Unavailable: the target does not have it.
            CannotStart: the server does not start.
        """
        program = target.program("netserver")
        self._bench.version(target, program, TcpRr("localhost"))
        # In the foreground (-D), so that its process ID is known; a child serves each client (no -f).
        arguments = ("-D", "-4", "-L", "{address}", "-p", "{port}")
        with serving(target, program, arguments) as server:
            yield server

    def tcp_rr(
        self,
        client: Target,
        *,
        to: Target | Server,
        time: int = 10,
        request: int = 128,
        response: int = 128,
        cpu: int | None = None,
        server_cpu: int | None = None,
    ) -> RoundTrips:
        """One test of TCP_RR; parameters as for `TcpRr`.

        Raises:
            Unavailable: a target does not have netperf, or the two cannot reach each other.
        """
        kept = contextlib.nullcontext(to) if isinstance(to, Server) else self.serve(to)
        with kept as server:
            address = server.address_for(client)
            ports = server.port, server.second_port
            test = TcpRr(address, *ports, time, request, response, cpu, server_cpu)
            # A running server was noted when it started; note here that it answered this test.
            self._bench.version(server.target, server.target.program("netserver"), test)
            return self._bench.run(client, test)
