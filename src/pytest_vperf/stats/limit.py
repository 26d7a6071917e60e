"""The judge of one arm against an absolute limit, in sessions spread over the run.

A session judges its samples against one limit, or two that make a band.
"""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from typing import TYPE_CHECKING, Any

from pytest_vperf.stats.evidence import Interval, SignEvidence, sample_quantile, sequential_interval
from pytest_vperf.stats.rule import (
    Ending,
    State,
    check_edges,
    check_error,
    check_number,
    check_share,
    check_side,
    check_whole,
    count,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pytest_vperf.stats.rule import Arm, Cause, Decision, Side


#: A machine's level moves by up to 37 % between sessions minutes apart. Samples below two thirds of the limit, or
#: above one and a half times, are far enough from it for a short session.
_FAR = 1.5
#: Within some 20 % of the limit a machine's level, which moves as much, leaves most questions undecided.
_CLOSE = 1.2

#: The samples of a limit, all sessions together, of which nobody has said how many they may be; more if the quantile
#: needs more.
SAMPLES = 512
#: A true percentile has samples beyond it, so the fewest samples, all of them good, seldom suffice: a limit is given
#: what it takes if half as many lie beyond it as may, 0.5 % for p99. Of 60 simulated claims each about p99, all held
#: with 0.2 % beyond the limit, 59 with 0.3 %, 54 with 0.4 % and 29 with 0.5 %; nearer ones would take several times
#: as many. A clear verdict costs no more for it, as it ends the sampling, and the budget bounds what the others cost.
_STRAY = 0.5


_DECISIONS: tuple[Decision, ...] = ("holds", "refuted")


class _Edge:
    """A limit with the evidence about it."""

    def __init__(self, limit: float, side: Side, quantile: float) -> None:
        self.limit, self._at_most = limit, side == "at_most"
        # "At least" is judged as its mirror image, at the complementary quantile.
        self._share = share = quantile if self._at_most else 1 - quantile
        self.against, self.favour = SignEvidence(share, "above"), SignEvidence(share, "below")

    def is_far(self, value: float) -> bool:
        near, beyond = sorted((self.limit / _FAR, self.limit * _FAR))
        return not near <= value <= beyond

    def is_bad(self, value: float) -> bool:
        return value > self.limit if self._at_most else value < self.limit

    def is_close(self, value: float) -> bool:
        near, beyond = sorted((self.limit / _CLOSE, self.limit * _CLOSE))
        return near <= value <= beyond

    def add(self, value: float) -> None:
        bad = self.is_bad(value)
        self.against.add(bad)
        self.favour.add(bad)

    def fewest(self, decision: Decision, enough: float, stray: float = 0.0) -> int:
        """The fewest samples whose evidence for a decision can be enough.

        After n samples that all speak for it, the evidence is `SignEvidence.after` (n, 0) or (0, n), which grows
        with n: the first n at which it reaches ``enough`` is the answer.

        Args:
            decision: ``holds`` or ``refuted``.
            enough: the logarithm of the evidence that is required.
            stray: the share of samples that speak for the other one, as a part of what the quantile allows: then the
            answer is what it takes if exactly so many do.
        """
        holds = decision == "holds"
        evidence = self.favour if holds else self.against
        other = stray * ((1 - self._share) if holds else self._share)

        def reaches(size: int) -> bool:
            strays, rest = (other * size, size - other * size) if other else (0, size)
            bad, good = (strays, rest) if holds else (rest, strays)
            return evidence.after(bad, good) >= enough

        most = 1
        while not reaches(most):
            most *= 2
        return bisect_left(range(most), True, lo=most // 2, key=reaches)


class LimitSession:
    """One session: takes samples until their signs decide or its share of them is used up.

    Attributes:
        values: the judged samples.
        warm_up: the number of warm-up samples still to come.
        first_warm_up: the initial number of warm-up samples.
        decision: the session's verdict; ``inconclusive`` until there is another.
        over: whether it takes no more samples.
    """

    def __init__(
        self,
        limits: Sequence[tuple[float, Side]],
        quantile: float,
        *,
        to_refute: float,
        to_hold: float,
        far: float,
        least: int,
        most: int,
        warm_up: int,
    ) -> None:
        """Begin.

        Args:
            limits: one, or two that make a band, each with its good side, which includes the limit.
            quantile: the quantile held against the limit.
            to_refute: logarithm of the evidence that refutes.
            to_hold: logarithm of the evidence that the claim holds.
            far: the part of both that suffices if the samples are far from the limits; at most 1.
            least: judged samples before a decision, unless they are far from the limits.
            most: the most judged samples, at least one; takes precedence over ``least``.
            warm_up: first samples that are not judged.
        """
        self.values: list[float] = []
        self._ordered: list[float] = []
        self.warm_up = self.first_warm_up = warm_up
        self.decision: Decision = "inconclusive"
        self.over = False
        self._edges = [_Edge(limit, side, quantile) for limit, side in limits]
        self._to_refute, self._to_hold, self._part = to_refute, to_hold, far
        self._least, self._most = min(least, most), most

    def add(self, value: float) -> None:
        """Take a sample."""
        if self.warm_up > 0:
            self.warm_up -= 1
            return
        self.values.append(value)
        insort(self._ordered, value)
        for edge in self._edges:
            edge.add(value)
        if len(self.values) >= self._least:
            self.decision = self._shown(1.0)
        if self.decision == "inconclusive":
            shown = self._shown(self._part)
            if shown != "inconclusive" and self._far:
                self.decision = shown
        self.over = self.decision != "inconclusive" or len(self.values) >= self._most

    def _shown(self, part: float) -> Decision:
        """The decision if this part of the required evidence were enough."""
        if any(edge.against.log >= part * self._to_refute for edge in self._edges):
            return "refuted"
        if all(edge.favour.log >= part * self._to_hold for edge in self._edges):
            return "holds"
        return "inconclusive"

    @property
    def _far(self) -> bool:
        """Whether the median of the samples is far from every limit, on the same side of zero."""
        ordered, size = self._ordered, len(self._ordered)
        middle = {ordered[(size - 1) // 2], ordered[size // 2]}
        return all(edge.is_far(value) for edge in self._edges for value in middle)

    @property
    def leaning(self) -> Decision:
        """What its samples speak for, however little: ``refuted`` or ``holds``."""
        against = any(edge.against.log > edge.favour.log for edge in self._edges)
        return "refuted" if against else "holds"

    @property
    def beyond(self) -> int:
        """How many samples are on a bad side."""
        return sum(any(edge.is_bad(value) for edge in self._edges) for value in self.values)

    def is_close(self, quantile: float) -> bool:
        """Whether this quantile of the samples is close to a limit."""
        found = sample_quantile(self._ordered, quantile)
        return any(edge.is_close(found) for edge in self._edges)

    @property
    def part(self) -> float:
        """The part of the evidence that suffices where its samples lie."""
        return self._part if self._far else 1.0

    def fewest(self, decision: Decision, part: float | None = None, stray: float = 0.0) -> int:
        """The fewest judged samples with which a session can decide so; see `_Edge.fewest`.

        Args:
            decision: ``holds``, which takes the evidence of every limit, or ``refuted``, which takes that of one.
            part: the part of the evidence that suffices; by default that of samples as far from the limits as this
            decision allows: inside a narrow band nothing is far from both ends.
            stray: as there.
        """
        if part is None:
            part = 1.0 if decision == "holds" and self._narrow else self._part
        if decision == "holds":
            return max(edge.fewest("holds", part * self._to_hold, stray) for edge in self._edges)
        return min(edge.fewest("refuted", part * self._to_refute, stray) for edge in self._edges)

    @property
    def _narrow(self) -> bool:
        """Whether no value between two limits is far from both."""
        if len(self._edges) < 2:
            return False
        lower, upper = (edge.limit for edge in self._edges)
        return max(lower / _FAR, lower * _FAR) >= min(upper / _FAR, upper * _FAR)


#: The first samples of a run are off by 5 to 52 %; later sessions find warm caches.
WARM_UP, WARM_UP_LATER = 5, 2

#: The least part of the evidence, in logarithms, that a session must bring: at an error of 1 %, four samples that
#: agree.
_LEAST_PART = 0.45


class LimitRule(Ending):
    """Takes samples in several sessions until each shows on which side of the limit a quantile lies.

    A machine's level moves by 2 to 37 % between sessions minutes apart, which the spread within a session does not
    show. So a verdict requires all sessions to agree, each with enough evidence on its own: if samples behave as
    `pytest_vperf.stats.evidence` assumes, each session alone errs with at most ``alpha`` and ``beta``; if they do
    not, because a session saw only one level of several, the others disagree. If the samples are so far from the
    limit that no such move reaches it, the sessions pool their evidence: their product, also a martingale, is enough.

    Attributes:
        most: the most judged samples of all sessions together.
        fewest: with how many it can say ``holds`` and ``refuted`` at all: if every sample lies on that side and far
            from the limit, and each session has an equal share. See `_Edge.fewest`.
    """

    def __init__(
        self,
        lower: float | None,
        upper: float | None,
        *,
        quantile: float = 0.5,
        alpha: float = 0.01,
        beta: float = 0.01,
        sessions: int = 3,
        max_samples: int | None = None,
        least: int = 1,
        warm_up: int = WARM_UP,
    ) -> None:
        """Make the rule, usually by `at_most` or `near`.

        Args:
            lower: the smallest value at which the claim is true, in the unit of the samples; ``None`` for none.
            upper: the greatest; ``None`` for none.
            quantile: the quantile held against the limits, between 0 and 1; 0.5 is the median.
            alpha: greatest chance that a true claim is refuted; two limits share it.
            beta: greatest chance that an untrue claim holds.
            sessions: how many; the rule is `paused` between them.
            max_samples: the most judged samples of all sessions together, in equal shares; later sessions may use
            what earlier ones left. ``None`` is `SAMPLES`, or more if the quantile needs more, see `_STRAY`.
            least: the fewest judged samples per session, so that it sees more than one level; fewer suffice if the
            samples are far from the limit, below two thirds of it or above one and a half times.
            warm_up: first samples that are not judged; later sessions leave out two at most.

        Raises:
            ValueError: an argument is invalid.
        """
        super().__init__()
        check_edges("limit", lower, upper)
        self._lower, self._upper = lower, upper
        self._quantile = check_share("the quantile", quantile)
        self._alpha, self._beta = check_error("alpha", alpha), check_error("beta", beta)
        self._sessions = check_whole("sessions", sessions, 1)
        self.most = SAMPLES if max_samples is None else check_whole("max_samples", max_samples, 1)
        if max_samples is not None and self.most < self._sessions:
            raise ValueError(f"max_samples is {max_samples!r}, less than one for each session")
        self._least = check_whole("least", least, 1)
        self._ordered: list[float] = []
        self._past: list[LimitSession] = []
        self._now = self._begin(check_whole("warm_up", warm_up))
        self.fewest: Mapping[Decision, int] = {
            decision: self._sessions * self._now.fewest(decision) for decision in _DECISIONS
        }
        if max_samples is None:
            enough = max(self._now.fewest(each, 1.0, _STRAY) for each in _DECISIONS)
            self.most = max(SAMPLES, self._sessions * enough)
            self._now = self._begin(warm_up)

    @classmethod
    def at_most(cls, threshold: float, side: Side = "at_most", **options: Any) -> LimitRule:
        """The rule for "the quantile is at most (at least) ``threshold``".

        Raises:
            ValueError: the side is invalid, or as the class itself.
        """
        check_side(side)
        return (
            cls(None, threshold, **options)
            if side == "at_most"
            else cls(threshold, None, **options)
        )

    @classmethod
    def near(cls, value: float, tolerance: float, **options: Any) -> LimitRule:
        """The rule for "the quantile lies within ``tolerance``, a share of ``value``, of it".

        Raises:
            ValueError: the tolerance is not between 0 and 1, or as the class itself.
        """
        reach = abs(check_number("the value", value)) * check_share("the tolerance", tolerance)
        return cls(value - reach, value + reach, **options)

    def next(self) -> Arm:
        """The only arm."""
        return "a"

    @property
    def warming_up(self) -> bool:
        """Whether the next value is a warm-up."""
        return self._now.warm_up > 0

    @property
    def paused(self) -> bool:
        """Whether the session is over and another one follows."""
        return self._now.over and not self.decided

    def resume(self) -> None:
        """Begin the next session."""
        if self.paused:
            self._past.append(self._now)
            self._now = self._begin(min(WARM_UP_LATER, self._now.first_warm_up))

    @property
    def too_few(self) -> str:
        """How many samples it needs to hold, whatever they are; empty if as many are allowed."""
        fewest = self.fewest["holds"]
        return "" if self.most >= fewest else self._needs(fewest)

    def _needs(self, samples: int) -> str:
        article = "the " if self._name == "median" else ""
        return f"{article}{self._name} needs at least {count(samples, 'sample')}"

    @property
    def sessions(self) -> list[list[float]]:
        """The judged samples of each session begun so far."""
        return [each.values for each in (*self._past, self._now)]

    def add(self, value: float) -> None:
        """Take a sample; a verdict once reached is final, and a paused rule begins its next session.

        Raises:
            ValueError: the value is not finite.
        """
        value = check_number("a sample", value)
        self.resume()
        if self.decided:
            return
        if not self.warming_up:
            insort(self._ordered, value)
        self._now.add(value)
        if self._now.over:
            self._conclude()

    @property
    def state(self) -> State:
        """The current state; the interval is computed only once it is decided."""
        ordered, size = self._ordered, len(self._ordered)
        reason = (
            self._why + self._suspicion(ordered, "sample")
            if self.decided
            else count(size, "sample")
        )
        found = (
            Interval(sample_quantile(ordered, self._quantile), None, None) if size >= 2 else None
        )
        if found and self.decided:
            found = sequential_interval(ordered, self._quantile, *self._errors)
        return State(
            decided=self.decided,
            decision=self.decision,
            reason=reason,
            estimate=found.estimate if found else None,
            low=found.low if found else None,
            high=found.high if found else None,
            confidence=1 - sum(self._errors),
            samples=size,
            forecast=self._forecast,
            cause=self.cause,
        )

    @property
    def _forecast(self) -> int | None:
        """The fewest samples of a verdict like that of the first session, or that its samples speak for.

        Only of a percentile: a median needs a dozen, and nobody has to be told.
        """
        if self.decided or self._quantile == 0.5:
            return None
        first = self._past[0].decision if self._past else self._now.leaning
        return self.fewest[first]

    @property
    def _errors(self) -> tuple[float, float]:
        """The errors of the interval's ends: those of the verdicts they correspond to."""
        if self._lower is not None and self._upper is not None:
            either = max(self._alpha / 2, self._beta)
            return either, either
        return (self._alpha, self._beta) if self._lower is None else (self._beta, self._alpha)

    def _begin(self, warm_up: int) -> LimitSession:
        left = self._sessions - len(self._past)
        spent = sum(len(session.values) for session in self._past)
        limits: list[tuple[float, Side]] = []
        if self._lower is not None:
            limits.append((self._lower, "at_least"))
        if self._upper is not None:
            limits.append((self._upper, "at_most"))
        return LimitSession(
            limits,
            self._quantile,
            to_refute=math.log(len(limits) / self._alpha),
            to_hold=math.log(1 / self._beta),
            far=max(1 / self._sessions, _LEAST_PART),
            least=self._least,
            most=(self.most - spent) // left,
            warm_up=warm_up,
        )

    def _conclude(self) -> None:
        """After a session: decide, go on to the next, or give up if the sessions can no longer agree."""
        sessions = [*self._past, self._now]
        verdicts = [session.decision for session in sessions]
        first, done = verdicts[0], len(sessions)
        each = "in one session" if self._sessions == 1 else f"in each of {self._sessions} sessions"
        if "inconclusive" in verdicts:
            number = verdicts.index("inconclusive") + 1
            which = f"session {number} of {self._sessions}" if self._sessions > 1 else "the session"
            self._end("inconclusive", *self._undecided(sessions[number - 1], which))
        elif len(set(verdicts)) > 1:
            seen = ", ".join(
                f"{number}: {verdict} (median {sample_quantile(sorted(session.values), 0.5):.4g})"
                for number, (verdict, session) in enumerate(zip(verdicts, sessions, strict=True), 1)
            )
            self._end("inconclusive", "sessions disagree", f"the sessions disagree: {seen}")
        elif done == self._sessions:
            size = count(sum(len(session.values) for session in sessions), "sample")
            where = self._where(first == "holds")
            self._end(first, "", f"{each}, after {size} in all, the {self._name} is shown {where}")

    def _undecided(self, session: LimitSession, which: str) -> tuple[Cause, str]:
        """Why a session that used its share of the samples has decided nothing: the cause, and the reason."""
        size = len(session.values)
        after = f"{which} was undecided after {count(size, 'sample')}"
        leaning, part = session.leaning, session.part
        needed = session.fewest(leaning, part)
        if size < needed:
            to_refute = " to be refuted" if leaning == "refuted" else ""
            near = " this near the limit" if part == 1.0 and self._sessions > 1 else ""
            needs = f"{self._needs(self._sessions * needed)}{to_refute}{near}"
            return "too few samples", f"{needs}, and {self.most} are allowed: {after}"
        after += ", all that are allowed"
        if session.is_close(self._quantile):
            return "budget", f"too close to the limit: {after}"
        band = self._lower is not None and self._upper is not None
        beyond = f"{session.beyond} of them {'outside the band' if band else 'beyond the limit'}"
        return "too few samples", f"too few samples: {after}, {beyond}"

    def _where(self, good: bool) -> str:
        if self._lower is not None and self._upper is not None:
            return "inside the band" if good else "outside the band"
        above = (self._upper is not None) != good
        return f"{'at or ' if good else ''}{'above' if above else 'below'} the threshold"

    @property
    def _name(self) -> str:
        return "median" if self._quantile == 0.5 else f"p{100 * self._quantile:g}"
