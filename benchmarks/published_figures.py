"""Whether the shipped limits and ratios judge the machine rightly that their document describes.

For each of them the samples of two machines are simulated and judged by the rule that judges a run: the document's
own, on which the claim has to hold, and one that is 20 % worse, on which it has to be refuted. A table by document
has the least share of right verdicts of its claims. Of two published ratios the worse machine is 20 % worse than the
worse one. An order of two targets is reversed by 20 % instead.

    python benchmarks/published_figures.py [--runs 200] [--seed 1] [--each]

Samples have the published mean and spread. Where minimum and maximum are published, samples lie between them, with a
quarter of their distance as the standard deviation, or two fifths of the greatest possible for that mean if that is
less (a beta distribution); where no spread is published they are normal, with a standard deviation of 3 %. A run has
as many samples as its budget allows where the figure is the time of a sample, 300 at most: three times the 105
machines of a host. What saturates is judged by a sweep, and is not simulated here.
"""

from __future__ import annotations

import argparse
import random
import re
import sys
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_vperf.stats.limit import LimitRule
from pytest_vperf.stats.pair import PairRule
from pytest_vperf.thresholds.criterion import Between, Limit, Near, NearLimit, Ratio
from pytest_vperf.thresholds.judge import DEFAULTS
from pytest_vperf.thresholds.match import GALLERY
from pytest_vperf.thresholds.profile import load_profiles

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from pytest_vperf.quantity import Quantity
    from pytest_vperf.thresholds.profile import Threshold

    Machine = Callable[[random.Random], float]

THRESHOLDS = Path(__file__).parents[1] / "thresholds"
WORSE = 1.2
#: The standard deviation of a sample whose spread is not published, as a share.
UNKNOWN_SPREAD = 0.03
#: Of the greatest standard deviation that a mean between two bounds allows: more has its peaks at the bounds.
GREATEST = 0.4
MOST_SAMPLES = 300
#: What the property asks for.
RIGHT = 0.95


@dataclass(frozen=True)
class Case:
    """A claim and the samples of the document's machine.

    Attributes:
        document: that publishes it.
        name: profile and claim.
        threshold: the claim's.
        metrics: the samples of its one arm, or of its two.
        worse: by what the samples of the first arm are multiplied on the worse machine.
        samples: the most samples, or pairs, of a run.
    """

    document: str
    name: str
    threshold: Threshold
    metrics: tuple[Machine, ...]
    worse: float
    samples: int

    def decided(self, seed: int, *, worse: bool = False) -> str:
        """The verdict of one run."""
        draw, factor = random.Random(seed), self.worse if worse else 1.0
        criterion = self.threshold.criterion
        if len(self.metrics) == 1:
            rule = criterion.new_rule(quantile=criterion.quantile, max_samples=self.samples)
            assert isinstance(rule, LimitRule)
            while not rule.decided:
                rule.add(factor * self.metrics[0](draw))
            return rule.state.decision
        pairs = criterion.new_rule(max_pairs=self.samples, seed=seed)
        assert isinstance(pairs, PairRule)
        while not pairs.decided:
            first = pairs.next() == "a"
            pairs.add(factor * self.metrics[0](draw) if first else self.metrics[1](draw))
        return pairs.state.decision

    def right(self, runs: int, seed: int) -> tuple[float, float]:
        """The shares of runs that hold on the document's machine, and that are refuted on the worse one."""
        held = sum(self.decided(seed + number) == "holds" for number in range(runs))
        refuted = sum(
            self.decided(seed + number, worse=True) == "refuted" for number in range(runs)
        )
        return held / runs, refuted / runs


def cases() -> Iterator[Case]:
    """Every limit and ratio with a published figure, of the project's own claims."""
    for profile in load_profiles([THRESHOLDS]).values():
        if profile.name == GALLERY:
            continue
        for threshold in profile.claims.values():
            if threshold.source and threshold.source.published:
                name = f"{profile.name} {threshold.name}"
                if isinstance(threshold.criterion, (Limit, NearLimit)):
                    yield _single(name, threshold)
                elif isinstance(threshold.criterion, (Ratio, Near)):
                    yield from _pairs(name, threshold)
                elif isinstance(threshold.criterion, Between):
                    yield from _ends(name, threshold)


def _single(name: str, threshold: Threshold) -> Case:
    assert threshold.source is not None
    criterion = threshold.criterion
    published = threshold.source.published
    values = [each.to(criterion.unit or "").value for each in published.values()]
    mean = published["mean"].to(criterion.unit or "").value if "mean" in published else values[0]
    worse = 1 / WORSE if criterion.side == "at_least" else WORSE
    machine = between(min(values), max(values), mean) if len(values) > 1 else about(mean)
    samples = MOST_SAMPLES
    if criterion.unit in ("ms", "s"):
        budget = threshold.judge.get("budget")
        seconds = budget.value if budget else DEFAULTS["budget"]
        samples = int(seconds / (mean / 1000 if criterion.unit == "ms" else mean))
    return Case(
        threshold.source.document, name, threshold, (machine,), worse, min(samples, MOST_SAMPLES)
    )


def _pairs(name: str, threshold: Threshold) -> Iterator[Case]:
    """A case for each published pair of figures."""
    assert threshold.source is not None
    criterion = threshold.criterion
    every = published_ratios(threshold.name, threshold.source.published)
    worst = (min if criterion.side == "at_least" else max)(every)
    for ratio in every:
        is_rate = isinstance(criterion, Ratio) and criterion.overhead and ratio < 1
        true = 1 / ratio if is_rate else ratio
        at_least = criterion.side == "at_least"
        worse = (1 / WORSE if at_least else WORSE) * (worst / ratio if criterion.side else 1)
        if isinstance(criterion, Ratio) and criterion.threshold == 1 and not criterion.overhead:
            worse = (1 / WORSE if at_least else WORSE) / true  # reversed
        yield Case(
            threshold.source.document,
            name,
            threshold,
            (about(true), about(1.0)),
            worse,
            MOST_SAMPLES,
        )


def _ends(name: str, threshold: Threshold) -> Iterator[Case]:
    """A case for each end of a published range of overheads: a machine on it, and one that is beyond."""
    assert threshold.source is not None
    for end, worse in (("low", 1 / WORSE), ("high", WORSE)):
        true = 1 + threshold.source.published[end].value / 100
        metrics = (about(true), about(1.0))
        yield Case(threshold.source.document, name, threshold, metrics, worse, MOST_SAMPLES)


def published_ratios(claim: str, published: Mapping[str, Quantity]) -> list[float]:
    """Of ``container_over_host`` the first over the second figure, of a priority the higher over the lower."""
    word = next((each for each in claim.split(".") if "_over_" in each or "_before_" in each), "")
    first, second = re.split("_over_|_before_", word) if word else ("priority_100", "priority_50")
    found = []
    for figure, quantity in published.items():
        *group, who = figure.split(".")
        if who == first:
            found.append(quantity.value / published[".".join([*group, second])].value)
    return found


def about(mean: float) -> Machine:
    """A metric whose spread is not published."""
    return lambda draw: draw.gauss(mean, UNKNOWN_SPREAD * mean)


def between(low: float, high: float, mean: float) -> Machine:
    """A metric with this mean that never leaves these bounds, and mostly lies between them."""
    if low == high:
        return about(mean)
    # A mean that is printed as the one bound is rounded: not every sample is there.
    place = min(max((mean - low) / (high - low), 0.01), 0.99)
    deviation = min(0.25, GREATEST * (place * (1 - place)) ** 0.5)
    size = place * (1 - place) / deviation**2 - 1
    first, second = place * size, (1 - place) * size
    return lambda draw: low + (high - low) * draw.betavariate(first, second)


def main() -> int:
    """Print the table; 1 where a claim is judged wrongly too often."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=int, default=200, help="of each machine (default: 200)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--each", action="store_true", help="a line for each claim, too")
    options = parser.parse_args()
    shares: dict[str, list[tuple[float, float, str]]] = defaultdict(list)
    for case in cases():
        held, refuted = case.right(options.runs, options.seed)
        shares[case.document].append((held, refuted, case.name))
        if options.each or min(held, refuted) < RIGHT:
            print(f"{held:7.1%} {refuted:7.1%}  {case.name}", flush=True)
    print("document              cases  hold, least  refuted, least")
    for document, found in shares.items():
        least = [min(each[at] for each in found) for at in (0, 1)]
        print(f"{document}  {len(found):4}  {least[0]:11.1%}  {least[1]:14.1%}")
    wrong = [each for found in shares.values() for each in found if min(each[:2]) < RIGHT]
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
