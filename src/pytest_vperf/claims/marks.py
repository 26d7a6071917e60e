"""The findings of self-checks on this machine, kept so that later runs do not trust a metric that failed one.

One small file for each claim in the cache folder, named after the claim and the machine's whole fingerprint: a new
kernel, microcode or processor invalidates it, as it is no longer found.

The result of a self-check is plain data: the command shows it, `--json` writes it, and a mark keeps it.
"""

from __future__ import annotations

import json
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, TypedDict

from pytest_vperf.foreign_text import to_json
from pytest_vperf.machine import cache, fingerprint
from pytest_vperf.machine.whole_file import write_whole
from pytest_vperf.stats.self_check import Tally

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path


class Decided(TypedDict):
    """One decision. ``arms`` and ``values``: every sample in the order it was taken, warm-up included."""

    about: str
    verdict: str
    cause: str
    pairs: int
    seed: int
    arms: str
    values: list[float]


class Result(TypedDict):
    """The self-check of one metric.

    Keys: ``finding``, that of `stats.self_check.Tally`, or ``not measured``; ``reason``, one line; ``injected``,
    ``real`` work or ``scaled`` values; ``decisions``, the number of A/A decisions requested, and ``pairs``, the most
    pairs each may take; ``pairs_slower``, likewise for slower ones; ``decided``, the decisions in order.
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
    """The mean number of samples per decision of either kind; ``None`` without any decision."""
    taken = [len(each["values"]) for each in result["decided"]]
    return sum(taken) / len(taken) if taken else None


FORMAT = 1


def keep(result: Result) -> None:
    """Store the finding about a claim, replacing the previous one; a check that concluded nothing changes nothing.

    Raises:
        OSError: the folder cannot be written to.
    """
    if result["finding"] not in ("stable", "unstable", "too noisy"):
        return
    counted = tally(result)
    machine = fingerprint.read().as_dict()
    path = _path(result["claim"], machine)
    path.parent.mkdir(parents=True, exist_ok=True)
    content = {
        "format": FORMAT,
        "claim": result["claim"],
        "finding": result["finding"],
        "checked_at": result["started_at"],
        "wrong": counted.wrong,
        "decisions": counted.decisions,
        "found": counted.found,
        "slower": counted.slower,
        "tolerance": result["tolerance"],
        "machine": machine,
    }
    write_whole(path, to_json(content, indent=1) + "\n")


def why_unstable(claim: str) -> str:
    """Why verdicts about a claim cannot be trusted on this machine; empty if no self-check failed."""
    if not _folder().is_dir():
        return ""
    known = _read(_path(claim, fingerprint.read().as_dict()))
    if known is None or known.get("finding") != "unstable":
        return ""
    day = str(known["checked_at"])[:10]
    return (
        f"self-check of {day}: {known['wrong']} of {known['decisions']} A/A decisions were wrong; "
        f"vperf selfcheck {claim} repeats it"
    )


def forget(patterns: Iterable[str]) -> list[str]:
    """Remove stored findings, including those for this machine's earlier kernels.

    Args:
        patterns: names of claims, or shell patterns; none means all.

    Returns:
        the claims, sorted.
    """
    asked = list(patterns)
    gone: set[str] = set()
    for path, known in _all():
        claim = str(known.get("claim", path.stem))
        if not asked or any(fnmatchcase(claim, each) for each in asked):
            path.unlink(missing_ok=True)
            gone.add(claim)
    return sorted(gone)


def _folder() -> Path:
    return cache.root() / "selfcheck"


def _path(claim: str, machine: Mapping[str, str]) -> Path:
    return _folder() / f"{cache.content_key([claim, *map('='.join, machine.items())])}.json"


def _all() -> Iterator[tuple[Path, dict[str, Any]]]:
    folder = _folder()
    for path in sorted(folder.glob("*.json")) if folder.is_dir() else ():
        yield path, _read(path) or {}


def _read(path: Path) -> dict[str, Any] | None:
    """A mark; ``None`` if it is missing or unreadable."""
    try:
        known = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return None
    if not isinstance(known, dict) or known.get("format") != FORMAT:
        return None
    complete = {"claim", "finding", "checked_at", "wrong", "decisions"} <= known.keys()
    return known if complete else None
