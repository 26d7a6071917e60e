"""The public calls: samplers in, a verdict out."""

from __future__ import annotations

import random
import subprocess
import sys
from typing import Any

import pytest
from recorded_like import drifting

from pytest_vperf import stats


class Counted:
    """A sampler that counts its calls."""

    def __init__(self, noise: Any, factor: float = 1.0) -> None:
        self.calls = 0
        self._noise, self._factor = noise, factor

    def __call__(self) -> float:
        self.calls += 1
        return float(self._noise() * self._factor)


@pytest.mark.parametrize(
    ("factor", "verdict"), [(1.0, "holds"), (0.9, "holds"), (1.06, "refuted"), (1.3, "refuted")]
)
def test_compare_asks_whether_b_is_no_worse_than_a(factor: float, verdict: str) -> None:
    noise = drifting(1)
    a, b = Counted(noise), Counted(noise, factor)
    result = stats.compare(a, b, tolerance=0.02, seed=3)
    assert result.verdict == verdict
    assert result.samples == a.calls + b.calls
    assert a.calls == b.calls == result.judged + 1
    assert result.ratio == pytest.approx(factor, rel=0.04)
    low, high = result.interval
    assert low is None or low < factor
    assert high is None or factor < high
    assert result.seed == 3
    assert repr(result) == f"<Result {verdict}: {result.reason}>"


def test_equal_seeds_and_samples_give_equal_results() -> None:
    def once(seed: int) -> tuple[Any, ...]:
        noise = drifting(4)
        result = stats.compare(noise, noise, seed=seed)
        return result.verdict, result.samples, result.ratio, result.interval

    assert once(1) == once(1)
    assert once(1) != once(2)


def test_compare_gives_up_after_the_pairs_allowed() -> None:
    noise = drifting(1)
    result = stats.compare(noise, lambda: 1.02 * noise(), max_pairs=20)
    assert (result.verdict, result.cause, result.samples) == ("inconclusive", "budget", 42)
    assert result.reason == "undecided after 20 pairs, all that are allowed"


def test_near_is_the_ratio_of_b_to_a() -> None:
    noise = drifting(2)
    result = stats.near(noise, lambda: 0.75 * noise(), value=0.75, tolerance=0.05)
    assert result.verdict == "holds"
    assert result.ratio == pytest.approx(0.75, rel=0.03)
    assert stats.near(noise, lambda: 0.75 * noise(), value=1 / 0.75).verdict == "refuted"


def test_limit_judges_one_arm() -> None:
    noise = drifting(3)
    result = stats.limit(noise, at_most=300)
    assert (result.verdict, result.judged) == ("holds", 12)
    assert result.samples == 12 + 9
    assert result.ratio == pytest.approx(1 / 3, rel=0.2)
    assert stats.limit(noise, at_least=300).verdict == "refuted"
    assert stats.limit(noise, at_most=300, quantile=0.9, max_samples=2000).verdict == "holds"


def test_a_quantile_takes_what_it_needs_unless_asked_for_less() -> None:
    source = random.Random(4)
    taken = 0

    def sample() -> float:
        nonlocal taken
        taken += 1
        return source.uniform(10, 20)

    assert stats.limit(sample, at_most=100, quantile=0.99).verdict == "holds"
    assert taken == 807 + 9
    result = stats.limit(sample, at_most=100, quantile=0.99, max_samples=512)
    assert taken == 807 + 9
    assert (result.verdict, result.cause, result.judged) == ("inconclusive", "too few samples", 0)
    assert result.reason == (
        "p99 needs at least 807 samples, and 512 are allowed (max_samples): allow more"
    )
    assert (result.ratio, result.interval) == (None, (None, None))


def test_limit_pauses_between_its_sessions() -> None:
    pauses = []
    source = random.Random(1)
    sampler = Counted(lambda: source.uniform(80, 90))
    result = stats.limit(sampler, at_most=100, pause=lambda: pauses.append(sampler.calls))
    assert result.verdict == "holds"
    assert pauses == [13, 23]
    # Sessions at once are longer where the limit is near.
    assert stats.limit(sampler, at_most=100).judged == 3 * 64


def test_samples_that_are_not_valid_numbers_are_refused() -> None:
    with pytest.raises(ValueError, match=r"a sample is 0.0: a ratio needs positive numbers"):
        stats.compare(lambda: 0.0, lambda: 1.0)
    with pytest.raises(ValueError, match="a sample is nan, not a finite number"):
        stats.limit(lambda: float("nan"), at_most=1)


NAN = float("nan")
judged: Any = stats  # to be called as no type checker would allow


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (lambda f: judged.compare(f, f, tolerance=-1), ValueError, "the tolerance is -1, less than 0"),
        (lambda f: judged.compare(f, f, tolerance=True), TypeError, "the tolerance is True, not a number"),
        (lambda f: judged.compare(f, f, tolerance="2 %"), TypeError, "the tolerance is '2 %', not a number"),
        (lambda f: judged.compare(f, f, alpha=None), TypeError, "alpha is None, not a number"),
        (lambda f: judged.compare(f, f, max_pairs=NAN), TypeError, "max_pairs is nan, not a whole number"),
        (lambda f: judged.compare(f, f, max_pairs=2.5), TypeError, "max_pairs is 2.5, not a whole number"),
        (lambda f: judged.compare(f, f, seed=-1), ValueError, "seed is -1, less than 0"),
        (lambda f: judged.compare(f, f, seed=None), TypeError, "seed is None, not a whole number"),
        (lambda f: judged.near(f, f, value=0), ValueError, "the value is 0, not a positive number"),
        (lambda f: judged.near(f, f, value=10**400), ValueError, "the value is 10+, not a finite number"),
        (lambda f: judged.limit(f), ValueError, "give one of at_most and at_least"),
        (lambda f: judged.limit(f, at_most=1, at_least=1), ValueError, "give one of at_most and at_least"),
        (lambda f: judged.limit(f, at_most=False), TypeError, "a limit is False, not a number"),
        (lambda f: judged.limit(f, at_most=1, sessions=NAN), TypeError, "sessions is nan, not a whole number"),
        (lambda f: judged.limit(f, at_most=1, max_samples=1e9), TypeError, "max_samples is 1.*, not a whole number"),
        (lambda f: judged.compare(lambda: "3.0", f), TypeError, "a sample is '3.0', not a number"),
        (lambda f: judged.compare(lambda: True, f), TypeError, "a sample is True, not a number"),
    ],
)  # fmt: skip
def test_bad_arguments_are_refused(call: Any, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=f"^{message}$"):
        call(lambda: 1.0)


def test_numbers_of_other_libraries_are_numbers() -> None:
    import numpy as np

    result = stats.compare(
        lambda: np.float32(1), lambda: np.int64(2), tolerance=np.float64(0.1), seed=np.int64(3)
    )
    assert result.verdict == "refuted"


def test_a_negative_limit_has_its_interval_the_right_way_round() -> None:
    source = random.Random(1)
    result = stats.limit(lambda: source.uniform(-12, -11), at_most=-5, max_samples=300)
    assert result.verdict == "holds"
    low, high = result.interval
    assert low is not None
    assert high is not None
    assert result.ratio is not None
    assert low <= result.ratio <= high
    assert stats.limit(lambda: source.uniform(-12, -11), at_most=0).ratio is None


def test_no_numerical_library_is_imported_to_judge() -> None:
    text = (
        "import sys, itertools\n"
        "from pytest_vperf import stats\n"
        "values = itertools.count(1)\n"
        "stats.compare(lambda: 1 + next(values) % 7 / 99, lambda: 2 + next(values) % 5 / 99).interval\n"
        "stats.limit(lambda: next(values), at_least=1).interval\n"
        "print(sorted(name for name in sys.modules if name in ('scipy', 'numpy', 'pint', 'pytest')))"
    )
    done = subprocess.run(
        [sys.executable, "-c", text], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout == "[]\n"
