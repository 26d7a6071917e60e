"""The machines of a table's verdicts, and their numbers in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_vperf.claims_table.lines import Line
    from pytest_vperf.claims_table.measured import Machine, Measured


class Machines:
    """Numbers machines, the first of the table first.

    Args:
        lines: of the table.
    """

    def __init__(self, lines: Iterable[Line]) -> None:
        self._names: dict[tuple[str, ...], str] = {}
        for line in lines:
            if line.last is not None:
                machine = line.last.measured.machine
                self._names.setdefault(machine.identity, machine.name)

    def label(self, machine: Machine) -> str:
        """``M2``; empty where there is one machine only, and nothing to tell apart."""
        if len(self._names) < 2:
            return ""
        return f"M{1 + list(self._names).index(machine.identity)}"

    def on(self, record: Measured) -> str:
        """What a record was measured on: ``M2, pod tcg qboot``; empty where it does not say."""
        return ", ".join(filter(None, [self.label(record.machine), record.on]))

    def described(self) -> list[str]:
        """A line for each: ``M2: Intel(R) Xeon(R) Processor, 2 CPUs, …``; of one machine without its number."""
        several = len(self._names) > 1
        return [
            f"M{number}: {name}" if several else name
            for number, name in enumerate(self._names.values(), 1)
        ]
