"""The lines of the table: each claim of each profile, with its tests, and its last verdicts out of many runs."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

from pytest_vperf.thresholds.match import ANY, EVERYWHERE

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pytest_vperf.commands.claims.measured import Measured
    from pytest_vperf.commands.claims.tests import NamingTest
    from pytest_vperf.thresholds.profile import HardwareProfile, Threshold


@dataclass(frozen=True)
class Last:
    """The last verdict of one claim in one place on one machine.

    Attributes:
        measured: the record.
        later: the newest attempt there that could not measure the claim, though this one or another parametrisation
            did; ``None`` if there is none.
        beside: the last verdicts of other parametrisations of its test, none of which is worse.
    """

    measured: Measured
    later: Measured | None = None
    beside: tuple[Measured, ...] = ()

    @property
    def note(self) -> str:
        """Why that attempt could not measure it; empty if there is none."""
        if self.later is None:
            return ""
        return f"not measured on {self.later.when.date()}: {self.later.reason}"


def last_verdicts(records: Iterable[Measured], profile: str) -> list[Last]:
    """The last verdicts of one claim for one profile: one for each machine and place, the newest first.

    A machine and an emulated one inside it are two places, since a verdict in one says nothing about the other. In
    each place a verdict by this profile has precedence over one by no profile, and a measurement over a failed
    attempt; among equals the latest counts. A later failed attempt adds its reason. If a test has several
    parametrisations that judge this claim, each has a last verdict, and the worst of these counts.
    """
    by_machine = sorted(records, key=lambda each: each.machine.identity)
    found: list[Last] = []
    for _, group in groupby(by_machine, key=lambda each: each.machine.identity):
        found += _of_machine(list(group), profile)
    return sorted(found, key=lambda each: each.measured.when, reverse=True)


def _of_machine(records: list[Measured], profile: str) -> list[Last]:
    ran = [each for each in records if each.was_measured]
    not_measured = [each for each in records if not each.was_measured]
    if not ran:
        return [Last(max(not_measured, key=lambda each: each.when))]
    last = []
    for places in dict.fromkeys(each.places for each in ran):
        newest, *others = _latest([each for each in ran if each.places == places], profile)
        worst = max((newest, *others), key=lambda each: _FROM_BEST.index(each.claim.verdict))
        since = {each.claim.nodeid: each.when for each in (newest, *others)}
        # A target that could not start may not know its place.
        later = [
            each
            for each in not_measured
            if each.places in (places, ())
            and (
                each.when > since.get(each.claim.nodeid, newest.when)
                or (each.run is newest.run and each.claim.nodeid not in since)
            )
        ]
        beside = tuple(each for each in (newest, *others) if each is not worst)
        last.append(Last(worst, max(later, key=lambda each: each.when, default=None), beside))
    return last


_FROM_BEST = ("holds", "not comparable", "inconclusive", "refuted")


def _latest(ran: Iterable[Measured], profile: str) -> list[Measured]:
    """The last verdict of each parametrisation, the newest first; of tests that ran in the newest run, since another
    one may be gone or renamed."""
    own = [each for each in ran if each.profile == profile]
    # The sort is stable: of equal records the one that was read first counts.
    ordered = sorted(own or ran, key=lambda each: each.when, reverse=True)
    tests = {each.test for each in ordered if each.run is ordered[0].run}
    found: dict[str, Measured] = {}
    for each in ordered:
        if each.test in tests:
            found.setdefault(each.claim.nodeid, each)
    return list(found.values())


@dataclass(frozen=True)
class Line:
    """One claim of one profile, with one of its last verdicts.

    Attributes:
        profile: the profile's name.
        name: the claim's; the entry's, with ``*``, if no record has a claim that it matches.
        entry: the name in the threshold file; empty if no file has it.
        threshold: the entry's; ``None`` without an entry.
        tests: the IDs of its tests, without parameters; empty if no test names the claim.
        last: ``None`` if it was never measured.
    """

    profile: str
    name: str
    entry: str
    threshold: Threshold | None
    tests: tuple[str, ...]
    last: Last | None

    @property
    def limit(self) -> str:
        """What the claim asserts: ``≤ 400 ms``, ``p99 ≤ 2 ms``, ``near 0.75 ± 6 %``."""
        if self.threshold is None:
            return self.last.measured.criterion if self.last else ""
        return limit(self.threshold)

    @property
    def source(self) -> str:
        """The document and section, or the day of a calibration; empty if the file names neither."""
        source = self.threshold.source if self.threshold else None
        if source is None:
            return ""
        if source.calibration is not None:
            return f"calibrated {source.calibration.date}"
        return f"{source.document} §{source.section}" if source.section else source.document

    @property
    def verdict(self) -> str:
        """The last verdict, *not comparable* where the figure is not of that hardware; empty if never measured."""
        if self.last is None:
            return ""
        record = self.last.measured
        if record.claim.verdict in ("not measured", "not comparable") or not self._foreign(record):
            return record.claim.verdict
        return "not comparable"

    @property
    def deviations(self) -> str:
        """In what the test differs from the document's procedure; empty if the file says nothing about it."""
        return self.threshold.source.deviations if self.threshold and self.threshold.source else ""

    @property
    def is_own(self) -> bool:
        """Whether a test here names the claim, or a record has it."""
        return bool(self.tests)

    @property
    def is_judged(self) -> bool:
        """Whether it was judged on hardware that the figure is of."""
        anything = self.last is not None and self.last.measured.claim.n > 0
        return anything and self.verdict in ("holds", "refuted", "inconclusive")

    def _foreign(self, record: Measured) -> str:
        """Why the figure is not of the hardware that was measured; empty if it is."""
        own = record.profile == self.profile and self.profile not in EVERYWHERE
        if own and not record.claim.hardware.matches:
            return f"the machine is not {self.profile}"
        emulated = record.was_measured and "emulated" in record.places
        if emulated and not (self.threshold and self.threshold.emulated):
            return "an emulated machine's speed says nothing about hardware"
        return ""

    @property
    def why(self) -> str:
        """Why there is no verdict, or none about this limit; empty if there is one."""
        return "; ".join(self.reasons)

    @property
    def reasons(self) -> tuple[str, ...]:
        """The same, each reason by itself."""
        if self.last is None:
            return ("never measured" if self.tests else "never measured: no test names it",)
        record = self.last.measured
        said = [record.reason]
        if (
            self.threshold
            and not _same(record.criterion, self.limit)
            and record.criterion != "none"
        ):
            said.append(f"the limit was {record.criterion} then")
        if not record.claim.verdict.startswith("not "):
            said.append(self._foreign(record))
        return tuple(filter(None, [*said, self.last.note]))


def limit(threshold: Threshold) -> str:
    """What a threshold asserts, in the form of a run's record."""
    tolerance = threshold.judge.get("tolerance")
    criterion = threshold.criterion.settled(tolerance.value if tolerance else None)
    return (
        str(criterion) if criterion.statistic == "median" else f"{criterion.statistic} {criterion}"
    )


def lines(
    profiles: Mapping[str, HardwareProfile],
    records: Iterable[Measured],
    tests: Sequence[NamingTest],
) -> list[Line]:
    """All lines: by profile, ``any`` last, in the order of the files; then claims that no file has."""
    taken: dict[tuple[str, str], dict[str, list[Measured]]] = defaultdict(lambda: defaultdict(list))
    homeless: dict[tuple[str, str], list[Measured]] = defaultdict(list)
    for each in records:
        homes = _homes(each, profiles)
        for profile in homes:
            entry = profiles[profile].entry(each.name)
            assert entry is not None
            taken[profile, entry][each.name].append(each)
        if not homes:
            homeless[each.profile, each.name].append(each)
    found: list[Line] = []
    for profile in sorted(profiles, key=lambda name: (name == ANY, name)):
        for entry, threshold in profiles[profile].claims.items():
            by_name = taken.get((profile, entry), {})
            for name in sorted(by_name) or [entry]:
                found += _lines(profile, name, entry, threshold, by_name.get(name, []), tests)
    for (profile, name), group in sorted(homeless.items()):
        found += _lines(profile, name, "", None, group, tests)
    return found


def _lines(
    profile: str,
    name: str,
    entry: str,
    threshold: Threshold | None,
    records: Sequence[Measured],
    tests: Sequence[NamingTest],
) -> list[Line]:
    written = tuple(dict.fromkeys(each.test for each in tests if each.names(name)))
    if not records:
        return [Line(profile, name, entry, threshold, written, None)]
    known = {each.test for each in tests}
    found = []
    for each in last_verdicts(records, profile):
        # The recorded test may have been renamed since.
        ran = (each.measured.test,)
        own = written if written and each.measured.test not in known else ran
        found.append(Line(profile, name, entry, threshold, own, each))
    return found


def _homes(record: Measured, profiles: Mapping[str, HardwareProfile]) -> list[str]:
    """The profiles under which a record is listed."""
    judged_by = record.profile
    holders = [name for name, profile in profiles.items() if profile.entry(record.name)]
    if judged_by:
        return [judged_by] if judged_by in holders else []
    # It was not judged: it ended before, or none of the run's profiles has the claim.
    of_run = record.run.profile.names if record.run.profile else []
    chosen = [name for name in of_run if name in holders]
    exact = [name for name in chosen if record.name in profiles[name].claims]
    return [*exact, *chosen][:1] or holders


def _same(then: str, now: str) -> bool:
    """Whether a record's criterion is the threshold's; if the file sets no tolerance, any tolerance will do."""
    now = now.partition(" ")[2] if now.startswith("p") else now
    return then == now or then.startswith((f"{now} ± ", f"{now} by more than "))
