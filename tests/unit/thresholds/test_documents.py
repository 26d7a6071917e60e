"""The shipped figures against the documents that published them, through a ledger of every number in a document.

``documents/NAME.yaml`` has the tables of ``NAME.txt`` cell by cell, the figures of its text, its graphs, and what
else is a number there and why it is no figure; each figure says which claims carry it. The documents are not part of
the project: ``VPERF_DOCUMENTS=FOLDER`` names a folder that has them, and the ledger is then held against them.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from published_figures import published_ratios

from pytest_vperf.thresholds.criterion import (
    Between,
    Limit,
    Near,
    NearLimit,
    NoWorse,
    Ratio,
    Saturates,
    Unknown,
)
from pytest_vperf.thresholds.match import GALLERY
from pytest_vperf.thresholds.profile import Source, Threshold, load_profiles

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ROOT = Path(__file__).parents[3]
LEDGERS = {
    path.stem: yaml.safe_load(path.read_text())
    for path in sorted(Path(__file__).parent.glob("documents/*.yaml"))
}
PROFILES = load_profiles([ROOT / "thresholds"])
#: What a limit is where its claim does not say it: the rule that each file with such limits has once.
RULE = "the published mean and a quarter of its range, at least 1 % and at most 10 %; without a range 5 %"
#: What the slow ones are held against.
SLOW = "the worst published observation and a quarter of the range, at least 1 % and at most 10 %"
#: Limits that are claimed in words instead, and why; the published figures keep to them.
IN_WORDS = {
    "type1 startup.pod.kvm.qboot": (
        "≤ 400 ms",
        "400 ms is the claim of the project, no figure of the document",
    ),
}
#: How far from a published value still counts as near; no document publishes that.
TOLERANCES = {
    **{
        f"any priority.{when}.{target}": tolerance
        for target in ("container.runc", "pod.kvm", "guest.kvm")
        for when, tolerance in (("contended", 0.05), ("uncontended", 0.05))
    },
    "any priority.contended.domu": 0.06,
    "any priority.uncontended.domu": 0.05,
    **{f"any priority.threads_{threads}.guest.kvm": 0.05 for threads in (1, 4, 6)},
    **{
        f"any disk.cap.{case}{figure}.container.runc": 0.05
        for case in ("", "case_2.")
        for figure in ("iops", "bandwidth", "write_iops", "write_bandwidth")
    },
    "any saturation.vhost.mirrored.guest.kvm": 0.05,
    "kilo-node saturation.packets.mirrored.guest.kvm": 0.1,  # "about"
}
#: A machine that the document calls almost identical with its host.
ALMOST = 0.08
#: How far a ratio is widened: an experiment of two single figures is not repeated more exactly.
RATIO_MARGIN = 0.03


@dataclass(frozen=True)
class Cell:
    """One figure of a document.

    Attributes:
        section: where it stands.
        place: row and column, or the words around it.
        printed: the number as it is printed.
        unit: its unit as thresholds have it.
        carried: profile, claim and the figure's name there.
        unknown: why no claim carries it.
    """

    section: str
    place: str
    printed: str
    unit: str
    carried: tuple[str, ...]
    unknown: str

    @property
    def written(self) -> str:
        """As a threshold file has to write it: the digits as they are printed."""
        return f"{plain(self.printed)} {self.unit}"


def plain(printed: str) -> str:
    """A printed number in the notation of thresholds: ``70,000`` is 70000, ``21s 90ms`` is 21.090 (seconds)."""
    if match := re.fullmatch(r"(\d+)s (\d{1,3})ms", printed):
        return f"{match[1]}.{int(match[2]):03d}"
    return printed.replace(",", "")


def cells(ledger: dict[str, Any]) -> Iterator[Cell]:
    def made(section: str, place: str, entry: dict[str, Any]) -> Cell:
        assert ("in" in entry) != ("unknown" in entry), place
        unit = ledger["units"][entry["unit"]]
        carried, unknown = tuple(entry.get("in", ())), entry.get("unknown", "")
        assert carried or unknown, place
        return Cell(section, place, entry["printed"], unit, carried, unknown)

    for table in ledger["tables"]:
        for row in table["rows"]:
            for entry in row["cells"]:
                place = f"{table['title']}, {' '.join(row['label'])}, {' '.join(entry['column'])}"
                yield made(table["section"], place, entry)
    for entry in ledger["text"]:
        yield made(entry["section"], entry["within"], entry)


def threshold_of(profile: str, claim: str) -> Threshold:
    assert claim in PROFILES[profile].claims, f"{profile}.yaml has no claim {claim}"
    return PROFILES[profile].claims[claim]


def figures(source: Source) -> dict[str, str]:
    """Every figure that a threshold has from its document, as it is written."""
    assert not set(source.written) & set(source.also)
    return {**source.written, **source.also}


def documented() -> Iterator[tuple[str, Threshold, Source]]:
    for profile in PROFILES.values():
        for threshold in profile.claims.values():
            if threshold.source and threshold.source.document.removesuffix(".txt") in LEDGERS:
                yield f"{profile.name} {threshold.name}", threshold, threshold.source


CASES = list(documented())


def test_every_document_behind_a_threshold_has_a_ledger() -> None:
    for profile in PROFILES.values():
        if profile.name == GALLERY:  # see test_gallery.py
            continue
        for threshold in profile.claims.values():
            source = threshold.source
            if source is None:
                assert isinstance(threshold.criterion, Unknown), f"{profile.name} {threshold.name}"
            elif source.document.removesuffix(".txt") not in LEDGERS:
                # A page of this project publishes no figure: what it is the source of compares two arms of a run.
                assert (ROOT / source.document).is_file(), f"{profile.name} {threshold.name}"
                assert isinstance(threshold.criterion, NoWorse), f"{profile.name} {threshold.name}"
                assert not figures(source), f"{profile.name} {threshold.name}"


@pytest.mark.parametrize("name", LEDGERS)
def test_no_figure_is_missing_or_altered(name: str) -> None:
    assert LEDGERS[name]["document"] == f"{name}.txt"
    for cell in cells(LEDGERS[name]):
        for reference in cell.carried:
            profile, claim, figure = reference.split()
            source = threshold_of(profile, claim).source
            assert source is not None, reference
            assert source.document == f"{name}.txt", reference
            assert figures(source).get(figure) == cell.written, f"{cell.place}: {reference}"
            # A claim that brings figures of several sections together names the one they are part of.
            inside = cell.section.startswith(f"{source.section}.")
            assert cell.section == source.section or inside, reference


def test_no_figure_is_invented() -> None:
    carried = {
        reference
        for ledger in LEDGERS.values()
        for cell in cells(ledger)
        for reference in cell.carried
    }
    shipped = {f"{name} {figure}" for name, _, source in CASES for figure in figures(source)}
    assert sorted(shipped - carried) == []


@pytest.mark.parametrize("name", LEDGERS)
def test_claims_published_as_graphs_are_unknown(name: str) -> None:
    for graph in LEDGERS[name]["graphs"]:
        for reference in graph["in"]:
            profile, claim = reference.split()
            threshold = threshold_of(profile, claim)
            assert isinstance(threshold.criterion, Unknown), reference
            assert threshold.source is not None, reference
            assert threshold.source.document == f"{name}.txt", reference
            assert threshold.source.section == graph["section"], reference


LIMITS = [case for case in CASES if isinstance(case[1].criterion, Limit)]


@pytest.mark.parametrize(("name", "threshold", "source"), LIMITS, ids=[case[0] for case in LIMITS])
def test_a_limit_has_the_margin_of_its_rule(
    name: str, threshold: Threshold, source: Source
) -> None:
    criterion = threshold.criterion
    assert isinstance(criterion, Limit)
    unit, at_most = criterion.threshold.unit, criterion.side == "at_most"
    figures = {key: each.to(unit).value for key, each in source.published.items()}
    if name in IN_WORDS:
        assert str(criterion) == IN_WORDS[name][0]
        assert max(figures.values()) <= criterion.threshold.value
        assert source.rule not in (RULE, SLOW)
        return
    low, high = min(figures.values()), max(figures.values())
    worst = high if at_most else low
    mean = figures.get("mean", worst)
    quarter = (high - low) / 4
    if criterion.statistic == "median":
        assert source.rule == RULE
        start = mean
        margin = mean / 20 if worst == mean else min(max(quarter, mean / 100), mean / 10)
    else:
        assert (criterion.statistic, source.rule) == ("p90" if at_most else "p10", SLOW)
        start, margin = worst, min(max(quarter, worst / 100), worst / 10)
    exact = start + margin if at_most else start - margin
    limit = criterion.threshold.value
    # Rounded outward, counts to whole ones and the rest to four places.
    assert limit >= exact - 1e-9 if at_most else limit <= exact + 1e-9
    assert limit == pytest.approx(exact, rel=1e-3, abs=1 if unit == "count" else 0)


def test_where_a_mean_and_a_worst_are_published_both_are_claimed() -> None:
    for name, threshold, source in LIMITS:
        figures, criterion = source.published, threshold.criterion
        assert isinstance(criterion, Limit)
        worst = figures.get("max" if criterion.side == "at_most" else "min")
        if criterion.statistic == "median" and worst and worst != figures["mean"]:
            profile, claim = name.split()
            slow = PROFILES[profile].claims[
                f"{claim}.{'p90' if criterion.side == 'at_most' else 'p10'}"
            ]
            assert slow.source is not None
            assert slow.source.written == source.written


def ratios(name: str, source: Source) -> list[float]:
    """The published ratios that a name is about: of container_over_host the figures of the two."""
    found = published_ratios(name, source.published)
    assert 2 * len(found) == len(source.published)
    return found


RATIOS = [case for case in CASES if isinstance(case[1].criterion, Ratio)]


@pytest.mark.parametrize(("name", "threshold", "source"), RATIOS, ids=[case[0] for case in RATIOS])
def test_a_ratio_follows_from_the_published_ones(
    name: str, threshold: Threshold, source: Source
) -> None:
    criterion = threshold.criterion
    assert isinstance(criterion, Ratio)
    if not source.published:
        # Without a figure a document can only name an order.
        assert (criterion.threshold, criterion.overhead) == (1, False)
        assert source.rule.startswith("the order that the document's ")
        return
    at_most = criterion.side == "at_most"
    found = ratios(threshold.name, source)
    worst = max(found) if at_most else min(found)
    if threshold.name.startswith("memory.sysbench"):
        assert "the worse of the two ratios" in source.rule
    if "order" in source.rule:
        assert criterion.threshold == 1
        # Far enough from each other for the order to be found again.
        assert worst < 1 - RATIO_MARGIN if at_most else worst > 1 + RATIO_MARGIN
        return
    if threshold.name == "cpu.sysbench.container_over_host.runc":
        worst = 1 / min(found)  # rates, and an overhead is one of time
    exact = worst * (1 + RATIO_MARGIN if at_most else 1 - RATIO_MARGIN)
    assert criterion.threshold >= exact - 1e-9 if at_most else criterion.threshold <= exact + 1e-9
    assert criterion.threshold == pytest.approx(exact, abs=1e-3)
    assert re.search("and 3 %$" if at_most else "less 3 %(;|$)", source.rule)
    (written,) = re.findall(r"\d\.\d{3,}", source.rule)
    assert float(written) == pytest.approx(worst, abs=1.001e-4), "the rule's own figure"


RANGES = [case for case in CASES if isinstance(case[1].criterion, Between)]


@pytest.mark.parametrize(("name", "threshold", "source"), RANGES, ids=[case[0] for case in RANGES])
def test_a_range_has_both_published_ends(name: str, threshold: Threshold, source: Source) -> None:
    criterion = threshold.criterion
    assert isinstance(criterion, Between)
    low, high = (1 + source.published[end].value / 100 for end in ("low", "high"))
    assert criterion.low == pytest.approx((1 - RATIO_MARGIN) * low, abs=1e-3)
    assert criterion.high == pytest.approx((1 + RATIO_MARGIN) * high, abs=1e-3)
    assert "3 % of the time on either side" in source.rule


NEARS = [case for case in CASES if isinstance(case[1].criterion, (Near, NearLimit, Saturates))]


@pytest.mark.parametrize(("name", "threshold", "source"), NEARS, ids=[case[0] for case in NEARS])
def test_near_criteria_are_near_published_figures(
    name: str, threshold: Threshold, source: Source
) -> None:
    criterion, figure = threshold.criterion, list(source.published.values())
    assert isinstance(criterion, (Near, NearLimit, Saturates))
    assert criterion.tolerance == TOLERANCES.get(name, ALMOST)
    assert (name in TOLERANCES) != name.endswith(".domu_over_host"), "no tolerance is chosen twice"
    assert "tolerance" not in threshold.judge
    if isinstance(criterion, (NearLimit, Saturates)):
        assert [each.to(criterion.value.unit).value for each in figure] == [criterion.value.value]
        return
    assert criterion.tolerance is not None
    assert figure, "no published figure to be near to"
    for first, second in zip(figure[::2], figure[1::2], strict=True):
        ratio = first.value / second.value / criterion.value
        assert 1 / (1 + criterion.tolerance) <= ratio <= 1 + criterion.tolerance, name


def test_each_figure_says_in_what_its_test_differs_from_the_document() -> None:
    assert [name for name, _, source in CASES if not source.deviations] == []


def test_each_rule_is_written_once_in_a_file() -> None:
    for path in sorted((ROOT / "thresholds").glob("*.yaml")):
        assert path.read_text().count(RULE) <= 1, path.name
    assert sum(path.read_text().count(RULE) for path in (ROOT / "thresholds").glob("*.yaml")) == 6
    assert {name for name, _, source in CASES if name in IN_WORDS} == set(IN_WORDS)


def folder() -> Path:
    """Where the documents are; the test is skipped where nobody says it."""
    named = os.environ.get("VPERF_DOCUMENTS")
    if not named:
        pytest.skip("the documents are not part of the project: VPERF_DOCUMENTS names their folder")
    return Path(named)


@pytest.mark.parametrize("name", LEDGERS)
def test_the_ledger_has_every_number_of_the_document(name: str) -> None:
    """Crosses out what the ledger knows, place by place; no digit may be left, and nothing crossed out twice."""
    ledger = LEDGERS[name]
    text = (folder() / f"{name}.txt").read_text()
    rest = _without_rows(ledger, text)
    for entry in ledger["text"]:
        times = rest.count(entry["within"])
        assert times == 1, f"the document has {entry['within']!r} {times} times, not once"
        assert _number(entry["printed"]).search(entry["within"]), entry["within"]
        rest = rest.replace(entry["within"], "")
    for reason in ledger["no_figures"]:
        assert reason["why"]
        for words, times in reason["printed"].items():
            assert rest.count(words) == times, f"{words!r} is not {times} times in the document"
            assert re.search(r"\d", words), f"{words} has no number"
            rest = rest.replace(words, "")
    left = [line for line in rest.splitlines() if re.search(r"\d", line)]
    assert left == [], "numbers of the document that the ledger does not have"
    for unit in filter(None, ledger["units"]):
        assert unit in text, unit


def test_every_document_has_a_ledger() -> None:
    assert sorted(path.stem for path in folder().glob("*.txt")) == sorted(LEDGERS)


def _without_rows(ledger: dict[str, Any], text: str) -> str:
    """The text without the cells of the tables, and without their rows' labels; rows are found in their order."""
    lines = text.splitlines(keepends=True)
    at = 0
    for table in ledger["tables"]:
        for row in table["rows"]:
            found: str | None = None
            while found is None:
                printed = " ".join(cell["printed"] for cell in row["cells"])
                assert at < len(lines), f"{table['title']}: no row {row['label']} with {printed}"
                found = _without_cells(row, lines[at])
                at += 1
            lines[at - 1] = found
            above = "".join(text.splitlines(keepends=True)[: at - 1])
            labels = [cell["column"] for cell in row["cells"]]
            for column in (column for label in labels for column in label):
                assert column in above, f"{table['title']}: no column {column}"
            levels = zip(*labels, strict=False)  # a header has a line or several
            assert not all(labels) or any(_in_order(level, above) for level in levels), (
                f"{table['title']}: no header has the columns in the order of {row['label']}"
            )
    return "".join(lines)


def _in_order(labels: Sequence[str], text: str) -> bool:
    """Whether a line of the text has these labels one after the other; one that spans columns is there once."""
    words = [label for label, _ in groupby(labels)]
    pattern = ".*".join(map(re.escape, words))
    return re.search(pattern, text) is not None


def _without_cells(row: dict[str, Any], line: str) -> str | None:
    """The line without what the row has of it; ``None`` where it is another one."""
    for pattern in (re.escape(part) for part in row["label"]):
        line, count = re.subn(rf"(?<!\w){pattern}(?!\w)", "", line, count=1)
        if not count:
            return None
    place = 0
    for cell in row["cells"]:
        match = _number(cell["printed"]).search(line, place)
        # What stands between two cells of a row must not be a number that the ledger does not know.
        if match is None or (place and re.search(r"\d", line[place : match.start()])):
            return None
        place = match.start()
        line = line[:place] + line[match.end() :]
    return line


def _number(printed: str) -> re.Pattern[str]:
    """The number itself, and not a part of a longer one."""
    return re.compile(rf"(?<![\w.,]){re.escape(printed)}(?![\d,]|\.\d)")
