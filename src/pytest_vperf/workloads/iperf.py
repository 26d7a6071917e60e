"""iperf 2: how many UDP packets arrive per second.

Versions 2.0.4 to 2.1.x, by their text output. The client prints what it sent and, for each stream, the server's
report of what arrived; that report is itself one UDP packet and may be lost, so `Iperf.udp` reads those figures from
the server's own output.

Formats (ReportDefault.c and Locale.c of 2.0.x, Reporter output of 2.1.x): ``[ 3] Sent 893 datagrams``; the server's
lines ``[ 3] 0.0-10.0 sec 1.25 MBytes 1.05 Mbits/sec 0.013 ms 0/ 893 (0%)``, in 2.1 with four decimals of the
interval; late packets in a line of their own (``1 datagrams received out-of-order``). ``-P`` adds ``[SUM]`` lines, of
which those with ``Sent`` are ``[SUM-2]`` in 2.1; they are ignored, since the streams' own lines say more. 2.1 prints
a header line between a report's title and its figures. ``-e`` adds writes, errors and packets per second to the
client's line, and more after the server's.
"""

from __future__ import annotations

import contextlib
import re
import time as clock
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from pytest_vperf.quantity import Quantity, amount
from pytest_vperf.results.record import Load
from pytest_vperf.workloads.base import (
    WORD,
    Output,
    ParseError,
    Reader,
    Unsupported,
    check_address,
    check_whole,
    release,
)
from pytest_vperf.workloads.network_server import Server, serving
from pytest_vperf.workloads.processors import Watch

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from contextlib import AbstractContextManager

    from pytest_vperf.targets.base import Target
    from pytest_vperf.workloads.bench import Bench
    from pytest_vperf.workloads.processors import Who

__all__ = [
    "Arrival",
    "Iperf",
    "IperfUdp",
    "Report",
    "UdpResult",
]


_STREAM = r"^\[ *([0-9]+)\] "
_INTERVAL = rf" *0[.,]0+ *- *({WORD}) sec +"
_SENT = rf"{_STREAM}Sent ({WORD}) datagrams$"
#: Since 2.2 time-outs follow writes and errors.
_ENHANCED = r"(?: +[0-9]+/[0-9]+(?:/[0-9]+)? +[0-9]+ pps.*)?"
_SENDING = rf"{_STREAM}{_INTERVAL}({WORD}) [KMGT]?Bytes +({WORD}) ([KMGT]?)bits/sec{_ENHANCED} *$"
_ARRIVED = (
    rf"{_STREAM}{_INTERVAL}({WORD}) [KMGT]?Bytes +({WORD}) ([KMGT]?)bits/sec +({WORD}) ms +"
    rf"({WORD})/ *({WORD}) \(({WORD})%\)"
)
#: Only the client's: a server prints how much it would accept.
_LENGTH = rf"^Sending ({WORD}) byte datagrams"
_LATE = rf"{_STREAM}{_INTERVAL}({WORD}) datagrams received out-of-order$"

_PREFIXES = {"": 1.0, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
#: Tolerance between the printed rate, which has three digits and may be in steps of 1024, and that of the packets.
_ROUNDING = 0.1
#: A report is of an interval if it covers at most this share of its stream's longest: half for a test of 2 s with a
#: report every second, three quarters for one of 4 s with a report every 3 s.
_PART = 0.75


@dataclass(frozen=True)
class Arrival:
    """What the server received, over all streams.

    Attributes:
        packets: packets that arrived, in packet/s.
        throughput: their payload, in bit/s.
        loss: share of the packets sent that did not arrive, in %.
        jitter: mean change of the time between packets (RFC 1889), in ms; of the worst stream.
        out_of_order: packets that overtook an earlier one; ``None`` if no stream has a line about them, which all
            versions only print if there are any.
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
        arrival: ``None`` if the client did not get the server's report of every stream, with any version.
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
class Report:
    """The output of one test.

    Attributes:
        reader: for the text.
        time: requested seconds.
        streams: their number.
        length: bytes of payload of one packet.
    """

    reader: Reader
    time: int
    streams: int
    length: int

    def client(self) -> UdpResult:
        """What was sent and, if reported, what arrived, from a client's output.

        Raises:
            ParseError: a stream is missing or occurs twice, or a figure is invalid.
        """
        reader = self.reader
        length = reader.find(_LENGTH, "length of packets")
        if length and reader.whole(length[1], "the length of packets") != self.length:
            raise reader.error(f"its packets have {length[1]} bytes, not {self.length}")
        sent = {
            match[1]: reader.whole(match[2], "Sent", positive=True)
            for match in self._one_each(self._found(_SENT), "Sent")
        }
        lines = {match[1]: match for match in self._lines(_SENDING, "interval")}
        if len(sent) != self.streams or sent.keys() != lines.keys():
            raise reader.error(f"it does not have what each of {self.streams} streams sent")
        times = {}
        for stream, line in lines.items():
            times[stream] = reader.number(line[2], "the interval", positive=True)
            self._long_enough(times[stream])
            # 2.0 is known to print "Sent 2 datagrams" for hundreds, on a Raspberry Pi.
            self._check_rate(line, sent[stream], times[stream])
        rate = sum(count / times[stream] for stream, count in sent.items())
        reports = len(self._found(_ARRIVED))
        arrival = self.server() if reports >= self.streams else None
        return UdpResult(Quantity(rate, "packet/s"), sum(sent.values()), arrival)

    def server(self) -> Arrival:
        """The server's figures, from a server's output for one test, or from the client's copy of it.

        Raises:
            ParseError: a stream is missing or occurs twice, nothing arrived, or a figure is invalid.
        """
        reader = self.reader
        lines = self._lines(_ARRIVED, "report")
        # If the answer to the last packet is lost, it is sent again, which may begin another, very short "stream".
        whole = [line for line in lines if reader.number(line[2], "the interval") >= self.time / 2]
        if len(whole) == self.streams:
            lines = whole
        if len(lines) != self.streams:
            raise reader.error(
                f"it has the server's report of {len(lines)} of {self.streams} streams"
            )
        rate = total = missing = 0.0
        jitters = []
        for line in lines:
            seconds = reader.number(line[2], "the interval", positive=True)
            self._long_enough(seconds)
            lost = reader.whole(line[7], "Lost")
            packets = reader.whole(line[8], "Total Datagrams", positive=True)
            share = reader.number(line[9], "the share of lost packets")
            if lost > packets or abs(lost / packets * 100 - share) > 0.05 * share + 0.6:
                raise reader.error(f"{lost} of {packets} packets are not {share:g} %")
            rate += (packets - lost) / seconds
            total, missing = total + packets, missing + lost
            jitters.append(reader.number(line[6], "Jitter"))
            self._check_rate(line, packets - lost, seconds)
        if missing == total:
            raise reader.error(f"of {total:g} packets none arrived")
        late = [
            reader.number(line[3], "the packets out of order", positive=True)
            for line in self._lines(_LATE, "line of packets out of order")
        ]
        return Arrival(
            packets=Quantity(rate, "packet/s", direction="higher"),
            throughput=Quantity(rate * self.length * 8, "bit/s", direction="higher"),
            loss=Quantity(
                missing / total * 100, "%", direction="lower", signed=True, discrete=True
            ),
            jitter=Quantity(max(jitters), "ms", direction="lower", signed=True),
            out_of_order=Quantity(
                sum(late), "packet", direction="lower", signed=True, discrete=True
            )
            if late
            else None,
        )

    def _found(self, pattern: str) -> list[re.Match[str]]:
        return list(re.finditer(pattern, self.reader.text, re.MULTILINE | re.ASCII))

    def _lines(self, pattern: str, what: str) -> list[re.Match[str]]:
        """The lines of a pattern, one for each stream, without reports of intervals."""
        lasted: dict[str, list[tuple[float, re.Match[str]]]] = {}
        for match in self._found(pattern):
            seconds = self.reader.number(match[2], "the interval", positive=True)
            lasted.setdefault(match[1], []).append((seconds, match))
        # Two of about the same duration are from two tests: neither is part of the other.
        kept = [
            match
            for lines in lasted.values()
            for seconds, match in lines
            if seconds > _PART * max(longest for longest, _ in lines)
        ]
        return self._one_each(kept, what)

    def _one_each(self, found: list[re.Match[str]], what: str) -> list[re.Match[str]]:
        if len({match[1] for match in found}) != len(found):
            raise self.reader.error(f"a stream has more than one {what}")
        return found

    def _check_rate(self, line: re.Match[str], packets: int, seconds: float) -> None:
        said = self.reader.number(line[4], "the bandwidth") * _PREFIXES[line[5]]
        moved = packets * self.length * 8
        # The last packet may be in only one of the counts.
        if abs(moved - said * seconds) > _ROUNDING * moved + 2 * self.length * 8:
            raise self.reader.error(
                f"{packets} packets of {self.length} bytes in {seconds:g} s are not {said:g} bits per second"
            )

    def _long_enough(self, seconds: float) -> None:
        if seconds < self.time / 2:
            raise self.reader.error(f"a stream lasted {seconds:g} s of {self.time} s")


_OLDEST = (2, 0)


@dataclass(frozen=True)
class IperfUdp:
    """One test of UDP.

    Attributes:
        server: the address of the server.
        port: its port.
        rate: bit/s of payload for each stream to send.
        time: seconds.
        streams: how many at once (``-P``).
        length: bytes of payload of one packet.

    Raises:
        ValueError: a parameter is invalid; the message names it.
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
        check_address("server", self.server)
        for name, value, least, most in (
            ("port", self.port, 1, 65_535),
            ("rate", self.rate, 1000, 10**12),
            ("time", self.time, 1, 86_400),
            ("streams", self.streams, 1, 128),
            # A packet begins with a number and a time (Settings.hpp, UDP_datagram), in 2.1 of 16 bytes.
            ("length", self.length, 52, 65_507),
        ):
            check_whole(name, value, least, most)

    def argv(self, version: str) -> tuple[str, ...]:
        """The test as options.

        Raises:
            Unsupported: the version is older than 2.0.
        """
        if release(version) < _OLDEST:
            raise Unsupported("iperf before 2.0 prints other figures")
        return (
            *("-c", self.server, "-p", str(self.port), "-u"),
            # A whole number: "1G" is 10^9 or 2^30, depending on the version.
            *("-b", str(self.rate), "-t", str(self.time)),
            *("-P", str(self.streams), "-l", str(self.length)),
        )

    @property
    def timeout(self) -> float:
        """Three times the seconds of the test, and a minute, since a server that is gone is asked ten times."""
        return 60.0 + 3 * self.time

    def parse(self, output: Output) -> UdpResult:
        """Read the client's output.

        Raises:
            ParseError: a stream is missing or occurs twice, or a figure is invalid.
        """
        return self._report(output).client()

    def parse_server(self, output: Output) -> Arrival:
        """Read the server's figures, from a server's output for one test, or from the client's copy of it.

        Raises:
            ParseError: a stream is missing or occurs twice, nothing arrived, or a figure is invalid.
        """
        return self._report(output).server()

    def _report(self, output: Output) -> Report:
        return Report(Reader(self.tool, output), self.time, self.streams, self.length)

    @classmethod
    def version_of(cls, output: Output) -> str:
        """``2.1.8`` of ``iperf version 2.1.8 (12 August 2022) pthreads``; 2.0.x prints it to standard error."""
        text = "\n".join((output.stdout, output.stderr))
        reader = Reader(cls.tool, replace(output, stdout=text))
        return reader.need(r"^iperf version ([0-9]+\.[0-9]+\S*) .*$", "version")[1]


#: Seconds for the server to print its figures after the client has ended.
_REPORT_WITHIN = 5.0


class Iperf:
    """iperf 2 for tests: ``iperf.udp(host, to=container, rate="1 Gbit/s", streams=2).packets``.

    The server is started for the one test and ended with it, because its output is read: unlike its report to the
    client, that cannot be lost. Both ends are on the run's network.

    Args:
        bench: runs it.
    """

    def __init__(self, bench: Bench) -> None:
        self._bench = bench

    @contextlib.contextmanager
    def serve(self, target: Target) -> Iterator[Server]:
        """Run a server in a target during the block; it is ready when the block begins.

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
        """One test of UDP; ``rate`` is per stream; the rest as for `IperfUdp`.

        ``during`` is entered once the server is ready, and left when the client has ended.

        Returns:
            What was sent, and what the server counted; never without ``arrival``.

        Raises:
            Unavailable: a target does not have iperf, or the two cannot reach each other.
            ParseError: the server did not count every stream.
        """
        bits = round(amount("rate", rate, "bit/s", such_as="100 Mbit/s"))
        self._bench.check_clock(client)  # slow, but only once
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
        """A load of UDP packets: the rates requested, sent and received, and which threads were busy meanwhile.

        Args:
            client: the sender.
            to: the receiver.
            rate: of payload, per stream.
            time: seconds.
            streams: how many.
            length: bytes of payload of one packet.
            on: the host whose processors are watched, in the middle of that time; ``None`` for no watching.
            who: the threads to look for there.

        Raises:
            the errors of `udp`.
            TargetError: a thread to look for is missing.
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
    """The server's figures for a test that has just ended; waits for the server to print them."""
    deadline = clock.monotonic() + _REPORT_WITHIN
    while True:
        printed = Output(server.said().decode("utf-8", "replace"))
        try:
            return test.parse_server(printed)
        except ParseError:
            if clock.monotonic() > deadline:
                raise
            clock.sleep(0.1)
