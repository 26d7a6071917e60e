"""The host target: this machine, without anything between."""

from __future__ import annotations

import itertools
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_vperf.targets.base import (
    CommandFailed,
    Completed,
    Facts,
    TargetError,
    TimedOut,
    Usage,
)
from pytest_vperf.targets.process import OutOfTime, run_process

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import TracebackType

    from pytest_vperf.machine.runs import Run
    from pytest_vperf.targets.base import Link

_HOST_MARK = "VPERF_HOST"
_numbers = itertools.count(1)


class Host:
    """This machine as a target.

    Args:
        run: whose marks the processes carry, so that what a killed run left can be found.

    Attributes:
        link: how it is on the run's own network, if it is.
    """

    name = "host"
    link: Link | None = None

    def __init__(self, run: Run | None = None) -> None:
        self._run = run
        self._mark = f"{os.getpid()}-{next(_numbers)}"
        self._cpu_time = 0.0

    def run(
        self,
        argv: Sequence[str],
        *,
        input: bytes = b"",
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        timeout: float = 60.0,
        check: bool = True,
    ) -> Completed:
        """Run a command to its end; see `pytest_vperf.targets.base.Target.run`.

        At the time limit its whole session is killed, children that hold its output included.
        """
        base = self._run.environment if self._run else dict(os.environ)
        whole = {**base, **(env or {}), _HOST_MARK: self._mark}
        command = tuple(argv)
        try:
            done = run_process(command, env=whole, input=input, cwd=cwd, timeout=timeout)
        except OutOfTime as error:
            self._cpu_time += error.cpu_time
            raise TimedOut(
                f"{' '.join(command)} did not end within {timeout:g} s on the host and was killed",
                target=self.name,
                stdout=error.stdout,
                stderr=error.stderr,
            ) from None
        except OSError as error:
            raise TargetError(
                f"{' '.join(command)} cannot be started on the host: {error.strerror}",
                target=self.name,
            ) from error
        self._cpu_time += done.cpu_time
        completed = Completed(command, done.returncode, done.stdout, done.stderr, done.duration)
        if check and completed.returncode != 0:
            raise CommandFailed(completed, target=self.name)
        return completed

    def put(self, source: Path, destination: str) -> None:
        """Copy a file to an absolute path, its permission bits kept."""
        self._copy(source, Path(destination), absolute=destination)

    def get(self, source: str, destination: Path) -> None:
        """Copy a file from an absolute path, its permission bits kept."""
        self._copy(Path(source), destination, absolute=source)

    def _copy(self, source: Path, destination: Path, *, absolute: str) -> None:
        if not Path(absolute).is_absolute():
            raise TargetError(f"{absolute} is not an absolute path", target=self.name)
        try:
            shutil.copyfile(source, destination)
            shutil.copymode(source, destination)
        except (OSError, shutil.SameFileError) as error:
            why = getattr(error, "strerror", None) or "it is the same file"
            raise TargetError(
                f"{source} cannot be copied to {destination}: {why}", target=self.name
            ) from error

    def facts(self) -> Facts:
        """Kernel, architecture and usable CPUs of this machine."""
        system = os.uname()
        return Facts(
            kind="host",
            name=self.name,
            details={
                "kernel": f"{system.sysname} {system.release}",
                "architecture": system.machine,
                "cpus": str(len(os.sched_getaffinity(0))),
                **(self.link.details() if self.link else {}),
            },
        )

    def usage(self) -> Usage:
        """CPU time of the commands run so far, their waited-for children included; no memory."""
        return Usage(cpu_time=self._cpu_time, memory=None)

    def close(self) -> None:
        """End what commands left running in the background."""
        from pytest_vperf.machine.marks import end, marked

        end(marked(_HOST_MARK, self._mark))

    def __enter__(self) -> Host:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
