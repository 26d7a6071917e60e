"""Fills a host: starts targets, several at a time, until no more fit, and reads what memory is left.

They are started in rounds of as many as the host has processors; the next round starts when all of the last one run.
What is read between two rounds is then of targets that have settled, and not of some that are half started. The first
rounds are smaller, so that on a host with many processors there are readings enough for a slope with an interval.
While a round starts, the host is looked at five times a second: where it has no more than its reserve, what is just
starting is ended at once.
"""

from __future__ import annotations

import contextlib
import time
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import TYPE_CHECKING

from pytest_vperf.density import bounds as stopping
from pytest_vperf.density.bounds import Stop, in_words
from pytest_vperf.density.filling import is_alive
from pytest_vperf.results.record import Reading
from pytest_vperf.targets.base import CannotConnect, Unavailable
from pytest_vperf.targets.control_group import SETTLED, STARTING, set_score

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pytest_vperf.density.filling import Crowd
    from pytest_vperf.density.kinds import Kind
    from pytest_vperf.targets.base import Target

    Starting = Sequence[Future[Target]]

_LOOK = 0.2
#: Seconds for what was just started to come to rest before the host is read.
_REST = 0.1
#: Seconds that a start which nothing can end is waited for, after Ctrl-C.
_GIVE_UP = 60.0
#: A round is at least so many, and else this share of what runs: 30 targets are then 13 readings at least, which are
#: six blocks of `pytest_vperf.stats.spread`, the fewest with an interval of 95 %.
_FEW, _SHARE = 2, 6


class Filler:
    """Fills a host with targets of one kind, once.

    Args:
        kind: what they are.
        crowd: owns them.
        options: of each start.
        most: how many at most; ``None``: as many as fit.
        memory: bytes that all of them may take from the host.
        floor: bytes that the host keeps available.
        at_once: how many are started at a time, at most.
        say: is told how it goes, often.

    Attributes:
        curve: what the host had with each number of them.
        pids: of each that runs, its process.
    """

    def __init__(
        self,
        kind: Kind,
        crowd: Crowd,
        options: Mapping[str, object],
        *,
        most: int | None,
        memory: int,
        floor: int,
        at_once: int,
        say: Callable[[str], None],
    ) -> None:
        self._kind, self._crowd = kind, crowd
        self._options = dict(options)
        self._most, self._memory, self._floor = most, memory, floor
        self._at_once = max(1, at_once)
        self._say = say
        self._began = time.monotonic()
        self._killed = 0
        #: The processes of what runs.
        self._settled: set[int] = set()
        #: Those that were ended here, for they were starting when the host had no more to give.
        self._ended: set[int] = set()
        #: Whether such targets have a process that is seen here.
        self._has_process = False
        self.curve: list[Reading] = []
        self.pids: dict[Target, int | None] = {}

    def fill(self) -> Stop:
        """Start targets until no more fit; return why.

        Raises:
            Unavailable: such a target is unavailable here.
            TargetError: one did not start, or ended, for a reason other than that the host was full.
            whatever else a start raises, likewise.
        """
        stop = self._floor_reached() or self._try()
        self._began = time.monotonic()
        self._killed = self._kills()
        self._read()
        pool = ThreadPoolExecutor(self._at_once, thread_name_prefix="density-start")
        try:
            while stop is None:
                stop = self._before() or self._round(pool)
        finally:
            # Not waited for: the starts of a round have ended, or were given up.
            pool.shutdown(wait=False, cancel_futures=True)
        return stop

    def _try(self) -> Stop | None:
        """Start and end one, so that everything it needs is built and cached before the host is first read."""
        self._say(f"{self._kind.name}: the first one")
        try:
            first = self._kind.start(**self._options)
        except Exception as error:
            # First: of a process that was ended even its limits cannot be read back, and are said not to be had.
            if killed := self._kills():
                return self._out_of_memory(killed)
            if isinstance(error, Unavailable):
                raise
            return self._because(error)
        self._look_for_process(first)
        self._crowd.drop([first])
        return None

    def _look_for_process(self, first: Target) -> None:
        """Find out whether such targets have a process here, and make sure that it is in their group.

        Raises:
            Unavailable: it is not; a daemon may be told to leave the groups of memory alone.
        """
        (pid,) = self._kind.pids([first])
        group = self._kind.group
        self._has_process = pid is not None
        if pid is not None and group is not None and pid not in group.processes and is_alive(pid):
            why = f"process {pid} is not in the control group {group.path}, which is to hold all"
            raise Unavailable(why, target=self._kind.name)

    def _before(self) -> Stop | None:
        """What rules out another start."""
        running = len(self.pids)
        if self._most is not None and running >= self._most:
            return Stop("most", f"{running} run, as many as were asked for (--density-max)")
        if self._is_watched and self._lost >= self._memory:
            return stopping.budget(self._lost, running, self._memory)
        # What no group holds cannot be ended while it starts, and would take its share of the reserve.
        each = self._lost // running if self._kind.group is None and self._floor and running else 0
        return self._floor_reached(max(0, each))

    @property
    def _lost(self) -> int:
        return self.curve[0]["available"] - self.curve[-1]["available"]

    @property
    def _is_watched(self) -> bool:
        """Whether the host's memory has to be watched, because no group limits the targets."""
        return self._kind.group is None or self._kind.outside

    def _floor_reached(self, each: int = 0) -> Stop | None:
        """Whether the host has only its reserve left, or less than its reserve and ``each``."""
        left = self._kind.available()
        if left > self._floor and left >= self._floor + each:
            return None
        return stopping.floor(left, each, self._floor)

    def _round(self, pool: ThreadPoolExecutor) -> Stop | None:
        number = min(self._at_once, max(_FEW, len(self.pids) // _SHARE))
        if self._is_watched and self.pids and self._lost > 0:
            # With many processors a round may be more than the reserve.
            room = min(self._kind.available() - self._floor, self._memory - self._lost)
            number = min(number, max(1, room * len(self.pids) // self._lost))
        if self._most is not None:
            number = min(number, self._most - len(self.pids))
        futures = [pool.submit(self._kind.start, **self._options) for _ in range(number)]
        try:
            stop = self._take(futures, self._watch(futures))
        except BaseException:
            self._abandon(futures)
            raise
        time.sleep(_REST)
        stop = self.bury() or stop
        self._read()
        return stop

    def _watch(self, futures: Starting) -> Stop | None:
        """Watch the host until all have started or failed; return why no more fit, if so."""
        stop: Stop | None = None
        while wait(futures, timeout=_LOOK).not_done:
            started = sum(future.done() for future in futures)
            self._say(self._standing(started))
            newcomers = self._newcomers()
            for pid in newcomers:
                set_score(pid, STARTING)
            stop = stop or self._floor_reached()
            if stop is not None and self._kind.group is not None:
                self._ended |= newcomers
                self._kind.group.end(newcomers)
        return stop

    def _newcomers(self) -> set[int]:
        """The processes of what is starting."""
        if self._kind.group is None:
            return set()
        # A target is owned a moment before its start has returned.
        new = [target for target in self._crowd.targets if target not in self.pids]
        owned = {pid for pid in self._kind.pids(new) if pid is not None} if new else set()
        return set(self._kind.group.processes) - self._settled - owned

    def _take(self, futures: Starting, stop: Stop | None) -> Stop | None:
        """The result of a round: the targets that run, and why no more fit; those that the kernel killed are left
        out."""
        new: list[Target] = []
        errors: list[Exception] = []
        for future in futures:
            try:
                new.append(future.result())
            # A fork that is refused memory is an OSError, a thread a RuntimeError.
            except Exception as error:
                errors.append(error)
        for target, pid in zip(new, self._kind.pids(new), strict=True):
            self.pids[target] = pid
            if pid is not None and self._kind.group is not None:
                set_score(pid, SETTLED)
        if self._kind.group is not None:
            self._settled = set(self._kind.group.processes)
        if stop is not None or not errors:
            return stop
        if self._kills() > self._killed:
            return None  # which is seen when the dead are counted out
        return self._because(errors[0])

    def _because(self, error: Exception) -> Stop:
        stop = stopping.of_error(error)
        if stop is None or (stop.kind == "slow" and not self.pids):
            raise error
        return stop

    def bury(self) -> Stop | None:
        """Drop dead targets; only the OOM killer or our own abort may have ended them.

        Raises:
            CannotConnect: something ended by itself.
        """
        kills = self._kills()
        killed, self._killed = kills - self._killed, kills
        dead = [target for target, pid in self.pids.items() if not self._is_alive(pid)]
        # One may have come up in the moment between the look at what starts and the signal.
        by_itself = [target for target in dead if self.pids[target] not in self._ended]
        for target in dead:
            del self.pids[target]
        self._crowd.drop(dead)
        if killed > 0:
            return self._out_of_memory(killed)
        if by_itself:
            raise CannotConnect(
                f"{len(by_itself)} of {len(dead) + len(self.pids)} targets ({self._kind.name}) ended while others"
                " started, and not for want of memory",
                target=self._kind.name,
            )
        return None

    def _is_alive(self, pid: int | None) -> bool:
        """Whether a target lives: one with a process here has ended when the process is gone."""
        return not self._has_process if pid is None else is_alive(pid)

    def _out_of_memory(self, killed: int) -> Stop:
        return stopping.oom(self._kind.group.limit if self._kind.group else 0, killed)

    def _kills(self) -> int:
        return self._kind.group.kills if self._kind.group is not None else 0

    def _abandon(self, futures: Starting) -> None:
        """Abort the starts in progress; the crowd ends those that still come up."""
        for future in futures:
            future.cancel()
        deadline = time.monotonic() + _GIVE_UP
        while wait(futures, timeout=_LOOK).not_done and time.monotonic() < deadline:
            if self._kind.group is not None:
                with contextlib.suppress(OSError):
                    self._kind.group.end(self._newcomers())

    def _read(self) -> None:
        group = self._kind.group
        self.curve.append(
            Reading(
                n=len(self.pids),
                at_s=round(time.monotonic() - self._began, 3),
                available=self._kind.available(),
                group_used=group.used if group is not None else None,
            )
        )

    def _standing(self, started: int) -> str:
        """``pod tcg: 26 run, 5.7 GiB of 6 GiB lost, 14.2 GiB available``."""
        left = self._kind.available()
        lost = max(0, self.curve[0]["available"] - left)
        of = f" of {self._most}" if self._most is not None else ""
        memory = f"{in_words(lost)} of {in_words(self._memory)} lost, {in_words(left)} available"
        return f"{self._kind.name}: {len(self.pids) + started}{of} run, {memory}"
