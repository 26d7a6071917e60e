"""The profiles that judge a run: chosen once, and held against the machine that it measures on."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

import pytest

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_vperf.claims.hardware import Selection
    from pytest_vperf.claims.thresholds import HardwareProfile
    from pytest_vperf.machine.fingerprint import Fingerprint
    from pytest_vperf.results.run import RunRecord
    from pytest_vperf.settings import Settings


class OfRun(Protocol):
    """What is to be known of a run."""

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
            from pytest_vperf.claims.hardware import HardwareError
            from pytest_vperf.claims.thresholds import (
                ThresholdError,
                load_profiles,
                shipped_folder,
            )
            from pytest_vperf.machine import fingerprint

            settings = self._of.settings
            shipped = shipped_folder()
            # Of two files of one name the first counts: the user's.
            folders = [*settings.thresholds, *([shipped] if shipped else [])]
            try:
                profiles = load_profiles(folders)
                machine = fingerprint.read()
                selection = self._choose(profiles, machine)
            except (ThresholdError, HardwareError) as error:
                raise pytest.UsageError(str(error)) from None
            self._selection = selection
            self._of.run.fingerprint = machine.as_dict()
            self._of.run.profile = self._describe(selection)
        return self._selection

    def _choose(self, profiles: Mapping[str, HardwareProfile], machine: Fingerprint) -> Selection:
        """Choose among all profiles there are.

        Raises:
            HardwareError: a profile is unknown, or two match equally.
        """
        from pytest_vperf.claims.hardware import select

        settings = self._of.settings
        return select(profiles, settings.hardware, machine, elsewhere=_elsewhere(settings))

    def measures_on(self, where: str, fingerprint: Fingerprint) -> None:
        """Another machine has been reached: what is recorded and said of the machine is of that one.

        Args:
            where: the machine, as people name it.
            fingerprint: what it is.
        """
        selection = self._selection
        if selection is None:  # nothing claims
            return
        self._of.run.fingerprint = {**fingerprint.as_dict(), "on": where}
        if selection.named:
            mismatches = selection.profiles[0].match.mismatches(fingerprint)
            self._selection = replace(selection, mismatches=mismatches)
            self._of.run.profile = self._describe(self._selection)

    def _describe(self, selection: Selection) -> dict[str, Any]:
        return {
            "asked": self._of.settings.hardware,
            "named": selection.named,
            "names": [profile.name for profile in selection.profiles],
            "matches": not selection.mismatches,
            "mismatches": list(selection.mismatches),
        }


def _elsewhere(settings: Settings) -> str:
    if not settings.on:
        return ""
    from pytest_vperf.targets.remote.address import where

    return where(settings.on)
