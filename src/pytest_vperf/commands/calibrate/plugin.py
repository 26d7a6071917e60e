"""The pytest plug-in that ``vperf calibrate`` loads: its runs measure limits and judge nothing.

The command passes a file, ``--calibrate-request``. Before any test runs, the plug-in writes beside it where this
project's threshold files are; the measurements are in the run's record, as usual.
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
    """What the command needs to know about the project that pytest runs in.

    Attributes:
        folders: its folders of threshold files, in order of precedence; absolute, at least one.
        on: the remote machine that targets are started on; empty for this one.
    """

    folders: list[str]
    on: str


def write_request(folder: Path, profile: str) -> Path:
    """Write the file for ``--calibrate-request``."""
    path = folder / "request.json"
    path.write_text(json.dumps({"profile": profile}), "utf-8")
    return path


def forget_project(folder: Path) -> None:
    """Remove the answer that the plug-in gave to an earlier command."""
    (folder / _PROJECT).unlink(missing_ok=True)


def read_project(folder: Path) -> Project | None:
    """The project as the plug-in found it; ``None`` if no test makes a claim."""
    path = folder / _PROJECT
    return Project(**json.loads(path.read_text("utf-8"))) if path.exists() else None


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the option, which only the command uses."""
    parser.getgroup("vperf").addoption(
        "--calibrate-request", metavar="FILE", help="used by `vperf calibrate`"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Make the run measure claims instead of judging them."""
    request: str | None = config.getoption("--calibrate-request")
    if request is not None:
        path = Path(request)
        profile = json.loads(path.read_text("utf-8"))["profile"]
        session = claims_session(config)
        session.hardware = _ProfileHardware(session, profile)
        config.pluginmanager.register(_Run(session, profile, path.parent), "vperf-calibrate-run")


class _ProfileHardware(RunHardware):
    """Chooses the profile that is calibrated, which may not exist yet."""

    def __init__(self, of: ClaimsSession, name: str) -> None:
        super().__init__(of)
        self._name = name

    def _choose(self, profiles: Mapping[str, HardwareProfile], machine: Fingerprint) -> Selection:
        from pytest_vperf.thresholds.hardware import Selection, select
        from pytest_vperf.thresholds.match import EVERYWHERE

        if self._name in profiles:
            return select(profiles, self._name, machine)
        found = tuple(profiles[name] for name in EVERYWHERE if name in profiles)
        return Selection(found, known=profiles)


class _Run:
    """One pytest run of the command."""

    def __init__(self, session: ClaimsSession, profile: str, folder: Path) -> None:
        self._profile = profile
        self._folder = folder
        session.make_claim = self._make

    @pytest.hookimpl(trylast=True)
    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """If any test makes a claim, write where the threshold files are."""
        claims = begun_session(session.config)
        if claims is None or claims.is_worker or not claims.claiming:
            return
        folders = claims.settings.thresholds or (session.config.rootpath / "thresholds",)
        project = Project([str(folder) for folder in folders], claims.settings.on)
        (self._folder / _PROJECT).write_text(json.dumps(asdict(project)), "utf-8")

    def _make(self, name: str, circumstances: Circumstances) -> Claim:
        __tracebackhide__ = True
        return SurveyedClaim(name, circumstances, profile=self._profile)
