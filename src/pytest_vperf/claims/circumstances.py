"""The context a claim is judged in, and the state of a test's claims that outlives one visit to the test.

A limit is judged in sessions that are spread over the run. Each session visits the test again: its fixtures are set
up anew and its body runs from the start, so earlier measurements are kept here.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NoReturn, Protocol

from pytest_vperf.targets.sides import Sides

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_vperf.claims.judgement import Judgement
    from pytest_vperf.claims.plan import Plan
    from pytest_vperf.claims.sampling import Progress, Share
    from pytest_vperf.results.record import ClaimRecord
    from pytest_vperf.targets.scope import Scope
    from pytest_vperf.thresholds.hardware import Selection


class Time(Protocol):
    """The time of a run, which its claims share.

    Attributes:
        seconds: all of it.
    """

    seconds: float

    def equal(self, test: str) -> float:
        """Seconds that a test has as its part of what is left."""
        ...

    def visit(self, test: str) -> Share:
        """How long the claim of a test may go on in this visit."""
        ...


#: A claim of a test: its name, and its occurrence number within one visit; counted from -1 downwards where a fixture
#: judges it during teardown.
Key = tuple[str, int]


@dataclass
class Ledger:
    """The claims of one test, over all its visits.

    Attributes:
        once: why the test cannot be visited again, so that its sessions run back to back; empty if it can.
        begun: judgements waiting for their next session, in the order they began.
        ended: the records of judgements that reached a verdict.
        beside: by the same keys, records of what else their figures were held against.
        failures: the exceptions that ended the others; a test that catches one goes on, and gets it again in every
        visit.
        paused: the judgement that ended this visit; ``None`` where none did.
    """

    once: str = "this test cannot be run again later in the run"
    begun: dict[Key, Judgement] = field(default_factory=dict)
    ended: dict[Key, ClaimRecord] = field(default_factory=dict)
    beside: dict[Key, ClaimRecord] = field(default_factory=dict)
    failures: dict[Key, BaseException] = field(default_factory=dict)
    paused: Judgement | None = None
    _calls: Counter[str] = field(default_factory=Counter)
    _numbers: dict[Key, int] = field(default_factory=dict)
    _step: int = 1

    def begin_visit(self, *, once: str) -> None:
        """Note that the test starts again.

        Args:
            once: why it cannot be visited again; empty if it can.
        """
        self.once, self.paused = once, None
        self._calls.clear()
        self._step = 1

    def begin_teardown(self) -> None:
        """Note that teardown begins: too late for a claim to have the test run again."""
        self.once = "a claim that is judged in teardown cannot have the test run again"
        self._calls.clear()
        self._step = -1

    def key(self, name: str) -> Key:
        """The key of this call, the same in every visit: a test may judge a claim more than once."""
        self._calls[name] += self._step
        return name, self._calls[name]

    def number(self, key: Key) -> int:
        """The position of a claim in its test, counted from 1, in the order in which claims were first judged."""
        return self._numbers.setdefault(key, len(self._numbers) + 1)


@dataclass(frozen=True)
class Circumstances:
    """The context a claim is judged in.

    Attributes:
        selection: the profiles that this run judges by.
        plan: makes the plan from the threshold, if there is one, and the number of the claim in its test; with
            ``gate=True`` that of a comparison of two sides.
        sessions: the number of sessions a limit is judged in.
        seed: of random orders.
        scope: owner of the targets that samples start.
        nodeid: the test.
        progress: receives progress reports.
        ledger: the state from earlier visits to the test.
        keep: takes the record of a claim that an error or Ctrl-C ended.
        conclude: takes the record of a claim that reached a verdict; may raise to fail or skip the test.
        repeat: raises again what `conclude` raised for this record in an earlier visit, without storing it twice.
        pause: ends this visit to the test; called only if not ``ledger.once``, when another visit follows.
        sides: of the run; none outside of a gate.
        time: that the claims of the run share; ``None``: each has its budget alone.
    """

    selection: Selection
    plan: Callable[..., Plan]
    sessions: int
    seed: int
    scope: Scope
    nodeid: str
    progress: Progress
    ledger: Ledger
    keep: Callable[[ClaimRecord], None]
    conclude: Callable[[ClaimRecord], None]
    repeat: Callable[[ClaimRecord], None]
    pause: Callable[[Judgement], NoReturn]
    sides: Sides = field(default_factory=Sides)
    time: Time | None = None
