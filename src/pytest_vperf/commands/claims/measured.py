"""A claim's record in the form of the table: what was measured, what judged it, when, and on what."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, cast

from pytest_vperf.foreign_text import short
from pytest_vperf.reporting import words
from pytest_vperf.reporting.summary import machine_line
from pytest_vperf.results.identity import identity

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_vperf.commands.claims.records import ClaimPart, RunPart
    from pytest_vperf.results.record import ClaimRecord


NOT_MEASURED = "not measured"


@dataclass(frozen=True)
class Machine:
    """A machine, as far as its verdicts are kept apart from those of others.

    With a new kernel or engine it stays the same machine: a later verdict replaces an earlier one. Of a fleet, two
    machines that are equal are two: what one shows, another does not hide.

    Attributes:
        name: a description in one line.
        identity: what distinguishes it: its name in a fleet, processor and their number, memory in whole GiB,
            hypervisor, place.
    """

    name: str
    identity: tuple[str, ...]


@dataclass(frozen=True)
class Measured:
    """One claim of one run.

    Attributes:
        claim: its record.
        run: the run that measured it.
        machine: the machine of that run, or of a run over a fleet the claim's.
        places: where on the machine the targets ran: ``lab xen``, ``emulated``; sorted.
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
        """The profile that judged it; empty if none did."""
        return short(self.claim.hardware.profile)

    @property
    def criterion(self) -> str:
        """The criterion that it was judged by."""
        return short(self.claim.criterion)

    @property
    def when(self) -> datetime:
        """When sampling began."""
        return datetime.fromisoformat(self.claim.started_at)

    @property
    def was_measured(self) -> bool:
        """Whether anything was measured."""
        return self.claim.verdict != NOT_MEASURED

    @property
    def figures(self) -> str:
        """``376.2 ms [370.1, 382.4]``; ``-`` if nothing was measured."""
        record: Mapping[str, Any] = self.claim.model_dump()
        return short(words.measured(cast("ClaimRecord", record)))

    @property
    def on(self) -> str:
        """``guest kvm (lab kvm) / host (lab kvm), emulated``; names the kernels if there are several."""
        target = short(self.claim.target)
        kernels = {each.details.get("guest_kernel", "") for each in self.claim.targets}
        words = [target, *(each for each in self.places if each not in target)]
        if len(kernels) > 1 and "" not in kernels:
            words.append(f"kernels {short(' and '.join(sorted(kernels)))}")
        return ", ".join(filter(None, words))

    @property
    def test(self) -> str:
        """The test, ``FILE::NAME``, without parameters."""
        return short(self.claim.nodeid.partition("[")[0])

    @property
    def reason(self) -> str:
        """The first line of the verdict's reason; empty if the claim holds."""
        if self.claim.verdict == "holds":
            return ""
        return short(self.claim.reason.partition("\n")[0])


def measured(run: RunPart) -> list[Measured]:
    """The claims of a run; what a gate or a baseline says is about builds, not about the sentence."""
    found = []
    for claim in run.claims:
        if not claim.sides and claim.baseline is None:
            facts = claim.machine or run.fingerprint or {}
            places = _places(claim, facts.get("emulated") == "yes")
            found.append(Measured(claim, run, _machine(facts), places))
    return found


def _machine(facts: Mapping[str, str]) -> Machine:
    where = short(facts.get("on", ""))
    own = short(facts.get("name", ""))
    described = short(machine_line(facts)) or "a machine that the record does not describe"
    name = ", ".join(filter(None, (own, described, where)))
    return Machine(name, (own, *identity(facts).values()))


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
