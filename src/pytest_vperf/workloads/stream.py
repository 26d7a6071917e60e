"""STREAM: memory bandwidth by J. D. McCalpin's four kernels.

IEEE TCCA Newsletter, December 1995: copy ``c = a``, scale ``b = s c``, add ``c = a + b``, triad ``a = b + s c``, on
arrays far larger than the caches (four times the last one, by the rules of www.cs.virginia.edu/stream/ref.html).
Bytes are those that the program reads and writes: 16 an element for copy and scale, 24 for add and triad. A MB is
10^6 bytes in all implementations (McCalpin's stream.c: ``1.0E-06 * bytes/mintime``; lmbench's lib_timing.c, ``mb``).

All report the best repetition: McCalpin's and ours but the first, lmbench's the shortest time (``save_minimum``).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from pytest_vperf.workloads import own_program
from pytest_vperf.workloads.base import TOKEN, Output, ParseError, Reader, Unsupported, check_whole

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pytest_vperf.quantity import Quantity
    from pytest_vperf.targets.base import Target
    from pytest_vperf.workloads.bench import Bench

KERNELS = ("copy", "scale", "add", "triad")

#: What an emulated machine moves at least, in MB/s.
_SLOWEST = 50.0


@dataclass(frozen=True)
class StreamResult:
    """What a run measured, in MB/s of 10^6 bytes.

    Attributes:
        implementation: ``vperf-stream 1.0``, ``mccalpin 5.10`` or ``lmbench``.
        copy: bandwidth of the kernel.
        scale: likewise.
        add: likewise.
        triad: likewise.
    """

    implementation: str
    copy: Quantity
    scale: Quantity
    add: Quantity
    triad: Quantity


def _result(reader: Reader, implementation: str, text: Callable[[str], str]) -> StreamResult:
    copy, scale, add, triad = (
        reader.quantity(text(kernel), f"the bandwidth of {kernel}", "MB/s", "higher", positive=True)
        for kernel in KERNELS
    )
    return StreamResult(implementation, copy, scale, add, triad)


def _check(elements: int, repetitions: int, most: int) -> None:
    for name, value, least in (("elements", elements, 1000), ("repetitions", repetitions, 2)):
        check_whole(name, value, least)
    if repetitions > most:
        raise ValueError(f"repetitions is {repetitions}, more than {most}")


@dataclass(frozen=True)
class VperfStream:
    """The program of ours.

    Attributes:
        elements: of each of the three arrays, 8 bytes each: 240 MB by default, as in McCalpin's program.
        repetitions: the first does not count.
        statistic: ``best`` of the repetitions, as the others, or their ``median``.
        grouped: all repetitions of a kernel before the next one, as lmbench has it, instead of in turn, as McCalpin.
    """

    tool: ClassVar[str] = "vperf-stream"
    version_argv: ClassVar[Sequence[str]] = ("--version",)

    elements: int = 10_000_000
    repetitions: int = 10
    statistic: Literal["best", "median"] = "best"
    grouped: bool = False

    def __post_init__(self) -> None:
        _check(self.elements, self.repetitions, 200)
        if self.statistic not in ("best", "median"):
            raise ValueError(f"statistic is {self.statistic!r}, not best or median")

    def argv(self, version: str) -> tuple[str, ...]:
        """See `Workload.argv`."""
        grouped = ("--grouped=1",) if self.grouped else ()
        return (f"--elements={self.elements}", f"--repetitions={self.repetitions}", *grouped)

    @property
    def timeout(self) -> float:
        """See `Workload.timeout`."""
        return 60.0 + 80 * self.elements * self.repetitions / 1e6 / _SLOWEST

    def parse(self, output: Output) -> StreamResult:
        """Read what a run printed; see `Workload.parse`."""
        reader = Reader(self.tool, output)
        name = own_program.implementation(reader)
        for label, wanted in (("elements", self.elements), ("repetitions", self.repetitions)):
            if own_program.figure(reader, label) != wanted:
                raise reader.error(f"its {label} are not the {wanted} asked for")
        if bool(reader.find(r"^grouped: 1$", "order")) != self.grouped:
            raise reader.error("its kernels were not in the order asked for")

        def text(kernel: str) -> str:
            match = reader.need(
                rf"^{kernel}: ({TOKEN}) MB/s best, ({TOKEN}) MB/s median, ({TOKEN}) MB/s worst$",
                kernel,
            )
            rates = [
                reader.number(match[group], f"the bandwidth of {kernel}", positive=True)
                for group in (1, 2, 3)
            ]
            if sorted(rates, reverse=True) != rates:
                raise reader.error(f"best, median and worst of {kernel} are not in this order")
            return match[1 if self.statistic == "best" else 2]

        return _result(reader, name, text)

    @classmethod
    def version_of(cls, output: Output) -> str:
        """See `Workload.version_of`."""
        return own_program.version_of(cls.tool, output)


@dataclass(frozen=True)
class McCalpinStream:
    """McCalpin's own program, where an image has it as ``stream_c.exe`` (the name in its Makefile).

    Array size and repetitions are compiled in.
    """

    tool: ClassVar[str] = "stream_c.exe"
    version_argv: ClassVar[Sequence[str]] = ()

    def argv(self, version: str) -> tuple[str, ...]:
        """See `Workload.argv`."""
        return ()

    @property
    def timeout(self) -> float:
        """See `Workload.timeout`."""
        return 600.0

    def parse(self, output: Output) -> StreamResult:
        """Read what a run printed; see `Workload.parse`."""
        reader = Reader(self.tool, output)
        version = reader.find(rf"^STREAM version \$Revision: ({TOKEN}) \$$", "version")
        if re.search(r"^Failed Validation", reader.text, re.MULTILINE):
            raise reader.error("it found wrong results itself")
        # Since 5.0; before, there is no such line, and no validation.
        if version:
            reader.need(r"^Solution Validates", "word that the solution validates")
        # Not of McCalpin's, but of HPC Challenge's edition, which prints GB/s in the same table.
        reader.need(
            r"^Function[ \t]+(?:Best[ \t]+)?Rate[ \t]+\(?MB/s\)?[ \t]",
            "heading with a rate in MB/s",
        )

        def text(kernel: str) -> str:
            # Function, rate, and average, least and most time (root mean square instead of average in 4.0).
            match = reader.need(
                rf"^{kernel.capitalize()}:[ \t]+({TOKEN})((?:[ \t]+[0-9]+\.[0-9]+){{3}})[ \t]*$",
                kernel,
            )
            average, least, most = map(float, match[2].split())
            if not least <= average <= most:
                raise reader.error(f"the average time of {kernel} is not between the others")
            return match[1]

        return _result(reader, f"mccalpin {version[1]}" if version else "mccalpin", text)

    @classmethod
    def version_of(cls, output: Output) -> str:
        """The version that a run prints."""
        match = re.search(r"^STREAM version \$Revision: ([0-9.]+) \$$", output.stdout, re.MULTILINE)
        if match is None:
            raise ParseError(cls.tool, "there is no version in what it printed", output)
        return match[1]


@dataclass(frozen=True)
class LmbenchStream:
    """lmbench's ``stream``, which prints on standard error.

    Attributes:
        elements: of each array; a kernel's run is repeated until its time is long enough for its clock.
        repetitions: how many runs the best is taken of.
    """

    #: Debian's package has it outside of the folders where a shell looks.
    tool: ClassVar[str] = "/usr/lib/lmbench/bin/x86_64-linux-gnu/stream"
    version_argv: ClassVar[Sequence[str]] = ("-h",)

    elements: int = 10_000_000
    repetitions: int = 11

    def __post_init__(self) -> None:
        _check(self.elements, self.repetitions, 10**6)

    def argv(self, version: str) -> tuple[str, ...]:
        """See `Workload.argv`. ``-M`` is the size of three arrays in bytes (``state.len /= 3 * sizeof(double)``)."""
        if version != "lmbench":
            raise Unsupported("this stream is not lmbench's")
        return ("-v", "1", "-M", str(24 * self.elements), "-N", str(self.repetitions))

    @property
    def timeout(self) -> float:
        """See `Workload.timeout`: it repeats small work for about a second for each kernel and run."""
        return 120.0 + 80 * self.elements * (self.repetitions + 2) / 1e6 / _SLOWEST

    def parse(self, output: Output) -> StreamResult:
        """Read what a run printed; see `Workload.parse`."""
        reader = Reader(self.tool, Output(output.stderr + output.stdout, "", output.version))

        def text(kernel: str) -> str:
            # Add was called sum before the third version.
            name = "(?:add|sum)" if kernel == "add" else kernel
            match = reader.need(
                rf"^STREAM {name} bandwidth: ({TOKEN}) MB/sec[ \t]*$", f"bandwidth of {kernel}"
            )
            return match[1]

        return _result(reader, "lmbench", text)

    @classmethod
    def version_of(cls, output: Output) -> str:
        """It has no version; its usage message tells that it is lmbench's."""
        if "[-v <stream version 1|2>]" not in output.stderr + output.stdout:
            raise ParseError(cls.tool, "this is not lmbench's stream", output)
        return "lmbench"


class Stream:
    """STREAM, as a test asks for it.

    Args:
        bench: what runs it.
    """

    def __init__(self, bench: Bench) -> None:
        self._bench = bench

    def run(
        self,
        target: Target,
        *,
        elements: int = 10_000_000,
        repetitions: int = 10,
        implementation: Literal["vperf", "mccalpin", "lmbench"] = "vperf",
    ) -> StreamResult:
        """Run it; see `Bench.run` for the errors.

        Args:
            target: where.
            elements: of each of three arrays; McCalpin's program has its own number.
            repetitions: likewise.
            implementation: our program, or a classic one where the image has it.
        """
        if implementation == "vperf":
            return self._bench.run(target, VperfStream(elements, repetitions))
        if implementation == "lmbench":
            return self._bench.run(target, LmbenchStream(elements, repetitions))
        if implementation != "mccalpin":
            raise ValueError(
                f"implementation is {implementation!r}, not vperf, mccalpin or lmbench"
            )
        return self._bench.run(target, McCalpinStream())
