"""The result of a self-check as plain data: what the command shows, `--json` writes, and a mark keeps."""

from __future__ import annotations

from typing import TypedDict

from pytest_vperf.stats.self_check import Tally


class Decided(TypedDict):
    """One decision. ``arms`` and ``values``: every sample in the order it was taken, a warm-up among them."""

    about: str
    verdict: str
    cause: str
    pairs: int
    seed: int
    arms: str
    values: list[float]


class Result(TypedDict):
    """The self-check of one metric.

    Keys: ``finding``, as `stats.self_check.Tally` has it, or ``not measured``; ``reason``, in one line;
    ``injected``: ``real`` work, or ``scaled`` values; ``decisions`` is how many A/A decisions were asked for,
    ``pairs`` what each might take; ``pairs_slower`` likewise; ``decided`` what was decided, in order.
    """

    claim: str
    nodeid: str
    started_at: str
    finding: str
    reason: str
    injected: str
    tolerance: float
    decisions: int
    pairs: int
    pairs_slower: int
    budget_s: float
    seed: int
    unit: str
    waited_s: float
    duration_s: float
    decided: list[Decided]


def tally(result: Result) -> Tally:
    """Count the decisions of a result."""
    same = [each["verdict"] for each in result["decided"] if each["about"] == "A/A"]
    slower = [each["verdict"] for each in result["decided"] if each["about"] == "slower"]
    return Tally(
        decisions=len(same),
        refuted=same.count("refuted"),
        held=same.count("holds"),
        slower=len(slower),
        found=slower.count("refuted"),
    )


def mean_samples(result: Result) -> float | None:
    """The mean number of samples of a decision, of both kinds; ``None`` without any."""
    taken = [len(each["values"]) for each in result["decided"]]
    return sum(taken) / len(taken) if taken else None
