"""What self-checks found on this machine, kept so that later runs do not trust a metric that failed one.

One small file for each claim, under the cache folder, named by the claim and the machine's whole fingerprint: after
another kernel, microcode or processor it counts no more, since it is not found.

The result of a self-check as plain data: what the command shows, `--json` writes, and a mark keeps.
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


FORMAT = 1


def keep(result: Result) -> None:
    """Keep what was found of a claim; a finding about judged samples replaces the one before.

    Raises:
        OSError: the folder cannot be written to.
    """
    if result["finding"] not in ("stable", "unstable", "too noisy"):
        return  # nothing was concluded: what is known already stands
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
    """Why no verdict about a claim is to be trusted on this machine; empty where nothing speaks against it."""
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
    """Remove what is kept, of this machine's earlier kernels too.

    Args:
        patterns: names of claims, or patterns as a shell has them; none stands for all.

    Returns:
        the claims, in order.
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
    """A mark; ``None`` where there is none, or none that is understood."""
    try:
        known = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return None
    if not isinstance(known, dict) or known.get("format") != FORMAT:
        return None
    complete = {"claim", "finding", "checked_at", "wrong", "decisions"} <= known.keys()
    return known if complete else None
