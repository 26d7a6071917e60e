"""iperf3: what a TCP connection or a stream of UDP packets transfers. Versions 3.1 to 3.x, by their JSON.

The client prints one JSON document at the end (``-J``); if it fails, with a key ``error``. The figures are what the
*receiver* got: the server sends them to the client over the control connection.

Formats (iperf_api.c, ``iperf_print_results``). TCP: ``end.sum_sent`` and ``end.sum_received`` in all versions, with
``retransmits`` if the sender's system counts them. UDP: only ``end.sum`` until 3.10, whose ``packets`` are those sent
and ``lost_packets`` those that the receiver missed; later versions keep it and add ``sum_sent`` and ``sum_received``.
3.12 and 3.13 print some fields twice if there are several streams (release notes of 3.14). Until 3.12 a receiver's
count of lost packets is not reset when the omitted seconds end, so that it has the losses of both.
"""

from __future__ import annotations

import contextlib
import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from pytest_vperf.quantity import Quantity, amount
from pytest_vperf.workloads.base import (
    Output,
    Reader,
    Unsupported,
    check_address,
    check_whole,
    release,
)
from pytest_vperf.workloads.network_server import Server, serving

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pytest_vperf.targets.base import Target
    from pytest_vperf.workloads.bench import Bench

__all__ = [
    "Client",
    "Iperf3",
    "Iperf3Tcp",
    "Iperf3Udp",
    "TcpResult",
    "UdpResult",
    "part_of",
]


_OLDEST = (3, 1)
#: The first version whose lost packets are only those of the counted seconds.
_OMITS = (3, 13)
#: Keys that 3.12 prints once for each stream into one object, which makes duplicates; they are not read.
_TWICE = re.compile(r'"(?:sock_bufsize|sndbuf_actual|rcvbuf_actual)":\s*[0-9]+,\s*')


@dataclass(frozen=True)
class Client:
    """The parameters of both tests.

    Attributes:
        server: the address of the server.
        port: its port.
        time: seconds that are counted.
        omit: seconds before, which are not counted: a connection finds its speed then.
        streams: connections at once; their figures are added up.

    Raises:
        ValueError: a parameter is invalid; the message names it.
    """

    server: str
    port: int = 5201
    time: int = 10
    omit: int = 0
    streams: int = 1

    tool: ClassVar[str] = "iperf3"
    version_argv: ClassVar[Sequence[str]] = ("--version",)

    def __post_init__(self) -> None:
        check_address("server", self.server)
        for name, value, least, most in (
            ("port", self.port, 1, 65_535),
            ("time", self.time, 1, 86_400),
            ("omit", self.omit, 0, 60),
            ("streams", self.streams, 1, 128),
        ):
            check_whole(name, value, least, most)

    def arguments(self, version: str) -> tuple[str, ...]:
        """The options of any test.

        Raises:
            Unsupported: the version is older than 3.1.
        """
        if release(version) < _OLDEST:
            raise Unsupported("iperf3 before 3.1 has no JSON that can be relied on")
        return (
            *("-c", self.server, "-p", str(self.port), "-J"),
            *("-t", str(self.time), "-P", str(self.streams)),
            *(("-O", str(self.omit)) if self.omit else ()),
        )

    @property
    def timeout(self) -> float:
        """Three times the seconds of the test, and a minute."""
        return 60.0 + 3 * (self.time + self.omit)

    def end(
        self, reader: Reader, protocol: str, *, reverse: bool = False
    ) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
        """The parts ``start.test_start`` and ``end`` of the document, after a check that it is of this test.

        Raises:
            ParseError: there is none, it is of another test, or has an error.
        """
        document = _document(reader)
        if "error" in document:
            raise reader.error(f"it failed: {str(document['error'])[:200]}")
        test = part_of(reader, part_of(reader, document, "start"), "test_start")
        end = part_of(reader, document, "end")
        if test.get("protocol") != protocol:
            raise reader.error(
                f"it is a test of {str(test.get('protocol'))[:20]}, not of {protocol}"
            )
        # 0 or 1; "bidir" exists since 3.7, and its sums are of only one direction.
        if bool(test.get("reverse")) != reverse or test.get("bidir"):
            raise reader.error("it is a test of another direction")
        omitted = test.get("omit", self.omit)
        if omitted != self.omit:
            raise reader.error(f"it omitted {str(omitted)[:20]} s, not {self.omit}")
        streams = end.get("streams")
        if not isinstance(streams, list) or len(streams) != self.streams:
            raise reader.error(f"it does not have the figures of {self.streams} streams")
        return test, end

    def seconds(self, reader: Reader, part: Mapping[str, Any], what: str) -> float:
        """The duration of a part of the test.

        Raises:
            ParseError: it is missing, or less than half of the time requested.
        """
        seconds = reader.json_number(part.get("seconds"), f"{what}'s seconds", positive=True)
        if seconds < self.time / 2:
            raise reader.error(f"{what} lasted {seconds:g} s of {self.time} s")
        return seconds

    @classmethod
    def version_of(cls, output: Output) -> str:
        """``3.12`` of ``iperf 3.12 (cJSON 1.7.15)``."""
        return Reader(cls.tool, output).need(r"^iperf ([0-9]+\.[0-9]\S*)(?: .*)?$", "version")[1]


def _document(reader: Reader) -> Mapping[str, Any]:
    """The JSON document; output before and after it is ignored."""
    start = reader.need(r'^\{\s*"start"', "JSON of iperf3").start()
    text = reader.text[start:]
    try:
        _, end = json.JSONDecoder().raw_decode(text)
    except (ValueError, RecursionError) as error:
        raise reader.error(f"its JSON cannot be read: {error or 'too deep'}") from None
    return reader.json_document(_TWICE.sub("", text[:end]))


def part_of(reader: Reader, parent: object, key: str) -> Mapping[str, Any]:
    """An object within an object.

    Raises:
        ParseError: there is none of that name.
    """
    found = parent.get(key) if isinstance(parent, dict) else None
    if not isinstance(found, dict):
        raise reader.error(f"there is no {key!r} in its JSON")
    return found


#: Tolerance between two figures for the same thing, which come from the same counters.
_TCP_ROUNDING = 0.01


@dataclass(frozen=True)
class TcpResult:
    """What TCP connections transferred.

    Attributes:
        throughput: payload received, in bit/s, over all connections.
        sent: payload that the sender passed to its system.
        retransmits: segments sent again; ``None`` if the sender's system does not count them.
    """

    throughput: Quantity
    sent: Quantity
    retransmits: Quantity | None


@dataclass(frozen=True)
class Iperf3Tcp(Client):
    """One test of TCP.

    Attributes:
        reverse: the server sends, the client receives.
    """

    reverse: bool = False

    def argv(self, version: str) -> tuple[str, ...]:
        """The test as options.

        Raises:
            Unsupported: the version is older than 3.1.
        """
        return (*self.arguments(version), *(("-R",) if self.reverse else ()))

    def parse(self, output: Output) -> TcpResult:
        """Read the JSON among whatever else was printed.

        Raises:
            ParseError: there is none, it is of another test, it has an error, or nothing arrived.
        """
        reader = Reader(self.tool, output)
        _, end = self.end(reader, "TCP", reverse=self.reverse)
        sent, received = (part_of(reader, end, name) for name in ("sum_sent", "sum_received"))
        retransmits = sent.get("retransmits")
        return TcpResult(
            throughput=self._rate(reader, received, "what was received"),
            sent=self._rate(reader, sent, "what was sent"),
            retransmits=None
            if retransmits is None
            else Quantity(
                reader.json_number(retransmits, "retransmits"),
                direction="lower",
                signed=True,
                discrete=True,
            ),
        )

    def _rate(self, reader: Reader, part: Mapping[str, Any], what: str) -> Quantity:
        seconds = self.seconds(reader, part, what)
        moved = reader.json_number(part.get("bytes"), f"the bytes of {what}", positive=True)
        said = reader.json_number(part.get("bits_per_second"), f"the rate of {what}", positive=True)
        if abs(moved * 8 / seconds - said) > _TCP_ROUNDING * said:
            raise reader.error(
                f"{what}: {moved:g} bytes in {seconds:g} s are not {said:g} bits per second"
            )
        return Quantity(said, "bit/s", direction="higher")


#: Tolerance between two figures for the same thing: a packet may arrive twice, or after the last count.
_ROUNDING = 0.01


@dataclass(frozen=True)
class UdpResult:
    """What a stream of UDP packets transferred.

    Attributes:
        packets: packets that arrived, in packet/s.
        throughput: their payload, in bit/s.
        sent: packets that were sent, in packet/s.
        loss: share of the packets sent that did not arrive, in %.
        jitter: mean change of the time between packets (RFC 1889), in ms.
        out_of_order: packets that overtook an earlier one; ``None`` in versions that do not print them.
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
        rate: bit/s of payload that each stream sends; 0 for as fast as it can.
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

    def _check_omit(self, version: str) -> None:
        if self.omit and release(version) < _OMITS:
            raise Unsupported(
                "iperf3 before 3.13 counts the packets lost in the omitted seconds as lost in the counted ones: use "
                "omit=0"
            )

    def argv(self, version: str) -> tuple[str, ...]:
        """The test as options.

        Raises:
            Unsupported: the version is older than 3.1; or than 3.13, and seconds are omitted.
        """
        self._check_omit(version)
        return (*self.arguments(version), "-u", "-b", str(self.rate), "-l", str(self.length))

    def parse(self, output: Output) -> UdpResult:
        """Read the JSON among whatever else was printed.

        Raises:
            ParseError: there is none, it is of another test, it has an error, or nothing arrived.
        """
        reader = Reader(self.tool, output)
        test, end = self.end(reader, "UDP")
        said = str(part_of(reader, _document(reader), "start").get("version"))
        try:
            self._check_omit(said.removeprefix("iperf "))
        except Unsupported as error:
            raise reader.error(str(error)) from None
        length = reader.json_number(test.get("blksize"), "blksize", positive=True)
        if length != self.length:
            raise reader.error(f"its packets have {length:g} bytes, not {self.length}")
        whole = part_of(reader, end, "sum")
        total = reader.json_number(whole.get("packets"), "packets", positive=True)
        for part in (whole, end.get("sum_sent", whole)):
            self._check_bytes(reader, part)
        lost = reader.json_number(whole.get("lost_packets"), "lost_packets")
        loss = reader.json_number(whole.get("lost_percent"), "lost_percent")
        if lost >= total:
            raise reader.error(f"of {total:g} packets {lost:g} were lost: none arrived")
        if abs(lost / total * 100 - loss) > 0.1:
            raise reader.error(f"{lost:g} lost packets of {total:g} are not {loss:g} %")
        overtook = _out_of_order(reader, end["streams"])
        arrived = self._arrived(reader, end, total - lost, overtook)
        receiver = end.get("sum_received", whole)
        seconds = self.seconds(reader, receiver, "the receiver")
        sending = self.seconds(reader, end.get("sum_sent", whole), "the sender")
        jitter = reader.json_number(whole.get("jitter_ms"), "jitter_ms")
        return UdpResult(
            packets=Quantity(arrived / seconds, "packet/s", direction="higher"),
            throughput=Quantity(arrived * length * 8 / seconds, "bit/s", direction="higher"),
            sent=Quantity(total / sending, "packet/s"),
            loss=Quantity(lost / total * 100, "%", direction="lower", signed=True, discrete=True),
            jitter=Quantity(jitter, "ms", direction="lower", signed=True),
            out_of_order=overtook,
        )

    def _check_bytes(self, reader: Reader, part: Mapping[str, Any]) -> None:
        """Refuse a sender's sum whose bytes are not its packets."""
        moved = reader.json_number(part.get("bytes"), "the bytes sent", positive=True)
        packets = reader.json_number(part.get("packets"), "packets", positive=True)
        if abs(moved / self.length - packets) > _ROUNDING * packets + 2:
            raise reader.error(
                f"{moved:g} bytes sent are not {packets:g} packets of {self.length} bytes"
            )

    def _arrived(
        self, reader: Reader, end: Mapping[str, Any], expected: float, overtook: Quantity | None
    ) -> float:
        """Packets that the receiver counted; until 3.10 only known as those sent minus those lost.

        A packet still in flight when the test ends is in neither figure: the loss is counted by gaps between packet
        numbers.
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
        # A packet that was overtaken counts as lost until it comes; not every version takes that back.
        late = 0 if overtook is None else overtook.value
        excess = moved / self.length - (seen - lost)
        if not -(_ROUNDING * seen + 2) <= excess <= _ROUNDING * seen + 2 + late:
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
    return Quantity(
        reader.checked(total, "out_of_order"),
        "packet",
        direction="lower",
        signed=True,
        discrete=True,
    )


class Iperf3:
    """iperf3 for tests: ``iperf3.tcp(container, to=other_host, time=5).throughput``.

    ``to`` is a target, where a server is started for the one test and ended with it; or a running server:
    ``with iperf3.serve(other_host) as server: iperf3.tcp(container, to=server)``. Both ends are on the run's network.

    Args:
        bench: runs it.
    """

    def __init__(self, bench: Bench) -> None:
        self._bench = bench

    @contextlib.contextmanager
    def serve(self, target: Target) -> Iterator[Server]:
        """Run a server in a target during the block; it is ready when the block begins.

        Raises:
            Unavailable: the target does not have iperf3.
            CannotStart: the server does not start.
        """
        program = target.program("iperf3")
        self._bench.version(target, program, Iperf3Tcp("localhost"))
        # Bound to the address on the run's network, so that it cannot be reached from elsewhere.
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
        """One test of TCP; parameters as for `Iperf3Tcp`.

        Raises:
            Unavailable: a target does not have iperf3, or the two cannot reach each other.
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
        """One test of UDP; ``rate`` is per stream, e.g. ``100 Mbit/s``; the rest as for `Iperf3Udp`.

        Raises:
            Unavailable: a target does not have iperf3, or the two cannot reach each other.
        """
        bits = round(amount("rate", rate, "bit/s", such_as="100 Mbit/s"))
        with self._server(to) as server:
            address = server.address_for(client)
            test = Iperf3Udp(address, server.port, time, omit, streams, bits, length)
            return self._bench.run(client, test)

    def _server(self, to: Target | Server) -> contextlib.AbstractContextManager[Server]:
        return contextlib.nullcontext(to) if isinstance(to, Server) else self.serve(to)
