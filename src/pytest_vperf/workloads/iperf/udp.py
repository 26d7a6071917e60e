"""iperf's test of UDP: its parameters, and its command line."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from pytest_vperf.workloads.base import Output, Unsupported
from pytest_vperf.workloads.figures import Reader
from pytest_vperf.workloads.iperf.report import Arrival, Report, UdpResult
from pytest_vperf.workloads.parameters import check_address, check_whole, release

if TYPE_CHECKING:
    from collections.abc import Sequence

_OLDEST = (2, 0)


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
        return self._report(output).client()

    def parse_server(self, output: Output) -> Arrival:
        """Read the server's figures, in what a server printed for one test, or in what the client shows of it.

        Raises:
            ParseError: a stream is missing or is there twice, nothing arrived, or a figure makes no sense.
        """
        return self._report(output).server()

    def _report(self, output: Output) -> Report:
        return Report(Reader(self.tool, output), self.time, self.streams, self.length)

    @classmethod
    def version_of(cls, output: Output) -> str:
        """``2.1.8`` of ``iperf version 2.1.8 (12 August 2022) pthreads``; 2.0.x says it on standard error."""
        text = "\n".join((output.stdout, output.stderr))
        reader = Reader(cls.tool, replace(output, stdout=text))
        return reader.need(r"^iperf version ([0-9]+\.[0-9]+\S*) .*$", "version")[1]
