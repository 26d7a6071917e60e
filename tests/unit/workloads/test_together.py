"""Two commands begun at one instant, with real processes; what fails in one does not leave the other waiting."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import pytest

from pytest_vperf.targets.base import CommandFailed
from pytest_vperf.targets.host import Host
from pytest_vperf.targets.scope import Scope
from pytest_vperf.workloads.at_once import together
from pytest_vperf.workloads.bench import Bench

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_vperf.workloads.base import Output


@dataclass(frozen=True)
class Shell:
    """Runs a script and gives back what it printed."""

    script: str

    tool: ClassVar[str] = "sh"
    version_argv: ClassVar[Sequence[str]] = ("-c", "echo 1")
    timeout: float = 20.0

    def argv(self, version: str) -> tuple[str, ...]:
        return ("-c", self.script)

    def parse(self, output: Output) -> str:
        return output.stdout

    @classmethod
    def version_of(cls, output: Output) -> str:
        return output.stdout.strip()


@pytest.fixture
def hosts() -> tuple[Host, Host]:
    return Host(tools="host"), Host(tools="host")


def test_both_run_at_the_same_time(hosts: tuple[Host, Host]) -> None:
    # Each waits for the other one's end of a pipe: run one after the other, they would never end.
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        script = (
            f"cd {folder}; if mkfifo p 2>/dev/null; then echo a >p; else read x <p; fi; echo done"
        )
        found = together(Bench(Scope()), Shell(script), *hosts)
    assert found.results == ("done\n", "done\n")
    assert found.start_offset.unit == "ms"
    first, second = found.durations
    assert (first.unit, first.direction) == ("s", "lower")
    assert min(first.value, second.value) > 0
    assert abs(found.start_offset.value) < 1e3 * max(first.value, second.value)


def test_a_failing_target_is_reported(hosts: tuple[Host, Host]) -> None:
    with pytest.raises(CommandFailed, match="ended with status 3 in host"):
        together(Bench(Scope()), Shell("exit 3"), *hosts)
