"""The least memory that a pod starts with: a search by real starts, to within one MiB.

A size works if the container's process runs, still runs a moment later, and a command (``true``) runs in it. It fails
if there is a sign of too little memory, which is recorded; any other error ends the search, because it says nothing
about a size.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_vperf.quantity import Quantity, amount
from pytest_vperf.stats.search import Answer, Found, NoSize, smallest
from pytest_vperf.targets.base import CannotStart, TargetError, Unavailable
from pytest_vperf.targets.pod.endings import too_little

if TYPE_CHECKING:
    from pytest_vperf.targets.pod.pod import Pod
    from pytest_vperf.targets.pod.pods import Pods

#: Where the search begins: a pod's default memory.
TOP = "512 MiB"
#: A kernel without enough memory may hang. A start counts as failed once it has taken this many times as long as one
#: with plenty, and at least this many seconds.
_TIMES, _AT_LEAST = 8.0, 5.0


@dataclass(frozen=True)
class Known:
    """The result of an earlier search in the run; the next one starts there, but still searches."""

    size: int
    seconds: float


@dataclass(frozen=True)
class Least:
    """The result of a search.

    Attributes:
        memory: the least that a pod starts with, in MiB.
        found: every size that was tried, with its outcome.
    """

    memory: Quantity
    found: Found
    _pods: Pods
    _firmware: str

    @property
    def search(self) -> str:
        """The tries as one line, in order."""
        tries = "; ".join(
            f"{each.size} MiB {'starts' if each.answer.works else each.answer.words}"
            for each in self.found.tries
        )
        told = "; ".join(f"contradiction (MiB): {each}" for each in self.found.contradictions)
        return f"{tries}; {told}" if told else tries

    def start(self) -> Pod:
        """Start a pod with that much memory, and the search in its record.

        Raises:
            as `Pods.start`.
        """
        pod = self._pods.unowned().start(
            memory=f"{self.memory.value:g} MiB", firmware=self._firmware
        )
        return self.record(pod)

    def record(self, pod: Pod) -> Pod:
        """Have the test own a pod of this size, and note the search in its record."""
        pod.note("memory_search", self.search)
        return self._pods.own(pod)


class Footprint:
    """Searches for the least memory that pods start with, for the fixture of that name.

    Args:
        known: results of the run's searches, by what was started.
    """

    def __init__(self, known: dict[tuple[str, ...], Known]) -> None:
        self._known = known

    def minimum_memory(self, pods: object, *, firmware: str = "qboot", top: str = TOP) -> Least:
        """Search by starting pods one after the other.

        The last one, with the least memory, is recorded with all sizes tried.

        Args:
            pods: a fixture's starter: `Pods`, or the one for Xen.
            firmware: the pods'.
            top: a size that they start with.

        Raises:
            Unavailable: such pods are unavailable here; or they are on Xen, which assigns memory differently.
            CannotStart: none starts, or a size that worked failed when repeated.
            TargetError: a start failed for a reason other than its size.
        """
        from pytest_vperf.targets.pod.pods import Pods

        if not isinstance(pods, Pods):
            raise Unavailable(
                "the least memory is searched for with pods that QEMU starts", target="pod xen"
            )
        search = _Search(pods, firmware)
        key = (pods.accelerator, firmware, *pods.identity)
        known = self._known.get(key)
        if known is not None:
            search.seconds = known.seconds
        size = round(amount("top", top, "MiB", such_as=TOP))
        try:
            found = smallest(search.ask, size, guess=known.size if known else None)
        except NoSize as error:
            search.close()
            raise CannotStart(
                f"no least memory of pods was found: {error} (MiB)", target=search.name
            ) from error
        except BaseException:
            search.close()
            raise
        self._known[key] = Known(found.size, search.seconds)
        memory = Quantity(found.size, "MiB", direction="lower", discrete=True)  # in steps
        least = Least(memory, found, pods, firmware)
        # The search ends with a start at the size that it found.
        assert search.pod is not None
        least.record(search.pod)
        search.close()
        return least


class _Search:
    """Tries sizes with one pod at a time; the last one keeps running."""

    def __init__(self, pods: Pods, firmware: str) -> None:
        self._pods = pods.unowned()
        self._firmware = firmware
        self.pod: Pod | None = None
        self.name = ""
        self.seconds = 0.0

    def ask(self, size: int) -> Answer:
        self.close()
        limit = max(_AT_LEAST, _TIMES * self.seconds) if self.seconds else None
        began = time.perf_counter()
        console = ""
        try:
            self.pod = self._pods.start(
                memory=f"{size} MiB", firmware=self._firmware, timeout=limit
            )
            self.seconds = self.seconds or time.perf_counter() - began
            self.name = self.pod.name
            try:
                self.pod.run(["true"], timeout=max(_AT_LEAST, _TIMES * self.seconds))
            except TargetError:
                console = self.pod.console
                raise
        except Unavailable:
            raise
        except TargetError as error:
            self.close()
            self.name = error.target or self.name
            words = too_little(error, console)
            if words is None:
                raise
            return Answer(False, words)
        return Answer(True)

    def close(self) -> None:
        if self.pod is not None:
            self.pod.close()
            self.pod = None
