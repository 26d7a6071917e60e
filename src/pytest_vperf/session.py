"""What a pytest run knows about its claims: settings, hardware profile, and the record.

Made cheaply for every run; what costs something happens when the first claim needs it.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from pytest_vperf.outcomes import TestClaims
from pytest_vperf.settings import Settings, read_settings
from pytest_vperf.stash import TEST_CLAIMS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import ExitStack

    from pytest_vperf.claims.circumstances import Circumstances
    from pytest_vperf.claims.claim import Claim
    from pytest_vperf.claims.hardware import Selection
    from pytest_vperf.claims.plan import Plan
    from pytest_vperf.claims.sampling import Progress
    from pytest_vperf.claims.thresholds import Threshold
    from pytest_vperf.machine.fingerprint import Fingerprint
    from pytest_vperf.results.record import ClaimRecord
    from pytest_vperf.results.run import RunRecord
    from pytest_vperf.visits import Visits


class ClaimsSession:
    """One run's claims; in a pytest-xdist worker, that worker's share of them.

    Attributes:
        is_worker: the record is then collected, and its file written, by another process.
        reports_of_workers: whether records came from other processes.
        claims: how many tests the run collected that ask for claims, at least 1.
        visits: who runs tests again; ``None`` where no claim needs it.
        make_claim: makes what the ``claim`` fixture gives, where that is no claim to be judged; else ``None``.
        usage_error: what kept a worker's claims from being judged; ends the run with exit status 4.
    """

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.is_worker = hasattr(config, "workerinput")
        self._settings: Settings | None = None
        self._run: RunRecord | None = None
        self._hardware: Selection | None = None
        self._progress: Progress | None = None
        self._open: ExitStack | None = None
        self.reports_of_workers = False
        self.claims = 1
        self.visits: Visits | None = None
        self.make_claim: Callable[[str, Circumstances], Claim] | None = None
        self.usage_error = ""

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
    def run(self) -> RunRecord:
        """The record of the run."""
        if self._run is None:
            from pytest_vperf.results.run import RunRecord

            self._run = RunRecord(None if self.is_worker else self.settings.json)
        return self._run

    @property
    def has_hardware(self) -> bool:
        """Whether the profile was chosen."""
        return self._hardware is not None

    def plan(self, item: pytest.Item, threshold: Threshold | None, number: int = 1) -> Plan:
        """What a claim of a test is judged by: tolerance, error rates and budget.

        Args:
            item: the test.
            threshold: the claim's.
            number: which claim of the test it is, from 1 on.

        Raises:
            pytest.UsageError: a ``vperf`` marker of the test is not understood.
        """
        from pytest_vperf.claims.plan import marker_overrides, plan_for

        return plan_for(threshold, marker_overrides(item), self.settings, self.claims, number)

    def keep(self, item: pytest.Item, record: ClaimRecord) -> None:
        """Keep a claim's record: in the run and its file, and as properties of the test for JUnit."""
        from pytest_vperf.results.junit import properties

        claims = item.stash.setdefault(TEST_CLAIMS, TestClaims())
        claims.records.append(record)
        item.user_properties.extend(properties(record))
        self.run.add(record)

    def take_over(self, report: pytest.TestReport) -> None:
        """Take what a report of a pytest-xdist worker brings."""
        if not self.reports_of_workers:
            self.reports_of_workers = True
            self.colour_terminal()
        self.usage_error = self.usage_error or getattr(report, "vperf_usage_error", "")
        if not self.has_hardware and not self.usage_error:
            with suppress(
                pytest.UsageError
            ):  # the worker judged by it; its own error would have come first
                self.select_hardware()
        for record in getattr(report, "vperf_claims", ()):
            self.run.add(record)

    def cut_short(self, session: pytest.Session) -> None:
        """The run is over: keep what was measured of claims whose next session does not come.

        A worker of pytest-xdist has no report left for them: they travel with what it says at its end.
        """
        from pytest_vperf.phases import cut_short

        known = len(self.run.claims)
        for item in getattr(session, "items", ()):
            claims = item.stash.get(TEST_CLAIMS, None)
            if claims is not None:
                cut_short(item, claims, "run")
        if self.is_worker:
            output: Any = self.config
            output.workeroutput["vperf_claims"] = self.run.claims[known:]

    def add_to_exit_status(self, session: pytest.Session) -> None:
        """Usage errors of workers, and required targets that no claim could measure, are no success."""
        if self.usage_error:
            session.exitstatus = pytest.ExitCode.USAGE_ERROR
        elif session.exitstatus == pytest.ExitCode.OK and self.unmet:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    @property
    def unmet(self) -> list[str]:
        """What ``VPERF_REQUIRE`` names and no claim could measure."""
        if not self.has_claims:
            return []
        from pytest_vperf import require

        return require.unmet(self.run.claims)

    @property
    def has_claims(self) -> bool:
        """Whether anything was recorded."""
        return self._run is not None and bool(self._run.claims)

    def check_start(self) -> None:
        """Check what can be checked before collection: a named profile, and the place of the JSON file.

        Raises:
            pytest.UsageError: a threshold file is wrong, the profile is unknown, or the file cannot be written.
        """
        if self.is_worker:
            return  # the controller does
        if self.settings.hardware != "auto":
            self.select_hardware()
        if not self.config.getoption("collectonly"):
            self._begin_file()

    def prepare(self, session: pytest.Session, claiming: Sequence[pytest.Item]) -> None:
        """Something claims: get everything ready that can fail, before any target starts.

        Args:
            session: pytest's.
            claiming: the tests that ask for a claim.

        Raises:
            pytest.UsageError: as `check_start`, or a marker is not understood; in a worker, whose errors reach
                nobody from here, the ``claim`` fixture raises it instead.
        """
        from pytest_vperf.claims.plan import check_markers

        self.claims = max(1, len(claiming))
        try:
            check_markers(claiming)
        except pytest.UsageError as error:
            if not self.is_worker:
                raise
            self.usage_error = str(error)
        if not self.is_worker:
            self.select_hardware()
        if self.settings.sessions > 1:
            from pytest_vperf.visits import Visits

            self.visits = Visits(session)
            self.config.pluginmanager.register(self.visits, "vperf-visits")
        if not self.config.getoption("collectonly"):
            self._begin_file()
            self.colour_terminal()
            self._listen_for_sigterm()

    def _begin_file(self) -> None:
        """Write the JSON file without claims: an old file must not be taken for this run's, and a place that
        cannot be written is known before anything is measured.

        Raises:
            pytest.UsageError: the file cannot be written.
        """
        path = self.settings.json
        if path is None or self.is_worker:
            return
        if path.exists() and not path.is_file():
            raise pytest.UsageError(f"--claims-json: {path} is not a file")
        try:
            self.run.write()
        except OSError as error:
            raise pytest.UsageError(
                f"--claims-json: {path} cannot be written: {error.strerror or error}"
            ) from None

    def header(self) -> list[str]:
        """The lines that say by what is judged; none where nothing claims."""
        if not self.has_hardware:
            return []
        from pytest_vperf.machine.noise_warnings import look
        from pytest_vperf.reporting.header import header_lines

        return header_lines(self.select_hardware(), self.settings, look())

    def select_hardware(self) -> Selection:
        """Read the threshold files and the machine's fingerprint, and choose the profiles; once.

        Raises:
            pytest.UsageError: a file is wrong, a profile is unknown, or two match equally.
        """
        if self._hardware is None:
            from pytest_vperf.claims.hardware import HardwareError, select
            from pytest_vperf.claims.thresholds import (
                ThresholdError,
                load_profiles,
                shipped_folder,
            )
            from pytest_vperf.machine import fingerprint

            shipped = shipped_folder()
            # Of two files of one name the first counts: the user's.
            folders = [*self.settings.thresholds, *([shipped] if shipped else [])]
            try:
                profiles = load_profiles(folders)
                machine = fingerprint.read()
                selection = select(
                    profiles, self.settings.hardware, machine, elsewhere=self._elsewhere
                )
            except (ThresholdError, HardwareError) as error:
                raise pytest.UsageError(str(error)) from None
            self._hardware = selection
            self.run.fingerprint = machine.as_dict()
            self.run.profile = self._describe(selection)
        return self._hardware

    @property
    def _elsewhere(self) -> str:
        if not self.settings.on:
            return ""
        from pytest_vperf.targets.remote.address import where

        return where(self.settings.on)

    def measures_on(self, where: str, fingerprint: Fingerprint) -> None:
        """Another machine has been reached: what is recorded and said of the machine is of that one.

        Args:
            where: the machine, as people name it.
            fingerprint: what it is.
        """
        if self._hardware is None:  # nothing claims
            return
        selection = self._hardware
        self.run.fingerprint = {**fingerprint.as_dict(), "on": where}
        if selection.named:
            mismatches = selection.profiles[0].match.mismatches(fingerprint)
            self._hardware = replace(selection, mismatches=mismatches)
            self.run.profile = self._describe(self._hardware)

    def _describe(self, selection: Selection) -> dict[str, Any]:
        return {
            "asked": self.settings.hardware,
            "named": selection.named,
            "names": [profile.name for profile in selection.profiles],
            "matches": not selection.mismatches,
            "mismatches": list(selection.mismatches),
        }

    @property
    def mismatches(self) -> tuple[str, ...]:
        """What of this machine does not fit the profile that was named; nothing where none could be chosen."""
        with suppress(pytest.UsageError):
            selection = self.select_hardware()
            return selection.mismatches if selection.named else ()
        return ()

    @property
    def progress(self) -> Progress:
        """Who is told how sampling goes: a line on the terminal, if there is one."""
        if self._progress is None:
            from pytest_vperf.reporting.progress import progress_for

            self._progress = progress_for(self.config)
        return self._progress

    def colour_terminal(self) -> None:
        """From now on the colour of pytest's lines depends on verdicts too."""
        reporter = self.config.pluginmanager.get_plugin("terminalreporter")
        if reporter is not None:
            from pytest_vperf.reporting.colour import colour_by_verdicts

            colour_by_verdicts(reporter)

    def _listen_for_sigterm(self) -> None:
        """From now on SIGTERM ends the run like Ctrl-C."""
        if self._open is None:
            from contextlib import ExitStack

            from pytest_vperf.interrupt import sigterm_as_interrupt

            self._open = ExitStack()
            self._open.enter_context(sigterm_as_interrupt())

    def close(self) -> None:
        """Give SIGTERM back."""
        if self._open is not None:
            self._open.close()
            self._open = None
