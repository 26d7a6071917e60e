"""The plan a claim is judged by: tolerance, error rates and budget, each with its origin; and how a claim can end.

The more specific source of a setting wins: the claim's entry in the threshold file, then the ``vperf``
marker of the test, then the option, then the ini setting, then the default. A budget on the command line overrides
them all: somebody is waiting now, and a shorter budget can only make a verdict inconclusive.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from enum import Enum
from typing import TYPE_CHECKING, Any

import pytest

from pytest_vperf.thresholds import judge
from pytest_vperf.thresholds.judge import Setting
from pytest_vperf.thresholds.text_file import nearest

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from pytest_vperf.thresholds.criterion import Criterion
    from pytest_vperf.thresholds.profile import Threshold


class Verdict(str, Enum):
    """The five ends of a claim; the value is the word used in reports and files.

    Only `HOLDS` is a pass; `NOT_COMPARABLE` and `NOT_MEASURED` never are (design rule 3).
    """

    HOLDS = "holds"
    REFUTED = "refuted"
    INCONCLUSIVE = "inconclusive"
    NOT_COMPARABLE = "not comparable"
    NOT_MEASURED = "not measured"

    def __str__(self) -> str:
        return self.value


MARKER = "vperf"
_ASKED_BUDGET = "--claims-budget"
#: The origin of a setting that nobody asked for.
DEFAULT = "default"


@dataclass(frozen=True)
class Plan:
    """What one claim is judged by.

    Attributes:
        tolerance: how much worse still counts as no worse, or how far off as near: 0.02 is 2 %. 0 for other criteria,
            whose figures are not widened.
        alpha: the requested chance that any true claim of the run is refuted, see `alpha_each`.
        beta: the chance that this claim holds although it is untrue.
        pairs: the greatest number of pairs of a comparison, or of samples of a limit. Where nobody asked for one,
            `Judgement` allows a limit as many as its quantile needs.
        budget: seconds of sampling, counted once the warm-up is over.
        claims: how many tests of the run ask for claims.
        number: the claim's position in its test, counted from 1, in the order in which claims were first judged.
        origins: where each of the five settings comes from: ``default``, ``ini``, ``--claims-alpha``, ``marker``,
            ``thresholds/type1.yaml:12``; ``criterion`` for a tolerance that the criterion does not have.
    """

    tolerance: float
    alpha: float
    beta: float
    pairs: int
    budget: float
    claims: int = 1
    number: int = 1
    origins: Mapping[str, str] = field(default_factory=dict)

    @property
    def alpha_each(self) -> float:
        """The chance that this claim is refuted although it is true.

        alpha divided by the tests of the run that ask for claims: Bonferroni's correction. How many claims a test has
        is known only when it has run, so its first claim has that share, and the k-th one, from the second on, the
        share divided by k(k + 1): 1/6, 1/12, 1/20 and so on, which add up to one half. The chance that any true claim
        of the run is refuted is then at most alpha where each test has one claim, and at most 1.5 alpha where tests
        have several.

        That holds under any dependence between the claims and when every sample is looked at, which the procedure of
        Benjamini and Hochberg does not. It has no lower bound, so the promise holds however many claims a run has;
        ten times the claims cost some more samples, not ten times as many. beta is not divided: it is promised for
        each claim separately.
        """
        share = self.alpha / self.claims
        return share if self.number == 1 else share / (self.number * (self.number + 1))

    def allow_more(self, key: str) -> str:
        """What to say of a setting that is too small, after its value: its origin, and what to do."""
        origin = self.origins.get(key, DEFAULT)
        option = f" (--claims-{key})" if origin == DEFAULT else ""
        return f"({origin}): allow more{option}"

    @property
    def budget_told(self) -> str:
        """The budget in words: ``budget 60 s``."""
        told = f"budget {self.budget:g} s"
        return {
            judge.TIME_OF_RUN: time_told(self.budget),
            judge.PART_OF_TIME: f"{told}, {judge.PART_OF_TIME}",
        }.get(self.origins.get("budget", DEFAULT), told)

    def as_dict(self) -> dict[str, Any]:
        """The plan as it is recorded."""
        return {**asdict(self), "alpha_each": self.alpha_each, "origins": dict(self.origins)}


def time_told(seconds: float) -> str:
    """What a run has, in words, with the option that gives it more."""
    return f"the run has {seconds:g} s for all of its claims ({judge.TIME_OF_RUN})"


def plan_for(
    threshold: Threshold | None,
    marker: Mapping[str, float],
    settings: Mapping[str, Setting],
    claims_in_run: int,
    number: int = 1,
    *,
    gate: bool = False,
) -> Plan:
    """The plan of a claim.

    Args:
        threshold: the claim's; ``None`` where only other hardware has one.
        marker: the settings of the test's markers, see `marker_overrides`.
        settings: of the run: tolerance, alpha, beta, pairs and budget.
        claims_in_run: the number of collected tests that ask for claims, including this one.
        number: the claim's position in its test, counted from 1.
        gate: whether two sides are compared by what the claim samples, and not the claim judged itself.

    Raises:
        pytest.UsageError: a marker gives a tolerance to a criterion that has none.
        ValueError: ``claims_in_run`` or ``number`` is less than 1.
    """
    if claims_in_run < 1:
        raise ValueError(f"claims_in_run is {claims_in_run}, less than 1")
    if number < 1:
        raise ValueError(f"number is {number}, less than 1")
    found = {
        **settings,
        **{key: Setting(value, "marker") for key, value in marker.items()},
        **(threshold.judge if threshold else {}),
    }
    if settings["budget"].origin == _ASKED_BUDGET:
        found["budget"] = settings["budget"]
    own = threshold.criterion if threshold else None
    if threshold and own and own.compares and own.tolerance == 0 and "tolerance" in marker:
        raise pytest.UsageError(
            f"claim {threshold.name!r} is {own} ({threshold.location}), which has no tolerance: "
            f"take tolerance=… out of the marker {MARKER} of this test"
        )
    if gate:
        found["tolerance"] = _tolerance_of_gate(own, found["tolerance"], settings["tolerance"])
    else:
        found["tolerance"] = _tolerance(threshold, found["tolerance"])
    return Plan(
        tolerance=found["tolerance"].value,
        alpha=found["alpha"].value,
        beta=found["beta"].value,
        pairs=int(found["pairs"].value),
        budget=found["budget"].value,
        claims=claims_in_run,
        number=number,
        origins={key: found[key].origin for key in judge.DEFAULTS},
    )


def _tolerance(threshold: Threshold | None, asked: Setting) -> Setting:
    """The criterion's own tolerance, or the requested one if the criterion leaves it open."""
    own = threshold.criterion.tolerance if threshold else 0.0
    if own is None:
        return asked
    return Setting(own, threshold.location if threshold and own else "criterion")


#: How much worse than base counts as no worse in a gate, where nobody says: runs of one build on shared machines are
#: seldom nearer to each other.
GATE_TOLERANCE = 0.05


def _tolerance_of_gate(own: Criterion | None, asked: Setting, of_run: Setting) -> Setting:
    """The tolerance of a gate: that of a limit, which is not widened by it; ``near`` has one for its own figure."""
    if own is not None and own.tolerance != 0 and not own.of_builds:
        asked = of_run
    return replace(asked, value=GATE_TOLERANCE) if asked.origin == DEFAULT else asked


def marker_overrides(item: pytest.Item) -> dict[str, float]:
    """The settings of a test's ``vperf`` markers; the marker closest to the test wins.

    Raises:
        pytest.UsageError: a marker is invalid; the message names the test.
    """
    found: dict[str, float] = {}
    for mark in item.iter_markers(MARKER):
        problems = list(_problems(mark))
        if problems:
            raise pytest.UsageError("\n".join(f"{item.nodeid}: {each}" for each in problems))
        for key, value in mark.kwargs.items():
            found.setdefault(key, judge.read(key, value))
    return found


def check_markers(items: Iterable[pytest.Item]) -> None:
    """Check the ``vperf`` markers of all tests, before anything is measured.

    Raises:
        pytest.UsageError: some are invalid; one line for each mistake, with the first test that has it.
    """
    lines: list[str] = []
    seen: dict[int, pytest.Mark] = {}
    for item in items:
        for mark in item.iter_markers(MARKER):
            # A marker of a module, class or parametrized test is shared by many tests.
            if id(mark) not in seen:
                seen[id(mark)] = mark
                lines += [f"{item.nodeid}: {each}" for each in _problems(mark)]
    if lines:
        raise pytest.UsageError("\n".join(lines))


def _problems(mark: pytest.Mark) -> Iterator[str]:
    if mark.args:
        yield f"the marker {MARKER} takes keywords only, such as {MARKER}(tolerance='2 %')"
    for key, value in mark.kwargs.items():
        if key not in judge.DEFAULTS:
            hint = nearest(key, judge.DEFAULTS) or f"; the keywords are {', '.join(judge.DEFAULTS)}"
            yield f"the marker {MARKER} has no keyword {key!r}{hint}"
            continue
        try:
            judge.read(key, value)
        except ValueError as error:
            yield f"the marker {MARKER}({key}=…): {error}"
