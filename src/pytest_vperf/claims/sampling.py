"""The sampling loop: take samples until the rule decides or pauses, or the budget is spent, and keep every one.

Samples stay in the `Sampling` even if a sampler raises or Ctrl-C ends it (design rule 10). Checks here refuse samples
that the criterion cannot judge, and arms that cannot be compared. The pace so far forecasts how long a claim will
take; forecasts are noisy, and treated as such.
"""

from __future__ import annotations

import contextlib
import inspect
import math
import time
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

from pytest_vperf.quantity import DimensionError, Quantity, QuantityError, dimension
from pytest_vperf.results.record import Beside, Observation, Session, judged
from pytest_vperf.results.run import now
from pytest_vperf.stats.rule import count
from pytest_vperf.targets.base import ON, Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pytest_vperf.results.record import LoadFacts
    from pytest_vperf.stats.rule import Arm, Rule, State
    from pytest_vperf.targets.base import Facts
    from pytest_vperf.targets.scope import Scope, ToolUse
    from pytest_vperf.thresholds.criterion import Criterion

    Sampler = Callable[[], Quantity]


class Exhausted(Unavailable):
    """A sampler has no more samples, and says why: the claim is judged by those that there were."""


class NotComparable(TypeError):
    """The claim's criterion cannot judge these samples: the test or the threshold is wrong."""


def check_direction(claim: str, criterion: Criterion | None, value: Quantity) -> None:
    """Refuse a criterion whose direction is opposite to the metric's (design rule 5).

    Args:
        claim: its name.
        criterion: one without a side, such as ``near``, accepts every metric.
        value: a sample; one without a direction is accepted.

    Raises:
        NotComparable: lower is better and the criterion says at least, or higher is better and it says at most.
    """
    __tracebackhide__ = True
    good = criterion.direction if criterion else ""
    if not good or value.direction in ("", good):
        return
    raise NotComparable(
        f"claim {claim!r} is {criterion}, which is good where {good} is better; of what was sampled, {value}, "
        f"{value.direction} is better. {_HINT[value.direction]}"
    )


_HINT: Mapping[str, str] = {
    "lower": "Sample a rate instead of a time, or use at_most or overhead.",
    "higher": "Sample a time instead of a rate, or use at_least: an overhead of 1 % in a rate is a ratio of at "
    "least 0.99.",
}


#: Figures with three digits are each within 0.5 % of the true ones, so a whole and the sum of its parts are within
#: 1 % of each other. Tools print more digits, or as many; the phases of our own starts differ only by a float's
#: rounding.
PARTS_TOLERANCE = 0.01


def check_possible(what: str, value: Quantity, *, relative: str = "") -> None:
    """Refuse a sample that cannot be: a time of 0, or parts that are not parts of the whole.

    Args:
        what: the sample, for the message.
        value: of it.
        relative: what takes its logarithm, ``a ratio`` or ``a sweep``: there even a signed one must be above 0.

    Raises:
        QuantityError: it cannot be; the message says why.
    """
    __tracebackhide__ = True
    if value.value <= 0 and not value.signed:
        raise QuantityError(
            f"{what} is {value}: no {_kind(value.unit)} is 0 or less. See what the sampler measures; if 0 and less "
            "are possible, as for a difference or a number of losses, return Quantity(…, signed=True)"
        )
    if value.value <= 0 and relative:
        raise QuantityError(
            f"{what} is {value}: {relative} needs numbers above 0. "
            "Judge what may be 0 or less against a limit (holds)"
        )
    if not value.breakdown:
        return
    for name, part in value.breakdown:
        if part < 0 and not value.signed:
            raise QuantityError(
                f"{what} is {value}, but its part {name[:60]!r} is {Quantity(part, value.unit)}. "
                "A part is 0 or more, unless its whole is signed"
            )
    parts = [part for _, part in value.breakdown]
    whole = max(abs(value.value), math.fsum(map(abs, parts)))
    total = math.fsum(parts)
    if abs(total - value.value) > PARTS_TOLERANCE * whole:
        raise QuantityError(
            f"{what} is {value}, but its parts add up to {Quantity(total, value.unit)}. "
            "Name every part in breakdown; a figure that is no part belongs in extra"
        )


def _kind(unit: str) -> str:
    """What a number of this unit is, in a word."""
    if unit == "count":
        return "count"
    measured = dimension(unit)
    if measured.endswith("/ [time]"):
        return "rate"
    return {"[time]": "time", "[information]": "size"}.get(measured, "such figure")


def check_programs(claim: str, tools: Mapping[Arm, Sequence[ToolUse]]) -> None:
    """Refuse to compare targets that ran different binaries of one tool.

    Args:
        claim: its name.
        tools: the tools that ran for the samples of each arm.

    Raises:
        NotComparable: two binaries differ; the message names both.
    """
    __tracebackhide__ = True
    for one in tools.get("a", ()):
        for other in tools.get("b", ()):
            same_tool = one.program.name == other.program.name
            if same_tool and one.program.sha256 != other.program.sha256:
                raise NotComparable(
                    f"claim {claim!r} would compare builds of {one.program.name}, not targets: it is {_build(one)}, "
                    f"and {_build(other)}. Run the image's in both (leave out --vperf-host-tools), or allow it "
                    "with any_programs=True"
                )


def check_machines(
    claim: str, targets: Sequence[Facts], tools: Mapping[Arm, Sequence[ToolUse]], arms: int
) -> None:
    """Refuse to compare targets on different machines: the difference might be that of the machines.

    Machines that the user named (``--vperf-machine``) are themselves what is compared, with each other. They are told
    by their tools: those that ran for both arms are the far end's.

    Args:
        claim: its name.
        targets: the test's targets.
        tools: the tools that ran for the samples of each arm.
        arms: how many of the two were sampled.

    Raises:
        Unavailable: the targets are on several machines; the message names a target on each.
    """
    __tracebackhide__ = True
    named = {facts.name for facts in targets if facts.kind == "machine"}
    if named:
        first, second = ({use.target for use in tools.get(arm, ())} for arm in ("a", "b"))
        own = first ^ second
        if arms < 2 or (own and own <= named):
            return
    places: dict[str, str] = {}
    for facts in targets:
        places.setdefault(facts.details.get(ON, "this machine"), facts.name)
    if len(places) > 1:
        found = " and ".join(f"{name} is on {place}" for place, name in places.items())
        raise Unavailable(
            f"claim {claim!r} would compare machines, not targets: {found}",
            remedy="start both on one machine",
            target=" / ".join(places.values()),
        )


def _build(use: ToolUse) -> str:
    program = use.program
    return f"{use.version} with sha256 {program.sha256[:12]} in {use.target} ({program.origin}: {program.path})"


#: A forecast is shown from this many samples (pairs, in a comparison), and may end a claim from twice as many.
SHOWN_FROM = 8
BELIEVED_FROM = 16


@dataclass(frozen=True)
class Need:
    """The expected cost of a verdict.

    Attributes:
        samples: samples or pairs in total.
        seconds: sampling time in total.
        hopeless: whether it exceeds the remaining time even in the most favourable case.
    """

    samples: int
    seconds: float
    hopeless: bool


def need(state: State, spent: float, budget: float) -> Need | None:
    """The expected cost of a verdict; ``None`` if it is unknown, or already paid.

    Args:
        state: the judge's.
        spent: seconds of sampling so far.
        budget: seconds of sampling allowed.
    """
    if state.forecast is None or state.samples < SHOWN_FROM or state.forecast <= state.samples:
        return None
    pace = spent / state.samples
    at_best = state.forecast if state.forecast_at_best is None else state.forecast_at_best
    rest = pace * (at_best - state.samples)
    hopeless = state.samples >= BELIEVED_FROM and rest > max(budget - spent, 0.0)
    return Need(state.forecast, pace * state.forecast, hopeless)


def _to_go(state: State) -> float | None:
    """The samples that a verdict is still expected to take; ``None`` if that is unknown."""
    if state.to_go is None and state.forecast is not None:
        return state.forecast - state.samples
    return state.to_go


def part_of_need(state: State, noun: str) -> str:
    """``8 of about 9 pairs judged``; empty if the number a verdict needs is unknown, or reached.

    Args:
        state: of the judge.
        noun: what the judge counts, ``pair`` (of two samples) or ``sample``; warm-up is not counted.
    """
    if state.forecast is None or state.forecast <= state.samples:
        return ""
    return f"{state.samples} of about {count(roughly(state.forecast), noun)} judged"


def roughly(number: int) -> int:
    """A number rounded to the precision of a forecast: 1594 becomes 1600."""
    return int(float(f"{number:.2g}"))


def rough_time(seconds: float) -> str:
    """A time with the precision of a forecast: ``0.4 s``, ``40 s``, ``7 min``, ``3 h``."""
    if seconds < 1:
        return f"{seconds:.1g} s"
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.0f} h"


@dataclass(frozen=True)
class Snapshot:
    """The progress of a claim's sampling.

    Attributes:
        claim: its name.
        state: the judge's.
        unit: of the state's figures.
        noun: what is counted: ``sample`` or ``pair``.
        spent: seconds of the budget that are spent.
        budget: seconds.
        session: ``session 2 of 3``; empty if there is only one.
        need: the expected cost of a verdict.
    """

    claim: str
    state: State
    unit: str
    noun: str
    spent: float
    budget: float
    session: str = ""
    need: Need | None = None


#: So many equal samples are no chance.
LEAST_EQUAL = 3
#: A session without time for this many samples decides little.
_FEW = 10


class Progress(Protocol):
    """Receives progress reports. Every method may be called often, and must be quick."""

    def waiting(self, claim: str, holder: str) -> None:
        """Another measurement holds the machine."""
        ...

    def sampled(self, standing: Snapshot) -> None:
        """A sample was taken."""
        ...

    def note(self, text: str) -> None:
        """A sample is doing something that takes long."""
        ...

    def done(self) -> None:
        """The claim ended."""
        ...


class Share(Protocol):
    """How long a claim may go on in this visit, where claims share the time of a run.

    Attributes:
        holds_back: whether a verdict is told in a later visit, when all others are: in the user's order.
    """

    holds_back: bool

    def over(self, samples: int, rest: float | None) -> bool:
        """Whether the visit ends here.

        Args:
            samples: that are judged, all visits together.
            rest: seconds that a verdict is still expected to take, if that is known.
        """
        ...


class Sampling:
    """The samples of one claim, over all its sessions.

    The budget's clock starts after a session's warm-up or, without warm-up, after the first sample of each arm: a
    first call may fetch a kernel or start an engine, which is not sampling.

    Attributes:
        rule: the judge.
        paired: whether two arms are sampled.
        observations: every sample so far, in order.
        sessions: when each session began and how long it took.
        planned: the planned number of sessions.
        unit: the unit the samples are kept in: the threshold's, or the first sample's.
        targets: by arm, the facts of the targets its samples started.
        facts: the facts of all the test's targets, in order of first appearance.
        tools: by arm, the tools that ran for its samples, and where.
        direction: what is better of the samples, as they say; empty if they do not.
        discrete: by arm, whether equal samples are possible: all of its samples say so.
        share: how long this visit may go on; ``None``: as long as the budget allows.
        yielded: whether the latest visit ended for others, or its end is held back.
    """

    def __init__(
        self,
        claim: str,
        rule: Rule,
        *,
        paired: bool,
        unit: str | None,
        against: str,
        budget: float,
        planned: int,
        progress: Progress,
        budget_told: str = "",
        allow_more: str = "",
        criterion: Criterion | None = None,
        any_programs: bool = False,
        load: Callable[[], LoadFacts | None] | None = None,
        settle: Callable[[Quantity], tuple[Criterion, Rule]] | None = None,
    ) -> None:
        """Prepare to sample.

        Args:
            claim: the claim's name, for messages.
            rule: the judge.
            paired: whether two arms are sampled.
            unit: the threshold's unit; ``None`` if there is no threshold.
            against: what the samples are held against, for messages.
            budget: seconds after the warm-up, all sessions together; the sample that exceeds it is the last.
            planned: the number of sessions.
            progress: receives progress reports.
            budget_told: the budget in words.
            allow_more: who set the budget, and how to have a larger one.
            criterion: what the samples have to prove; ``None`` if nothing.
            any_programs: whether two arms may run different binaries of one tool.
            load: in a sweep, returns the load of the latest sample.
            settle: replaces criterion and rule when the first sample has told which direction of it is better.
        """
        self.claim = claim
        self.rule = rule
        self.paired = paired
        self.observations: list[Observation] = []
        self.sessions: list[Session] = []
        self.planned = planned
        self.unit = unit
        self.targets: dict[Arm, list[Facts]] = {}
        self.facts: list[Facts] = []
        self.tools: dict[Arm, list[ToolUse]] = {}
        self.direction: Literal["lower", "higher", ""] = ""
        self.discrete: dict[Arm, bool] = {}
        self.share: Share | None = None
        self.yielded = False
        self._cold: set[Arm] = set()
        self._judged: Counter[Arm] = Counter()
        self._criterion = criterion
        self._any_programs = any_programs
        self._load = load
        self._settle = settle
        self._against = against
        self._budget = budget
        self._budget_told = budget_told or f"budget {budget:g} s"
        self._allow_more = allow_more
        self._progress = progress
        self._began: float | None = None
        self._spent_before = 0.0
        self._warmed_up: float | None = None

    @property
    def arms(self) -> tuple[Arm, ...]:
        """The arms that are sampled."""
        return ("a", "b") if self.paired else ("a",)

    @property
    def _noun(self) -> str:
        return "pair" if self.paired else "sample"

    @property
    def elapsed(self) -> float:
        """Seconds of sampling, all sessions together."""
        return sum(session["duration_s"] for session in self.sessions)

    @property
    def span(self) -> float:
        """Seconds from the start of the first session to the start of the last."""
        return self.sessions[-1]["began_at_s"] if self.sessions else 0.0

    @property
    def session(self) -> str:
        """``session 2 of 3``; empty if only one was planned."""
        return f"session {len(self.sessions)} of {self.planned}" if self.planned > 1 else ""

    @property
    def spent(self) -> float:
        """Seconds of the budget that are spent."""
        now_spent = 0.0 if self._warmed_up is None else time.monotonic() - self._warmed_up
        return self._spent_before + now_spent

    @property
    def allowed(self) -> float:
        """Seconds of the budget that may be spent by the end of this session; later sessions may use what earlier
        ones left."""
        return self._budget * min(1.0, len(self.sessions) / self.planned)

    @property
    def without_variance(self) -> str:
        """Why equal samples say nothing; empty if they vary, are fewer than three, or may be equal."""
        for arm in self.arms:
            groups: dict[float | None, list[float]] = {}
            for each in judged(self.observations):
                if each["arm"] == arm:
                    load = each["load"]["asked"] if "load" in each else None
                    groups.setdefault(load, []).append(each["value"])
            equal = all(min(values) == max(values) for values in groups.values())
            most = max(groups.values(), key=len, default=[])
            if self.discrete.get(arm) or not equal or len(most) < LEAST_EQUAL:
                continue
            of = f" of arm {arm}" if self.paired else ""
            what = f"all {len(most)} samples{of} are exactly {Quantity(most[0], self.unit or '')}"
            if len(groups) > 1:
                what = "at each load all samples are equal"
            return (
                f"{what}: is something cached or constant? Measure anew for each sample; if equal ones are "
                "possible, as for a size in whole pages, return Quantity(…, discrete=True)"
            )
        return ""

    def run(self, samplers: Mapping[Arm, Sampler], scope: Scope) -> None:
        """Run one session: sample until the rule decides or pauses, or the budget stops it.

        Args:
            samplers: what to call for each arm the rule may ask for.
            scope: owner of the targets that the samplers start.

        Raises:
            TypeError: a sampler returned something other than a `Quantity`.
            DimensionError: a sample's dimension differs from that of the threshold or of earlier samples.
            QuantityError: a sample cannot be, see `check_possible`.
            NotComparable: the metric's direction is not the criterion's, or two arms ran different binaries of a
            tool.
            whatever a sampler raises, and what closing its targets raises.
        """
        __tracebackhide__ = True
        began = time.monotonic()
        if self._began is None:
            self._began = began
        session = Session(
            n=len(self.sessions) + 1,
            started_at=now(),
            began_at_s=round(began - self._began, 6),
            duration_s=0.0,
            samples=0,
        )
        self.sessions.append(session)
        self._warmed_up = None
        self.yielded = False
        # What a rule goes on with in another visit is cold again, and nobody but us knows.
        self._cold = set(self.arms) if self.planned == 1 and session["n"] > 1 else set()
        first = len(self.observations)
        try:
            self._sample(samplers, scope)
        finally:
            self._spent_before, self._warmed_up = self.spent, None
            session["duration_s"] = round(time.monotonic() - began, 6)
            session["samples"] = len(self.observations) - first
            self.facts += [facts for facts in scope.facts if facts not in self.facts]

    def _sample(self, samplers: Mapping[Arm, Sampler], scope: Scope) -> None:
        __tracebackhide__ = True
        missing = set(samplers)
        state = self.rule.state
        while not state.decided and not self.rule.paused:
            needed = need(state, self.spent, self._budget)
            if self.spent > self.allowed:
                self.rule.stop("budget", self._out_of_time(state))
                return
            if needed is not None and needed.hopeless:
                self.rule.stop("budget", self._out_of_hope(needed))
                return
            if self.share is not None and self._gives_way(self.share, state):
                self.yielded = True
                return
            try:
                missing.discard(self._take(samplers, scope))
            except Exhausted as error:
                within = f"{self.session}: " if self.session else ""
                part = part_of_need(state, self._noun)
                self.rule.stop("too few samples", f"{within}{error}{f'; {part}' if part else ''}")
                return
            if self._warmed_up is None and not missing and not self.rule.warming_up:
                self._warmed_up = time.monotonic()
            state = self.rule.state
            self._progress.sampled(self._standing(state))

    def _gives_way(self, share: Share, state: State) -> bool:
        """Whether the visit ends for other claims, which it never does within a pair."""
        if self.paired and self._judged["a"] != self._judged["b"]:
            return False
        rest = self._rest(state)
        return share.over(state.samples, rest and rest[0])

    @property
    def rest(self) -> tuple[float, float] | None:
        """Seconds that a verdict still takes, as expected and at best; ``None`` if that is unknown."""
        return self._rest(self.rule.state)

    def _rest(self, state: State) -> tuple[float, float] | None:
        expected = _to_go(state)
        if expected is None or not state.samples:
            return None
        pace, at_best = self.spent / state.samples, state.forecast_at_best
        least = expected if at_best is None else max(0, at_best - state.samples)
        return pace * expected, pace * min(expected, least)

    def out_of_share(self, told: str) -> None:
        """End the sampling, since the time that claims share is over, or does not do.

        Args:
            told: that time in words.
        """
        state = self.rule.state
        text = f"{count(state.samples, self._noun)} in {rough_time(self.spent)}"
        to_go, rest = _to_go(state), self.rest
        if rest is not None and to_go is not None and math.isfinite(to_go):
            number = roughly(math.ceil(state.samples + to_go))
            text = f"needs about {count(number, self._noun)}, {rough_time(self.spent + rest[0])}"
        self.rule.stop("budget", f"{text}; {told}")

    def _standing(self, state: State) -> Snapshot:
        spent = self.spent
        return Snapshot(
            self.claim,
            state,
            "" if self.paired else self.unit or "",
            self._noun,
            spent,
            self._budget,
            self.session,
            need(state, spent, self._budget),
        )

    def _out_of_time(self, state: State) -> str:
        taken, budget = count(len(self.observations), "sample"), self._budget
        text = f"budget of {budget:g} s spent after {taken}"
        if self.planned > 1:
            text = f"{self.session}: {self.allowed:.3g} of {budget:g} s spent after {taken}"
        part = part_of_need(state, self._noun)
        if part:
            text += f", {part}"
        if state.reason not in ("", count(state.samples, self._noun)):
            text += f"; {state.reason}"
        # With time for only a few samples, the sample's duration is the problem, not noise.
        each = self.spent / max(1, len(judged(self.observations)))  # warm-up is not on the budget
        if each * _FEW > self._budget / self.planned:
            text += f"; a sample takes {rough_time(each)}: make it shorter, or the budget larger (--claims-budget)"
        return text

    def _out_of_hope(self, needed: Need) -> str:
        if self._criterion is not None and not self.paired:
            return (
                f"{self._criterion.statistic} needs at least {count(needed.samples, 'sample')}, "
                f"{rough_time(needed.seconds)}, and {self._budget:g} s are allowed {self._allow_more}"
            )
        number = count(roughly(needed.samples), self._noun)
        return f"needs about {number}, {rough_time(needed.seconds)}; {self._budget_told}"

    def _take(self, samplers: Mapping[Arm, Sampler], scope: Scope) -> Arm:
        __tracebackhide__ = True
        arm = self.rule.next()
        cold = arm in self._cold
        self._cold.discard(arm)
        warm_up = cold or self.rule.warming_up
        mark, at = scope.mark, time.monotonic() - (self._began or 0.0)
        try:
            scope.take_tools()  # discard tools that ran before this sample
            value = self._in_unit(samplers[arm](), arm)
            known_tools = self.tools.setdefault(arm, [])
            known_tools += [use for use in scope.take_tools() if use not in known_tools]
            self.observations.append(
                Observation(
                    order=len(self.observations),
                    session=len(self.sessions),
                    at=round(at, 6),
                    arm=arm,
                    value=value.value,
                    unit=value.unit,
                    warm_up=warm_up,
                    parts=dict(value.breakdown),
                    beside={
                        name: Beside(unit=series.unit, values=list(series.values))
                        for name, series in value.extra
                    },
                )
            )
            if self._load is not None and (facts_of_load := self._load()) is not None:
                self.observations[-1]["load"] = facts_of_load
            if not self._any_programs:
                check_programs(self.claim, self.tools)
            if self.paired:
                sampled = len({*self.targets, arm})
                check_machines(self.claim, scope.facts, self.tools, sampled)
            self.discrete[arm] = value.discrete and self.discrete.get(arm, True)
            self.rule.discrete = all(self.discrete.values())
            if self.rule.warming_up or not cold:
                self.rule.add(value.value)
                self._judged[arm] += 1
            known = self.targets.setdefault(arm, [])
            known += [facts for facts in scope.facts_since(mark) if facts not in known]
        except BaseException:
            # An error from closing must not replace the sampler's own.
            with contextlib.suppress(Exception):
                scope.close_since(mark)
            raise
        scope.close_since(mark)
        return arm

    def _in_unit(self, value: object, arm: Arm) -> Quantity:
        __tracebackhide__ = True
        if inspect.iscoroutine(value):
            value.close()  # or Python warns that nobody awaited it
            raise TypeError(
                f"the sampler of claim {self.claim!r} is an async function, and nobody awaited it: "
                "sample with a plain function, such as lambda: asyncio.run(sample())"
            )
        if inspect.isgenerator(value) or inspect.isasyncgen(value):
            raise TypeError(
                f"the sampler of claim {self.claim!r} is a generator function: return the Quantity, do not yield it"
            )
        if not isinstance(value, Quantity):
            example = f"Quantity({value!r}, 'ms')" if isinstance(value, (int, float)) else ""
            raise TypeError(
                f"the sampler of claim {self.claim!r} returned {value!r} ({type(value).__name__}): "
                f"return a Quantity, a number with its unit{', such as ' if example else ''}{example}"
            )
        number = f"sample {len(self.observations) + 1}{f' (arm {arm})' if self.paired else ''}"
        relative = "a ratio" if self.paired else "a sweep" if self._load else ""
        check_possible(f"claim {self.claim!r}: {number}", value, relative=relative)
        if self._settle is not None:
            settle, self._settle = self._settle, None
            self._criterion, self.rule = settle(value)
        check_direction(self.claim, self._criterion, value)
        self.direction = self.direction or value.direction
        if self.unit is None:
            self.unit = value.unit
        try:
            return value.to(self.unit)
        except DimensionError as error:
            raise DimensionError(
                f"claim {self.claim!r}: a sample of {value} cannot be held against {self._against}: {error}"
            ) from None
