"""``vperf claims --by=machine``: each claim on each machine of a fleet, which is out of line, and which drifts."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any

from rich.text import Text

from pytest_vperf import __version__
from pytest_vperf.foreign_text import line as one_line
from pytest_vperf.foreign_text import short, to_json
from pytest_vperf.quantity import QuantityError, conversion_factor
from pytest_vperf.reporting.console import print_table, tell
from pytest_vperf.results.identity import within_types
from pytest_vperf.results.run import FORMAT
from pytest_vperf.stats.odd import FEWEST, Drift, drift, odd_ones

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pytest_vperf.commands.claims.measured import Measured

#: The chance that any machine is named as odd where none is, of all claims together; the same for drift.
ERROR = 0.01


@dataclass(frozen=True)
class OnMachine:
    """A claim on one machine.

    Attributes:
        machine: its name.
        verdict: the last one there.
        level: the median of its figures, one of each run, in the unit of the claim.
        runs: how many.
        ratio: of the level to the median of all machines of the type; ``None`` if there is none.
        odd: whether it is out of line.
        drift: against the type, from run to run; ``None`` if none was shown.
    """

    machine: str
    verdict: str
    level: float
    runs: int
    ratio: float | None = None
    odd: bool = False
    drift: Drift | None = None


@dataclass(frozen=True)
class OfType:
    """A claim on the machines of one type.

    Attributes:
        type: of the hardware.
        claim: its name.
        unit: of its levels.
        machines: in the order of their names.
    """

    type: str
    claim: str
    unit: str
    machines: tuple[OnMachine, ...]

    @property
    def compared(self) -> bool:
        """Whether there are so many machines that one can be out of line."""
        return len(self.machines) >= FEWEST


def by_machine(records: Iterable[Measured]) -> list[OfType]:
    """Each claim on each machine, of the runs over a fleet, by type and name."""
    groups: dict[tuple[str, str], list[Measured]] = {}
    for each in records:
        name = each.claim.machine.get("name", "")
        if name and each.claim.estimate is not None and each.was_measured:
            type_ = each.run.machines.get(name, {}).get("type", "")
            groups.setdefault((type_, each.name), []).append(each)
    series = {key: _series(found) for key, found in sorted(groups.items())}
    levels = {
        key: {name: median(own.values()) for name, own in figures.items()}
        for key, (_, figures, _) in series.items()
    }
    tests = sum(len(own) >= FEWEST for own in levels.values())
    lines = sum(len(own) for own in levels.values())
    found = []
    for (type_, claim), (unit, figures, verdicts) in series.items():
        own = levels[type_, claim]
        positive = all(each > 0 for of in figures.values() for each in of.values())
        odd = odd_ones(own, ERROR / max(1, tests)) if positive else ()
        machines = []
        for name in sorted(own):
            machines.append(
                OnMachine(
                    machine=name,
                    verdict=verdicts[name],
                    level=own[name],
                    runs=len(figures[name]),
                    ratio=own[name] / median(own.values()) if positive else None,
                    odd=name in odd,
                    drift=drift(_ratios(name, figures), ERROR / lines) if positive else None,
                )
            )
        found.append(OfType(type_, claim, unit, tuple(machines)))
    return found


def _series(
    records: Sequence[Measured],
) -> tuple[str, Mapping[str, Mapping[str, float]], Mapping[str, str]]:
    """The unit of a claim, its figure in each run by machine, and its last verdict there; a run is known by when it
    began, as a store has one record of it for each machine.
    """
    ordered = sorted(records, key=lambda each: each.when)
    unit = ordered[-1].claim.unit
    figures: dict[str, dict[str, float]] = {}
    verdicts = {}
    for each in ordered:
        assert each.claim.estimate is not None
        try:
            value = each.claim.estimate * conversion_factor(each.claim.unit, unit)
        except QuantityError:
            continue  # of a time when it was about something else
        name = each.claim.machine["name"]
        figures.setdefault(name, {})[str(each.run.started)] = value
        verdicts[name] = each.claim.verdict
    return unit, figures, verdicts


def _ratios(name: str, figures: Mapping[str, Mapping[str, float]]) -> list[float]:
    """A machine's figure over the median of all, which does not move with one of them, in each run that has enough;
    the oldest first. Of two machines nobody knows which one drifts.
    """
    found = []
    for run in sorted(figures[name]):
        every = [own[run] for own in figures.values() if run in own]
        if len(every) >= FEWEST:
            found.append(figures[name][run] / median(every))
    return found


def _change(ratio: float) -> str:
    return f"{100 * (ratio - 1):+.3g} %"


def print_machines(found: Sequence[OfType], differ: Mapping[str, Mapping[str, str]]) -> None:
    """Print a table for each type, and below it what is out of line.

    Args:
        found: the claims.
        differ: the machines of the newest run over a fleet, by name.
    """
    for type_ in dict.fromkeys(each.type for each in found):
        own = [each for each in found if each.type == type_]
        tell(f"{one_line(type_)}:\n")
        print_table(
            ("claim", "machine", "last verdict", "level", "of its type", "runs"),
            [_row(of, on) for of in own for on in of.machines],
        )
        tell()
    every = [(of, on) for of in found for on in of.machines]
    for of, on in every:
        if on.odd and on.ratio is not None:
            told = f"{on.level:.4g} {of.unit}".strip()
            far = f"{_change(on.ratio)} of the median of its type"
            tell(one_line(f"odd one out: {of.claim} on {on.machine}: {told}, {far}"))
    for of, on in every:
        if on.drift is not None:
            pace = f"{_change(on.drift.pace)} a run against its type, over {on.drift.runs} runs"
            tell(one_line(f"drifts: {of.claim} on {on.machine}: {pace}"))
    for each in within_types(differ):
        tell(one_line(f"machines differ: {each}"))
    compared = sum(of.compared for of in found)
    odd, moving = (
        sum(any(test(on) for on in of.machines) for of in found) for test in (_is_odd, _moves)
    )
    few = len(found) - compared
    tell(
        f"machines: {odd} of {compared} claims have an odd one out, {moving} one that drifts; each of the two may be"
        f" wrong in 1 % of such tables"
        + (f"; {few} on fewer than {FEWEST} machines of a type" if few else "")
    )


def _is_odd(on: OnMachine) -> bool:
    return on.odd


def _moves(on: OnMachine) -> bool:
    return on.drift is not None


def _row(of: OfType, on: OnMachine) -> tuple[str | Text, ...]:
    ratio = "-" if on.ratio is None else _change(on.ratio)
    return (
        short(of.claim),
        one_line(on.machine),
        one_line(on.verdict),
        f"{on.level:.4g} {of.unit}".strip(),
        Text(ratio, "bold red") if on.odd else ratio,
        str(on.runs),
    )


def document(found: Sequence[OfType], differ: Mapping[str, Mapping[str, str]]) -> str:
    """The same as JSON."""
    content = {
        "format": FORMAT,
        "vperf": __version__,
        "by": "machine",
        "error": ERROR,
        "claims": [
            {
                "type": of.type,
                "claim": of.claim,
                "unit": of.unit,
                "compared": of.compared,
                "machines": [_plain(on) for on in of.machines],
            }
            for of in found
        ],
        "machines_differ": within_types(differ),
    }
    return f"{to_json(content, indent=1)}\n"


def _plain(on: OnMachine) -> dict[str, Any]:
    return {
        "machine": on.machine,
        "verdict": on.verdict,
        "level": on.level,
        "runs": on.runs,
        "ratio": on.ratio,
        "odd": on.odd,
        "drift": None if on.drift is None else {"pace": on.drift.pace, "runs": on.drift.runs},
    }
