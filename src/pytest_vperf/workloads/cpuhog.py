"""stress-ng as a background load in a target, while something else is measured there or elsewhere.

`Target.run` runs a command to its end, and a pod runs one command at a time, so the target's own shell puts the load
into the background, in its own session. It counts as a load only once the target's kernel shows that every worker
uses CPU time. Its session is killed to end it, and searched for survivors. If nobody can do that, stress-ng's own
``--timeout`` ends it, or the end of the target.
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
#: Ignores errors, since processes come and go meanwhile.
_LIST = "cat /proc/[0-9]*/stat 2>/dev/null; true"
_END = 'kill -9 -"$1" 2>/dev/null; shift; [ $# -eq 0 ] || kill -9 "$@" 2>/dev/null; true'

#: Seconds within which every worker must have used CPU time: emulated machines are slow, and CPUs may be shared.
LOADED_WITHIN = 30.0

#: CPU time in seconds that the load has to have used before it counts as one: ten ticks of the clock.
_PROOF = 0.1

#: Longest duration of a load that nothing ends, in seconds.
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
        """See `Workload.argv`. A single method of computing, which never waits, for an even load."""
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
        """The CPU time in s that a run reports if it ended by itself. stress-ng 0.05 and later print ``… cpu
        BOGO-OPS  REAL  USR  SYS  …`` with ``--metrics-brief``, to standard
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
        # In hundredths of a second, of which a run on an idle machine always has as many.
        return Quantity(
            reader.checked(user + system, "CPU time", positive=True), "s", discrete=True
        )

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
    """A running load.

    Args:
        target: where it runs.
        session: its session's ID in the target.
        workers: number of computing processes.
        log: the file in the target with its output.
    """

    def __init__(self, target: Target, session: int, workers: int, log: str) -> None:
        self._target, self._session, self._workers, self._log = target, session, workers, log

    def cpu_time(self) -> Quantity:
        """CPU time that its workers have used so far, in s, by the account of the target's kernel; 0 at first."""
        return Quantity(sum(worker.cpu_time for worker in self._workers_now()), "s", signed=True)

    def _all(self) -> list[ThreadStat]:
        text = self._target.run(["sh", "-c", _LIST], timeout=60.0).text
        found = []
        for line in text.splitlines(keepends=True):
            # A process that ends during the read leaves half a line.
            with contextlib.suppress(ParseError):
                found.append(StatFile().parse(Output(line)))
        return [process for process in found if process.session == self._session]

    def _workers_now(self) -> list[ThreadStat]:
        return [p for p in self._all() if p.number != self._session and p.state != "Z"]

    def wait_until_loaded(self) -> None:
        """Wait until every worker has used CPU time.

        Raises:
            CannotStart: they have not within `LOADED_WITHIN`, or the load ended; with its output.
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
        """Make sure that all workers still run.

        Raises:
            TargetError: workers are missing, so not all of the measurement was under load.
        """
        there = len(self._workers_now())
        if there < self._workers:
            raise TargetError(
                f"the load on {self._target.name} ended too early: {there} of {self._workers} workers are left"
                f"{self._said()}",
                target=self._target.name,
            )

    def end(self) -> None:
        """End it, and all processes of its session. Safe to repeat.

        Raises:
            TargetError: a process cannot be ended.
        """
        self._target.run(["sh", "-c", _END, "sh", str(self._session)], timeout=60.0)
        for _ in range(100):
            # Zombies that the target's first process does not reap use no CPU time.
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
    """A load on a target's processors, for the fixture ``cpuhog``.

    Args:
        bench: notes the tool's version.
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
            workers: number of computing processes, each using at most one processor.
            longest: seconds after which it ends by itself, in case it is left behind.

        Yields: The load, once every worker has used CPU time.

        Raises:
            Unavailable: the target does not have stress-ng.
            CannotStart: it does not load the target.
            TargetError: workers were missing when the context ended, or the load cannot be ended.
        """
        work = StressCpu(workers, longest)
        program = target.program(work.tool)
        arguments = work.argv(self._bench.version(target, program, work))
        log = f"/tmp/vperf-load-{secrets.token_hex(8)}"  # nosec B108 # a name that nobody can guess
        started = target.run(
            ["sh", "-c", _START, "sh", log, *program.argv, *arguments],
            env=ENVIRONMENT,
            timeout=60.0,
        )
        if not re.fullmatch(r"[0-9]{1,10}\s*", started.text):
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
