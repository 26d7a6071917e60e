"""What a pytest run knows about its claims: settings, hardware profile, and the record.

Cheap to make; everything expensive waits until the first claim needs it.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pytest

from pytest_vperf.results.record import from_wire, to_wire
from pytest_vperf.run import doors
from pytest_vperf.run.asked import asked
from pytest_vperf.run.outcomes import TEST_CLAIMS, TestClaims
from pytest_vperf.run.reports import REPORTS
from pytest_vperf.run.result import conclude, failing
from pytest_vperf.run.settings import read_settings
from pytest_vperf.run.sides import changed, described, recorded
from pytest_vperf.run.workers import Notes, end_workers, reports_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from contextlib import ExitStack

    from pytest_vperf.claims.baseline import Baseline
    from pytest_vperf.claims.circumstances import Circumstances
    from pytest_vperf.claims.claim import Claim
    from pytest_vperf.claims.judgement import Judgement
    from pytest_vperf.claims.plan import Plan
    from pytest_vperf.claims.sampling import Progress
    from pytest_vperf.machine.ending import Endings
    from pytest_vperf.machine.fingerprint import Fingerprint
    from pytest_vperf.reporting.ended import EndedRun
    from pytest_vperf.results.record import ClaimRecord, FillingRecord
    from pytest_vperf.results.run import RunRecord
    from pytest_vperf.run.exports import Export
    from pytest_vperf.run.forecast import Forecast
    from pytest_vperf.run.options import Settings
    from pytest_vperf.run.required import Asked
    from pytest_vperf.run.result import Result
    from pytest_vperf.run.saving import Saving
    from pytest_vperf.run.sides import SideKey
    from pytest_vperf.run.visits import Visits
    from pytest_vperf.run.workers import Lost
    from pytest_vperf.thresholds.hardware import Selection
    from pytest_vperf.thresholds.profile import HardwareProfile, Threshold


# The profiles that judge a run: chosen once, and compared with the machine that the run measures on.


class OfRun(Protocol):
    """What `RunHardware` needs to know of a run."""

    @property
    def config(self) -> pytest.Config:
        """pytest's."""
        ...

    @property
    def settings(self) -> Settings:
        """What it was asked for."""
        ...

    @property
    def run(self) -> RunRecord:
        """Its record."""
        ...


class RunHardware:
    """The profiles of one run.

    Args:
        of: the run.
    """

    def __init__(self, of: OfRun) -> None:
        self._of = of
        self._selection: Selection | None = None

    @property
    def is_chosen(self) -> bool:
        """Whether the profiles were chosen."""
        return self._selection is not None

    def select(self) -> Selection:
        """Read the threshold files and the machine's fingerprint, and choose the profiles; once.

        Raises:
            pytest.UsageError: a file is wrong, a profile is unknown, or two match equally.
        """
        if self._selection is None:
            self._selection, machine = self._find()
            self._of.run.fingerprint = machine.as_dict()
            self._of.run.profile = self._describe(self._selection)
        return self._selection

    def check(self) -> None:
        """Read the threshold files and see whether the asked profile is among them, where another machine measures.

        Raises:
            pytest.UsageError: as `select`.
        """
        self._find()

    def _find(self) -> tuple[Selection, Fingerprint]:
        from pytest_vperf.machine import fingerprint
        from pytest_vperf.thresholds.hardware import HardwareError
        from pytest_vperf.thresholds.profile import (
            ThresholdError,
            load_profiles,
            threshold_folders,
        )

        try:
            folders = doors.threshold_folders(self._of.config)
            profiles = load_profiles(threshold_folders((*self._of.settings.thresholds, *folders)))
            machine = fingerprint.read()
            selection = self._choose(profiles, machine)
        except (ThresholdError, HardwareError) as error:
            raise pytest.UsageError(str(error)) from None
        return selection, machine

    def _choose(self, profiles: Mapping[str, HardwareProfile], machine: Fingerprint) -> Selection:
        """Choose among all profiles there are.

        Raises:
            HardwareError: a profile is unknown, or two match equally.
        """
        from pytest_vperf.thresholds.hardware import select

        settings = self._of.settings
        return select(profiles, settings.hardware, machine, remote=_remote_name(settings))

    def measures_on(self, where: str, fingerprint: Fingerprint) -> None:
        """Record the remote machine's fingerprint: from here on the run is about that machine.

        Args:
            where: the machine, as people name it.
            fingerprint: what it is.
        """
        selection = self._selection
        if selection is None:  # nothing claims
            return
        self._of.run.fingerprint = {**fingerprint.as_dict(), "on": where}
        selection = replace(selection, emulated=fingerprint.emulated)
        if selection.named:
            mismatches = selection.profiles[0].match.mismatches(fingerprint)
            selection = replace(selection, mismatches=mismatches)
        if selection != self._selection:
            self._selection = selection
            self._of.run.profile = self._describe(self._selection)

    def _describe(self, selection: Selection) -> dict[str, Any]:
        return {
            "asked": self._of.settings.hardware,
            "named": selection.named,
            "names": [profile.name for profile in selection.profiles],
            "matches": not selection.mismatches,
            "mismatches": list(selection.mismatches),
        }


def _remote_name(settings: Settings) -> str:
    if not settings.on:
        return ""
    from pytest_vperf.targets.remote.address import where

    return where(settings.on)


def _begin(option: str, path: Path, begin: Callable[[], None]) -> None:
    """Begin a file that an option names.

    Raises:
        pytest.UsageError: it cannot be written.
    """
    if path.exists() and not path.is_file():
        raise pytest.UsageError(f"{option}: {path} is not a file")
    try:
        begin()
    except OSError as error:
        raise pytest.UsageError(
            f"{option}: {path} cannot be written: {error.strerror or error}"
        ) from None


class ClaimsSession:
    """One run's claims; in a pytest-xdist worker, that worker's share of them.

    Attributes:
        is_worker: the controller then collects the records and writes the file.
        reports_of_workers: whether records came from other processes.
        claiming: the tests the run collected that ask for claims.
        visits: runs tests again; ``None`` if no claim needs that.
        hardware: the profiles that judge.
        make_claim: replaces the factory behind the ``claim`` fixture, as calibration does; else ``None``.
        left_out_of_benchmarks: claims that have no place in the file for pytest-benchmark, which knows times alone.
        usage_error: what kept a worker's claims from being judged; ends the run with exit status 4.
        reports: what was logged of the run's tests.
        notes: of a worker, for its controller.
        result: how the run ended; ``None`` until then.
    """

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.reports = config.stash[REPORTS]
        self.notes = Notes(config)
        self.result: Result | None = None
        self.is_worker = hasattr(config, "workerinput")
        self._settings: Settings | None = None
        self._run: RunRecord | None = None
        self.hardware = RunHardware(self)
        self._progress: Progress | None = None
        self._forecast: Forecast | None = None
        self._deaf: Callable[[], None] = lambda: None
        self._open: ExitStack | None = None
        self._endings: Endings | None = None
        self._workers: set[Any] = set()
        self.reports_of_workers = False
        self.claiming: frozenset[pytest.Item] = frozenset()
        self.visits: Visits | None = None
        self.make_claim: Callable[[str, Circumstances], Claim] | None = None
        self.usage_error = ""
        self.left_out_of_benchmarks: list[str] = []
        self._benchmark_trouble = ""
        self._saving: Saving | None = None
        self._baseline: Baseline | None = None
        self._exports: list[Export] = []
        self._unwritten = ""
        self._untold: list[str] = []
        self.annotations: list[str] = []
        self._left_out = 0
        self._has_terminal = False

    @property
    def settings(self) -> Settings:
        """The options, read once.

        Raises:
            pytest.UsageError: an option is not understood.
        """
        if self._settings is None:
            self._settings = read_settings(self.config)
        return self._settings

    @property
    def has_fleet(self) -> bool:
        """Whether other machines measure, and this one does not."""
        return self.settings.fleet is not None

    @property
    def run(self) -> RunRecord:
        """The record of the run."""
        if self._run is None:
            from pytest_vperf.reporting.summary import say_notice
            from pytest_vperf.results.run import RunRecord

            part: dict[str, str] = self._worker_input.get("vperf_part", {})
            if part:
                path = Path(part["path"])
                self._run = RunRecord(path, mark=part["mark"], whole=part["whole"])
            elif self.is_worker:
                self._run = RunRecord()
            else:
                from pytest_vperf.run.saving import unsaved

                place = unsaved(self.settings)
                self._run = RunRecord(
                    place or self.settings.json,
                    lasting=place is None,
                    tell=lambda text: say_notice(self.config, text),
                    judged=self._tell_judged,
                    asked=asked(self.config),
                )
        return self._run

    def _tell_judged(self, record: ClaimRecord) -> None:
        if trouble := doors.tell_judged(self.config, record):
            self._untold.append(trouble)

    def part_for_worker(self) -> dict[str, str]:
        """Where a pytest-xdist worker on this machine is to keep its part of the record.

        Returns:
            nothing where there is no file.
        """
        path = self.run.path
        if path is None:
            return {}
        return {"path": str(path), "mark": self.run.new_part(), "whole": self.run.mark}

    def plan(
        self,
        item: pytest.Item,
        threshold: Threshold | None,
        number: int = 1,
        *,
        gate: bool = False,
    ) -> Plan:
        """What a claim of a test is judged by: tolerance, error rates and budget.

        Args:
            item: the test.
            threshold: the claim's.
            number: which claim of the test it is, from 1 on.
            gate: whether two sides are compared by it.

        Raises:
            pytest.UsageError: a ``vperf`` marker of the test is not understood.
        """
        from pytest_vperf.claims.plan import marker_overrides, plan_for

        claims = max(1, self.claims_of_run)
        return plan_for(
            threshold, marker_overrides(item), self.settings.judge, claims, number, gate=gate
        )

    @property
    def claims_of_run(self) -> int:
        """How many tests ask for claims, counted once for each process that runs them: the run's chance of an error
        is shared by all of them."""
        given = self._worker_input
        if "vperf_claims_of_run" in given:  # a shard of a fleet has some of the run's tests
            return int(given["vperf_claims_of_run"])
        each = given.get("workercount", 1) if given.get("vperf_each") else 1
        return len(self.claiming) * int(each)

    @property
    def _worker_input(self) -> Mapping[str, Any]:
        """What a worker was given by its controller; empty in another run."""
        given: Mapping[str, Any] = getattr(self.config, "workerinput", {})
        return given

    def keep(self, item: pytest.Item, record: ClaimRecord) -> None:
        """Keep a claim's record: in the run and its file, and as properties of the test for JUnit."""
        from pytest_vperf.results.run import properties

        claims = item.stash.setdefault(TEST_CLAIMS, TestClaims())
        self._mark(record, claims)
        kept = self.run.add(record)
        claims.records.append(kept)
        self.notes.add("ended", item.nodeid, to_wire([kept]))
        item.user_properties.extend(properties(kept))

    def _mark(self, record: ClaimRecord, claims: TestClaims) -> None:
        """Say in a record which attempt at its test it is of, and on which machine of a fleet."""
        given = self._worker_input
        record["attempt"] = claims.attempt + int(given.get("vperf_attempts", 0))
        record["machine"] = dict(given.get("vperf_machine", {}))

    def keep_paused(self, item: pytest.Item, judgement: Judgement) -> None:
        """Keep, in case that this process is killed, what was measured of a claim whose next session is to come."""
        if self.run.path is None and not self.notes.are_read:
            return
        if (record := judgement.interim()) is not None:
            self._mark(record, item.stash[TEST_CLAIMS])
            self.run.begun(record)
            self.notes.add("paused", item.nodeid, to_wire([record]))

    def keep_filling(self, record: FillingRecord | None) -> None:
        """Keep the record of a filled host; ``None`` says that a record already kept has changed."""
        if record is not None:
            self.run.fillings.append(record)
        self.run.fillings_changed()

    def take_over(self, report: pytest.TestReport) -> None:
        """Take what a report of a pytest-xdist worker brings."""
        if not self.reports_of_workers:
            self.reports_of_workers = True
            self.prepare_terminal()
        self.usage_error = self.usage_error or getattr(report, "vperf_usage_error", "")
        if not self.hardware.is_chosen and not self.usage_error and not self.has_fleet:
            with suppress(
                pytest.UsageError
            ):  # the worker used it already, so an error would have come from there
                self.hardware.select()
        if text := vars(report).pop("vperf_claims", ""):  # pytest keeps the report until its end
            self.run.take(text)

    def cut_short(self, session: pytest.Session) -> None:
        """Keep what was measured of claims whose next session will not come: the run is over."""
        if self.visits is None and not self.is_worker:
            return
        for item in getattr(session, "items", ()):
            claims = item.stash.get(TEST_CLAIMS, None)
            if claims is not None:
                self.keep_begun(item, claims, "run")

    def keep_begun(self, item: pytest.Item, claims: TestClaims, what: str) -> None:
        """Keep what was measured of claims whose next session will not come, because the test or the run (``what``)
        ended."""
        begun = claims.ledger.begun
        while begun:
            key = next(iter(begun))
            record = claims.ledger.ended[key] = begun.pop(key).cut_short(what)
            self.keep(item, record)

    def hand_over(self, session: pytest.Session) -> None:
        """In a pytest-xdist worker: sends what no report will carry any more along with the worker's last message.

        That is claims that were cut short or interrupted, and those judged in teardown.
        """
        if not self.is_worker or self._run is None:
            return
        left: list[ClaimRecord] = []
        for item in getattr(session, "items", ()):
            claims = item.stash.get(TEST_CLAIMS, None)
            if claims is not None:
                left += claims.not_reported()
        output: Any = self.config
        output.workeroutput["vperf_claims"] = to_wire(left)
        output.workeroutput["vperf_fillings"] = to_wire(self._run.fillings)

    def worker_ready(self, node: Any) -> None:
        """Register a pytest-xdist worker that may have claims, to be shut down in order with this process."""
        self._workers.add(node)
        self.end_in_order()

    def end_workers(self) -> None:
        """Shut pytest-xdist's workers down in order after an interrupt, and takes what they measured.

        pytest-xdist itself would stop listening, and kill them after 10 s.
        """
        if self._workers:
            end_workers(self.config, self._workers)

    def take_lost(self, lost: Lost) -> None:
        """Take the claims of a test whose report will not come: those that ended, what was measured of
        others in earlier sessions, and the rest as not measured."""
        from pytest_vperf.results.record import unmeasured
        from pytest_vperf.results.run import now

        self.reports_of_workers = True
        if not self.has_fleet:
            with suppress(pytest.UsageError):
                self.hardware.select()
        ended = [each for each in lost.ended if each not in self.run.claims]
        names = lost.names or [lost.nodeid.rpartition("::")[2]] * (not lost.ended)
        missing = [
            lost.paused[name]
            if name in lost.paused
            else unmeasured(
                name,
                lost.reason,
                target="",
                nodeid=lost.nodeid,
                started_at=now(),
                budget=self.settings.budget,
                seed=self.settings.seed,
                mismatches=() if self.has_fleet else self.mismatches,
                machine=getattr(lost.worker, "vperf_machine", None),
            )
            for name in names
        ]
        known = [each for each in self.run.claims if each["nodeid"] == lost.nodeid]
        told = [*known, *self.run.extend([*ended, *missing])]
        for report in reports_of(lost, told, failed=lost.nodeid in self.reports.failed):
            self.config.hook.pytest_runtest_logreport(report=report)

    def worker_ended(self, node: Any) -> None:
        """Take a pytest-xdist worker's last message: what it had measured of claims it could not finish."""
        self._workers.discard(node)
        output = getattr(node, "workeroutput", {})
        if text := output.get("vperf_claims", ""):
            self.run.take(text)
        for each in from_wire(output.get("vperf_fillings", "[]")):
            self.keep_filling(each)

    def finish_record(self) -> None:
        """Write the record, and the file for pytest-benchmark; nothing more will be measured."""
        if self._run is None:
            return
        self._run.finish()
        if self._saving is not None and not self.is_worker:
            self._saving.save(self._run)
        path = self.settings.benchmark_json
        if path is None or self.is_worker:
            return
        from pytest_vperf.results import benchmark_json

        try:
            self.left_out_of_benchmarks = benchmark_json.write(
                path, self.config, self._run.claims, self._run.fingerprint, self._side_names
            )
        except Exception as error:  # from the file, or a hook of the project
            why = getattr(error, "strerror", "") or f"{type(error).__name__}: {error}"
            self._benchmark_trouble = f"{path} cannot be written: {why}"

    @property
    def baseline(self) -> Baseline | None:
        """The stored runs that claims are held against, looked up once; ``None``: none.

        Raises:
            pytest.UsageError: there are none of that name, or none of this machine.
        """
        if self._baseline is None and self.settings.baseline is not None:
            from pytest_vperf.run.baseline import find_baseline, of_controller

            if not self.has_fleet or self.is_worker:
                self.hardware.select()
            given, word = self._worker_input, self.settings.baseline
            own = {"machine": given["vperf_machine"]["name"]} if "vperf_machine" in given else {}

            def fingerprint() -> Mapping[str, str]:
                return {**(self.run.fingerprint or {}), **own}

            self._baseline = (
                of_controller(given["vperf_baseline"], word, fingerprint)
                if "vperf_baseline" in given
                else find_baseline(self.settings, word, fingerprint)
            )
        return self._baseline

    @property
    def _side_keys(self) -> Mapping[str, SideKey]:
        return doors.side_keys(self.config) if self.settings.sides else {}

    @property
    def _side_names(self) -> list[str]:
        """Of a gate base, then the heads, the first one last: it is the one in question."""
        sides = self.settings.sides
        return [sides.base.name, *(each.name for each in reversed(sides.heads))] if sides else []

    @property
    def kept(self) -> tuple[str, str] | None:
        """What the run is called in the store, and which store; ``None`` if it is not there."""
        saving = self._saving
        return (saving.saved, saving.store.place) if saving is not None and saving.saved else None

    @property
    def record_lost(self) -> str:
        """Why the record, or a part of it, could not be written; empty if it was."""
        trouble = self._run.trouble if self._run is not None else ""
        unsaved = self._saving.trouble if self._saving is not None else ""
        untold = "; ".join(dict.fromkeys(self._untold))
        found = (trouble, self._benchmark_trouble, unsaved, self._unwritten, untold)
        return "; ".join(filter(None, found))

    def conclude(self, session: pytest.Session) -> None:
        """End the record, and add the run's result to the exit status. A worker's is the controller's business."""
        if self.is_worker:
            self.finish_record()
            return
        if self.has_claims and (text := changed(self.settings.sides, self._side_keys)):
            self.usage_error = self.usage_error or text
        result = self._result(int(session.exitstatus))
        if self._run is not None:
            level = self.settings.level
            if self.settings.sides.learnt:
                self._run.sides = recorded(self.settings.sides, self._side_keys)
            self._run.result = {
                "word": result.word,
                "exit_status": int(result.status),
                "level": level,
            }
            self.finish_record()
        if self._exports or self.has_claims or self.compares:
            self._export(result)
        if self.record_lost:
            result = self._result(int(session.exitstatus), record_lost=True)
        self.result = result
        session.exitstatus = result.status

    def _export(self, result: Result) -> None:
        """Write the files for others, and what GitHub is shown; a run without claims has nothing for it."""
        from pytest_vperf.run.exports import annotated, write_step_summary

        ended = self._ended(result)
        said = [export.write(ended) for export in self._exports]
        if self.has_claims or self.compares:
            said.append(write_step_summary(ended))
            self.annotations = annotated(ended)
        self._unwritten = "; ".join(filter(None, said))

    def _ended(self, result: Result) -> EndedRun:
        from pytest_vperf.reporting.ended import EndedRun, Place
        from pytest_vperf.reporting.summary import counts_line
        from pytest_vperf.run.earlier import earlier_runs
        from pytest_vperf.run.exports import seen_from

        root, run = self.config.rootpath, self.run
        past = earlier_runs(self.config, self.settings, run)
        top = seen_from() or root

        def placed(file: str, number: int) -> Place:
            path = root / file
            seen = path.relative_to(top).as_posix() if path.is_relative_to(top) else file
            return Place(seen, number + 1)

        return EndedRun(
            claims=run.claims,
            answer=self.answer
            or (counts_line(run.claims) if run.claims else "claims: nothing was claimed"),
            word=result.word,
            status=int(result.status),
            failing=failing(self.settings.level),
            started=run.started,
            mark=run.mark,
            fingerprint=run.fingerprint or {},
            sides=run.sides,
            places={nodeid: placed(*place) for nodeid, place in self.reports.places.items()},
            asked=run.asked,
            profile=run.profile,
            fillings=run.fillings,
            past=past.past,
            since=past.since,
        )

    def _result(self, status: int, *, record_lost: bool = False) -> Result:
        return conclude(
            self.run.claims if self._run is not None else (),
            self.reports,
            level=self.settings.level,
            status=status,
            unmet=bool(self.unmet),
            record_lost=record_lost,
            usage_error=bool(self.usage_error),
            compares=self.compares,
        )

    @property
    def unmet(self) -> list[Asked]:
        """What was asked for by name, and no claim measured."""
        if not self.reports.ran:
            return []
        from pytest_vperf.run.required import asked_in, kinds_of, unmet

        claims = self.run.claims if self.has_claims else ()
        advisory = self.settings.level == "advisory"
        asked = () if advisory else asked_in(self.config, self.settings)
        return unmet(claims, kinds_of(self.config), asked)

    @property
    def has_claims(self) -> bool:
        """Whether anything was claimed."""
        return self._run is not None and bool(self._run.claims)

    @property
    def is_gate(self) -> bool:
        """Whether sides are compared, and a test ran that could have done so."""
        return bool(self.settings.sides) and self.reports.ran

    @property
    def compares(self) -> bool:
        """Whether the run is one that has to compare: a gate, or one with a baseline.

        A baseline of the ini file is for runs with claims alone.
        """
        asked = self.config.getoption("claims_baseline", None) is not None or self.has_claims
        stored = self.settings.baseline is not None and self.reports.ran and asked
        return self.is_gate or stored

    @property
    def answer(self) -> str:
        """Its answer, in one line; empty if it compares nothing."""
        from pytest_vperf.reporting import baseline, gate

        if not self.compares:
            return ""
        claims = self.run.claims
        return (
            gate.answer(claims)
            if self.is_gate
            else baseline.answer(claims, self.settings.baseline or "")
        )

    @property
    def fillings(self) -> list[FillingRecord]:
        """The records of filled hosts."""
        return self._run.fillings if self._run is not None else []

    def check_start(self) -> None:
        """Check what can be checked before collection: a named profile, and the place of the JSON file.

        Raises:
            pytest.UsageError: a threshold file is wrong, the profile is unknown, or the file cannot be written.
        """
        if self.is_worker:
            return  # the controller does
        if self.settings.hardware != "auto":
            self.hardware.check() if self.has_fleet else self.hardware.select()
        if not self.config.getoption("collectonly"):
            self._begin_file()

    def leave_out(self, claiming: Iterable[pytest.Item]) -> list[pytest.Item]:
        """The tests that a gate leaves out: their targets are the same on each side."""
        from pytest_vperf.run.sides import untouched

        kinds = doors.target_kinds(self.config).values()
        starting = frozenset().union(*(kind.fixtures for kind in kinds))
        found = untouched(self.settings.sides, self._side_keys, claiming, starting)
        self._left_out = len(found)
        return found

    def prepare(self, session: pytest.Session, claiming: Sequence[pytest.Item]) -> None:
        """Do everything that can fail, before any target starts.

        Args:
            session: pytest's.
            claiming: the tests that ask for a claim.

        Raises:
            pytest.UsageError: as `check_start`, or a marker is not understood. In a worker, whose errors nobody would
            see from here, the ``claim`` fixture raises it instead.
        """
        from pytest_vperf.claims.plan import check_markers

        doors.tools(self.config)
        doors.target_kinds(self.config)
        self.claiming = frozenset(claiming)
        self.notes.add("claiming", [item.nodeid for item in claiming])
        try:
            check_markers(claiming)
        except pytest.UsageError as error:
            if not self.is_worker:
                raise
            self.usage_error = str(error)
        if not self.is_worker and not self.has_fleet:
            self.hardware.select()
        if (self.settings.sessions > 1 or self.settings.time is not None) and not self.has_fleet:
            from pytest_vperf.run.visits import Visits

            self.visits = Visits(session, self.claiming, self.settings.time)
            self.config.pluginmanager.register(self.visits, "vperf-visits")
        if not self.config.getoption("collectonly"):
            if claiming and not self.is_worker and not self.has_fleet:
                _ = self.baseline
            self.run.sides = recorded(self.settings.sides, self._side_keys)
            self._begin_file()
            if not self.is_worker and not self.has_fleet:
                self._begin_forecast()
            self.prepare_terminal()
            self.end_in_order()

    def _begin_forecast(self) -> None:
        from pytest_vperf.machine import waits
        from pytest_vperf.run.forecast import Forecast

        settings = self.settings
        self._forecast = Forecast(self.claiming, settings.sessions, settings.time)
        self.config.pluginmanager.register(self._forecast, "vperf-forecast")
        self._deaf = waits.listen(self._show_wait)

    def _begin_file(self) -> None:
        """Write the JSON files without claims: an old file must not be taken for this run's, and a place that
        cannot be written is known before anything is measured.

        Raises:
            pytest.UsageError: a file, or the store, cannot be written.
        """
        if self.is_worker:
            return
        if self.settings.save is not None and self._saving is None:
            from pytest_vperf.run.saving import Saving

            self._saving = Saving.begin(self.settings)
        from pytest_vperf.run.exports import exports

        if (path := self.settings.json) is not None:
            _begin("--claims-json", path, self.run.begin)
        elif self.run.path is not None:
            _begin("--claims-save", self.run.path, self.run.begin)
        self._exports = list(exports(self.config, self.settings))
        files = {} if self.settings.json is None else {self.settings.json: "--claims-json"}
        for export in self._exports:
            if (other := files.setdefault(export.path, export.option)) is not export.option:
                raise pytest.UsageError(
                    f"{export.option}: {export.path} is already the file of {other}"
                )
            _begin(export.option, export.path, export.begin)
        if (path := self.settings.benchmark_json) is not None:
            from pytest_vperf.results import benchmark_json

            option = "--claims-benchmark-json"
            others = {"--claims-json": self.settings.json}
            others["--benchmark-json"] = self.config.getoption("benchmark_json", None)
            for other, taken in others.items():
                # An older pytest-benchmark has opened its file by now.
                named = taken if isinstance(taken, Path) else getattr(taken, "name", None)
                if named is not None and path.resolve() == Path(named).resolve():
                    raise pytest.UsageError(f"{option}: {path} is already the file of {other}")
            if not self.config.pluginmanager.has_plugin(benchmark_json.PLUGIN):
                raise pytest.UsageError(
                    f"{option}: pytest-benchmark, which writes the file, is switched off: leave out "
                    f"-p no:{benchmark_json.PLUGIN}"
                )
            _begin(option, path, lambda: benchmark_json.begin(path, self.config, self._side_names))

    def header(self) -> list[str]:
        """The header lines about profile and machine; none if no test has a claim."""
        left_out = self._said_left_out()
        if not self.hardware.is_chosen:
            return left_out
        from pytest_vperf.machine.noise_warnings import look
        from pytest_vperf.reporting.summary import header_lines

        settings = self.settings
        lines = header_lines(
            self.hardware.select(),
            budget=settings.budget,
            time=settings.time,
            level=settings.level,
            record=settings.json,
            noise=look(),
            sides=described(
                settings.sides, self._side_keys, ask=not self.config.getoption("collectonly")
            ),
        )
        return lines + left_out

    def _said_left_out(self) -> list[str]:
        if not self._left_out:
            return []
        keys = sorted({key for side in self.settings.sides.all for key in side.settings})
        tests = "1 test" if self._left_out == 1 else f"{self._left_out} tests"
        return [f"claims: {tests} left out, whose targets do not depend on {', '.join(keys)}"]

    @property
    def mismatches(self) -> tuple[str, ...]:
        """How this machine differs from the profile that was named; empty if none could be chosen."""
        with suppress(pytest.UsageError):
            selection = self.hardware.select()
            return selection.mismatches if selection.named else ()
        return ()

    @property
    def progress(self) -> Progress:
        """Shows how sampling goes, on the terminal if there is one."""
        if self._progress is None:
            from pytest_vperf.reporting.terminal import progress_for

            self._progress = progress_for(self.config, self._place)
        return self._progress

    def _place(self) -> str:
        return self._forecast.place if self._forecast is not None else ""

    def _show_wait(self, what: str) -> None:
        """Show on the progress line what takes long before a test can measure; an empty text ends that."""
        if threading.current_thread() is not threading.main_thread():
            return  # of many targets that start at a time; the terminal is this thread's
        test = self._forecast.test if self._forecast is not None else ""
        if what and test:
            self.progress.note(f"{test}: waits for {what}")
        else:
            self.progress.done()

    def prepare_terminal(self) -> None:
        """Make pytest's colours depend on verdicts too, and have our signs in what the terminal can show; once."""
        reporter = self.config.pluginmanager.get_plugin("terminalreporter")
        if reporter is None or self._has_terminal:
            return
        self._has_terminal = True
        from pytest_vperf.reporting.terminal import colour_by_verdicts, fit_encoding

        colour_by_verdicts(reporter)
        fit_encoding(reporter)
        if not reporter.isatty and self.config.getoption("verbose") >= 0:
            from pytest_vperf.reporting.log import Log

            log = Log(self.config, lambda: self.run.claims, self._over)
            self.config.pluginmanager.register(log, "vperf-log")

    def _over(self) -> str:
        return self._forecast.over if self._forecast is not None else ""

    def end_in_order(self) -> None:
        """Make SIGTERM and SIGHUP end the run like Ctrl-C, and a worker end with its controller."""
        if self._open is None:
            from contextlib import ExitStack

            from pytest_vperf.machine.ending import ending_in_order

            self._open = ExitStack()
            self._endings = self._open.enter_context(ending_in_order())
            if self.is_worker:
                from signal import SIGTERM

                from pytest_vperf.machine.ending import end_with_parent

                end_with_parent(SIGTERM)

    def begin_end(self) -> None:
        """Keep signals from interrupting the end of the run."""
        if self._endings is not None:
            self._endings.begin()

    def close(self) -> None:
        """Restore the signal handlers, and listen no more."""
        self._deaf()
        if self._open is not None:
            self._open.close()
            self._open = self._endings = None
