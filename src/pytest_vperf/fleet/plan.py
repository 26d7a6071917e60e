"""Which machine runs which tests, and what becomes of those whose machine is lost. Nothing is started here."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from pytest_vperf.fleet.engines import FleetMachine


@dataclass(eq=False)
class Shard:
    """The tests that one pytest runs on one machine.

    Attributes:
        machine: which.
        tests: their node IDs, in the order in which they are to run.
        before: the shard of a lost machine that this one makes good; ``None`` for a first one.
        done: those whose reports have all come.
        absent: those that the machine does not have.
        failed: whether a report said that something failed.
        told: whether its last message has come, with what no report carries.
        notes: by test, what it noted of those that are not done, see `pytest_vperf.run.workers`.
    """

    machine: FleetMachine
    tests: Sequence[str]
    before: Shard | None = None
    done: set[str] = field(default_factory=set)
    absent: set[str] = field(default_factory=set)
    failed: bool = False
    told: bool = False
    notes: dict[str, list[Any]] = field(default_factory=dict)

    @cached_property
    def own(self) -> frozenset[str]:
        """All of its tests."""
        return frozenset(self.tests)

    @property
    def left(self) -> list[str]:
        """The tests whose reports have not come."""
        return [test for test in self.tests if self.lacks(test)]

    def lacks(self, test: str) -> bool:
        """Whether the reports of one of its tests have not come."""
        return test in self.own and test not in self.done and test not in self.absent

    def again(self, machine: FleetMachine) -> Shard:
        """A shard of what is left, on a machine: what was under way comes last, in case that it killed the first."""
        begun = {
            test for test, own in self.notes.items() if any(each[0] == "begun" for each in own)
        }
        left = self.left
        order = [test for test in left if test not in begun]
        return Shard(machine, [*order, *(test for test in left if test in begun)], before=self)


def plan(tests: Sequence[str], machines: Iterable[FleetMachine], *, each: bool) -> list[Shard]:
    """The shards of a run.

    Args:
        tests: node IDs, in the order in which they were collected.
        machines: that can be used.
        each: whether every machine runs every test; otherwise every test runs once on each type of machine, and the
            machines of a type share the tests evenly, in their order: tests that share fixtures stay together.
    """
    if each:
        return [Shard(machine, tests) for machine in machines]
    types: dict[str, list[FleetMachine]] = {}
    for machine in machines:
        types.setdefault(machine.type, []).append(machine)
    found = []
    for own in types.values():
        for number, machine in enumerate(own):
            first, end = (len(tests) * at // len(own) for at in (number, number + 1))
            if first < end:
                found.append(Shard(machine, tests[first:end]))
    return found


def made_good_on(
    shard: Shard, machines: Iterable[FleetMachine], lost: Collection[FleetMachine], *, each: bool
) -> FleetMachine | None:
    """The machine that runs what is left of a shard whose machine was lost; ``None`` if there is none.

    Args:
        shard: which.
        machines: of the run, those that have least to do first.
        lost: those that were lost.
        each: whether every machine runs every test: then no other can do it for this one, which may be there again.
    """
    if shard.before is not None:
        return None
    if each:
        return shard.machine
    return next(
        (
            machine
            for machine in machines
            if machine.type == shard.machine.type
            and machine is not shard.machine
            and machine not in lost
        ),
        None,
    )
