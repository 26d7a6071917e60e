"""fio: how many blocks, and bytes, a disk moves in a second, and how long one block takes. Versions 2.1 to 3.x.

A job is described by parameters and given on the command line, never by a file. It runs for a time, of which the
first seconds (``ramp_time``) are not counted: a cache fills then, and a throttle with a burst lets more through.
With direct I/O, the default, the caches of the kernel that runs fio are left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from pytest_vperf.quantity import amount
from pytest_vperf.workloads.fio.job import FioJob, Mode
from pytest_vperf.workloads.fio.result import Direction, FioResult, Latency, Transfer

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_vperf.targets.base import Target
    from pytest_vperf.workloads.bench import Bench

__all__ = ["Disk", "Fio", "FioJob", "FioResult", "Latency", "Mode", "Transfer"]


class Disk(Protocol):
    """Where a job works: a disk of the run (`pytest_vperf.targets.disks.Disk`), or anything with these."""

    @property
    def formatted(self) -> bool:
        """Whether it has a file system, in which a file is made."""
        ...

    def where(self, target: Target) -> str:
        """The path of the device, or of the mounted file system's root, in a target."""
        ...


class Fio:
    """fio for tests: ``fio.randread(container, disk, block_size="4 KiB").iops``.

    A job works on the whole of a raw disk, and on a file of ``size`` on a formatted one.

    Args:
        bench: runs it.
    """

    def __init__(self, bench: Bench) -> None:
        self._bench = bench

    def read(self, target: Target, disk: Disk | str, **parameters: Any) -> Transfer:
        """Read in order; see `job`."""
        return self._one(target, disk, "read", "read", parameters)

    def write(self, target: Target, disk: Disk | str, **parameters: Any) -> Transfer:
        """Write in order, over what is there; see `job`."""
        return self._one(target, disk, "write", "write", parameters)

    def randread(self, target: Target, disk: Disk | str, **parameters: Any) -> Transfer:
        """Read blocks in random order; see `job`."""
        return self._one(target, disk, "randread", "read", parameters)

    def randwrite(self, target: Target, disk: Disk | str, **parameters: Any) -> Transfer:
        """Write blocks in random order, over what is there; see `job`."""
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
        assert transfer is not None  # the parser refuses an output without it
        return transfer

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
            size: how much of the disk it works on; all of a raw one, 64 MiB of a formatted one where not said.
            iodepth: blocks on their way at once.
            engine: fio's ioengine.
            direct: past the page cache.
            runtime: counted time.
            ramp_time: time before, which is not counted.
            jobs: processes at once.

        Raises:
            ValueError: a parameter makes no sense.
            CommandFailed: fio failed: its words say why, e.g. where direct I/O is refused.
            ParseError: it printed something else than it should.
            Unavailable: the target has no fio, or one that is too old.
        """
        path = disk if isinstance(disk, str) else disk.where(target)
        folder = path.endswith("/") if isinstance(disk, str) else disk.formatted
        if folder and size is None:
            size = "64 MiB"
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
