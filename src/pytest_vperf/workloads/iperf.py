"""iperf 2: how many UDP packets arrive in a second. Versions 2.0.4 to 2.1.x, by the text that they print.

The client prints what it sent, and then, for each stream, the server's report of what arrived; that report is one UDP
packet itself and may be lost, so that a test reads the figures of arrival from what the server printed (`Iperf.udp`).

Formats (ReportDefault.c and Locale.c of 2.0.x, Reporter output of 2.1.x): ``[  3] Sent 893 datagrams``; the server's
lines ``[  3]  0.0-10.0 sec  1.25 MBytes  1.05 Mbits/sec   0.013 ms    0/  893 (0%)``, in 2.1 with four decimals of
the interval; late packets in a line of their own (``1 datagrams received out-of-order``). ``-P`` adds ``[SUM]``
lines, of which those with ``Sent`` are ``[SUM-2]`` in 2.1; they are passed over, since the streams' own lines say
more. 2.1 prints a header line between a report's title and its figures.
"""

from __future__ import annotations

import contextlib
import re
import time as clock
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from pytest_vperf.quantity import Quantity
from pytest_vperf.workloads.base import Output, ParseError, Unsupported
from pytest_vperf.workloads.figures import TOKEN, Reader
from pytest_vperf.workloads.network_server import Server, serving

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pytest_vperf.targets.base import Target
    from pytest_vperf.workloads.bench import Bench

_OLDEST = (2, 0)
_STREAM = r"^\[ *([0-9]+)\] "
_INTERVAL = rf" *0[.,]0+ *- *({TOKEN}) sec +"
_SENT = rf"{_STREAM}Sent ({TOKEN}) datagrams$"
_SENDING = rf"{_STREAM}{_INTERVAL}({TOKEN}) [KMGT]?Bytes +({TOKEN}) [KMGT]?bits/sec *$"
_ARRIVED = (
    rf"{_STREAM}{_INTERVAL}({TOKEN}) [KMGT]?Bytes +({TOKEN}) [KMGT]?bits/sec +({TOKEN}) ms +"
    rf"({TOKEN})/ *({TOKEN}) \(({TOKEN})%\)"
)
_LATE = rf"{_STREAM}{_INTERVAL}({TOKEN}) datagrams received out-of-order$"
#: How long the server's figures may take to be printed after the client has ended, in seconds.
_REPORT_WITHIN = 5.0


@dataclass(frozen=True)
class Arrival:
    """What the server saw of all streams.

    Attributes:
        packets: packets that arrived, in packet/s.
        throughput: their payload, in bit/s.
        loss: share of the packets sent that did not arrive, in %.
        jitter: mean change of the time between packets (RFC 1889), in ms; of the worst stream.
        out_of_order: packets that came before an earlier one; ``None`` where no stream has a line of them, which
            iperf prints only for those that have any, in all versions.
    """

    packets: Quantity
    throughput: Quantity
    loss: Quantity
    jitter: Quantity
    out_of_order: Quantity | None


@dataclass(frozen=True)
class UdpResult:
    """What was sent, and what arrived.

    Attributes:
        sent: packets that the client sent, in packet/s, all streams together.
        datagrams: how many it sent.
        arrival: ``None`` where the client did not get the server's report of every stream, with any version.
    """

    sent: Quantity
    datagrams: int
    arrival: Arrival | None

    @property
    def packets(self) -> Quantity:
        """Packets that arrived, in packet/s.

        Raises:
            ValueError: the server's report was lost.
        """
        return self.arrived.packets

    @property
    def arrived(self) -> Arrival:
        """What arrived.

        Raises:
            ValueError: the server's report was lost.
        """
        if self.arrival is None:
            raise ValueError("the server's report was lost, so it is not known what arrived")
        return self.arrival


@dataclass(frozen=True)
class IperfUdp:
    """One test of UDP.

    Attributes:
        server: the address of the server.
        port: its port.
        rate: bit/s of payload that each stream is to send.
        time: seconds.
        streams: how many at once (``-P``).
        length: bytes of payload of one packet.

    Raises:
        ValueError: a parameter makes no sense; the text names it.
    """

    server: str
    port: int = 5001
    rate: int = 1_000_000_000
    time: int = 10
    streams: int = 1
    length: int = 1470

    tool: ClassVar[str] = "iperf"
    version_argv: ClassVar[Sequence[str]] = ("--version",)

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[0-9A-Za-z.:_%-]+", self.server) or self.server.startswith("-"):
            raise ValueError(f"server is {self.server!r}, not an address")
        for name, value, least, most in (
            ("port", self.port, 1, 65_535),
            ("rate", self.rate, 1000, 10**12),
            ("time", self.time, 1, 86_400),
            ("streams", self.streams, 1, 128),
            # A packet begins with a number and a time (Settings.hpp, UDP_datagram), in 2.1 of 16 bytes.
            ("length", self.length, 52, 65_507),
        ):
            if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
                raise ValueError(f"{name} is {value!r}, not a whole number from {least} to {most}")

    def argv(self, version: str) -> tuple[str, ...]:
        """The test as options.

        Raises:
            Unsupported: the version is older than 2.0.
        """
        match = re.match(r"([0-9]+)\.([0-9]+)", version)
        if match and (int(match[1]), int(match[2])) < _OLDEST:
            raise Unsupported("iperf before 2.0 prints other figures")
        return (
            *("-c", self.server, "-p", str(self.port), "-u"),
            # A whole number: what "1G" is, 10^9 or 2^30, differs between versions.
            *("-b", str(self.rate), "-t", str(self.time)),
            *("-P", str(self.streams), "-l", str(self.length)),
        )

    @property
    def timeout(self) -> float:
        """Seconds for the test three times over, and a minute: a server that is gone is asked ten times."""
        return 60.0 + 3 * self.time

    def parse(self, output: Output) -> UdpResult:
        """Read what the client printed.

        Raises:
            ParseError: a stream is missing or is there twice, or a figure makes no sense.
        """
        reader = Reader(self.tool, output)
        sent = {
            match[1]: reader.whole(match[2], "Sent", positive=True)
            for match in self._lines(reader, _SENT, "Sent")
        }
        times = {
            match[1]: reader.number(match[2], "the interval", positive=True)
            for match in self._lines(reader, _SENDING, "interval")
        }
        if len(sent) != self.streams or sent.keys() != times.keys():
            raise reader.error(f"it does not have what each of {self.streams} streams sent")
        for seconds in times.values():
            self._long_enough(reader, seconds)
        rate = sum(count / times[stream] for stream, count in sent.items())
        reports = len(re.findall(_ARRIVED, reader.text, re.MULTILINE | re.ASCII))
        arrival = self.parse_server(output) if reports >= self.streams else None
        return UdpResult(Quantity(rate, "packet/s"), sum(sent.values()), arrival)

    def parse_server(self, output: Output) -> Arrival:
        """Read the server's figures, in what a server printed for one test, or in what the client shows of it.

        Raises:
            ParseError: a stream is missing or is there twice, nothing arrived, or a figure makes no sense.
        """
        reader = Reader(self.tool, output)
        lines = self._lines(reader, _ARRIVED, "report")
        if len(lines) != self.streams:
            raise reader.error(
                f"it has the server's report of {len(lines)} of {self.streams} streams"
            )
        rate = total = missing = 0.0
        jitters = []
        for line in lines:
            seconds = reader.number(line[2], "the interval", positive=True)
            self._long_enough(reader, seconds)
            lost = reader.whole(line[6], "Lost")
            packets = reader.whole(line[7], "Total Datagrams", positive=True)
            share = reader.number(line[8], "the share of lost packets")
            if lost > packets or abs(lost / packets * 100 - share) > 0.05 * share + 0.6:
                raise reader.error(f"{lost} of {packets} packets are not {share:g} %")
            rate += (packets - lost) / seconds
            total, missing = total + packets, missing + lost
            jitters.append(reader.number(line[5], "Jitter"))
        if missing == total:
            raise reader.error(f"of {total:g} packets none arrived")
        late = [
            reader.number(line[3], "the packets out of order", positive=True)
            for line in self._lines(reader, _LATE, "line of packets out of order")
        ]
        return Arrival(
            packets=Quantity(rate, "packet/s", better="higher"),
            throughput=Quantity(rate * self.length * 8, "bit/s", better="higher"),
            loss=Quantity(missing / total * 100, "%", better="lower"),
            jitter=Quantity(max(jitters), "ms", better="lower"),
            out_of_order=Quantity(sum(late), "packet", better="lower") if late else None,
        )

    def _lines(self, reader: Reader, pattern: str, what: str) -> list[re.Match[str]]:
        """The lines of a pattern, one for each stream."""
        found = list(re.finditer(pattern, reader.text, re.MULTILINE | re.ASCII))
        if len({match[1] for match in found}) != len(found):
            raise reader.error(f"a stream has more than one {what}")
        return found

    def _long_enough(self, reader: Reader, seconds: float) -> None:
        if seconds < self.time / 2:
            raise reader.error(f"a stream lasted {seconds:g} s of {self.time} s")

    @classmethod
    def version_of(cls, output: Output) -> str:
        """``2.1.8`` of ``iperf version 2.1.8 (12 August 2022) pthreads``; 2.0.x says it on standard error."""
        text = "\n".join((output.stdout, output.stderr))
        reader = Reader(cls.tool, replace(output, stdout=text))
        return reader.need(r"^iperf version ([0-9]+\.[0-9]+\S*) .*$", "version")[1]


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
    ) -> UdpResult:
        """One test of UDP; ``rate`` is of each stream; the rest as of `IperfUdp`.

        Returns:
            What was sent, and what the server counted; ``arrival`` is there.

        Raises:
            Unavailable: a target does not have iperf, or there is no way between the two.
            ParseError: the server did not count every stream.
        """
        bits = round(Quantity.parse(rate).to("bit/s").value)
        with self.serve(to) as server:
            address = server.address_for(client)
            test = IperfUdp(address, server.port, bits, time, streams, length)
            result = self._bench.run(client, test)
            return replace(result, arrival=_counted(test, server))


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
