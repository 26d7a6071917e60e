"""The targets of a filling: owned while others start, found to be alive, and ended several at a time."""

from __future__ import annotations

import contextlib
import threading
import time
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from pytest_vperf.machine.procfile import content
from pytest_vperf.targets.base import TargetError
from pytest_vperf.targets.scope import Scope

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pytest_vperf.targets.base import Target

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
        """Take over a started target; one that comes when all are ended is ended, too."""
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
        """What runs, in the order it was owned."""
        with self._lock:
            return tuple(self._targets)

    def drop(self, targets: Sequence[Target]) -> None:
        """End some that are dead already, and own them no longer."""
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
    """Whether a process runs; of one that is not on this host it is believed."""
    if pid is None:
        return True
    # "PID (name) S …": a name may have anything in it.
    state = (content(Path(f"/proc/{pid}/stat")) or "").rpartition(") ")[2][:1]
    return state not in ("", "Z", "X")


@contextlib.contextmanager
def many_files() -> Iterator[None]:
    """Within the context this process may have many files open, as far as it is allowed: each target takes some."""
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
    """The results of what is asked of each target, several at a time, in their order.

    Raises:
        whatever ``work`` raised first.
    """
    with ThreadPoolExecutor(max(1, at_once), thread_name_prefix="density-ask") as pool:
        return list(pool.map(work, targets))
