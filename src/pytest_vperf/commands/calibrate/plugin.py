"""The pytest plug-in that ``vperf calibrate`` loads: in its runs, limits are measured and nothing is judged.

The command asks by a file, ``--calibrate-request``. Before any test runs, the plug-in writes beside it where this
project's threshold files are; what is measured is in the record of the run, as ever.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_vperf.commands.calibrate.survey import SurveyedClaim
from pytest_vperf.run.session import RunHardware
from pytest_vperf.run.stash import begun_session, claims_session

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_vperf.claims.circumstances import Circumstances
    from pytest_vperf.claims.claim import Claim
    from pytest_vperf.machine.fingerprint import Fingerprint
    from pytest_vperf.run.session import ClaimsSession
    from pytest_vperf.thresholds.hardware import Selection
    from pytest_vperf.thresholds.profile import HardwareProfile


_PROJECT = "project.json"


@dataclass(frozen=True)
class Project:
    """What the command has to know of the project that pytest runs in.

    Attributes:
        folders: of its threshold files, those that count first before the others; absolute, at least one.
        on: the other machine that targets are started on; empty: this one.
    """

    folders: list[str]
    on: str


def write_request(folder: Path, profile: str) -> Path:
    """Write the file for ``--calibrate-request``."""
    path = folder / "request.json"
    path.write_text(json.dumps({"profile": profile}), "utf-8")
    return path


def forget_project(folder: Path) -> None:
    """Remove what the plug-in found for an earlier command."""
    (folder / _PROJECT).unlink(missing_ok=True)


def read_project(folder: Path) -> Project | None:
    """What the plug-in found; ``None`` where nothing claims."""
    path = folder / _PROJECT
    return Project(**json.loads(path.read_text("utf-8"))) if path.exists() else None


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the one option; the command uses it, users need not."""
    parser.getgroup("vperf").addoption(
        "--calibrate-request", metavar="FILE", help="used by `vperf calibrate`"
    )


def pytest_configure(config: pytest.Config) -> None:
    """From now on claims are measured."""
    request: str | None = config.getoption("--calibrate-request")
    if request is not None:
        path = Path(request)
        profile = json.loads(path.read_text("utf-8"))["profile"]
        session = claims_session(config)
        session.hardware = _ProfileHardware(session, profile)
        config.pluginmanager.register(_Run(session, profile, path.parent), "vperf-calibrate-run")


class _ProfileHardware(RunHardware):
    """The profile that is calibrated, which may not exist yet."""

    def __init__(self, of: ClaimsSession, name: str) -> None:
        super().__init__(of)
        self._name = name

    def _choose(self, profiles: Mapping[str, HardwareProfile], machine: Fingerprint) -> Selection:
        from pytest_vperf.thresholds.consistency import ANY
        from pytest_vperf.thresholds.hardware import Selection, select

        if self._name in profiles:
            return select(profiles, self._name, machine)
        return Selection((profiles[ANY],) if ANY in profiles else (), known=profiles)


class _Run:
    """One pytest run of the command."""

    def __init__(self, session: ClaimsSession, profile: str, folder: Path) -> None:
        self._profile = profile
        self._folder = folder
        session.make_claim = self._make

    @pytest.hookimpl(trylast=True)
    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Something claims: say where threshold files are."""
        claims = begun_session(session.config)
        if claims is None or claims.is_worker or not claims.claiming:
            return
        folders = claims.settings.thresholds or (session.config.rootpath / "thresholds",)
        project = Project([str(folder) for folder in folders], claims.settings.on)
        (self._folder / _PROJECT).write_text(json.dumps(asdict(project)), "utf-8")

    def _make(self, name: str, circumstances: Circumstances) -> Claim:
        __tracebackhide__ = True
        return SurveyedClaim(name, circumstances, profile=self._profile)
