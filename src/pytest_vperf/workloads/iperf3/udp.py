"""iperf3's test of UDP.

Formats (iperf_api.c, ``iperf_print_results``): ``end.sum`` alone until 3.10, whose ``packets`` are those sent, and
``lost_packets`` those that the receiver missed; later versions keep it and add ``sum_sent`` and ``sum_received``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pytest_vperf.quantity import Quantity
from pytest_vperf.workloads.figures import Reader
from pytest_vperf.workloads.iperf3.client import Client, part_of
from pytest_vperf.workloads.parameters import check_whole

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pytest_vperf.workloads.base import Output

#: How far two figures for the same thing may differ: a packet may come twice, or after the last count.
_ROUNDING = 0.01


@dataclass(frozen=True)
class UdpResult:
    """What a stream of UDP packets came to.

    Attributes:
        packets: packets that arrived, in packet/s.
        throughput: their payload, in bit/s.
        sent: packets that were sent, in packet/s.
        loss: share of the packets sent that did not arrive, in %.
        jitter: mean change of the time between packets (RFC 1889), in ms.
        out_of_order: packets that came before an earlier one; ``None`` in versions that do not print them.
    """

    packets: Quantity
    throughput: Quantity
    sent: Quantity
    loss: Quantity
    jitter: Quantity
    out_of_order: Quantity | None


@dataclass(frozen=True)
class Iperf3Udp(Client):
    """One test of UDP.

    Attributes:
        rate: bit/s of payload that each stream sends; 0 is as fast as it can.
        length: bytes of payload of one packet.
    """

    rate: int = 1_000_000
    length: int = 1448

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, value, least, most in (
            ("rate", self.rate, 0, 10**12),
            ("length", self.length, 16, 65_507),
        ):
            check_whole(name, value, least, most)

    def argv(self, version: str) -> tuple[str, ...]:
        """The test as options.

        Raises:
            Unsupported: the version is older than 3.1.
        """
        return (*self.arguments(version), "-u", "-b", str(self.rate), "-l", str(self.length))

    def parse(self, output: Output) -> UdpResult:
        """Read the JSON among whatever else was printed.

        Raises:
            ParseError: there is none, it is of another test, it has an error, or nothing arrived.
        """
        reader = Reader(self.tool, output)
        test, end = self.end(reader, "UDP")
        length = reader.json_number(test.get("blksize"), "blksize", positive=True)
        if length != self.length:
            raise reader.error(f"its packets have {length:g} bytes, not {self.length}")
        whole = part_of(reader, end, "sum")
        total = reader.json_number(whole.get("packets"), "packets", positive=True)
        lost = reader.json_number(whole.get("lost_packets"), "lost_packets")
        loss = reader.json_number(whole.get("lost_percent"), "lost_percent")
        if lost >= total:
            raise reader.error(f"of {total:g} packets {lost:g} were lost: none arrived")
        if abs(lost / total * 100 - loss) > 0.1:
            raise reader.error(f"{lost:g} lost packets of {total:g} are not {loss:g} %")
        arrived = self._arrived(reader, end, total - lost)
        receiver = end.get("sum_received", whole)
        seconds = self.seconds(reader, receiver, "the receiver")
        sending = self.seconds(reader, end.get("sum_sent", whole), "the sender")
        jitter = reader.json_number(whole.get("jitter_ms"), "jitter_ms")
        return UdpResult(
            packets=Quantity(arrived / seconds, "packet/s", better="higher"),
            throughput=Quantity(arrived * length * 8 / seconds, "bit/s", better="higher"),
            sent=Quantity(total / sending, "packet/s"),
            loss=Quantity(lost / total * 100, "%", better="lower"),
            jitter=Quantity(jitter, "ms", better="lower"),
            out_of_order=_out_of_order(reader, end["streams"]),
        )

    def _arrived(self, reader: Reader, end: Mapping[str, Any], expected: float) -> float:
        """Packets that the receiver counted; until 3.10 known only as those sent without those lost.

        A packet that is still on its way when the test ends is in neither figure: the loss is by numbers that are
        missing between others.
        """
        if "sum_received" not in end:
            return expected
        part = part_of(reader, end, "sum_received")
        moved = reader.json_number(part.get("bytes"), "the bytes received", positive=True)
        lost = reader.json_number(part.get("lost_packets"), "lost_packets of the receiver")
        seen = reader.json_number(part.get("packets"), "packets of the receiver", positive=True)
        if lost >= seen:
            raise reader.error(
                f"of {seen:g} packets of the receiver {lost:g} were lost: none arrived"
            )
        if seen - lost - moved / self.length > _ROUNDING * seen + 2:
            raise reader.error(
                f"the receiver's {moved:g} bytes are not {seen:g} packets of {self.length} without {lost:g} lost ones"
            )
        return seen - lost


def _out_of_order(reader: Reader, streams: Sequence[Any]) -> Quantity | None:
    counts = []
    for stream in streams:
        part = stream.get("udp") if isinstance(stream, dict) else None
        if not isinstance(part, dict):
            raise reader.error("a stream has no figures of UDP")
        counts.append(part.get("out_of_order"))
    if None in counts:
        return None
    total = sum(reader.json_number(count, "out_of_order") for count in counts)
    return Quantity(reader.checked(total, "out_of_order"), "packet", better="lower")
