"""iperf3's test of TCP.

Formats (iperf_api.c, ``iperf_print_results``): ``end.sum_sent`` and ``end.sum_received`` in all versions;
``retransmits`` is there where the sender's system counts them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pytest_vperf.quantity import Quantity
from pytest_vperf.workloads.figures import Reader
from pytest_vperf.workloads.iperf3.client import Client, part_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_vperf.workloads.base import Output

#: How far two figures for the same thing may differ: they are printed from the same counters.
_ROUNDING = 0.01


@dataclass(frozen=True)
class TcpResult:
    """What TCP connections moved.

    Attributes:
        throughput: payload that the receiver got, in bit/s, of all connections.
        sent: payload that the sender handed to its system.
        retransmits: segments that were sent again; ``None`` where the sender's system does not count them.
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
            else Quantity(reader.json_number(retransmits, "retransmits"), "", better="lower"),
        )

    def _rate(self, reader: Reader, part: Mapping[str, Any], what: str) -> Quantity:
        seconds = self.seconds(reader, part, what)
        moved = reader.json_number(part.get("bytes"), f"the bytes of {what}", positive=True)
        said = reader.json_number(part.get("bits_per_second"), f"the rate of {what}", positive=True)
        if abs(moved * 8 / seconds - said) > _ROUNDING * said:
            raise reader.error(
                f"{what}: {moved:g} bytes in {seconds:g} s are not {said:g} bits per second"
            )
        return Quantity(said, "bit/s", better="higher")
