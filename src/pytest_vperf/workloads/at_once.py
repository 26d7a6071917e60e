"""The same workload on two or on many targets at the same time.

Such runs were once synchronised by a clock (NTP) and a job queue (``at``) in each target. Here one process starts all
commands by one clock, the host's, and how far apart they began is part of the result. `together` requests two
commands at the same instant.

That does not scale: requesting a hundred commands from an engine takes seconds, in which the first ones would have
the machine to themselves. So `Starter` wraps each command in a shell, which sleeps in the target until a given
moment, the opening of the barrier, and then becomes the command. The shell reads ``/proc/uptime``, which is the
host's in containers; that of a machine with its own kernel is read beforehand, between two readings of the host's
clock, so that nothing needs to be set or synchronised. Each shell reports when it arrived and when it went on.
"""

from __future__ import annotations

import re
import threading
import time
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from pytest_vperf.quantity import Quantity
from pytest_vperf.targets.base import CommandFailed, TargetError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pytest_vperf.targets.base import Completed, Target
    from pytest_vperf.workloads.base import Workload
    from pytest_vperf.workloads.bench import Bench


class StandIn:
    """A proxy for a target that only runs commands differently.

    Args:
        target: the real one.
    """

    def __init__(self, target: Target) -> None:
        self._target = target

    def __getattr__(self, name: str) -> Any:
        return getattr(self._target, name)

    def __hash__(self) -> int:
        return hash(self._target)

    def __eq__(self, other: object) -> bool:
        """A proxy equals its target, and other proxies of it."""
        return other is self or other is self._target


R = TypeVar("R")


@dataclass(frozen=True)
class Together(Generic[R]):
    """The results of two runs that started together.

    Attributes:
        results: of the first target, and of the second.
        durations: of the two commands on the host's clock, in s, from request to end.
        start_offset: how much later the second was requested than the first, in ms; may be negative. A target's time
            from the request until its process runs is part of its duration.
    """

    results: tuple[R, R]
    durations: tuple[Quantity, Quantity]
    start_offset: Quantity


class _Gate(StandIn):
    """A target whose next command waits until the other target's is ready.

    Args:
        target: runs it.
        barrier: where both wait.
    """

    def __init__(self, target: Target, barrier: threading.Barrier) -> None:
        super().__init__(target)
        self._barrier = barrier
        self.began = 0.0
        self.duration = 0.0

    def run(self, argv: Sequence[str], **options: Any) -> Completed:
        self._barrier.wait()
        self.began = time.perf_counter()
        done = self._target.run(argv, **options)
        self.duration = time.perf_counter() - self.began
        return done


def together(bench: Bench, work: Workload[R], first: Target, second: Target) -> Together[R]:
    """Run a workload on two targets at the same instant, and wait for both.

    All else, such as finding the tool and its version, is done beforehand.

    Args:
        bench: runs them.
        work: what each does.
        first: a target.
        second: another one; they must not share a connection that runs one command at a time.

    Raises:
        the error of `Bench.run` for one of the two; the other one is waited for.
    """
    targets = (first, second)
    for target in targets:
        bench.version(target, target.program(work.tool), work)
        bench.check_clock(target)
    barrier = threading.Barrier(2)
    gates = [_Gate(target, barrier) for target in targets]
    results: dict[int, R] = {}
    errors: dict[int, BaseException] = {}

    def run(place: int) -> None:
        try:
            results[place] = bench.run(cast("Target", gates[place]), work)
        except BaseException as error:
            errors[place] = error
            barrier.abort()  # so that the other one does not wait in vain

    threads = [threading.Thread(target=run, args=(place,)) for place in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        # The error of the one that failed says more than that of the one that waited in vain.
        causes = sorted(
            errors.values(), key=lambda error: isinstance(error, threading.BrokenBarrierError)
        )
        raise causes[0]
    return Together(
        (results[0], results[1]),
        (_seconds(gates[0].duration), _seconds(gates[1].duration)),
        Quantity((gates[1].began - gates[0].began) * 1e3, "ms", signed=True),
    )


def _seconds(value: float) -> Quantity:
    return Quantity(value, "s", direction="lower")


class Race(Generic[R]):
    """Runs a workload in two targets at once, as the two arms of a claim.

    A claim samples its arms one after the other, in random order. One run of both provides the two samples of a pair:
    sampling the first arm starts it, and the other arm then returns its figure.

    Args:
        bench: runs the workload.
        work: what both do.
        first: a target.
        second: the other one.
        figure: which figure of a result is the sample, e.g. ``lambda result: result.total_time``.
    """

    def __init__(
        self,
        bench: Bench,
        work: Workload[R],
        first: Target,
        second: Target,
        *,
        figure: Callable[[R], Quantity],
    ) -> None:
        self._bench = bench
        self._work = work
        self._targets = (first, second)
        self._figure = figure
        self._waiting: list[Quantity | None] = [None, None]

    def first(self) -> Quantity:
        """A sample of the first target."""
        return self._sample(0)

    def second(self) -> Quantity:
        """A sample of the second target."""
        return self._sample(1)

    def _sample(self, arm: int) -> Quantity:
        """The figure stored for this arm, else that of a new run; each is used once."""
        value = self._waiting[arm]
        if value is None:
            results = together(self._bench, self._work, *self._targets).results
            self._waiting = [self._figure(result) for result in results]
            value = self._waiting[arm]
        self._waiting[arm] = None
        assert value is not None
        return value


T = TypeVar("T")

#: Sleeps until its kernel has been up for $1 hundredths of a second, reports when it arrived and went on, and becomes
#: the rest. The added 100 avoids leading zeros, with which a shell would take 009 for an invalid octal number.
_WAIT = """
go=$1; shift
read -r came _ </proc/uptime
left=$((go - ${came%.*} * 100 - 1${came#*.} + 100))
if [ "$left" -gt 0 ]; then
  rest=$((left % 100))
  [ "$rest" -gt 9 ] || rest=0$rest
  sleep "$((left / 100)).$rest"
fi
read -r went _ </proc/uptime
echo "vperf-barrier $came $went" >&2
exec "$@"
"""
_SAID = re.compile(rb"^vperf-barrier (\d+\.\d\d) (\d+\.\d\d)\n", re.MULTILINE)
#: The barrier opens after the time that all took to arrive last time, multiplied by the first, plus seconds.
_SLACK, _MARGIN = 1.25, 0.5
#: Readings of a machine's own clock, of which the fastest counts.
_READINGS = 3


@dataclass(frozen=True)
class AtOnce(Generic[R]):
    """The results of runs that started together.

    Attributes:
        results: of each, in the order of the targets.
        began: of each, seconds on the host's clock after the first one began.
        spread: from the first start to the last, in ms. ``/proc/uptime`` has hundredths of a second; a machine's own
            clock is known to within half the duration of its fastest reading.
        late: how many arrived after the barrier had opened, and began at once.
    """

    results: tuple[R, ...]
    began: tuple[float, ...]
    spread: Quantity
    late: int


class _Waiting(StandIn):
    """A target whose next command waits for a given moment.

    Args:
        target: runs it.
        opens: the moment, in seconds of the target's uptime.
        patience: longest wait in seconds, which is added to the command's time limit.
    """

    def __init__(self, target: Target, opens: float, patience: float) -> None:
        super().__init__(target)
        self._opens = opens
        self._patience = patience
        self.came = self.went = 0.0
        self.ended = 0.0

    def run(self, argv: Sequence[str], *, timeout: float = 60.0, **options: Any) -> Completed:
        waiting = ["sh", "-c", _WAIT, "sh", str(round(100 * self._opens)), *argv]
        done = self._target.run(
            waiting, timeout=timeout + self._patience, **{**options, "check": False}
        )
        self.ended = time.monotonic()
        said = _SAID.search(done.stderr)
        mine = replace(done, argv=tuple(argv), stderr=_SAID.sub(b"", done.stderr, count=1))
        if done.returncode:
            raise CommandFailed(mine, target=self.name)
        if said is None:
            raise TargetError(
                f"{self.name} does not report when it passed the barrier: {done.stderr[:200]!r}",
                target=self.name,
            )
        self.came, self.went = float(said[1]), float(said[2])
        return mine


class Starter:
    """Starts the same work on many targets at one moment, repeatedly.

    Args:
        bench: runs it.
    """

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        # Whether a target has the kernel of this process, by target; checked once.
        self._shared: dict[Target, bool] = {}
        # Seconds from requesting all commands until the last one reached the barrier.
        self._gathering = 0.0

    def run(self, works: Sequence[tuple[Target, Workload[R]]]) -> AtOnce[R]:
        """Run each workload in its target, all started at the same moment, and wait for all.

        Tools, versions and clocks are checked beforehand. A target may occur several times if it can run several
        commands at once.

        Raises:
            TargetError: there was no moment at which all of them ran.
            the error of `Bench.run` for one of them; the others are waited for.
        """
        targets = [target for target, _ in works]
        for target, work in works:
            self._bench.version(target, target.program(work.tool), work)
        different = list(dict.fromkeys(targets))
        in_threads([partial(self._bench.check_clock, target) for target in different])
        if not self._shared:
            # All at once, as in the run itself, which also measures how long the requests take.
            asked = time.monotonic()
            same = in_threads([partial(_has_our_clock, target) for target in targets])
            self._gathering = time.monotonic() - asked
            self._shared = dict(zip(targets, same, strict=True))
        own = {target: self._clock(target) for target in different}
        clocks = [own[target] for target in targets]
        patience = _SLACK * self._gathering + _MARGIN
        begins = time.monotonic()
        opens = begins + patience
        gates = [
            _Waiting(target, opens + clock, patience)
            for target, clock in zip(targets, clocks, strict=True)
        ]
        results = in_threads(
            [
                partial(self._bench.run, cast("Target", gate), work)
                for gate, (_, work) in zip(gates, works, strict=True)
            ]
        )
        began = [gate.went - clock for gate, clock in zip(gates, clocks, strict=True)]
        came = [gate.came - clock for gate, clock in zip(gates, clocks, strict=True)]
        self._gathering = max(came) - begins
        first, last, ended = min(began), max(began), min(gate.ended for gate in gates)
        if last >= ended:
            raise TargetError(
                f"{len(works)} commands never ran all at once: the first one ended {ended - first:.2f} s after the"
                f" first one began, and the last one began after {last - first:.2f} s; give them more work"
            )
        late = sum(moment > opens for moment in came)
        spread = Quantity(1e3 * (last - first), "ms", direction="lower", signed=True)
        return AtOnce(tuple(results), tuple(moment - first for moment in began), spread, late)

    def _clock(self, target: Target) -> float:
        """A target's uptime minus the host's monotonic clock."""
        if target not in self._shared:
            self._shared[target] = _has_our_clock(target)
        if self._shared[target]:
            return time.clock_gettime(time.CLOCK_BOOTTIME) - time.monotonic()
        return _own_offset(target)


def _has_our_clock(target: Target) -> bool:
    """Whether a target's uptime is that of this process's kernel: it is then between two readings of ours.

    The uptime is CLOCK_BOOTTIME (clock_gettime(2)), truncated to hundredths of a second.
    """
    before = time.clock_gettime(time.CLOCK_BOOTTIME)
    uptime = _uptime(target)
    return before - 0.01 <= uptime <= time.clock_gettime(time.CLOCK_BOOTTIME)


def _own_offset(target: Target) -> float:
    """The uptime of a machine with its own kernel minus the host's clock, by the fastest of some readings."""
    readings = []
    for _ in range(_READINGS):
        before = time.monotonic()
        uptime = _uptime(target)
        after = time.monotonic()
        readings.append((after - before, uptime - (before + after) / 2))
    return min(readings)[1]


def _uptime(target: Target) -> float:
    text = target.run(["cat", "/proc/uptime"], timeout=120.0).text
    found = re.match(r"(\d+\.\d\d) ", text)
    if found is None:
        raise TargetError(
            f"/proc/uptime of {target.name} is not understood: {text[:60]!r}", target=target.name
        )
    return float(found[1])


def in_threads(calls: Sequence[Callable[[], T]]) -> list[T]:
    """Run each call in its own thread, wait for all, and return their results.

    Raises:
        the error of the first call that fails.
    """
    results: dict[int, T] = {}
    errors: dict[int, BaseException] = {}

    def make(place: int) -> None:
        try:
            results[place] = calls[place]()
        except BaseException as error:
            errors[place] = error

    # If interrupted, we do not wait for them: the targets are ended, and their commands with them.
    threads = [
        threading.Thread(target=make, args=(place,), daemon=True) for place in range(len(calls))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[min(errors)]
    return [results[place] for place in range(len(calls))]
