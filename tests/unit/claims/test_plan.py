"""The plan of a claim: which source of a setting wins, the share of alpha, and wrong markers."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_vperf.claims.plan import Plan, marker_overrides, plan_for
from pytest_vperf.quantity import Quantity
from pytest_vperf.run.settings import read_settings
from pytest_vperf.thresholds.criterion import (
    Criterion,
    Limit,
    Near,
    NearLimit,
    NoWorse,
    Ratio,
    Unknown,
)
from pytest_vperf.thresholds.judge import DEFAULTS, Setting
from pytest_vperf.thresholds.profile import Threshold

if TYPE_CHECKING:
    from collections.abc import Mapping

NO_WORSE = NoWorse("lower")


def threshold(criterion: Criterion = NO_WORSE, **judge: float) -> Threshold:
    said = {
        key: Setting(value, f"one.yaml:{line}")
        for line, (key, value) in enumerate(judge.items(), 9)
    }
    return Threshold("a.b", criterion, "", None, "one", "one.yaml:6", said)


@pytest.fixture
def settings(pytester: pytest.Pytester) -> Mapping[str, Setting]:
    return read_settings(pytester.parseconfig()).judge


def test_without_settings_the_plan_has_the_defaults(settings: Mapping[str, Setting]) -> None:
    plan = plan_for(threshold(), {}, settings, 1)
    assert (plan.tolerance, plan.alpha, plan.beta, plan.pairs, plan.budget) == (
        0.02,
        0.01,
        0.01,
        512,
        60,
    )
    assert plan.origins == dict.fromkeys(DEFAULTS, "default")
    assert plan.alpha_each == plan.alpha
    assert isinstance(plan.pairs, int)


@pytest.mark.parametrize("key", DEFAULTS)
def test_the_most_specific_setting_wins(pytester: pytest.Pytester, key: str) -> None:
    texts = {
        "tolerance": ("3 %", "4 %", 0.05, 0.06),
        "alpha": ("0.03", "0.04", 0.05, 0.06),
        "beta": ("0.03", "0.04", 0.05, 0.06),
        "pairs": ("3000", "4000", 5000, 6000),
        "budget": ("3 s", "4 s", 5.0, 6.0),
    }[key]

    def found(*options: str, marker: bool = False, file: bool = False) -> tuple[float, str]:
        plan = plan_for(
            threshold(NO_WORSE, **({key: texts[3]} if file else {})),
            {key: texts[2]} if marker else {},
            read_settings(pytester.parseconfig(*options)).judge,
            1,
        )
        others = [origin for name, origin in plan.origins.items() if name != key]
        assert others == ["default"] * 4
        return round(getattr(plan, key), 9), plan.origins[key]

    configured, asked = (round(texts[3] / 6 * number, 9) for number in (3, 4))
    option = f"--claims-{key}={texts[1]}"
    assert found() == (DEFAULTS[key], "default")
    assert found(option) == (asked, f"--claims-{key}")
    pytester.makeini(f"[pytest]\nclaims_{key} = {texts[0]}\n")
    assert found() == (configured, "ini")
    assert found(option) == (asked, f"--claims-{key}")
    assert found(marker=True) == (texts[2], "marker")
    assert found(marker=True, file=True) == (texts[3], "one.yaml:9")
    assert found(file=True) == (texts[3], "one.yaml:9")
    if key == "budget":  # What somebody waits for now.
        assert found(option, marker=True, file=True) == (asked, "--claims-budget")
        return
    assert found(option, marker=True) == (texts[2], "marker")
    assert found(option, marker=True, file=True) == (texts[3], "one.yaml:9")


@pytest.mark.parametrize(
    "criterion",
    [
        Limit("at_most", Quantity(4, "ms")),
        Ratio("at_most", 1.0),
        Ratio("at_most", 1.02, overhead=True),
        Unknown("a graph", "ms"),
    ],
    ids=str,
)
def test_a_tolerance_widens_no_published_figure(
    settings: Mapping[str, Setting], criterion: Criterion
) -> None:
    wider = {**settings, "tolerance": Setting(0.05, "--claims-tolerance")}
    plan = plan_for(threshold(criterion), {}, wider, 1)
    assert plan.tolerance == 0
    assert plan.origins["tolerance"] == "criterion"
    assert criterion.settled(plan.tolerance) == criterion


def test_without_a_threshold_nothing_is_widened(settings: Mapping[str, Setting]) -> None:
    assert plan_for(None, {"tolerance": 0.05, "pairs": 64}, settings, 1).tolerance == 0
    assert plan_for(None, {"tolerance": 0.05, "pairs": 64}, settings, 1).pairs == 64


@pytest.mark.parametrize(
    ("given_", "own", "shown"),
    [
        (Near(0.75), Near(0.75, 0.05), "near 0.75 ± 3 %"),
        (NearLimit(Quantity(7, "ms")), NearLimit(Quantity(7, "ms"), 0.05), "near 7 ms ± 3 %"),
        (NoWorse("higher"), NoWorse("higher", 0.05), "no worse by more than 3 %"),
    ],
)
def test_a_criterions_own_tolerance_wins(
    settings: Mapping[str, Setting], given_: Criterion, own: Criterion, shown: str
) -> None:
    plan = plan_for(threshold(given_), {"tolerance": 0.03}, settings, 1)
    assert (plan.tolerance, plan.origins["tolerance"]) == (0.03, "marker")
    assert str(given_.settled(plan.tolerance)) == shown
    plan = plan_for(threshold(own, tolerance=0.04), {"tolerance": 0.03}, settings, 1)
    assert (plan.tolerance, plan.origins["tolerance"]) == (0.05, "one.yaml:6")
    assert own.settled(plan.tolerance) == own


def test_later_claims_of_a_test_share_half_of_what_the_first_has(
    settings: Mapping[str, Setting],
) -> None:
    each = [plan_for(None, {}, settings, 5, number).alpha_each for number in range(1, 1000)]
    first, *later = each
    assert first == 0.01 / 5
    assert [first / alpha for alpha in later[:4]] == pytest.approx([6, 12, 20, 30])
    assert 0.49 * first < sum(later) < 0.5 * first
    assert sorted(each, reverse=True) == each


@given(st.floats(1e-6, 0.2), st.integers(1, 1_000_000))
def test_all_claims_of_a_run_together_have_the_alpha_that_was_asked_for(
    alpha: float, claims: int
) -> None:
    plan = Plan(tolerance=0.02, alpha=alpha, beta=0.01, pairs=512, budget=60, claims=claims)
    assert math.isclose(plan.alpha_each * claims, alpha)
    assert 0 < plan.alpha_each <= alpha
    assert plan.beta == 0.01


def test_a_run_has_at_least_the_claim_itself(settings: Mapping[str, Setting]) -> None:
    with pytest.raises(ValueError, match="claims_in_run is 0, less than 1"):
        plan_for(None, {}, settings, 0)


def test_the_record_of_a_plan(settings: Mapping[str, Setting]) -> None:
    plan = plan_for(threshold(alpha=0.05), {"budget": 5.0}, settings, 10)
    assert json.loads(json.dumps(plan.as_dict())) == {
        "tolerance": 0.02,
        "alpha": 0.05,
        "alpha_each": 0.005,
        "beta": 0.01,
        "pairs": 512,
        "budget": 5.0,
        "claims": 10,
        "number": 1,
        "origins": {
            "tolerance": "default",
            "alpha": "one.yaml:9",
            "beta": "default",
            "pairs": "default",
            "budget": "marker",
        },
    }


def test_the_closest_marker_wins_key_by_key(pytester: pytest.Pytester) -> None:
    items = pytester.getitems(
        """
        import pytest
        pytestmark = pytest.mark.vperf(tolerance="5 %", alpha=0.05, budget="2 min")

        @pytest.mark.vperf(alpha=0.04, pairs=64)
        class Test:
            @pytest.mark.vperf(alpha=0.03)
            def test_one(self): pass
            def test_two(self): pass

        @pytest.mark.vperf
        def test_three(): pass
        """
    )
    found: dict[str, Any] = {item.name: marker_overrides(item) for item in items}
    assert found == {
        "test_one": {"alpha": 0.03, "pairs": 64, "tolerance": 0.05, "budget": 120},
        "test_two": {"alpha": 0.04, "pairs": 64, "tolerance": 0.05, "budget": 120},
        "test_three": {"tolerance": 0.05, "alpha": 0.05, "budget": 120},
    }


WRONG = """
import pytest

@pytest.mark.parametrize("case", range(3))
@pytest.mark.vperf(tolerence="5 %", alpha=0.5)
def test_one(case): pass

class Test:
    pytestmark = [pytest.mark.vperf(0.02), pytest.mark.vperf(budget=60, colour="red")]
    def test_two(self): pass
    def test_three(self): pass
"""


def test_markers_that_are_wrong_end_the_run_before_any_test(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(
        """
        from pytest_vperf.claims.plan import check_markers
        def pytest_collection_finish(session): check_markers(session.items)
        """
    )
    path = pytester.makepyfile(WRONG)
    result = pytester.runpytest()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    name = Path(path).name
    assert [line for line in result.errlines if line] == [
        f"ERROR: {name}::test_one[0]: the marker vperf has no keyword 'tolerence'; did you mean 'tolerance'?",
        f"{name}::test_one[0]: the marker vperf(alpha=…): the chance of a wrong verdict is from 0.000001 to 0.2, "
        "such as 0.01, not 0.5",
        f"{name}::Test::test_two: the marker vperf takes keywords only, such as vperf(tolerance='2 %')",
        f"{name}::Test::test_two: the marker vperf(budget=…): 60 needs a unit, e.g. 60 s",
        f"{name}::Test::test_two: the marker vperf has no keyword 'colour'; "
        "the keywords are tolerance, alpha, beta, pairs, budget",
    ]


def test_a_wrong_marker_is_not_read(pytester: pytest.Pytester) -> None:
    item = pytester.getitem(
        "import pytest\n@pytest.mark.vperf(pairs='few')\ndef test_it(): pass\n", "test_it"
    )
    with pytest.raises(pytest.UsageError) as caught:
        marker_overrides(item)
    assert str(caught.value) == (
        f"{item.nodeid}: the marker vperf(pairs=…): must be a whole number from 4 to 1000000, not 'few'"
    )
