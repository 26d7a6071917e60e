"""The claims of the gallery, each with what this machine lacks for it, and its last verdicts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_vperf.commands.claims.lines import lines
from pytest_vperf.machine.preflight import find_program
from pytest_vperf.targets.container import runtimes
from pytest_vperf.thresholds.match import GALLERY

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pytest_vperf.commands.claims.lines import Line
    from pytest_vperf.commands.claims.measured import Measured
    from pytest_vperf.thresholds.profile import HardwareProfile, Source, Threshold

#: Debian's packages of programs that claims need and that are not runtimes.
_PACKAGES: Mapping[str, str] = {
    "dockerd": "docker.io",
    "libvirtd": "libvirt-daemon-system",
    "qemu-system-x86_64": "qemu-system-x86",
}


@dataclass(frozen=True)
class Missing:
    """A program that is not installed.

    Attributes:
        program: its name.
        remedy: how to get it; empty if that is not known.
    """

    program: str
    remedy: str


@dataclass(frozen=True)
class Exhibit:
    """A published claim.

    Attributes:
        threshold: its entry in the threshold file.
        source: who published it, and how it was measured.
        missing: the programs that this machine lacks.
        lines: its last verdicts, the newest first: one for each machine; empty if there are none.
    """

    threshold: Threshold
    source: Source
    missing: tuple[Missing, ...]
    lines: tuple[Line, ...]

    @property
    def name(self) -> str:
        """Its name without the gallery's: ``crun.run``."""
        return self.threshold.name.removeprefix(f"{GALLERY}.")

    @property
    def verdicts(self) -> tuple[str, ...]:
        """Its distinct verdicts."""
        return tuple(dict.fromkeys(line.verdict for line in self.lines))

    @property
    def measured(self) -> bool:
        """Whether a record has a measurement."""
        return any(line.last and line.last.measured.was_measured for line in self.lines)


def exhibits(profile: HardwareProfile, records: Iterable[Measured]) -> list[Exhibit]:
    """All of them, in the order of the threshold file."""
    by_name: dict[str, list[Line]] = {}
    for line in lines({profile.name: profile}, records, []):
        if line.threshold is not None and line.last is not None:
            by_name.setdefault(line.entry, []).append(line)
    found = []
    for name, threshold in profile.claims.items():
        if threshold.source is not None:
            missing = tuple(
                Missing(program, remedy(program))
                for program in threshold.needs
                if find_program(program) is None
            )
            found.append(
                Exhibit(threshold, threshold.source, missing, tuple(by_name.get(name, ())))
            )
    return found


def remedy(program: str) -> str:
    """How a program is installed; Debian's packages are mostly called like their programs."""
    if program in runtimes.ARGUMENTS:
        return runtimes.remedy(program)
    return f"apt-get install {_PACKAGES.get(program, program)}"


def by_project(every: Sequence[Exhibit]) -> dict[str, list[Exhibit]]:
    """Project → its exhibits, in the order of their first one."""
    found: dict[str, list[Exhibit]] = {}
    for each in every:
        found.setdefault(each.source.project or each.source.document, []).append(each)
    return found
