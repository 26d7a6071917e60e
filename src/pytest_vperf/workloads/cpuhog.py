"""stress-ng as a load in the background of a target, while something else is measured there or elsewhere.

`Target.run` runs a command to its end, and a pod runs one command at a time, so the load is put into the background
by the target's own shell, in a session of its own. It counts as a load only when the kernel of the target shows that
every worker uses CPU time; it is ended by its session, and what is left of that is looked for. stress-ng's own
``--timeout`` ends it where nobody else can, and a target that ends takes it along.
"""

from __future__ import annotations

import contextlib
import re
import secrets
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from pytest_vperf.quantity import Quantity
from pytest_vperf.targets.base import CannotStart, TargetError
from pytest_vperf.workloads.base import Output, ParseError, Reader, check_whole
from pytest_vperf.workloads.bench import ENVIRONMENT
from pytest_vperf.workloads.processors import StatFile, ThreadStat

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pytest_vperf.targets.base import Target
    from pytest_vperf.workloads.bench import Bench

_START = 'log=$1; shift; setsid "$@" >"$log" 2>&1 </dev/null & echo $!'
#: Processes come and go while they are listed.
_LIST = "cat /proc/[0-9]*/stat 2>/dev/null; true"
_END = 'kill -9 -"$1" 2>/dev/null; shift; [ $# -eq 0 ] || kill -9 "$@" 2>/dev/null; true'

#: Seconds in which every worker has to have used CPU time: emulated machines are slow, and CPUs may be shared.
LOADED_WITHIN = 30.0

#: CPU time in seconds that the load has to have used before it counts as one: ten ticks of the clock.
_PROOF = 0.1

#: How long a load goes on at most, where nothing ends it.
_LONGEST = 3600.0


@dataclass(frozen=True)
class StressCpu:
    """``stress-ng --cpu``; its command line, and its version.

    Attributes:
        workers: processes that compute.
        time: seconds after which it ends by itself.
    """

    tool: ClassVar[str] = "stress-ng"
    version_argv: ClassVar[Sequence[str]] = ("--version",)

    workers: int = 1
    time: float = _LONGEST

    def __post_init__(self) -> None:
        check_whole("workers", self.workers)
        if not 1 <= self.time <= 86_400:
            raise ValueError(f"time is {self.time!r}, not seconds from 1 to 86400")

    def argv(self, version: str) -> tuple[str, ...]:
        """See `Workload.argv`. One method of computing, which never waits: the load is even."""
        return (
            "--cpu",
            str(self.workers),
            "--cpu-method",
            "int64",
            "--timeout",
            f"{int(self.time)}s",
            "--metrics-brief",
        )

    @property
    def timeout(self) -> float:
        """See `Workload.timeout`."""
        return 60.0 + 2 * self.time

    def parse(self, output: Output) -> Quantity:
        """The CPU time that a run which ended by itself says it used, in s.

        stress-ng 0.05 and later print ``… cpu  BOGO-OPS  REAL  USR  SYS  …`` with ``--metrics-brief``, to standard
        error or standard output by version, behind ``info:  [PID]`` or ``metrc: [PID]``.
        """
        reader = Reader(self.tool, Output(output.stderr + output.stdout, "", output.version))
        match = reader.need(
            r"^stress-ng: (?:info|metrc): +\[\S+\] cpu +\S+ +(\S+) +(\S+) +(\S+)(?: +[0-9]\S*)+$",
            "line of cpu metrics",
        )
        reader.number(match[1], "real time", positive=True)
        user = reader.number(match[2], "user time")
        system = reader.number(match[3], "system time")
        return Quantity(reader.checked(user + system, "CPU time", positive=True), "s")

    @classmethod
    def version_of(cls, output: Output) -> str:
        """See `Workload.version_of`."""
        match = re.search(
            r"^stress-ng, version ([0-9][0-9.]*)", output.stdout, re.MULTILINE | re.ASCII
        )
        if match is None:
            raise ParseError(cls.tool, "there is no version in what --version printed", output)
        return match[1].rstrip(".")


class Load:
    """A load that runs.

    Args:
        target: where.
        session: its session's number in the target.
        workers: how many processes compute.
        log: the file in the target with what it prints.
    """

    def __init__(self, target: Target, session: int, workers: int, log: str) -> None:
        self._target, self._session, self._workers, self._log = target, session, workers, log

    def cpu_time(self) -> Quantity:
        """CPU time that its workers have used until now, in s, as the kernel of the target counts it."""
        return Quantity(sum(worker.cpu_time for worker in self._workers_now()), "s")

    def _all(self) -> list[ThreadStat]:
        text = self._target.run(["sh", "-c", _LIST], timeout=60.0).text
        found = []
        for line in text.splitlines(keepends=True):
            # A process that ends while it is read leaves half a line.
            with contextlib.suppress(ParseError):
                found.append(StatFile().parse(Output(line)))
        return [process for process in found if process.session == self._session]

    def _workers_now(self) -> list[ThreadStat]:
        return [p for p in self._all() if p.number != self._session and p.state != "Z"]

    def wait_until_loaded(self) -> None:
        """Wait until every worker has used CPU time.

        Raises:
            CannotStart: they have not within `LOADED_WITHIN`, or the load ended; with what it said.
        """
        until = time.monotonic() + LOADED_WITHIN
        while True:
            workers = self._workers_now()
            busy = [worker for worker in workers if worker.cpu_time > 0]
            if len(busy) >= self._workers and sum(w.cpu_time for w in busy) >= _PROOF:
                return
            if time.monotonic() > until:
                raise CannotStart(
                    f"stress-ng does not load {self._target.name}: {len(busy)} of {self._workers} workers "
                    f"used CPU time within {LOADED_WITHIN:g} s{self._said()}",
                    target=self._target.name,
                )
            time.sleep(0.1)

    def check_running(self) -> None:
        """Make sure that it still is a load.

        Raises:
            TargetError: workers are missing, so that what was measured was not, or not always, under load.
        """
        there = len(self._workers_now())
        if there < self._workers:
            raise TargetError(
                f"the load on {self._target.name} ended too early: {there} of {self._workers} workers are left"
                f"{self._said()}",
                target=self._target.name,
            )

    def end(self) -> None:
        """End it, and whatever of its session is left. Safe to repeat.

        Raises:
            TargetError: something of it cannot be ended.
        """
        self._target.run(["sh", "-c", _END, "sh", str(self._session)], timeout=60.0)
        for _ in range(100):
            # What has ended and is not waited for by the target's first process takes nothing.
            left = [process for process in self._all() if process.state != "Z"]
            if not left:
                self._target.run(["rm", "-f", self._log], timeout=60.0)
                return
            numbers = [str(process.number) for process in left]
            self._target.run(["sh", "-c", _END, "sh", str(self._session), *numbers], timeout=60.0)
            time.sleep(0.05)
        raise TargetError(
            f"the load on {self._target.name} cannot be ended", target=self._target.name
        )

    def _said(self) -> str:
        done = self._target.run(["cat", self._log], timeout=60.0, check=False)
        said = done.text.strip()[-400:]
        return f"; stress-ng said:\n{said}" if said else ""


class CpuHog:
    """A load on a target's processors, as a test asks for it.

    Args:
        bench: what keeps the tool's version.
    """

    def __init__(self, bench: Bench) -> None:
        self._bench = bench

    @contextlib.contextmanager
    def load(
        self, target: Target, *, workers: int = 1, longest: float = _LONGEST
    ) -> Iterator[Load]:
        """Keep processors of a target busy while the context lasts.

        Args:
            target: where; it can run other commands meanwhile.
            workers: how many processes compute, each at most one processor's time.
            longest: seconds after which it ends by itself, if it is left behind.

        Yields:
            The load, every worker of which has been seen to use CPU time.

        Raises:
            Unavailable: the target does not have stress-ng.
            CannotStart: it does not load the target.
            TargetError: the load was no longer whole when the context ended, or cannot be ended.
        """
        work = StressCpu(workers, longest)
        program = target.program(work.tool)
        arguments = work.argv(self._bench.version(target, program, work))
        log = f"/tmp/vperf-load-{secrets.token_hex(8)}"  # noqa: S108 - the target's folder # nosec B108
        started = target.run(
            ["sh", "-c", _START, "sh", log, *program.argv, *arguments],
            env=ENVIRONMENT,
            timeout=60.0,
        )
        if not started.text.strip().isdecimal():
            raise CannotStart(
                f"the shell of {target.name} does not say which process it began",
                target=target.name,
            )
        load = Load(target, int(started.text), workers, log)
        try:
            load.wait_until_loaded()
            yield load
            load.check_running()
        finally:
            load.end()
