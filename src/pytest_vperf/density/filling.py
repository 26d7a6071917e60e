"""A filled host: how many targets run, why no more do, what each of them costs, and how they are ended.

The targets of a filling: owned while others start, checked for being alive, and ended several at a time.
"""

from __future__ import annotations

import contextlib
import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from pytest_vperf.machine.procfile import content
from pytest_vperf.quantity import Quantity, format_number
from pytest_vperf.targets.base import TargetError, Unavailable
from pytest_vperf.targets.scope import Scope

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pytest_vperf.density.bounds import Stop
    from pytest_vperf.density.kinds import Kind
    from pytest_vperf.results.record import FillingRecord
    from pytest_vperf.targets.base import Facts, Target


if TYPE_CHECKING:
    T = TypeVar("T", bound=Target)

R = TypeVar("R")

#: How many are ended at a time: it is the kernel, an engine or libvirt that has the work, and each of them waits.
_AT_ONCE = 8
#: A pod takes 7 of this process's, a guest 2.
_FILES = 1 << 16
#: Seconds that ending them may take: so many, and so many more for each.
_LEAST, _EACH = 60.0, 1.0


class Crowd(Scope):
    """Owns targets that several threads start.

    Attributes:
        name: of what they are, for messages.
    """

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name
        self._targets: list[Target] = []
        self._lock = threading.Lock()
        self._closed = False

    def own(self, target: T) -> T:
        """Take over a started target; one that arrives after the end is ended too."""
        with self._lock:
            late = self._closed
            if not late:
                self._targets.append(target)
        if late:
            target.close()
            raise TargetError(f"{self.name}: it came when all were to end", target=target.name)
        return target

    @property
    def targets(self) -> tuple[Target, ...]:
        """The running targets, in the order they were taken over."""
        with self._lock:
            return tuple(self._targets)

    def drop(self, targets: Sequence[Target]) -> None:
        """Clean up dead targets, and drop them."""
        with self._lock:
            self._targets = [each for each in self._targets if each not in targets]
        for each in targets:
            each.close()

    def end(self) -> float:
        """End all, several at a time, within a time limit; the seconds that it took. Safe to repeat.

        Raises:
            TargetError: some did not end in time; the end of the run will look for them again.
            whatever closing the first one raised that could not be closed.
        """
        began = time.monotonic()
        with self._lock:
            targets, self._targets, self._closed = self._targets, [], True
        if not targets:
            return 0.0
        limit = _LEAST + _EACH * len(targets)
        pool = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="density-end")
        try:
            # The last one first, as a scope does.
            futures = [pool.submit(target.close) for target in reversed(targets)]
            done, late = wait(futures, timeout=limit)
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
        for future in done:
            future.result()
        if late:
            raise TargetError(
                f"{len(late)} of {len(targets)} targets ({self.name}) did not end within {limit:.0f} s",
                target=self.name,
            )
        return time.monotonic() - began


def is_alive(pid: int | None) -> bool:
    """Whether a process runs; always true for one on another host."""
    if pid is None:
        return True
    # "PID (name) S …": a name may have anything in it.
    state = (content(Path(f"/proc/{pid}/stat")) or "").rpartition(") ")[2][:1]
    return state not in ("", "Z", "X")


@contextlib.contextmanager
def many_files() -> Iterator[None]:
    """Raises the limit of open files within the context, as far as allowed: each target needs some."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < _FILES:
        enough = _FILES if hard == resource.RLIM_INFINITY else min(hard, _FILES)
        resource.setrlimit(resource.RLIMIT_NOFILE, (enough, hard))
    try:
        yield
    finally:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def in_threads(work: Callable[[Target], R], targets: Sequence[Target], at_once: int) -> list[R]:
    """The results of ``work`` on each target, several at a time, in order.

    Raises:
        whatever ``work`` raised first.
    """
    with ThreadPoolExecutor(max(1, at_once), thread_name_prefix="density-ask") as pool:
        return list(pool.map(work, targets))


#: Why a count is only a lower bound → what gives a larger one.
_REMEDIES = {
    "slow": "a longer --start-timeout",
    "addresses": "without network=, or with an engine's network",
}


#: Seconds in which the last processes may be gone.
_LAST = 5.0


class Filling:
    """The targets that fill the host, until this is closed. Made by the fixture ``density``.

    Args:
        kind: what they are.
        crowd: owns them.
        pids: of each that runs, its process.
        stop: why no more were started.
        record: what is kept of it; its key ``teardown_s`` is filled when all have ended.
        scope: of the test, whose samples have the facts of the targets that they are about.
        seed: of the order in which they are asked.
        keep: is told when the record is complete.
        release: is told when all have ended: it ends their control group, and what this process needed for them.

    Attributes:
        count: how many run at once.
        stop: why no more were started.
        record: as given.
        targets: what runs, in the order of their starts.
    """

    def __init__(
        self,
        kind: Kind,
        crowd: Crowd,
        pids: dict[Target, int | None],
        stop: Stop,
        record: FillingRecord,
        scope: Scope,
        *,
        seed: int,
        keep: Callable[[], None],
        release: Callable[[], None],
    ) -> None:
        self._kind, self._crowd, self._pids = kind, crowd, pids
        self._scope, self._keep, self._release = scope, keep, release
        self.stop, self.record = stop, record
        self.targets = tuple(pids)
        self.count = len(self.targets)
        self._order = list(self.targets)
        random.Random(seed).shuffle(self._order)  # nosec B311 # an order, not a secret
        self._closed = False

    def capacity(self, at_least: Quantity | None = None) -> Quantity:
        """The number of targets that the host can run, as a sample of a claim.

        Args:
            at_least: the claimed number. If that many ran, it does not matter why no more did.

        Raises:
            Unavailable: fewer ran, and not because the host was full: its capacity is not known.
        """
        remedy = self._asked_for()
        if not self.stop.is_limit or remedy:
            enough = at_least is not None and self.count >= at_least.to("count").value
            if not enough:
                least = f", and {at_least} is claimed" if at_least is not None else ""
                raise Unavailable(
                    f"at least {self.count} run{least}; how many this machine carries is not known: {self.stop.why}",
                    remedy=remedy or _REMEDIES.get(self.stop.kind, "a larger --density-max"),
                    target=self._kind.name,
                )
        return self._counted()

    def _asked_for(self) -> str:
        """The remedy where an option ended the filling, and not the host; else empty."""
        # A group that is full may also say so by refusing its kernel memory.
        ends = ["oom", "budget", "allocation"]
        if self.record["memory_asked"] and self.stop.kind in ends:
            return "more memory (--density-memory), or none given"
        if self.record["floor_asked"] and self.stop.kind in [*ends, "floor"]:
            return "a smaller reserve (--density-floor), or none given"
        return ""

    def fits(self) -> Quantity:
        """The number that fit into the memory they were given, as a sample of a comparison.

        Raises:
            Unavailable: something other than this memory ended the filling.
        """
        given = ("oom", "budget") if self.record["memory_asked"] else ("oom", "budget", "floor")
        if self.stop.kind not in (*given, "allocation"):
            raise Unavailable(
                f"it was not their memory that {self.count} fill: {self.stop.why}",
                target=self._kind.name,
            )
        return self._counted()

    def _counted(self) -> Quantity:
        if self.targets:
            self._scope.own(cast("Target", _Lent(self.targets[-1], None)))
        # A host that is full from the start carries none.
        return Quantity(self.count, "count", direction="higher", signed=True, discrete=True)

    def another(self) -> Any:
        """A target not returned before, in random order; ``process`` is its process ID.

        Raises:
            Unavailable: all of them were.
        """
        if not self._order:
            raise Unavailable(
                f"all {self.count} that run were asked, and that is too few for a verdict",
                remedy="more memory" if self.stop.is_memory else "",
                target=self._kind.name,
            )
        target = self._order.pop()
        return self._scope.own(cast("Any", _Lent(target, self._pids[target])))

    def close(self) -> None:
        """End all of them, several at a time, within a time limit; then their control group. Safe to repeat.

        Raises:
            TargetError: some did not end.
        """
        if self._closed:
            return
        self._closed = True
        try:
            self.record["teardown_s"] = round(self._end(), 3)
        finally:
            self._keep()

    def _end(self) -> float:
        began = time.monotonic()
        try:
            self._crowd.end()
            self._check_end()
        finally:
            self._release()
        return time.monotonic() - began

    def _check_end(self) -> None:
        """Make sure that no process of theirs is left, since a removal can fail silently."""
        deadline = time.monotonic() + _LAST
        while left := [pid for pid in self._pids.values() if pid is not None and is_alive(pid)]:
            if time.monotonic() > deadline:
                raise TargetError(
                    f"{len(left)} of {self.count} targets ({self._kind.name}) still run after their end",
                    target=self._kind.name,
                )
            time.sleep(0.05)

    def __str__(self) -> str:
        cost = self.record["cost"]
        each = f", {format_number(cost['estimate'])} MiB each" if cost else ""
        return f"{self.count} of {self._kind.name}{each}: {self.stop.why}"


@dataclass(frozen=True, eq=False)
class _Lent:
    """A target lent to one sample: its facts go into the sample's, and closing it leaves it running."""

    target: Any
    _pid: int | None

    def facts(self) -> Facts:
        facts: Facts = self.target.facts()
        return facts

    @property
    def process(self) -> int:
        """The process whose memory it has.

        Raises:
            Unavailable: it has none on this host.
        """
        if self._pid is None:
            raise Unavailable("it has no process on this host", target=self.target.name)
        return self._pid

    def close(self) -> None:
        """Leave it running with the others."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self.target, name)
