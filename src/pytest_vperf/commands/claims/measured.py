"""A claim's record as the table needs it: what was measured, by what it was judged, when, and on what."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, cast

from pytest_vperf.foreign_text import short
from pytest_vperf.reporting import words
from pytest_vperf.reporting.summary import machine_line

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_vperf.commands.claims.records import ClaimPart, RunPart
    from pytest_vperf.results.record import ClaimRecord


NOT_MEASURED = "not measured"


@dataclass(frozen=True)
class Machine:
    """A machine, as far as a verdict of it stands beside that of another.

    A new kernel or a new engine makes no other machine: a later verdict there takes the place of an earlier one.

    Attributes:
        name: in one line.
        identity: what tells it from others: processor, how many, memory in whole GiB, hypervisor, where it is.
    """

    name: str
    identity: tuple[str, ...]


@dataclass(frozen=True)
class Measured:
    """One claim of one run.

    Attributes:
        claim: its record.
        run: the run it is of.
        machine: where that was.
        places: what the targets were on, beside the machine: ``lab xen``, ``emulated``; sorted.
    """

    claim: ClaimPart
    run: RunPart
    machine: Machine
    places: tuple[str, ...]

    @property
    def name(self) -> str:
        """The claim's name."""
        return short(self.claim.name)

    @property
    def profile(self) -> str:
        """The profile that judged it; empty where none did."""
        return short(self.claim.hardware.profile)

    @property
    def criterion(self) -> str:
        """What it was held against."""
        return short(self.claim.criterion)

    @property
    def when(self) -> datetime:
        """When sampling began."""
        return datetime.fromisoformat(self.claim.started_at)

    @property
    def was_measured(self) -> bool:
        """Whether there is anything but a reason."""
        return self.claim.verdict != NOT_MEASURED

    @property
    def figures(self) -> str:
        """``376.2 ms [370.1, 382.4]``; ``-`` where nothing was measured."""
        record: Mapping[str, Any] = self.claim.model_dump()
        return short(words.measured(cast("ClaimRecord", record)))

    @property
    def on(self) -> str:
        """``guest kvm (lab kvm) / host (lab kvm), emulated``; of two kernels which ones."""
        target = short(self.claim.target)
        kernels = {each.details.get("guest_kernel", "") for each in self.claim.targets}
        words = [target, *(each for each in self.places if each not in target)]
        if len(kernels) > 1 and "" not in kernels:
            words.append(f"kernels {short(' and '.join(sorted(kernels)))}")
        return ", ".join(filter(None, words))

    @property
    def test(self) -> str:
        """The test, ``FILE::NAME``, without the parameters of this once."""
        return short(self.claim.nodeid.partition("[")[0])

    @property
    def reason(self) -> str:
        """Why it is so, in a line; of an error its first line. Empty where it holds."""
        if self.claim.verdict == "holds":
            return ""
        return short(self.claim.reason.partition("\n")[0])


def measured(run: RunPart) -> list[Measured]:
    """The claims of a run."""
    machine = _machine(run.fingerprint or {})
    emulated = (run.fingerprint or {}).get("emulated") == "yes"
    return [Measured(claim, run, machine, _places(claim, emulated)) for claim in run.claims]


def _machine(facts: Mapping[str, str]) -> Machine:
    where = short(facts.get("on", ""))
    memory = facts.get("memory", "").partition(".")[0]
    keys = ("cpu_model", "logical_cpus", "hypervisor", "architecture", "emulated")
    identity = (*(facts.get(key, "") for key in keys), memory, where)
    name = short(machine_line(facts)) or "a machine that the record does not tell of"
    return Machine(f"{name}, {where}" if where else name, identity)


def _places(claim: ClaimPart, emulated: bool) -> tuple[str, ...]:
    found = {"emulated"} if emulated else set()
    for target in claim.targets:
        details = target.details
        if details.get("emulated") == "yes":
            found.add("emulated")
        if lab := details.get("lab"):
            found.add(short(f"lab {lab}"))
        elif on := details.get("on"):
            found.add(short(f"on {on}"))
    return tuple(sorted(found, reverse=True))
