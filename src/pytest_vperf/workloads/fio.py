"""fio: blocks and bytes that a disk transfers per second, and the latency of one block.

Versions 2.1 to 3.x. A job is given by options on the command line, not by a job file. It runs for a time, of which
the first seconds (``ramp_time``) are not counted: a cache fills then, and a throttle with a burst lets more through.
Direct I/O, the default, bypasses the caches of the kernel that runs fio.

Formats (stat.c of the versions named, and HOWTO): until 2.x latencies are in microseconds (``lat``, ``clat``), since
3.0 in nanoseconds (``lat_ns``, ``clat_ns``); ``bw`` is KiB/s in all of them, even if a report says "KB/s" (2.x wrote
KB for 1024 bytes), with ``bw_bytes`` in addition since 3.4. 2.0 and 2.1 truncate ``iops`` to a whole number and do
not count blocks (``total_ios``). Until 3.1 the list of percentiles ends with several keys ``0.00``. fio may print
notes before and after the JSON.
"""

from __future__ import annotations

import json
import os
import re
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, get_args

from pytest_vperf.quantity import Quantity, amount
from pytest_vperf.workloads.base import Output, Reader, Unsupported, check_whole, release

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pytest_vperf.targets.base import Target
    from pytest_vperf.workloads.bench import Bench

__all__ = [
    "PERCENTILES",
    "Direction",
    "Disk",
    "Fio",
    "FioJob",
    "FioResult",
    "Latency",
    "Mode",
    "Transfer",
]


#: fio's own options, which are removed: one that was given several times, such as filename, is a duplicate key (issue
#: 1571 of fio).
_OPTIONS = re.compile(r'("(?:global|job) options" : )\{(?:[^{}"]|"(?:[^"\\]|\\.)*")*\}')

Direction = Literal["read", "write"]

#: The percentiles that a job asks for.
PERCENTILES = ("50", "95", "99", "99.9")


@dataclass(frozen=True)
class Latency:
    """How long one block took, in µs.

    Attributes:
        mean: from its submission to its completion, including the kernel's queues.
        p50: half of the blocks completed within this time. Like the other percentiles, it counts from the kernel's
            acceptance of the block (fio's "clat"), and is from a histogram with steps below 2 %.
        p95: 95 % did.
        p99: 99 % did.
        p99_9: 99.9 % did.
    """

    mean: Quantity
    p50: Quantity
    p95: Quantity
    p99: Quantity
    p99_9: Quantity


@dataclass(frozen=True)
class Transfer:
    """A job's transfers in one direction, after its ramp.

    Attributes:
        iops: blocks per second, in operation/s; fio 2.0 and 2.1 truncate it to a whole number.
        bandwidth: in KiB/s, 1024 bytes, as fio's ``bw``.
        latency: of one block.
        blocks: their number; ``None`` from fio 2.0 and 2.1, which do not print it.
    """

    iops: Quantity
    bandwidth: Quantity
    latency: Latency
    blocks: int | None


@dataclass(frozen=True)
class FioResult:
    """The result of a job.

    Attributes:
        read: ``None`` for a job that only writes.
        write: ``None`` for a job that only reads.
    """

    read: Transfer | None
    write: Transfer | None


def _result(reader: Reader, asked: FioJob) -> FioResult:
    jobs = _document(reader).get("jobs")
    if not isinstance(jobs, list) or len(jobs) != 1 or not isinstance(jobs[0], dict):
        raise reader.error("its JSON has not exactly one job")
    job: Mapping[str, Any] = jobs[0]
    error = reader.json_number(job.get("error"), "the job's error")
    if error:
        words = f" ({os.strerror(int(error))})" if error < 200 else ""
        raise reader.error(f"the job ended with error {error:g}{words}")
    found = {name: _transfer(reader, job, name, asked) for name in asked.directions}
    return FioResult(found.get("read"), found.get("write"))


def _document(reader: Reader) -> Mapping[str, Any]:
    """The JSON document; fio's messages before and after it are ignored, but one inside breaks it."""
    start = reader.need(r'^\{\s*"fio version"', "JSON of fio").start()
    text = reader.text[start:]
    try:
        _, end = json.JSONDecoder().raw_decode(text)
    except (ValueError, RecursionError) as error:
        raise reader.error(f"its JSON cannot be read: {error or 'too deep'}") from None
    # Until 3.1 the unused entries of the list of percentiles are printed too, all as "0.00" (json.c, stat.c).
    text = re.sub(r',\s*"0\.00" : 0(?=\s*[,}])', "", text[:end])
    return reader.json_document(_OPTIONS.sub(r"\1{}", text))


#: Tolerance between two figures for the same thing, which come from the same counters.
_ROUNDING = 0.02


def _transfer(reader: Reader, job: Mapping[str, Any], name: Direction, asked: FioJob) -> Transfer:
    part = _object(reader, job, name, "job")

    def number(key: str, *, positive: bool = False) -> float:
        return reader.json_number(part.get(key), f"{name} {key}", positive=positive)

    counted = "total_ios" in part
    blocks = number("total_ios" if counted else "io_bytes")
    if not blocks:
        raise reader.error(f"the job's {name} moved no block after its ramp")
    bandwidth = number("bw_bytes", positive=True) / 1024 if "bw_bytes" in part else number("bw")
    iops = number("iops", positive=True)
    # Milliseconds in all versions (stat.c, add_ddir_status_json).
    seconds = number("runtime", positive=True) / 1000
    if seconds < asked.runtime / 2:
        raise reader.error(f"the job's {name} lasted {seconds:g} s of {asked.runtime:g} s")
    # A truncated iops is up to one less, and the time is in whole milliseconds.
    slack = _ROUNDING + 0.001 / seconds
    if counted and abs(blocks / seconds - iops) > slack * iops + 1:
        raise reader.error(f"{blocks:g} blocks {name} in {seconds:g} s are not {iops:g} iops")
    # Bytes of blocks that were in flight as the ramp ended may count, the blocks themselves not.
    in_flight = asked.iodepth * asked.jobs / seconds
    if abs(bandwidth * 1024 / asked.block_size - iops) > slack * iops + in_flight + 1:
        raise reader.error(
            f"{iops:g} iops of {asked.block_size} bytes are not {bandwidth:g} KiB/s {name}"
        )
    return Transfer(
        iops=Quantity(iops, "operation/s", direction="higher"),
        bandwidth=Quantity(
            reader.checked(bandwidth, f"{name} bw", positive=True), "KiB/s", direction="higher"
        ),
        latency=_latency(reader, part, name),
        blocks=int(blocks) if counted else None,
    )


def _latency(reader: Reader, part: Mapping[str, Any], name: str) -> Latency:
    ending, factor = ("_ns", 1e-3) if "lat_ns" in part else ("", 1.0)
    whole = _object(reader, part, f"lat{ending}", name)
    completion = _object(reader, part, f"clat{ending}", name)
    percentiles = _object(reader, completion, "percentile", f"{name} clat{ending}")

    def time(value: object, what: str, *, positive: bool, discrete: bool) -> Quantity:
        number = reader.json_number(value, f"{name} {what}", positive=positive)
        return Quantity(number * factor, "us", direction="lower", discrete=discrete)

    # It is 0 if fio was told not to measure it (disable_lat). A percentile of fio 2 may be 0: it is in whole µs.
    # Percentiles are the edges of bins.
    mean = time(whole.get("mean"), "mean latency", positive=True, discrete=False)
    p50, p95, p99, p99_9 = (
        time(
            percentiles.get(f"{float(each):.6f}"),
            f"percentile {each}",
            positive=factor < 1,
            discrete=True,
        )
        for each in PERCENTILES
    )
    if not p50.value <= p95.value <= p99.value <= p99_9.value:
        raise reader.error(f"the percentiles of its {name} latency fall")
    return Latency(mean, p50, p95, p99, p99_9)


def _object(reader: Reader, parent: Mapping[str, Any], key: str, of: str) -> Mapping[str, Any]:
    found = parent.get(key)
    if not isinstance(found, dict):
        raise reader.error(f"there is no {key!r} in its {of}")
    return found


Mode = Literal["read", "write", "randread", "randwrite", "readwrite", "randrw"]

#: The first version whose ``--runtime`` certainly takes milliseconds, and the first with JSON in its manual (HOWTO
#: 2.1).
_MILLISECONDS, _JSON = (3, 0), (2, 1)

#: Least bytes per second at which a file is laid out before the job begins.
_SLOWEST_LAYOUT = 5 * 2**20


@dataclass(frozen=True)
class FioJob:
    """One job of fio.

    Attributes:
        rw: what it does; ``readwrite`` and ``randrw`` mix both directions half and half.
        filename: a block device, or a file; or
        directory: where a file of ``size`` is made; one of the two.
        block_size: bytes of one block.
        size: bytes that it works on; ``None`` for a whole device.
        iodepth: number of blocks in flight; 1 for synchronous engines (psync).
        engine: fio's ioengine, e.g. ``libaio``, ``psync``.
        direct: whether to bypass the page cache (O_DIRECT).
        runtime: counted seconds.
        ramp_time: seconds before, which are not counted.
        jobs: processes that do the same at once; their figures are added up.

    Raises:
        ValueError: a parameter is invalid; the message names it.
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
            # A different order of blocks in each run, since fio's default repeats one order; and no map of those
            # done.
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
        """The job's directions: read, write or both."""
        if self.rw in ("readwrite", "randrw"):
            return ("read", "write")
        return ("read",) if self.rw.endswith("read") else ("write",)

    def parse(self, output: Output) -> FioResult:
        """Read the JSON among whatever else was printed.

        Raises:
            ParseError: there is none, or of another job; the job ended with an error or too early; a direction that
                was asked for moved nothing after the ramp; time, blocks, iops and bandwidth contradict each other.
        """
        return _result(Reader(self.tool, output), self)

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


class Disk(Protocol):
    """What a job needs of a disk, such as one of the run's (`pytest_vperf.targets.disks.Disk`)."""

    @property
    def formatted(self) -> bool:
        """Whether it has a file system, in which a file is made."""
        ...

    def where(self, target: Target) -> str:
        """The path of the device, or of the mounted file system's root, in a target."""
        ...


#: Of `Fio.settle`: seconds that a throttle may take before it acts, and that may be waited at most; and the share by
#: which a figure may fall from one sample to the next once it has.
SLOW_TO_ACT, LONGEST, FALLS = 10.0, 60.0, 0.05


class Fio:
    """fio for tests: ``fio.randread(container, disk, block_size="4 KiB").iops``.

    A job works on all of a raw disk, and on a file of ``size`` on a formatted one.

    Args:
        bench: runs it.
    """

    def __init__(self, bench: Bench) -> None:
        self._bench = bench

    def read(self, target: Target, disk: Disk | str, **parameters: Any) -> Transfer:
        """Read in order; see `job`."""
        return self._one(target, disk, "read", "read", parameters)

    def write(self, target: Target, disk: Disk | str, **parameters: Any) -> Transfer:
        """Overwrite in order; see `job`."""
        return self._one(target, disk, "write", "write", parameters)

    def randread(self, target: Target, disk: Disk | str, **parameters: Any) -> Transfer:
        """Read blocks in random order; see `job`."""
        return self._one(target, disk, "randread", "read", parameters)

    def randwrite(self, target: Target, disk: Disk | str, **parameters: Any) -> Transfer:
        """Overwrite blocks in random order; see `job`."""
        return self._one(target, disk, "randwrite", "write", parameters)

    def _one(
        self,
        target: Target,
        disk: Disk | str,
        rw: Mode,
        direction: Direction,
        parameters: Mapping[str, Any],
    ) -> Transfer:
        result = self.job(target, disk, rw=rw, **parameters)
        transfer = result.read if direction == "read" else result.write
        assert transfer is not None  # the parser rejects an output without it
        return transfer

    @staticmethod
    def settle(sample: Callable[[], Quantity]) -> Quantity:
        """Take samples until a throttle has acted, and throw them away.

        A cloud's throttle is slow to act, so that the beginning of a run is faster than the disk
        (002_f14a195f77c6d8a3.txt, "Result Analysis", which leaves it out). It is waited for ten seconds, and until
        two samples in a row are not lower by more than 5 % than the one before; at most a minute.

        Args:
            sample: takes one sample of a rate; for a time of its own, not for none.

        Returns:
            The last one.
        """
        began, steady = time.monotonic(), 0
        before = sample()
        while (taken := time.monotonic() - began) < LONGEST and (taken < SLOW_TO_ACT or steady < 2):
            now = sample()
            steady = steady + 1 if now.value >= (1 - FALLS) * before.to(now.unit).value else 0
            before = now
        return before

    def job(
        self,
        target: Target,
        disk: Disk | str,
        *,
        rw: Mode,
        block_size: str = "4 KiB",
        size: str | None = None,
        iodepth: int = 16,
        engine: str = "libaio",
        direct: bool = True,
        runtime: str = "10 s",
        ramp_time: str = "2 s",
        jobs: int = 1,
    ) -> FioResult:
        """Run one job to its end.

        Args:
            target: where fio runs.
            disk: one of the fixture ``disks``, attached to the target; or the path of a device, of a file (then
                with ``size``), or of a folder (ending in ``/``, with ``size``).
            rw: what it does.
            block_size: e.g. ``128 KiB``.
            size: how much of the disk it works on; by default all of a raw one, 64 MiB of a formatted one.
            iodepth: number of blocks in flight.
            engine: fio's ioengine.
            direct: whether to bypass the page cache.
            runtime: counted time.
            ramp_time: time before, which is not counted.
            jobs: processes at once.

        Raises:
            ValueError: a parameter is invalid.
            CommandFailed: fio failed; with its output, e.g. that direct I/O is not supported.
            ParseError: its output is invalid.
            Unavailable: the target has no fio, or one that is too old.
        """
        path = disk if isinstance(disk, str) else disk.where(target)
        folder = path.endswith("/") if isinstance(disk, str) else disk.formatted
        if folder and size is None:
            size = "64 MiB"
        span = getattr(disk, "span", None)
        if size is None and span is not None:
            size = f"{span} byte"  # what is behind was never written
        workload = FioJob(
            rw=rw,
            filename="" if folder else path,
            directory=path if folder else "",
            block_size=_bytes("block_size", block_size),
            size=None if size is None else _bytes("size", size),
            iodepth=iodepth,
            engine=engine,
            direct=direct,
            runtime=amount("runtime", runtime, "s", such_as="10 s"),
            ramp_time=amount("ramp_time", ramp_time, "s", such_as="2 s"),
            jobs=jobs,
        )
        return self._bench.run(target, workload)


def _bytes(name: str, text: str) -> int:
    value = amount(name, text, "byte", such_as="4 KiB")
    if value != int(value):
        raise ValueError(f"{name} is {text!r}, which is not a whole number of bytes")
    return int(value)
