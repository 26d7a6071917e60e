"""One run of two targets gives one sample of either, whichever is asked for first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import pytest

from pytest_vperf.quantity import Quantity
from pytest_vperf.targets.base import Program
from pytest_vperf.targets.host import Host
from pytest_vperf.targets.scope import Scope
from pytest_vperf.workloads.at_once import Race
from pytest_vperf.workloads.bench import Bench

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pytest_vperf.workloads.base import Output


@dataclass(frozen=True)
class Count:
    """Counts its runs in a file of the folder it runs in, and prints the count."""

    folder: str
    tool: ClassVar[str] = "sh"
    version_argv: ClassVar[Sequence[str]] = ("-c", "echo 1")
    timeout: ClassVar[float] = 60.0

    def argv(self, version: str) -> tuple[str, ...]:
        return ("-c", 'echo >>"$0/runs"; wc -l <"$0/runs"', self.folder)

    def parse(self, output: Output) -> Quantity:
        return Quantity(float(output.stdout), "count")

    @classmethod
    def version_of(cls, output: Output) -> str:
        return output.stdout.strip()


class Shell(Host):
    """The host with its own shell."""

    def program(self, name: str) -> Program:
        return Program(name, ("/bin/sh",), "/bin/sh", "0" * 64, "host")


@pytest.mark.parametrize("order", ["abab", "baba", "abba", "baab"])
def test_a_pair_of_samples_is_one_run(order: str, tmp_path: Path) -> None:
    with Shell() as first, Shell() as second:
        race = Race(Bench(Scope()), Count(str(tmp_path)), first, second, figure=lambda count: count)
        values = [(race.first if arm == "a" else race.second)().value for arm in order]
    runs = (tmp_path / "runs").read_text().count("\n")
    assert runs == 4  # two runs of two
    assert max(values[:2]) <= 2 < min(values[2:]) or max(values[:2]) <= 2 <= min(values[2:])


def test_no_sample_is_given_twice(tmp_path: Path) -> None:
    with Shell() as first, Shell() as second:
        race = Race(Bench(Scope()), Count(str(tmp_path)), first, second, figure=lambda count: count)
        for _ in range(3):
            race.first()
    assert (tmp_path / "runs").read_text().count("\n") == 6
