"""Our STREAM against lmbench's on this host: the same kernels, the same arrays, pair by pair.

Both run in the image with the tools, interleaved in random order, so that a drift of the machine falls on both. For
each kernel the ratio of the two bandwidths is printed with the exact interval of its median over the pairs (order
statistics of the binomial). Exits with 1 where a median is surely outside the tolerance.

Both report the best of as many runs of a kernel. lmbench would calibrate its clock for as long as a noisy machine
disturbs it; ENOUGH, TIMING_O and LOOP_O (lmbench's lib_timing.c) say what it would find: 10 ms are enough, so that a
run is a single one, as ours, and reading the clock costs nothing beside that. Both repeat one kernel before the next.

    python benchmarks/stream_against_lmbench.py --pairs 25
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from interval import median_interval

from pytest_vperf.targets.base import TargetError, Unavailable
from pytest_vperf.targets.host import Host
from pytest_vperf.targets.image.debian import tools_rootfs
from pytest_vperf.workloads import programs
from pytest_vperf.workloads.base import WORD, Output, ParseError, Reader, Unsupported, check_whole
from pytest_vperf.workloads.registry import TOOLS, packages_of
from pytest_vperf.workloads.stream import KERNELS, StreamResult, VperfStream

if TYPE_CHECKING:
    from collections.abc import Sequence

ENVIRONMENT = {"LC_ALL": "C", "ENOUGH": "10000", "TIMING_O": "0", "LOOP_O": "0"}

#: Of each array; 240 MB.
ELEMENTS = 30_000_000

#: Runs of each kernel; the first of ours does not count.
REPETITIONS = 5


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
        check_whole("elements", self.elements, 1000)
        check_whole("repetitions", self.repetitions, 2)

    def argv(self, version: str) -> tuple[str, ...]:
        """See `Workload.argv`. ``-M`` is the size of three arrays in bytes (``state.len /= 3 * sizeof(double)``)."""
        if version != "lmbench":
            raise Unsupported("this stream is not lmbench's")
        return ("-v", "1", "-M", str(24 * self.elements), "-N", str(self.repetitions))

    @property
    def timeout(self) -> float:
        """See `Workload.timeout`: it repeats small work for about a second for each kernel and run."""
        return 120.0 + 80 * self.elements * (self.repetitions + 2) / 1e6 / 50

    def parse(self, output: Output) -> StreamResult:
        """Read what a run printed; see `Workload.parse`."""
        reader = Reader(self.tool, Output(output.stderr + output.stdout, "", output.version))

        def text(kernel: str) -> str:
            # Add was called sum before the third version.
            name = "(?:add|sum)" if kernel == "add" else kernel
            match = reader.need(
                rf"^STREAM {name} bandwidth: ({WORD}) MB/sec[ \t]*$", f"bandwidth of {kernel}"
            )
            return match[1]

        rates = {
            kernel: reader.quantity(
                text(kernel), f"the bandwidth of {kernel}", "MB/s", "higher", positive=True
            )
            for kernel in KERNELS
        }
        return StreamResult("lmbench", **rates)

    @classmethod
    def version_of(cls, output: Output) -> str:
        """It has no version; its usage message tells that it is lmbench's."""
        if "[-v <stream version 1|2>]" not in output.stderr + output.stdout:
            raise ParseError(cls.tool, "this is not lmbench's stream", output)
        return "lmbench"


def main() -> int:
    """Measure, print, and return 1 if a kernel is surely beyond the tolerance."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--pairs", type=int, default=25, help="pairs of runs (default: 25, least: 8)"
    )
    parser.add_argument("--elements", type=int, default=ELEMENTS, help="of each array")
    parser.add_argument("--tolerance", type=float, default=0.05, help="of a ratio (default: 0.05)")
    parser.add_argument("--seed", type=int, default=None, help="of the order within the pairs")
    arguments = parser.parse_args()
    if arguments.pairs < 8:
        parser.error("--pairs: an interval for the median needs at least 8")
    seed = arguments.seed if arguments.seed is not None else random.randrange(2**32)
    try:
        rootfs = tools_rootfs(packages_of(TOOLS), programs.build())
        with Host(rootfs=lambda: rootfs) as host:
            pairs = _pairs(host, arguments.pairs, arguments.elements, random.Random(seed))
    except Unavailable as error:
        print(f"this benchmark needs lmbench (Debian's non-free): {error}", file=sys.stderr)
        return 2
    except TargetError as error:
        print(error, file=sys.stderr)
        return 2
    print(
        f"vperf-stream against lmbench's stream, {arguments.elements * 8 / 1e6:g} MB an array, "
        f"best of {REPETITIONS}, {len(pairs)} pairs, seed {seed}"
    )
    print(
        f"  {'kernel':8} {'ours':>14} {'lmbench':>14}   ratio of a pair, median and interval at 95 %"
    )
    return max(_report(kernel, pairs, arguments.tolerance) for kernel in KERNELS)


def _report(kernel: str, pairs: list[tuple[StreamResult, StreamResult]], tolerance: float) -> int:
    ours = [getattr(one, kernel).value for one, _ in pairs]
    others = [getattr(other, kernel).value for _, other in pairs]
    low, ratio, high = median_interval([a / b for a, b in zip(ours, others, strict=True)])
    inside = 1 - tolerance <= low and high <= 1 + tolerance
    outside = high < 1 - tolerance or low > 1 + tolerance
    verdict = "within" if inside else "beyond" if outside else "not decided:"
    print(
        f"  {kernel:8} {statistics.median(ours):9.1f} MB/s {statistics.median(others):9.1f} MB/s   "
        f"{ratio:.4f} [{low:.4f}, {high:.4f}]  {verdict} {tolerance:.0%}"
    )
    return 1 if outside else 0


def _pairs(
    host: Host, count: int, elements: int, source: random.Random
) -> list[tuple[StreamResult, StreamResult]]:
    works = (
        VperfStream(elements, REPETITIONS + 1, grouped=True),
        LmbenchStream(elements, REPETITIONS),
    )
    ours, other = works
    commands = [
        [*host.program(ours.tool).argv, *ours.argv("1.0")],
        [*host.program(other.tool).argv, *other.argv("lmbench")],
    ]

    def run(index: int) -> StreamResult:
        work = works[index]
        done = host.run(commands[index], env=ENVIRONMENT, timeout=work.timeout)
        return work.parse(Output.of(done))

    pairs = []
    for _ in range(count):
        order = [0, 1] if source.random() < 0.5 else [1, 0]
        found = {index: run(index) for index in order}
        pairs.append((found[0], found[1]))
    return pairs


if __name__ == "__main__":
    sys.exit(main())
