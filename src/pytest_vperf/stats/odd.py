"""Which machines of a type are not like the others, and which one moves away from them.

Levels of machines are compared by their logarithms, which are taken for normally distributed among equal machines.
Machines out of line are found by the generalised extreme Studentised deviate test (Rosner 1983, "Percentage points
for a generalized ESD many-outlier procedure", Technometrics 25; NIST/SEMATECH e-Handbook, 1.3.5.17.3); for one
machine it is Grubbs' test. Of several steps each has its part of the error: where each has all of it, as Rosner has
it, 6 to 7 % of samples of 10 to 30 equal machines have an odd one at 5 %. One that drifts is found by Kendall's test
of a trend, its pace by the median of the slopes (Theil and Sen).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_vperf.stats.rule import check_error

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

#: Fewer machines have no odd one among them: of two that differ, nobody knows which it is.
FEWEST = 3
#: Of so many machines one may be odd, of twice as many two, and so on: more would be the usual.
_PER_ODD = 5


@dataclass(frozen=True)
class Drift:
    """How a machine moves against its type.

    Attributes:
        pace: by which its ratio to the others is multiplied from one run to the next.
        runs: over how many.
    """

    pace: float
    runs: int


def odd_ones(levels: Mapping[str, float], error: float) -> tuple[str, ...]:
    """The machines that are out of line, the furthest first.

    Args:
        levels: of equal machines, by name, all above 0.
        error: the chance to name any where there is none.
    """
    from scipy.stats import t

    check_error("error", error)
    left = {name: math.log(level) for name, level in levels.items()}
    n, found, confirmed = len(left), [], 0
    if n < FEWEST:
        return ()
    most = max(1, n // _PER_ODD)
    for step in range(1, most + 1):
        rest = len(left)  # n - step + 1
        mean = math.fsum(left.values()) / rest
        spread = math.sqrt(math.fsum((each - mean) ** 2 for each in left.values()) / (rest - 1))
        if spread <= abs(mean) * 1e-12:
            break
        name = max(left, key=lambda each: abs(left[each] - mean))
        deviate = abs(left.pop(name) - mean) / spread
        found.append(name)
        quantile = float(t.ppf(1 - error / (2 * rest * most), rest - 2))
        limit = (rest - 1) * quantile / math.sqrt((rest - 2 + quantile**2) * rest)
        if deviate > limit:
            confirmed = step
    return tuple(found[:confirmed])


def drift(ratios: Sequence[float], error: float) -> Drift | None:
    """How a machine drifts; ``None`` if it is not shown to.

    Args:
        ratios: to the others of its type, the oldest run first, all above 0.
        error: the chance to see a drift where there is none.
    """
    from scipy.stats import kendalltau, theilslopes

    check_error("error", error)
    if len(ratios) < FEWEST or len(set(ratios)) == 1:
        return None
    logs, places = [math.log(each) for each in ratios], range(len(ratios))
    if not kendalltau(places, logs).pvalue <= error:
        return None
    return Drift(math.exp(float(theilslopes(logs, places).slope)), len(ratios))
