"""What every test of iperf3's client has in common: its parameters, and the one JSON document it prints (``-J``).

It prints it at the end, also when it fails: then with a key ``error``. 3.12 and 3.13 print some fields twice where
there are several streams (release notes of 3.14).
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from pytest_vperf.workloads.base import Output, Unsupported
from pytest_vperf.workloads.figures import Reader
from pytest_vperf.workloads.parameters import check_address, check_whole, release

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_OLDEST = (3, 1)
#: What 3.12 prints once for each stream into one object, whose keys would not be unique; none of it is read.
_TWICE = re.compile(r'"(?:sock_bufsize|sndbuf_actual|rcvbuf_actual)":\s*[0-9]+,\s*')


@dataclass(frozen=True)
class Client:
    """What both tests have in common.

    Attributes:
        server: the address of the server.
        port: its port.
        time: seconds that are counted.
        omit: seconds before, which are not counted: a connection finds its speed then.
        streams: connections at once; their figures are added up.

    Raises:
        ValueError: a parameter makes no sense; the text names it.
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
        """Seconds for the test three times over, and a minute."""
        return 60.0 + 3 * (self.time + self.omit)

    def end(
        self, reader: Reader, protocol: str, *, reverse: bool = False
    ) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
        """The parts ``start.test_start`` and ``end`` of the document, which is of this test.

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
        # 0 or 1; "bidir" is there since 3.7, and its sums are of one direction of two.
        if bool(test.get("reverse")) != reverse or test.get("bidir"):
            raise reader.error("it is a test of another direction")
        streams = end.get("streams")
        if not isinstance(streams, list) or len(streams) != self.streams:
            raise reader.error(f"it does not have the figures of {self.streams} streams")
        return test, end

    def seconds(self, reader: Reader, part: Mapping[str, Any], what: str) -> float:
        """How long a part of the test lasted.

        Raises:
            ParseError: it is not there, or less than half of the time asked for.
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
    """The JSON document; what is printed before and after it is passed over."""
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
