"""``vperf clean``: shows and removes what killed runs and broken labs left behind."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_vperf.lab import labs
from pytest_vperf.machine import leftovers
from pytest_vperf.reporting.console import print_table, say, tell
from pytest_vperf.run import doors
from pytest_vperf.targets.base import TargetError, Unavailable
from pytest_vperf.targets.container import engine
from pytest_vperf.targets.libvirt import leftovers as leftover_machines

if TYPE_CHECKING:
    from pytest_vperf.machine.leftovers import Leftover

#: A process may start another one during a search; the next search finds it.
LOOKS = 3


def run(*, dry_run: bool = False) -> int:
    """Show leftovers and remove them.

    Args:
        dry_run: only show them.

    Returns:
        1 if something could not be removed, or an engine or a libvirt daemon could not be inspected; else 0.
    """
    shown: set[str] = set()
    errors: list[str] = []
    for look in range(LOOKS):
        containers, problem = _containers()
        if problem and look == 0:
            errors.append(problem)
        machines: list[Leftover] = []
        if look == 0:  # removing the runs' folders removes the notes that name them
            machines, problems = leftover_machines.in_reach()
            errors += problems
        others, problems = _of_packages()
        errors += problems if look == 0 else []
        everything = [
            *(*containers, *machines, *others),
            *(*leftovers.find(), *labs.find_leftovers()),
        ]
        found = [leftover for leftover in everything if str(leftover) not in shown]
        if not found:
            break
        shown.update(map(str, found))
        _show(found)
        if dry_run:
            break
        errors += leftovers.remove(found)
    for error in errors:
        say("vperf clean", error)
    tell(_summary(shown, dry_run=dry_run))
    for line in labs.labs_left_alone():
        tell(line)
    return 1 if errors else 0


def end_labs() -> list[str]:
    """End the user's labs that are up; one line for each.

    Raises:
        CannotStart: a process does not end.
    """

    up = [lab.kind for lab in labs.labs_up()]
    return [f"lab {kind}: ended" for kind in up if labs.down(kind)]


def _containers() -> tuple[list[Leftover], str]:
    """The containers left in the engine that answers, and why it could not be inspected."""
    try:
        return engine.engines_in_reach(), ""
    except Unavailable:
        return [], ""  # the user has no access to the engine, so has no containers in it
    except TargetError as error:
        return [], f"{error}, so containers were not looked for"


def _of_packages() -> tuple[list[Leftover], list[str]]:
    """What is left of targets whose kinds are from other packages, and what went wrong."""
    found: list[Leftover] = []
    try:
        for kind in doors.installed_kinds():
            found += kind.leftovers() if kind.leftovers is not None else ()
    except Exception as error:  # whatever a package may raise
        return found, [f"a package of the group {doors.GROUP}: {type(error).__name__}: {error}"]
    return found, []


def _show(found: list[Leftover]) -> None:
    print_table(
        ("run", "kind", "what"),
        [
            (leftover.run, leftover.kind, leftover.what.removeprefix(f"{leftover.kind} "))
            for leftover in found
        ],
    )


def _summary(shown: set[str], *, dry_run: bool) -> str:
    if not shown:
        return "nothing left over"
    if dry_run:
        return f"{_counted(len(shown))} left over; nothing was removed (--dry-run)"
    left = [*leftovers.find(), *labs.find_leftovers()]
    remaining = {str(leftover) for leftover in left} & shown
    return f"{_counted(len(shown) - len(remaining))} removed" + (
        f", {_counted(len(remaining))} left" if remaining else ""
    )


def _counted(number: int) -> str:
    return "1 thing" if number == 1 else f"{number} things"
