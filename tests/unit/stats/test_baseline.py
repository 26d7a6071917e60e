"""Separate runs, fresh against stored: ranks, their interval, and what they cannot show."""

from __future__ import annotations

import math
import random
from itertools import permutations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_vperf.stats.baseline import LOOKS, compare_runs


def runs(level: float, spread: float, size: int, seed: object = 1) -> list[float]:
    source = random.Random(str(seed))
    return [level * math.exp(source.gauss(0, spread)) for _ in range(size)]


@pytest.mark.parametrize(
    ("level", "decision", "words"), [(100, "holds", "within"), (125, "refuted", "beyond")]
)
def test_three_clear_runs_decide_against_twenty(level: float, decision: str, words: str) -> None:
    found = compare_runs(runs(100, 0.01, 20), runs(level, 0.005, 3, 2), 0.1, "lower", looks=3)
    assert found.decision == decision
    assert found.reason == f"3 runs against 20: the fresh ones rank {words} the tolerance"
    assert found.ratio == pytest.approx(level / 100, rel=0.02)
    assert found.confidence == pytest.approx(1 - 0.02 / 3)


def test_higher_is_better_the_other_way_round() -> None:
    old = runs(100, 0.01, 20)
    assert compare_runs(old, runs(80, 0.005, 3), 0.1, "higher").decision == "refuted"
    assert compare_runs(old, runs(120, 0.005, 3), 0.1, "higher").decision == "holds"
    assert compare_runs(old, runs(120, 0.005, 3), 0.1, "lower").decision == "refuted"


@pytest.mark.parametrize("level", [80, 125])
def test_each_change_counts_where_nobody_says_what_is_better(level: float) -> None:
    old = runs(100, 0.01, 20)
    assert compare_runs(old, runs(level, 0.005, 3), 0.1, "").decision == "refuted"
    assert compare_runs(old, runs(100, 0.005, 3), 0.1, "").decision == "holds"


def test_what_the_runs_cannot_show_is_said() -> None:
    found = compare_runs(runs(100, 0.05, 8), runs(103, 0.05, 8, 2), 0.01, "lower")
    assert found.decision == "inconclusive"
    assert found.visible == pytest.approx(0.08, abs=0.04)
    share = f"{found.visible:.2g}"
    assert found.reason == (
        f"8 runs against 8: changes below {float(share) * 100:.2g} % are not visible between these runs"
    )


@pytest.mark.parametrize(
    ("old", "new", "missing"), [(1, 1, "4 more runs"), (4, 4, "1 more run"), (2, 5, "2 more runs")]
)
def test_so_few_runs_show_nothing(old: int, new: int, missing: str) -> None:
    found = compare_runs([100.0] * old, [1000.0] * new, 0.1, "lower")
    assert (found.decision, found.visible, found.low) == ("inconclusive", None, None)
    assert found.reason.endswith(f"show no change of any size: {missing} of each would")


def test_the_smallest_number_that_can_tell_does() -> None:
    """Of 3 against 7 runs one order in 120 is as extreme, of 3 against 6 one in 84."""
    assert compare_runs(runs(100, 0.01, 7), runs(200, 0.01, 3), 0.1, "lower").decision == "refuted"
    assert compare_runs(runs(100, 0.01, 6), runs(200, 0.01, 3), 0.1, "lower").missing == 1


def test_ties_are_no_evidence() -> None:
    assert compare_runs([100.0] * 20, [110.0] * 8, 0.1, "lower").decision == "inconclusive"


def test_a_tie_with_the_one_bad_run_refutes_nothing() -> None:
    """Counted as half, it would: 2 of 1771 orders are as extreme; broken against it, 7 are."""
    old = [100.0 * (1 + i / 1e6) for i in range(19)] + [101.0]
    assert compare_runs(old, [111.1] * 3, 0.1, "lower", looks=3).decision != "refuted"


def modes(source: random.Random) -> float:
    """A machine whose level is one of two, as after each boot."""
    return source.choice((1.0, 1.15)) * math.exp(source.gauss(0, 0.005))


def outliers(source: random.Random) -> float:
    return math.exp(0.02 * source.gauss(0, 1) / math.sqrt(source.gammavariate(1.5, 1) / 1.5))


@pytest.mark.parametrize(
    ("level", "old", "new"), [(modes, 5, 5), (modes, 20, 3), (outliers, 20, 8)]
)
def test_errors_are_kept_whatever_the_levels_are(level: Any, old: int, new: int) -> None:
    """At the limit itself, 500 times with alpha = beta = 5 %."""
    ends = {"holds": 0, "refuted": 0, "inconclusive": 0}
    for seed in range(500):
        source = random.Random(f"{level.__name__} {seed}")
        stored = [level(source) for _ in range(old)]
        fresh = [1.1 * level(source) for _ in range(new)]
        found = compare_runs(stored, fresh, 0.1, "lower", alpha=0.05, beta=0.05)
        ends[found.decision] += 1
    # More than 41 of 500 would have a probability of 0.1 % at 5 %.
    assert ends["holds"] <= 41
    assert ends["refuted"] <= 41


def test_errors_are_kept_while_runs_are_added() -> None:
    refuted = 0
    for seed in range(200):
        stored, fresh = runs(100, 0.03, 20, f"s{seed}"), runs(110, 0.03, 8, f"f{seed}")
        refuted += any(
            compare_runs(stored, fresh[:look], 0.1, "lower", alpha=0.05, looks=3).decision
            == "refuted"
            for look in LOOKS
        )
    assert refuted <= 20


@given(
    st.lists(st.floats(1, 1e3), min_size=5, max_size=9),
    st.lists(st.floats(1, 1e3), min_size=5, max_size=9),
    st.floats(0.01, 100),
)
def test_the_interval_moves_with_the_runs(
    old: list[float], new: list[float], factor: float
) -> None:
    one = compare_runs(old, new, 0.05, "lower")
    other = compare_runs(old, [each * factor for each in new], 0.05, "lower")
    assert one.low is not None
    assert one.high is not None
    assert one.low <= one.high
    assert (other.low, other.high, other.ratio) == pytest.approx(
        (one.low * factor, one.high * factor, one.ratio * factor), rel=1e-6
    )


def test_the_interval_is_that_of_all_orders() -> None:
    """Of 3 against 4 runs, by counting: the test at one in five rejects all below the ends."""
    old, new = [1.0, 1.3, 1.7, 2.2], [2.0, 2.9, 4.1]
    found = compare_runs(old, new, 0.05, "lower", alpha=0.2, beta=0.2)
    every = list(permutations(range(7), 3))

    def chance(factor: float) -> float:
        def above(fresh: Any, stored: Any) -> int:
            return sum(x > y for x in fresh for y in stored)

        seen = above([x / factor for x in new], old)
        return sum(above(chosen, set(range(7)) - set(chosen)) >= seen for chosen in every) / len(
            every
        )

    assert found.low is not None
    assert chance(found.low * 0.999) <= 0.2 < chance(found.low * 1.001)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: compare_runs([], [1.0], 0.1, ""), "1 fresh run and 0 stored runs"),
        (
            lambda: compare_runs([0.0], [1.0], 0.1, ""),
            "a run's figure is 0.0, not a positive number",
        ),
        (lambda: compare_runs([1.0], [math.nan], 0.1, ""), "a run's figure is nan, .*"),
        (lambda: compare_runs([1.0], [1.0], 0, ""), "the tolerance is 0, not a positive number"),
    ],
)
def test_bad_arguments_are_refused(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}$"):
        make()
