"""Where the level of a series of runs changed: at once, or in a slip over several runs.

Steps are proposed by the segmentation with the least penalised sum of squares (PELT, Killick et al. 2012; ruptures),
and each has to be confirmed by the ranks of the runs on both sides (Mann and Whitney's test): noise of whatever
distribution proposes much and confirms little. What no step shows, a slip of which each run passes, is found by
Kendall's test of a trend. Last, a ramp is fitted to what was found: if it is the better description, the change is a
slip.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal

from pytest_vperf.stats.baseline import chance_of_ranks, compare_runs
from pytest_vperf.stats.rule import check_error, check_positive

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    Numbers = NDArray[np.float64]

#: A stretch of fewer runs is not proposed.
SHORTEST = 3
#: Fewer runs between the levels are no slip, but a step.
_SHORTEST_SLIP = 3
#: Of the variance times the logarithm of the number of runs, for a step more; BIC has 2 for its place and its height.
_PENALTY = 3.0
#: A ramp has to be better by so much of Bayes's information criterion (Kass and Raftery 1995: "strong").
_BETTER = 6.0
#: The runs next to a change whose ranks give its interval.
_NEAR = 100
#: The points to which a ramp is fitted; longer stretches are put into so many bins.
_MOST_POINTS = 200
#: Runs further than so many deviations from their neighbours are drawn in, before steps are proposed.
_OUTLYING = 4.0
_EVEN = 1e-9  # a deviation of logarithms that counts as none


@dataclass(frozen=True)
class Change:
    """One change of the level.

    Attributes:
        kind: ``step``, from one run to the next, or ``slip``, over several.
        first: the index of the first run that is no longer at the old level.
        last: the index of the first run that is at the new level; the same for a step.
        ratio: of the levels, after / before.
        low: lower end of its interval at 98 %; ``None`` for a slip, and if so few runs do not bound it.
        high: upper end.
    """

    kind: Literal["step", "slip"]
    first: int
    last: int
    ratio: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Series:
    """What a series of runs shows.

    Attributes:
        changes: the oldest first.
        spread: how much neighbouring runs differ, as a share: the standard deviation, from the median of the
            differences.
    """

    changes: tuple[Change, ...]
    spread: float


def least_runs(alpha: float = 0.01) -> int:
    """The fewest runs that can show a step: those of which the most extreme order is unlikely enough."""
    count = 2
    while 2 / math.comb(count, count // 2) > _of_steps(alpha) / count:
        count += 1
    return count


def find_changes(values: Sequence[float], *, alpha: float = 0.01) -> Series:
    """Find the changes in a series.

    Args:
        values: a figure of each run, positive, the oldest first.
        alpha: greatest chance, about, that a series without a change shows one; it is shared by steps and slips.

    Raises:
        ValueError: a figure is not positive, or alpha is none.
        ImportError: ruptures is not installed.
    """
    import numpy as np

    check_error("alpha", alpha)
    series = np.log([check_positive("a run's figure", each) for each in values])
    if len(series) < 2:
        return Series((), 0.0)
    deviation = _deviation(series)
    spread = math.expm1(deviation)
    cuts = _confirmed(series, _proposed(series, deviation), _of_steps(alpha))
    ends = [0, *cuts, len(series)]
    found: list[Change] = []
    for group in _groups(series, ends, alpha - _of_steps(alpha)):
        found += _described(series, group)
    return Series(tuple(found), spread)


def _of_steps(alpha: float) -> float:
    """The part of the error that steps have; the rest is for slips."""
    return alpha / 2


def _deviation(series: Numbers) -> float:
    """The standard deviation of runs about their level, which a few steps or a steady slip do not change."""
    import numpy as np

    differences = np.diff(series)
    middle = np.median(differences)
    deviation = 1.4826 * float(np.median(np.abs(differences - middle))) / math.sqrt(2)
    if deviation < _EVEN:  # more than half of them are equal
        deviation = float(np.std(differences)) / math.sqrt(2)
    return max(deviation, _EVEN)


def _proposed(series: Numbers, deviation: float) -> list[int]:
    """Where a step may be: the index of the first run after it."""
    import numpy as np
    import ruptures
    from scipy.ndimage import median_filter

    if len(series) < 2 * SHORTEST:
        return []
    level = median_filter(series, size=5, mode="nearest")
    drawn_in = np.clip(series, level - _OUTLYING * deviation, level + _OUTLYING * deviation)
    # In units of the deviation, so that the penalty is a plain number.
    points = ((drawn_in - np.median(drawn_in)) / deviation).reshape(-1, 1)
    search = ruptures.KernelCPD(kernel="linear", min_size=SHORTEST).fit(points)
    return [int(each) for each in search.predict(pen=_PENALTY * math.log(len(series)))[:-1]]


def _confirmed(series: Numbers, cuts: list[int], alpha: float) -> list[int]:
    """The steps that the ranks on both sides confirm; the least likely one goes first, and its sides become one."""
    limit = alpha / len(series)  # each place in the series could have been the one
    cuts = list(cuts)
    chances: dict[tuple[int, int, int], float] = {}
    while cuts:
        ends = [0, *cuts, len(series)]
        places = list(zip(ends, ends[1:], ends[2:], strict=False))
        for place in places:
            if place not in chances:
                chances[place] = _chance(series, place)
        worst = max(places, key=chances.__getitem__)
        if chances[worst] <= limit:
            break
        cuts.remove(worst[1])
    return cuts


def _chance(series: Numbers, place: tuple[int, int, int]) -> float:
    before, after = series[place[0] : place[1]].tolist(), series[place[1] : place[2]].tolist()
    return min(1.0, 2 * min(chance_of_ranks(before, after), chance_of_ranks(after, before)))


@dataclass
class _Group:
    """Changes in one direction that follow each other: steps, at the cuts, and stretches with a trend."""

    start: int
    end: int
    sign: int
    cuts: list[int]


def _groups(series: Numbers, ends: list[int], alpha: float) -> list[_Group]:
    """The changes by their places, those of one direction that follow each other together."""
    import numpy as np

    stretches = list(pairwise(ends))
    found: list[_Group] = []

    def add(start: int, end: int, sign: int, cuts: list[int]) -> None:
        if found and found[-1].sign == sign and start < found[-1].end + 1:
            found[-1].end = max(end, found[-1].end)
            found[-1].cuts += cuts
        else:
            found.append(_Group(start, end, sign, cuts))

    for number, (start, end) in enumerate(stretches):
        if trend := _trend(series[start:end], alpha / len(stretches)):
            add(start, end, trend, [])
        if number + 1 < len(stretches):
            after = stretches[number + 1][1]
            higher = np.median(series[end:after]) > np.median(series[start:end])
            add(start, after, 1 if higher else -1, [end])
    return found


def _trend(stretch: Numbers, alpha: float) -> int:
    """The sign of a trend that is no chance; 0 if there is none."""
    from scipy.stats import kendalltau

    if len(stretch) < 2 * SHORTEST or not stretch.max() - stretch.min() > _EVEN:
        return 0
    tau = kendalltau(range(len(stretch)), stretch)
    return 0 if not tau.pvalue <= alpha else 1 if tau.statistic > 0 else -1


def _described(series: Numbers, group: _Group) -> list[Change]:
    """The group as steps, or as one slip if that describes it better."""
    import numpy as np

    # Stretches at its ends that are longer than the fit needs say no more of where the change began and ended.
    first, last = (group.cuts[0], group.cuts[-1]) if group.cuts else (group.start, group.end)
    start, end = max(group.start, first - _NEAR), min(group.end, last + _NEAR)
    stretch = series[start:end]
    size = math.ceil(len(stretch) / _MOST_POINTS)
    points = np.array([np.mean(stretch[i : i + size]) for i in range(0, len(stretch), size)])
    of_slip, begin, finish, height = _best_ramp(points)
    if group.cuts:
        levels = [start, *group.cuts, end]
        left = sum(
            float(np.sum((series[i:j] - np.mean(series[i:j])) ** 2)) for i, j in pairwise(levels)
        )
        # Of bins only their means are left.
        of_steps = left / size
        cuts = group.cuts
    else:
        of_steps, cut, _, _ = _best_ramp(points, longest=1)
        cuts = [start + cut * size + size]
    is_slip = finish - begin >= _SHORTEST_SLIP and (
        _criterion(of_slip, len(points), 4)
        < _criterion(of_steps, len(points), 1 + 2 * len(cuts)) - _BETTER
    )
    if is_slip:
        slip = Change(
            "slip",
            start + (begin + 1) * size,
            min(start + finish * size, len(series) - 1),
            math.exp(height),
        )
        return [slip]
    ends = [start, *cuts, end]
    return [_step(series, *place) for place in zip(ends, ends[1:], ends[2:], strict=False)]


def _step(series: Numbers, start: int, cut: int, end: int) -> Change:
    import numpy as np

    before = np.exp(series[max(start, cut - _NEAR) : cut]).tolist()
    after = np.exp(series[cut : min(end, cut + _NEAR)]).tolist()
    found = compare_runs(before, after, 0.05, "")
    return Change("step", cut, cut, found.ratio, found.low, found.high)


def _criterion(residual: float, points: int, parameters: int) -> float:
    """Bayes's information criterion of a fit with normal residuals."""
    return points * math.log(max(residual / points, _EVEN**2)) + parameters * math.log(points)


def _best_ramp(points: Numbers, longest: int | None = None) -> tuple[float, int, int, float]:
    """The level that is flat up to a point, straight to another, and flat again, with the least squared residuals.

    Returns:
        That sum, the last point of the old level, the first of the new one, and how much higher it is.
    """
    import numpy as np

    time = np.arange(len(points), dtype=np.float64)
    centred = points - points.mean()
    total = float(centred @ centred)
    best: tuple[float, int, int, float] = (math.inf, 0, 0, 0.0)
    for begin in range(len(points) - 1):
        stop = len(points) if longest is None else min(len(points), begin + longest + 1)
        finish = np.arange(begin + 1, stop, dtype=np.float64)
        shape: Any = np.clip((time - begin) / (finish - begin)[:, None], 0, 1)
        shape -= shape.mean(axis=1, keepdims=True)
        size = np.einsum("ij,ij->i", shape, shape)
        along = shape @ centred
        height = along / size
        left = total - along * height
        at = int(np.argmin(left))
        if left[at] < best[0]:
            best = float(left[at]), begin, int(finish[at]), float(height[at])
    return best
