"""Noise for the judges' tests, seeded, with the defects that real noise has."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_vperf.stats.rule import Arm, Rule


def drifting(seed: int, spread: float = 0.02) -> Callable[[], float]:
    """A level that moves, neighbours that share it, a long upper tail."""
    source = random.Random(seed)
    level = 0.0

    def sample() -> float:
        nonlocal level
        level += source.gauss(0, spread / 5)
        spike = source.expovariate(2) if source.random() < 0.05 else 0.0
        return 100 * 2 ** (level + source.gauss(0, spread) + spike)

    return sample


def run(rule: Rule, sample: Callable[[Arm, int], float]) -> int:
    """Sample until the rule has decided, over its sessions; returns how many samples that took.

    ``sample`` gets the arm and how many samples there were before.
    """
    taken = 0
    while not rule.state.decided:
        rule.resume()
        rule.add(sample(rule.next(), taken))
        taken += 1
    return taken


def two_arms(
    seed: int, ratio: float, spread: float = 0.02, lag: float = 1.0
) -> Callable[[Arm, int], float]:
    """Arm a is ``ratio`` times b; the second of a pair takes ``lag`` times as long."""
    noise = drifting(seed, spread)
    return lambda arm, taken: noise() * (ratio if arm == "a" else 1.0) * (lag if taken % 2 else 1.0)
