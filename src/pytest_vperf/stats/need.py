"""How many pairs a comparison is going to need."""

from __future__ import annotations

import math

#: Pairs before which nothing is said: the spread of fewer says too little.
FORECAST_FROM = 8
#: Pairs before which no comparison is given up.
_GIVE_UP_FROM = 32
#: Pairs per squared ratio of spread and distance, measured on recorded noise at alpha = beta = 0.01: the logarithm of
#: 1/alpha, 4.6, over the growth of the evidence for normal noise, half the squared ratio, and what is lost by not
#: knowing the noise.
_PAIRS_PER_SQUARE = 13 / math.log(100)


def pairs_needed(spread: float, distance: float, error: float) -> float:
    """Pairs until a decision is expected.

    Args:
        spread: robust standard deviation of the pairs' log ratios.
        distance: of the true log ratio from the threshold.
        error: allowed for the decision, alpha or beta.
    """
    if distance <= 0:
        return math.inf
    return FORECAST_FROM + _PAIRS_PER_SQUARE * math.log(1 / error) * (spread / distance) ** 2


def forecast(count: int, spread: float, distance: float, error: float) -> int | None:
    """`pairs_needed` as a whole number, after ``count`` pairs; ``None`` where it would be a guess."""
    if count < FORECAST_FROM:
        return None
    need = pairs_needed(spread, distance, error)
    return max(count + 1, math.ceil(need)) if need < 1e9 else None


def forecast_at_best(count: int, spread: float, distance: float, error: float) -> int | None:
    """`forecast` if the truth lies farther away than it seems, by 2 standard errors of a median.

    Few pairs say little about the distance, and the forecast goes with its inverse square: of a comparison whose
    first pairs happen to lie near the threshold it is thousands, and means nothing.
    """
    if count < FORECAST_FROM:
        return None
    return forecast(count, spread, _farther(count, spread, distance, 2), error)


def hopeless(count: int, most: int, spread: float, distance: float, error: float) -> bool:
    """Whether ``most`` pairs would not decide even if the truth lay 2.5 standard errors farther than it seems."""
    if count < _GIVE_UP_FROM:
        return False
    return pairs_needed(spread, _farther(count, spread, distance, 2.5), error) > most


def _farther(count: int, spread: float, distance: float, errors: float) -> float:
    """A distance and some standard errors of a median.

    Each is 1.25 spread / sqrt(count) (for normal noise: Kendall and Stuart, The Advanced Theory of Statistics, 14.6).
    """
    return distance + errors * 1.25 * spread / math.sqrt(count)
