"""STREAM: memory bandwidth by J. D. McCalpin's four kernels.

IEEE TCCA Newsletter, December 1995: copy ``c = a``, scale ``b = s c``, add ``c = a + b``, triad ``a = b + s c``, on
arrays far larger than the caches (four times the last-level cache, by the rules of
www.cs.virginia.edu/stream/ref.html). Bytes are those that the program reads and writes: 16 per element for copy and
scale, 24 for add and triad. A MB is 10^6 bytes in all implementations (McCalpin's stream.c: ``1.0E-06 *
bytes/mintime``; lmbench's lib_timing.c, ``mb``).

All report the best repetition: McCalpin's and ours but the first, lmbench's the shortest time (``save_minimum``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from pytest_vperf.workloads import own_program
from pytest_vperf.workloads.base import WORD, Output, Reader, check_whole

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pytest_vperf.quantity import Quantity
    from pytest_vperf.targets.base import Target
    from pytest_vperf.workloads.bench import Bench

KERNELS = ("copy", "scale", "add", "triad")

#: The least bandwidth of an emulated machine, in MB/s.
_SLOWEST = 50.0


@dataclass(frozen=True)
class StreamResult:
    """The result of a run, in MB/s of 10^6 bytes.

    Attributes:
        implementation: the program with its version, such as ``vperf-stream 1.0``.
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
    """Our program.

    Attributes:
        elements: of each of the three arrays, 8 bytes each: 240 MB by default, as in McCalpin's program.
        repetitions: the first does not count.
        statistic: ``best`` of the repetitions, as the others, or their ``median``.
        grouped: whether to do all repetitions of a kernel before the next one, like lmbench, instead of in turn, like
            McCalpin.
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
                rf"^{kernel}: ({WORD}) MB/s best, ({WORD}) MB/s median, ({WORD}) MB/s worst$",
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


class Stream:
    """STREAM, for the fixture ``stream``.

    Args:
        bench: runs it.
    """

    def __init__(self, bench: Bench) -> None:
        self._bench = bench

    def run(
        self,
        target: Target,
        *,
        elements: int = 10_000_000,
        repetitions: int = 10,
    ) -> StreamResult:
        """Run it; see `Bench.run` for the errors.

        Args:
            target: where.
            elements: of each of three arrays.
            repetitions: the first does not count.
        """
        return self._bench.run(target, VperfStream(elements, repetitions))
