"""A job of fio: its parameters, and its command line."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal, get_args

from pytest_vperf.workloads.base import Output, Unsupported
from pytest_vperf.workloads.figures import Reader
from pytest_vperf.workloads.fio.result import PERCENTILES, Direction, FioResult, result
from pytest_vperf.workloads.parameters import check_whole, release

if TYPE_CHECKING:
    from collections.abc import Sequence

Mode = Literal["read", "write", "randread", "randwrite", "readwrite", "randrw"]

#: The version whose ``--runtime`` surely takes milliseconds, and the first with JSON in its manual (HOWTO 2.1).
_MILLISECONDS, _JSON = (3, 0), (2, 1)

#: Bytes per second at which a file is surely laid out before the job begins.
_SLOWEST_LAYOUT = 5 * 2**20


@dataclass(frozen=True)
class FioJob:
    """One job of fio.

    Attributes:
        rw: what it does; ``readwrite`` and ``randrw`` mix both directions half and half.
        filename: a block device, or a file; or
        directory: where a file of ``size`` is made; one of the two.
        block_size: bytes of one block.
        size: bytes that it works on; ``None`` is all of a device.
        iodepth: how many blocks are on their way at once; engines that wait for each (psync) have 1.
        engine: fio's ioengine, e.g. ``libaio``, ``psync``.
        direct: past the page cache (O_DIRECT).
        runtime: counted seconds.
        ramp_time: seconds before, which are not counted.
        jobs: processes that do the same at once; their figures are added up.

    Raises:
        ValueError: a parameter makes no sense; the text names it.
    """

    rw: Mode = "randread"
    filename: str = ""
    directory: str = ""
    block_size: int = 4096
    size: int | None = None
    iodepth: int = 16
    engine: str = "libaio"
    direct: bool = True
    runtime: float = 10.0
    ramp_time: float = 2.0
    jobs: int = 1

    tool: ClassVar[str] = "fio"
    version_argv: ClassVar[Sequence[str]] = ("--version",)

    def __post_init__(self) -> None:
        if self.rw not in get_args(Mode):
            raise ValueError(f"rw is {self.rw!r}, not one of {', '.join(get_args(Mode))}")
        if bool(self.filename) == bool(self.directory):
            raise ValueError("give one of filename and directory")
        if self.directory and self.size is None:
            raise ValueError("a file in a directory needs a size")
        if not re.fullmatch(r"[a-z0-9_-]+", self.engine):
            raise ValueError(f"engine is {self.engine!r}, not the name of an ioengine")
        for name, value in (
            ("block_size", self.block_size),
            ("size", self.block_size if self.size is None else self.size),
            ("iodepth", self.iodepth),
            ("jobs", self.jobs),
        ):
            check_whole(name, value)
        if self.size is not None and self.size < self.block_size:
            raise ValueError(f"size is {self.size}, less than a block ({self.block_size})")
        if not 0 < self.runtime <= 86_400:
            raise ValueError(f"runtime is {self.runtime!r}, not between 0 and a day")
        if not 0 <= self.ramp_time <= 86_400:
            raise ValueError(f"ramp_time is {self.ramp_time!r}, not between 0 and a day")

    def argv(self, version: str) -> tuple[str, ...]:
        """The job as options.

        Raises:
            Unsupported: the version is older than 2.1, which has no JSON; or than 3.0, and a time is not in seconds.
        """
        known = release(version)
        if known < _JSON:
            raise Unsupported("fio before 2.1 does not print JSON")
        times = [_time(value, known) for value in (self.runtime, self.ramp_time)]
        place = (
            f"--filename={_escaped(self.filename)}"
            if self.filename
            else f"--directory={_escaped(self.directory)}"
        )
        return (
            "--output-format=json",
            "--eta=never",
            "--name=vperf",
            place,
            *([f"--size={self.size}"] if self.size is not None else []),
            f"--rw={self.rw}",
            f"--bs={self.block_size}",
            f"--ioengine={self.engine}",
            f"--iodepth={self.iodepth}",
            f"--direct={int(self.direct)}",
            f"--numjobs={self.jobs}",
            "--group_reporting",
            "--time_based",
            f"--runtime={times[0]}",
            f"--ramp_time={times[1]}",
            # Another order of blocks in each run, and no map of those done: fio's own defaults repeat one order.
            "--randrepeat=0",
            "--norandommap",
            f"--percentile_list={':'.join(PERCENTILES)}",
        )

    @property
    def timeout(self) -> float:
        """Seconds for the job five times over, and for laying out its file."""
        return max(
            60.0, 30 + 5 * (self.runtime + self.ramp_time) + (self.size or 0) / _SLOWEST_LAYOUT
        )

    @property
    def directions(self) -> tuple[Direction, ...]:
        """What the job does."""
        if self.rw in ("readwrite", "randrw"):
            return ("read", "write")
        return ("read",) if self.rw.endswith("read") else ("write",)

    def parse(self, output: Output) -> FioResult:
        """Read the JSON among whatever else was printed.

        Raises:
            ParseError: there is none, or of another job; the job ended with an error; a direction that was asked
                for moved nothing after the ramp.
        """
        return result(Reader(self.tool, output), self.directions)

    @classmethod
    def version_of(cls, output: Output) -> str:
        """``3.33`` of ``fio-3.33``."""
        return Reader(cls.tool, output).need(r"^fio-([0-9]+\.[0-9]\S*)$", "version")[1]


def _time(seconds: float, version: tuple[int, ...]) -> str:
    if seconds == int(seconds):
        return str(int(seconds))
    if version < _MILLISECONDS:
        raise Unsupported(f"fio before 3.0 takes whole seconds, not {seconds:g}")
    return f"{round(seconds * 1000)}ms"


def _escaped(path: str) -> str:
    """A colon separates files (HOWTO, ``filename``)."""
    return path.replace("\\", "\\\\").replace(":", "\\:")
