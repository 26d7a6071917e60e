"""What iperf's client and server print of a test of UDP.

Formats (ReportDefault.c and Locale.c of 2.0.x, Reporter output of 2.1.x): ``[  3] Sent 893 datagrams``; the server's
lines ``[  3]  0.0-10.0 sec  1.25 MBytes  1.05 Mbits/sec   0.013 ms    0/  893 (0%)``, in 2.1 with four decimals of
the interval; late packets in a line of their own (``1 datagrams received out-of-order``). ``-P`` adds ``[SUM]``
lines, of which those with ``Sent`` are ``[SUM-2]`` in 2.1; they are passed over, since the streams' own lines say
more. 2.1 prints a header line between a report's title and its figures. ``-e`` adds writes, errors and packets per
second to the client's line, and more behind the server's.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from pytest_vperf.quantity import Quantity
from pytest_vperf.workloads.figures import TOKEN, Reader

_STREAM = r"^\[ *([0-9]+)\] "
_INTERVAL = rf" *0[.,]0+ *- *({TOKEN}) sec +"
_SENT = rf"{_STREAM}Sent ({TOKEN}) datagrams$"
#: Since 2.2 time-outs stand behind writes and errors.
_ENHANCED = r"(?: +[0-9]+/[0-9]+(?:/[0-9]+)? +[0-9]+ pps.*)?"
_SENDING = rf"{_STREAM}{_INTERVAL}({TOKEN}) [KMGT]?Bytes +({TOKEN}) ([KMGT]?)bits/sec{_ENHANCED} *$"
_ARRIVED = (
    rf"{_STREAM}{_INTERVAL}({TOKEN}) [KMGT]?Bytes +({TOKEN}) ([KMGT]?)bits/sec +({TOKEN}) ms +"
    rf"({TOKEN})/ *({TOKEN}) \(({TOKEN})%\)"
)
#: Only the client's: a server says how much it would take.
_LENGTH = rf"^Sending ({TOKEN}) byte datagrams"
_LATE = rf"{_STREAM}{_INTERVAL}({TOKEN}) datagrams received out-of-order$"

_PREFIXES = {"": 1.0, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
#: How far the rate that is printed, in three digits and maybe by 1024, may be from that of the packets.
_ROUNDING = 0.1
#: A report that lasts no more than this share of its stream's longest is of an interval: half of a test of 2 s with a
#: report every second, three quarters of one of 4 s with a report every 3 s.
_PART = 0.75


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
class Report:
    """What was printed of one test.

    Attributes:
        reader: of the text.
        time: seconds that the test was to last.
        streams: how many it has.
        length: bytes of payload of one packet.
    """

    reader: Reader
    time: int
    streams: int
    length: int

    def client(self) -> UdpResult:
        """What was sent, and what arrived if that is there, in what a client printed.

        Raises:
            ParseError: a stream is missing or is there twice, or a figure makes no sense.
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
            # 2.0 is known to say "Sent 2 datagrams" of hundreds, on a Raspberry Pi.
            self._check_rate(line, sent[stream], times[stream])
        rate = sum(count / times[stream] for stream, count in sent.items())
        reports = len(self._found(_ARRIVED))
        arrival = self.server() if reports >= self.streams else None
        return UdpResult(Quantity(rate, "packet/s"), sum(sent.values()), arrival)

    def server(self) -> Arrival:
        """The server's figures, in what a server printed for one test, or in what the client shows of it.

        Raises:
            ParseError: a stream is missing or is there twice, nothing arrived, or a figure makes no sense.
        """
        reader = self.reader
        lines = self._lines(_ARRIVED, "report")
        # A last packet that is sent again, since the answer to it was lost, may begin another "stream" of an instant.
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
            packets=Quantity(rate, "packet/s", better="higher"),
            throughput=Quantity(rate * self.length * 8, "bit/s", better="higher"),
            loss=Quantity(missing / total * 100, "%", better="lower"),
            jitter=Quantity(max(jitters), "ms", better="lower"),
            out_of_order=Quantity(sum(late), "packet", better="lower") if late else None,
        )

    def _found(self, pattern: str) -> list[re.Match[str]]:
        return list(re.finditer(pattern, self.reader.text, re.MULTILINE | re.ASCII))

    def _lines(self, pattern: str, what: str) -> list[re.Match[str]]:
        """The lines of a pattern, one for each stream: of the whole test, where reports of intervals precede it."""
        lasted: dict[str, list[tuple[float, re.Match[str]]]] = {}
        for match in self._found(pattern):
            seconds = self.reader.number(match[2], "the interval", positive=True)
            lasted.setdefault(match[1], []).append((seconds, match))
        # Two that last about as long as each other are of two tests: neither is a part of the other.
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
        # A last packet may be in one of the counts only.
        if abs(moved - said * seconds) > _ROUNDING * moved + 2 * self.length * 8:
            raise self.reader.error(
                f"{packets} packets of {self.length} bytes in {seconds:g} s are not {said:g} bits per second"
            )

    def _long_enough(self, seconds: float) -> None:
        if seconds < self.time / 2:
            raise self.reader.error(f"a stream lasted {seconds:g} s of {self.time} s")
