"""What a comparison is still expected to take.

The growth of the evidence per pair goes with the square of the distance from the threshold over the noise. Noise is
known after a few pairs. The distance is not, and the forecasts differ in what they say of it: as it seems, at its
best, or with all that is known, to plan with.
"""

from __future__ import annotations

import math

#: Pairs before the first forecast: the spread of fewer means too little.
FORECAST_FROM = 8
#: Pairs that a comparison is expected to take while nothing is known of it; the clearest take 10.
_UNKNOWN = 16
#: Pairs before a comparison may be given up.
_GIVE_UP_FROM = 32
#: Pairs per squared ratio of spread and distance, measured on recorded noise at alpha = beta = 0.01: the logarithm of
#: 1/alpha, 4.6, over the growth of the evidence for normal noise, half the squared ratio, plus the loss from not
#: knowing the noise.
_PAIRS_PER_SQUARE = 13 / math.log(100)


def pairs_needed(spread: float, distance: float, error: float) -> float:
    """The expected number of pairs until a decision.

    Args:
        spread: robust standard deviation of the pairs' log ratios.
        distance: the distance of the true log ratio from the threshold.
        error: the allowed error of the decision, alpha or beta.
    """
    if distance <= 0:
        return math.inf
    return FORECAST_FROM + _PAIRS_PER_SQUARE * math.log(1 / error) * (spread / distance) ** 2


def forecast(count: int, spread: float, distance: float, error: float) -> int | None:
    """`pairs_needed` as a whole number, after ``count`` pairs; ``None`` if it would be a guess."""
    if count < FORECAST_FROM:
        return None
    need = pairs_needed(spread, distance, error)
    return max(count + 1, math.ceil(need)) if need < 1e9 else None


def forecast_at_best(count: int, spread: float, distance: float, error: float) -> int | None:
    """`forecast` if the true distance is greater than it seems by 2 standard errors of a median.

    Few pairs say little about the distance, and the forecast varies with its inverse square: if the first pairs
    happen to lie near the threshold, it is thousands and meaningless.
    """
    if count < FORECAST_FROM:
        return None
    return forecast(count, spread, _farther(count, spread, distance, 2), error)


def hopeless(count: int, most: int, spread: float, distance: float, error: float) -> bool:
    """Whether ``most`` pairs would not decide even if the true distance were 2.5 standard errors greater than it
    seems."""
    if count < _GIVE_UP_FROM:
        return False
    return pairs_needed(spread, _farther(count, spread, distance, 2.5), error) > most


def pairs_to_go(
    count: int,
    spread: float,
    distance: float,
    usual: float | None,
    *,
    for_it: float,
    against_it: float,
) -> float:
    """The pairs that are still expected until a decision, to choose by between comparisons.

    `forecast` says what the pairs say, and after a few of them that is mostly noise: a distance that is small by
    chance makes it huge. This uses what else is known: the usual distance, that of no difference; the uncertainty of
    the distance, as its mean square counts; and the evidence so far. Before all that is known, it is what clear ones
    take.

    Args:
        count: pairs so far.
        spread: robust standard deviation of the pairs' log ratios.
        distance: of their centre from the nearest edge; positive on the side on which the claim holds.
        usual: the distance of no difference, believed give or take itself; ``None`` if it is no guide.
        for_it: the logarithm of the evidence that is still missing for the claim.
        against_it: the same, against it.
    """
    if count < FORECAST_FROM:
        return _UNKNOWN - count
    variance = _standard_error(count, spread) ** 2
    if usual:
        # Normal noise around a normal belief (Gelman et al., Bayesian Data Analysis, 2.5).
        belief = usual**2
        total = belief + variance
        if total > 0:
            distance = (distance * belief + usual * variance) / total
            variance *= belief / total
    missing = for_it if distance > 0 else against_it
    square = distance**2 + variance
    return max(1.0, _PAIRS_PER_SQUARE * missing * spread**2 / square) if square > 0 else math.inf


def _farther(count: int, spread: float, distance: float, errors: float) -> float:
    """A distance plus some standard errors of a median."""
    return distance + errors * _standard_error(count, spread)


def _standard_error(count: int, spread: float) -> float:
    """Of a median of normal noise (Kendall and Stuart, The Advanced Theory of Statistics, 14.6)."""
    return 1.25 * spread / math.sqrt(count)
