"""The judge of a sweep of loads: whether what comes through becomes flat, and near a value."""

from __future__ import annotations

import random
from statistics import median
from typing import TYPE_CHECKING

from pytest_vperf.stats.curve import LEAST_FLAT, fit, of_double, where_flat
from pytest_vperf.stats.ending import Ending
from pytest_vperf.stats.plain import (
    check_error,
    check_positive,
    check_share,
    check_whole,
    count,
)
from pytest_vperf.stats.rule import State

if TYPE_CHECKING:
    from pytest_vperf.stats.curve import Curve
    from pytest_vperf.stats.rule import Arm, Cause, Decision

#: Rounds of all sessions together. Of the flat part of six loads, four of them, an interval of 99 % then lies between
#: the 5th and the 20th of 24 samples.
ROUNDS = 6
#: Errors where nothing is judged.
_DESCRIBED = 0.005


class PlateauRule(Ending):
    """Takes every load once in each round, in an order of its own, and judges when all rounds are over.

    How many samples there are is fixed before, so that nothing is lost to looking. The rounds are spread over the
    sessions, since the level of a machine moves between them: for a verdict about the level each session's own
    median has to lie on the same side.

    A load that the sender did not offer, although nothing held it back, says nothing about what lies behind the
    sender: such samples are left out, and where too little is left for a plateau, that is the reason.

    Attributes:
        point: which load to take next, from 0 on.
        curve: what the samples showed; ``None`` until sampling ended, or where they are too few.
        short: the loads that the sender could not offer.
    """

    def __init__(
        self,
        points: int,
        *,
        value: float | None = None,
        tolerance: float = 0.02,
        alpha: float = 0.01,
        beta: float = 0.01,
        sessions: int = 3,
        rounds: int = ROUNDS,
        seed: int = 0,
    ) -> None:
        """Make the rule.

        Args:
            points: how many loads there are, in any order.
            value: the level that is claimed, in the unit of the samples; ``None``: it is only described.
            tolerance: how far from it is near, as a share of it.
            alpha: greatest chance that a true claim is refuted.
            beta: greatest chance that an untrue claim holds.
            sessions: how many; the rule is `paused` between them.
            rounds: of all sessions together, at least; each session takes as many as another.
            seed: of the orders.

        Raises:
            ValueError: an argument makes no sense; too few loads show no plateau.
        """
        super().__init__()
        self._points = check_whole("points", points, LEAST_FLAT)
        self._value = None if value is None else check_positive("the value", value)
        self._reach = check_share("the tolerance", tolerance) * (self._value or 1.0)
        self._alpha, self._beta = check_error("alpha", alpha), check_error("beta", beta)
        self._sessions = check_whole("sessions", sessions, 1)
        self._each = -(-check_whole("rounds", rounds, 1) // self._sessions)
        self._order = random.Random(seed)  # noqa: S311 - an order, no secret # nosec B311
        self._left: list[int] = []
        self._rounds = 0
        self._session = 1
        self._warm_up = True
        self._load: tuple[float, bool] | None = None
        self._samples: list[tuple[float, float, int]] = []
        self.curve: Curve | None = None
        self.short: dict[float, int] = {}

    @property
    def point(self) -> int:
        """Which load is next."""
        if not self._left:
            self._left = list(range(self._points))
            self._order.shuffle(self._left)
        return self._left[-1]

    def next(self) -> Arm:
        """The only arm."""
        return "a"

    @property
    def warming_up(self) -> bool:
        """Whether the next value is a warm-up: the first of each session."""
        return self._warm_up

    @property
    def paused(self) -> bool:
        """Whether the session is over and another one is to come."""
        return not self.decided and self._rounds == self._session * self._each

    def resume(self) -> None:
        """Begin the next session."""
        if self.paused:
            self._session += 1
            self._warm_up = True

    def loaded(self, load: float, *, offered: bool = True) -> None:
        """Say what the next value comes of.

        Args:
            load: that was asked for; the same of one point, and positive.
            offered: whether it was offered, or what was sent to held the sender back or lost the most of it; not so
                where the sender itself could not.
        """
        self._load = check_positive("the load", load), offered

    def add(self, value: float) -> None:
        """Take the value of the load that `point` named and `loaded` told.

        Raises:
            ValueError: the value is not positive, or the load is not known; after the first round, too few points
                have different loads.
        """
        value = check_positive("a sample", value)
        if self._load is None:
            raise ValueError("it is not known of which load the sample is")
        (load, offered), self._load = self._load, None
        self.resume()
        if self.decided:
            return
        if self._warm_up:
            self._warm_up = False
            return
        _ = self.point
        self._left.pop()
        if offered:
            self._samples.append((load, value, self._session))
        else:
            self.short[load] = self.short.get(load, 0) + 1
        self._rounds += not self._left
        if self._rounds == 1 and not self._left:
            self._check_loads()
        if self._rounds == self._sessions * self._each:
            self._judge()

    def _check_loads(self) -> None:
        """Refuse points that are not different loads, before all rounds are taken."""
        different = len({load for load, _, _ in self._samples} | self.short.keys())
        if different < LEAST_FLAT:
            raise ValueError(
                f"of {self._points} points only {different} have different loads: fewer than {LEAST_FLAT} show no"
                " plateau"
            )

    def stop(self, cause: Cause, reason: str) -> None:
        """End the sampling without a decision, if there is none yet; the curve is fitted all the same."""
        if not self.decided:
            self.curve = self._fit()
            self._end("inconclusive", cause, reason)

    def _fit(self) -> Curve | None:
        loads = self._by_load()
        if len(loads) < LEAST_FLAT:
            return None
        low, high = self._errors
        return fit(loads, low, high, min(self._alpha, self._beta))

    def _by_load(self) -> dict[float, list[float]]:
        found: dict[float, list[float]] = {}
        for load, value, _ in self._samples:
            found.setdefault(load, []).append(value)
        return found

    def _judge(self) -> None:
        curve = self.curve = self._fit()
        if curve is None or (self.short and curve.shape != "plateau"):
            most = max((value for _, value, _ in self._samples), default=None)
            seen = "" if most is None else f"; up to {most:.6g} came through"
            size = count(sum(self.short.values()), "sample")
            self._end(
                "inconclusive",
                "sender",
                f"the sender could not offer what it was asked for in {size}, from a load of"
                f" {min(self.short):.6g} on: nothing is known of what lies behind it{seen}",
            )
        elif curve.shape == "rises":
            self._end(
                "inconclusive",
                "still rising",
                f"no plateau: it still rises at the greatest load, {max(curve.flat):.6g}; greater ones are needed",
            )
        elif curve.shape == "undecided":
            low, high = of_double(curve.growth.low), of_double(curve.growth.high)
            self._end(
                "inconclusive",
                "too close to call",
                "it is not known whether it is flat: of twice the load between"
                f" {low} and {high} more comes through",
            )
        elif curve.shape == "falls":
            decision: Decision = "inconclusive" if self._value is None else "refuted"
            last = median(self._by_load()[max(curve.flat)])
            self._end(
                decision,
                "",
                f"no plateau: it falls again, from {curve.level.estimate:.6g} to {last:.6g} at the greatest load,"
                f" {max(curve.flat):.6g} (congestion collapse)",
            )
        else:
            self._near(curve)

    def _near(self, curve: Curve) -> None:
        """Hold the level of a plateau against the value."""
        where = where_flat(curve)
        if self._value is None:
            self._end("inconclusive", "", f"no threshold; {where}")
            return
        low, high = self._value - self._reach, self._value + self._reach
        loads = self._by_load()
        errors = min(self._alpha, self._beta)
        refuting = fit(loads, self._alpha / 2, self._alpha / 2, errors).level
        holding = fit(loads, self._beta, self._beta, errors).level
        of_each = [
            [value for load, value, when in self._samples if when == number and load in curve.flat]
            for number in range(1, self._sessions + 1)
        ]
        if not all(of_each):
            number = of_each.index([]) + 1
            self._end(
                "inconclusive",
                "sender",
                f"in session {number} of {self._sessions} the sender could not offer any load of the flat part;"
                f" {where}",
            )
            return
        levels = [median(values) for values in of_each]
        inside = holding.low is not None and holding.high is not None
        if inside and low <= (holding.low or 0) and (holding.high or 0) <= high:
            decision: Decision = "holds"
            agree = all(low <= level <= high for level in levels)
        elif refuting.low is not None and refuting.low > high:
            decision, agree = "refuted", all(level > high for level in levels)
        elif refuting.high is not None and refuting.high < low:
            decision, agree = "refuted", all(level < low for level in levels)
        else:
            text = f"the samples do not tell on which side of the band its level lies; {where}"
            self._end("inconclusive", "too close to call", text)
            return
        if not agree:
            seen = ", ".join(f"{level:.4g}" for level in levels)
            self._end("inconclusive", "sessions disagree", f"the sessions disagree: {seen}")
            return
        side = "inside" if decision == "holds" else "outside"
        self._end(decision, "", f"{where}; the level is shown {side} the band")

    @property
    def state(self) -> State:
        """What is known now; the level and its interval once sampling ended."""
        curve, taken = self.curve, len(self._samples) + sum(self.short.values())
        planned = self._points * self._each * self._sessions
        shown = curve is not None and curve.shape in ("plateau", "falls")
        low, high = self._errors
        return State(
            decided=self.decided,
            decision=self.decision,
            reason=self._why if self.decided else count(taken, "sample"),
            estimate=curve.level.estimate if curve and shown else None,
            low=curve.level.low if curve and shown else None,
            high=curve.level.high if curve and shown else None,
            confidence=1 - low - high,
            samples=taken,
            forecast=planned,
            cause=self.cause,
            forecast_at_best=planned,
        )

    @property
    def _errors(self) -> tuple[float, float]:
        """Of the interval's ends: as of `LimitRule` near a value."""
        each = _DESCRIBED if self._value is None else max(self._alpha / 2, self._beta)
        return each, each
