"""What a claim is judged under, and what of a test's claims outlives one visit to the test.

A limit is judged in sessions that are spread over the run. For each of them the test is visited anew: its
fixtures are made again and its body runs from the start, so what was measured before is kept here.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_vperf.claims.judgement import Judgement
    from pytest_vperf.claims.plan import Plan
    from pytest_vperf.claims.sampling import Progress
    from pytest_vperf.results.record import ClaimRecord
    from pytest_vperf.targets.scope import Scope
    from pytest_vperf.thresholds.hardware import Selection
    from pytest_vperf.thresholds.profile import Threshold

#: A claim of a test: its name, and its occurrence number within one visit; where a fixture judges it while the test
#: is torn down, counted from -1 downwards.
Key = tuple[str, int]


@dataclass
class Ledger:
    """The claims of one test, over all its visits.

    Attributes:
        revisited: whether the test can be visited again; where not, sessions follow each other at once.
        begun: judgements that wait for their next session, in the order they began.
        ended: the records of those that reached a verdict.
        errors: what ended the others; a test that catches it goes on, and meets it in every visit.
        paused: the judgement that ended this visit; ``None`` where none did.
    """

    revisited: bool = False
    begun: dict[Key, Judgement] = field(default_factory=dict)
    ended: dict[Key, ClaimRecord] = field(default_factory=dict)
    failures: dict[Key, BaseException] = field(default_factory=dict)
    paused: Judgement | None = None
    _calls: Counter[str] = field(default_factory=Counter)
    _numbers: dict[Key, int] = field(default_factory=dict)
    _step: int = 1

    def begin_visit(self, *, revisited: bool) -> None:
        """The test runs from its start.

        Args:
            revisited: whether it can be visited again. A test with subtests cannot: they catch what ends a visit.
        """
        self.revisited, self.paused = revisited, None
        self._calls.clear()
        self._step = 1

    def begin_teardown(self) -> None:
        """Fixtures end: too late for a claim to have the test run again."""
        self.revisited = False
        self._calls.clear()
        self._step = -1

    def key(self, name: str) -> Key:
        """What names this call of a claim in every visit: a test may judge a claim more than once."""
        self._calls[name] += self._step
        return name, self._calls[name]

    def number(self, key: Key) -> int:
        """Which claim of the test this is, from 1 on, in the order in which they were first judged."""
        return self._numbers.setdefault(key, len(self._numbers) + 1)


@dataclass(frozen=True)
class Circumstances:
    """What a claim is judged under.

    Attributes:
        selection: the profiles that this run judges by.
        plan: tolerance, error rates and budget for a threshold, or for none, and the number of the claim in its test.
        sessions: in how many sessions a limit is judged.
        seed: of random orders.
        scope: owner of what samples start.
        nodeid: the test.
        progress: who is told how it goes.
        ledger: what earlier visits to the test left.
        keep: takes the record of a claim that an error or Ctrl-C ended.
        conclude: takes the record of a claim that reached a verdict; may raise to fail or skip the test.
        repeat: raises again what `conclude` raised for a record in an earlier visit to the test; keeps nothing.
        pause: ends this visit to the test; called where ``ledger.revisited`` says that another one follows.
    """

    selection: Selection
    plan: Callable[[Threshold | None, int], Plan]
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
