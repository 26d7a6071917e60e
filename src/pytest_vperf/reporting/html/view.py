"""A claim as the report shows it: a row of its table, and the data that its pictures are drawn from.

What no picture needs is left out: a page of 5,000 claims has to open quickly.
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any, NamedTuple

from pytest_vperf.foreign_text import to_json
from pytest_vperf.machine.noise_warnings import PRESSURE, STEAL
from pytest_vperf.quantity import format_number
from pytest_vperf.reporting import baseline, gate, words
from pytest_vperf.reporting.ended import compares, is_better
from pytest_vperf.results.record import judged, of_sides, pair_ratios

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pytest_vperf.machine.noise import NoiseEvidence
    from pytest_vperf.reporting.ended import EndedRun
    from pytest_vperf.results.record import ClaimRecord, FillingRecord, TargetFacts

#: In this order a table has the verdicts, and a claim's place in it is that of its own.
ORDER = ("refuted", "inconclusive", "not comparable", "holds", "not measured")
#: What shows a verdict where there is no colour.
SIGNS = {
    "refuted": "✗",
    "inconclusive": "?",
    "not comparable": "≠",
    "holds": "✓",
    "not measured": "–",  # noqa: RUF001 - a dash
}


class Row(NamedTuple):
    """A claim in the table.

    Attributes:
        verdict: as the record has it.
        said: the same for people: ``slower``, ``holds (not type1)``.
        name: of the claim.
        of: what its name does not say: the side, or the baseline that it was held against.
        measured: its figure with the interval; of a comparison of sides the change.
        limit: ``≤ 400 ms``.
        gap: how far the figure is from the limit, in %; ``None`` if that is unknown.
        n: samples, or pairs.
        target: what was measured.
        reason: why it has this verdict.
    """

    verdict: str
    said: str
    name: str
    of: str
    measured: str
    limit: str
    gap: float | None
    n: int
    target: str
    reason: str

    @property
    def family(self) -> str:
        """The first part of the name."""
        return self.name.partition(".")[0]

    @property
    def sign(self) -> str:
        """What shows its verdict without colour."""
        return SIGNS.get(self.verdict, "?")


def row(record: ClaimRecord) -> Row:
    """The row of a claim."""
    said, of = words.verdict(record), " and ".join(sorted(set(record["sides"].values())))
    if of_sides(record):
        said = gate.verdict(record)
    elif record["baseline"] is not None:
        of = f"against {record['baseline']['word']}"
        said = baseline.verdict(record) if record["verdict"] == "refuted" else said
    return Row(
        verdict=record["verdict"],
        said=said,
        name=record["name"],
        of=of,
        measured=gate.change(record) if compares(record) else words.measured(record),
        limit=words.limit(record),
        gap=record["gap_percent"],
        n=record["n"],
        target=record["target"],
        reason=record["reason"],
    )


class Change(NamedTuple):
    """What a comparison of two builds says.

    Attributes:
        verdict: as the record has it.
        said: ``slower``, ``faster``, ``not slower``.
        name: of the claim.
        before: the figure of base; empty where runs are compared, which have no figure in common.
        after: of head.
        change: from base to head, with its interval.
    """

    verdict: str
    said: str
    name: str
    before: str
    after: str
    change: str


def change(record: ClaimRecord) -> Change:
    """Of a record that `compares`."""
    worse = gate.verdict(record) if of_sides(record) else baseline.verdict(record)
    said = {"refuted": worse, "holds": f"not {worse.removeprefix('not ')}"}.get(
        record["verdict"], gate.verdict(record)
    )
    if is_better(record):
        said = "faster" if "slower" in said else "better"
    head = "" if not of_sides(record) or record["sides"]["a"] == "head" else record["sides"]["a"]
    return Change(
        record["verdict"],
        said,
        f"{record['name']}, {head}" if head else record["name"],
        words.figures(record["arms"].get("b")) if record["arms"] else "",
        words.figures(record["arms"].get("a")) if record["arms"] else "",
        gate.change(record),
    )


class Shared:
    """Facts that many claims have in common, each once: those of targets are longer than most claims' samples."""

    def __init__(self) -> None:
        self.facts: list[Any] = []
        self._places: dict[str, int] = {}

    def place(self, facts: TargetFacts) -> int:
        """Where the page has them."""
        text = to_json(facts)
        if text not in self._places:
            self._places[text] = len(self.facts)
            self.facts.append(facts)
        return self._places[text]


def data(record: ClaimRecord, run: EndedRun, shared: Shared) -> dict[str, Any]:
    """What the pictures and tables of a claim are made from; keys without a value are left out.

    Keys: ``facts``, rows of text; ``unit``, ``threshold``, ``estimate``, ``interval`` of the claim's figure;
    ``near``, the lowest and the highest that the claim counts as near its threshold; ``arms`` by letter with name,
    figures and phases; ``samples``, a row each with time in s, session, arm, value, and 1 for a warm-up; ``judged``,
    where they are not the figures that the claim was judged by; ``sessions`` with their disturbances; ``beside``,
    what was measured along, by name; ``sweep``; ``fillings`` by place; ``past``; ``targets``, by their places in
    what is shared.
    """
    past = run.past.get(record["name"])
    found = {
        "facts": list(_facts(record)),
        "again": again(record, run),
        "unit": _unit_of_samples(record),
        "figure": record["unit"],
        "ratio": record["statistic"] == "ratio" or of_sides(record),
        "threshold": record["threshold"],
        "near": _near(record),
        "estimate": record["estimate"],
        "interval": record["interval"],
        "arms": {arm: _arm(record, arm) for arm in record["arms"]},
        "samples": [
            [
                round(each["at"], 3),
                each["session"],
                each["arm"],
                each["value"],
                int(each["warm_up"]),
            ]
            for each in record["observations"]
        ],
        "judged": _figures_judged(record),
        "sessions": list(_sessions(record)),
        "phases": record["phases"],
        "beside": _beside(record),
        "sweep": record["sweep"],
        "fillings": [
            number for number, each in enumerate(run.fillings) if each["nodeid"] == record["nodeid"]
        ],
        "past": past,
        "targets": [shared.place(each) for each in record["targets"]],
    }
    return {key: value for key, value in found.items() if value not in (None, "", [], {}, False)}


def _near(record: ClaimRecord) -> list[float] | None:
    """The ends of the rules `PairRule.near` and `LimitRule.near`, and of a plateau; ``None`` for other criteria."""
    value, tolerance = record["threshold"], record["plan"].get("tolerance")
    is_near = record["criterion"].startswith(("near ", "saturates near "))
    if value is None or not isinstance(tolerance, float) or not is_near:
        return None
    reach = abs(value) * tolerance
    return [value - reach, value + reach]


def again(record: ClaimRecord, run: EndedRun) -> str:
    """The command that runs the test of this claim alone, as the run was asked for."""
    test, package = record["nodeid"], run.asked.get("package", "")
    if not test:
        return ""
    if package:
        file, _, name = test.partition("::")
        module = ".".join([package, *file.removesuffix(".py").split("/")]) if file else package
        test = f"{module}::{name}"
    words = ["pytest", *(["--pyargs"] if package else []), test]
    return shlex.join([*words, *run.asked.get("options", ())])


def filling(record: FillingRecord) -> dict[str, Any]:
    """The curve of a filled host, its cost, and how it ended."""
    return {
        "name": record["name"],
        "count": record["count"],
        "why": record["why"],
        "curve": [
            [each["n"], round(each["at_s"], 2), each["available"], each["group_used"]]
            for each in record["curve"]
        ],
    }


def _facts(record: ClaimRecord) -> Iterator[tuple[str, str]]:
    """What is said of a claim in words; the figures beside their names."""
    yield "claim", record["summary"]
    level = f" at {100 * record['confidence']:.4g} % confidence" if record["confidence"] else ""
    if compares(record):
        for arm in ("b", "a"):
            if (own := record["arms"].get(arm)) is not None:
                yield _arm_name(record, arm), f"median {words.figures(own)}, {own['n']} samples"
        yield "change", f"{gate.change(record)}{level}"
        yield "claimed", record["criterion"]
    else:
        if record["estimate"] is not None:
            yield "measured", f"{record['statistic']} {words.measured(record)}{level}"
        yield "limit", record["criterion"] if record["threshold"] is not None else ""
        yield "gap", words.gap(record)
        for arm in ("b", "a"):
            if (own := record["arms"].get(arm)) is not None:
                yield _arm_name(record, arm), f"median {words.figures(own)}, {own['n']} samples"
    yield "why", record["reason"]
    yield "published", record["source"]
    hardware = record["hardware"]
    if hardware["profile"]:
        yield "profile", f"{hardware['profile']} ({hardware['location']})"
    yield "differs", "; ".join(hardware["mismatches"])
    yield "target", record["target"]
    for warning in record["warnings"]:
        yield "note", warning
    if record["n"]:
        took = f"{record['duration_s']:.0f} s"
        waited = f", after {record['waited_s']:.0f} s of waiting" if record["waited_s"] >= 1 else ""
        yield "took", f"{took}{waited}"


#: Where nobody has named them.
_ARMS = {"a": "in question", "b": "compared with"}


def _arm_name(record: ClaimRecord, arm: str) -> str:
    """``head`` and ``base``, or what the comparison calls its targets."""
    if arm in record["sides"]:
        return record["sides"][arm]
    own = dict.fromkeys(each["name"] for each in record["targets"] if each["arms"] == [arm])
    if own:
        return ", ".join(own)
    names = record["target"].split(" / ")
    return names["ab".index(arm)] if len(names) == 2 else _ARMS[arm]


def _arm(record: ClaimRecord, arm: str) -> dict[str, Any]:
    own = record["arms"][arm]
    return {
        "name": _arm_name(record, arm),
        "estimate": own["estimate"],
        "interval": own["interval"],
        "unit": own["unit"],
        "n": own["n"],
        "phases": own["phases"],
    }


def _unit_of_samples(record: ClaimRecord) -> str:
    return next((each["unit"] for each in record["observations"]), record["unit"])


def _figures_judged(record: ClaimRecord) -> list[float] | None:
    """The samples that were judged; ``None`` where they follow from the observations."""
    seen = judged(record["observations"])
    two = any(each["arm"] == "b" for each in seen)
    own = pair_ratios(seen) if two and _divisible(seen) else [each["value"] for each in seen]
    return None if own == record["samples"] else record["samples"]


def _divisible(seen: list[Any]) -> bool:
    return all(each["value"] for each in seen if each["arm"] == "b")


def _sessions(record: ClaimRecord) -> Iterator[dict[str, Any]]:
    evidence = record["noise"]["sessions"]
    for number, each in enumerate(record["sessions"]):
        told = dict(_disturbances(evidence[number])) if number < len(evidence) else {}
        yield {
            "n": each["n"],
            "started": each["started_at"],
            "took": each["duration_s"],
            "noise": {name: text for name, (text, _) in told.items()},
            "disturbed": [f"{name} {text}" for name, (text, odd) in told.items() if odd],
        }


def _disturbances(evidence: NoiseEvidence) -> Iterator[tuple[str, tuple[str, bool]]]:
    """Each with its figure, and whether it is one that the terminal would warn of."""
    if "steal" in evidence:
        yield "steal", (_share(evidence["steal"]), evidence["steal"] >= STEAL)
    for resource, pressure in evidence.get("pressure", {}).items():
        some = pressure.get("some")
        if some is not None:
            yield f"pressure on {resource}", (_share(some), some >= PRESSURE.get(resource, 1.0))
    if load := evidence.get("load"):
        yield "load", (format_number(load[0]), False)
    throttled: Mapping[str, int] = evidence.get("throttled", {})
    if times := sum(throttled.values()):
        yield "throttled", (f"{times} times", True)


def _share(value: float) -> str:
    return f"{format_number(100 * value)} %"


def _beside(record: ClaimRecord) -> dict[str, Any]:
    """What was measured along with each sample: by name the unit, and a row for each sample, with its place first."""
    found: dict[str, Any] = {}
    for number, each in enumerate(record["observations"]):
        for name, own in each["beside"].items():
            series = found.setdefault(name, {"unit": own["unit"], "values": []})
            series["values"].append([number, *own["values"]])
    return found
