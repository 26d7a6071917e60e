"""Many commands behind one barrier, with real processes; a figure of all, and of each beside it."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import pytest

from pytest_vperf.quantity import Quantity
from pytest_vperf.targets.base import CommandFailed, TargetError
from pytest_vperf.targets.host import Host
from pytest_vperf.targets.scope import Scope
from pytest_vperf.workloads.at_once import _WAIT, Starter, in_threads
from pytest_vperf.workloads.bench import Bench
from pytest_vperf.workloads.crowd import Crowd

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from pytest_vperf.targets.base import Completed
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
        assert output.stderr == ""  # what the barrier says is no output of the tool
        return output.stdout

    @classmethod
    def version_of(cls, output: Output) -> str:
        return output.stdout.strip()


@pytest.fixture
def hosts() -> Iterator[list[Host]]:
    made = [Host(tools="host") for _ in range(6)]
    yield made
    for each in made:
        each.close()


def test_all_run_at_the_same_time(hosts: list[Host], tmp_path: Path) -> None:
    # Each waits until all have been there: run one after the other, they would never end.
    work = Shell(
        f"mkdir {tmp_path}/$$; while [ $(ls {tmp_path} | wc -l) -lt 6 ]; do sleep 0.01; done; echo $$"
    )
    found = Starter(Bench(Scope())).run([(host, work) for host in hosts])
    assert len({result.strip() for result in found.results}) == 6
    assert min(found.began) == 0
    assert found.spread.unit == "ms"
    assert 0 <= found.spread.value == pytest.approx(1e3 * max(found.began))
    assert found.spread.value < 2000
    assert 0 <= found.late <= 6


def test_a_target_may_be_there_several_times(hosts: list[Host]) -> None:
    works = [(hosts[0], Shell(f"sleep 0.3; echo {number}")) for number in range(3)]
    found = Starter(Bench(Scope())).run(works)
    assert found.results == ("0\n", "1\n", "2\n")


def test_a_clock_is_read_once_for_each_target(hosts: list[Host]) -> None:
    class Own(Host):
        """With a kernel of its own, as far as the starter knows."""

        asked = 0

        def run(self, argv: Sequence[str], **options: Any) -> Completed:
            if list(argv) == ["cat", "/proc/uptime"]:
                self.asked += 1
            return super().run(argv, **options)

    starter, target = Starter(Bench(Scope())), Own(tools="host")
    starter._shared = {target: False}
    starter.run([(target, Shell("sleep 0.3"))] * 5)
    assert target.asked == 3


@pytest.mark.parametrize("shell", ["sh", "bash"])
@pytest.mark.parametrize(
    ("uptime", "slept"), [("0.09", "0.20"), ("0.00", "0.29"), ("12.08", ""), ("0.31", "")]
)
def test_the_barrier_works_shortly_after_boot(
    tmp_path: Path, shell: str, uptime: str, slept: str
) -> None:
    (tmp_path / "uptime").write_text(f"{uptime} 1.00\n")
    script = _WAIT.replace("/proc/uptime", str(tmp_path / "uptime"))
    script = f"sleep() {{ echo slept $1; }}; {script}"
    done = subprocess.run(
        [shell, "-c", script, "sh", "29", "echo", "done"], capture_output=True, check=True
    )
    assert done.stdout.decode() == (f"slept {slept}\n" if slept else "") + "done\n"
    assert done.stderr.decode() == f"vperf-barrier {uptime} {uptime}\n"


def test_a_failing_target_is_reported_with_its_own_error(hosts: list[Host]) -> None:
    scripts = ["sleep 0.2", "echo broken >&2; exit 3"]
    works = [(host, Shell(script)) for host, script in zip(hosts, scripts, strict=False)]
    with pytest.raises(CommandFailed) as caught:
        Starter(Bench(Scope())).run(works)
    assert re.fullmatch(
        r"\S+sh -c echo broken >&2; exit 3 ended with status 3 in host:\nbroken", str(caught.value)
    )


def test_commands_that_never_ran_at_once_are_no_result(hosts: list[Host]) -> None:
    class Slow(Host):
        """Comes to the barrier when the other one is done."""

        def run(self, argv: Sequence[str], **options: Any) -> Completed:
            wait = "sleep 3; " if "vperf-barrier" in " ".join(argv) else ""
            return super().run(["sh", "-c", wait + 'exec "$@"', "sh", *argv], **options)

    starter = Starter(Bench(Scope()))
    with pytest.raises(TargetError, match=r"2 commands never ran all at once: the first one ended"):
        starter.run([(hosts[0], Shell("true")), (Slow(tools="host"), Shell("true"))])


def test_results_are_in_the_order_of_the_calls() -> None:
    calls: list[Callable[[], int]] = [lambda: 1, lambda: 2, lambda: 3]
    assert in_threads(calls) == [1, 2, 3]


def test_the_error_of_a_call_is_raised_when_all_have_ended() -> None:
    ended: list[int] = []
    with pytest.raises(IndexError):
        in_threads([lambda: ended.pop(7), lambda: ended.append(1)])
    assert ended == [1]


def seconds(text: str) -> Quantity:
    return Quantity(float(text), "s", direction="lower")


def test_a_time_is_the_mean_with_each_as_an_extra(hosts: list[Host]) -> None:
    crowd = Crowd(Bench(Scope()), hosts)
    works: list[Shell] = [Shell(f"sleep 0.3; echo {time}") for time in (2, 2, 2, 2, 2, 8)]
    found = crowd.sample(works, seconds, of_all="mean")
    assert (found.value, found.unit, found.direction) == (3, "s", "lower")
    assert {name: series.unit for name, series in found.extra} == {
        "targets": "",
        "each": "s",
        "fairness": "",
        "stragglers": "",
        "worst_over_median": "",
        "start_spread": "ms",
        "late": "",
    }
    figures = {name: list(series.values) for name, series in found.extra}
    assert figures["targets"] == [6]
    assert figures["each"] == [2, 2, 2, 2, 2, 8]
    # Rates of 1/2 five times and of 1/8: (21/8)² / (6 · (5/4 + 1/64)).
    assert figures["fairness"] == [pytest.approx((21 / 8) ** 2 / (6 * (5 / 4 + 1 / 64)))]
    assert figures["stragglers"] == [1]
    assert figures["worst_over_median"] == [4]


def test_a_throughput_is_the_sum(hosts: list[Host]) -> None:
    crowd = Crowd(Bench(Scope()), hosts[:2])
    found = crowd.sample(
        Shell("sleep 0.3; echo 40"),
        lambda text: Quantity(float(text), "MB/s", direction="higher"),
        of_all="sum",
    )
    assert (found.value, found.unit) == (80, "MB/s")


def test_a_crowd_refuses_bad_arguments(hosts: list[Host]) -> None:
    crowd = Crowd(Bench(Scope()), hosts[:2])
    with pytest.raises(ValueError, match="there are 1 workloads for 2 targets"):
        crowd.sample([Shell("true")], seconds, of_all="mean")
    with pytest.raises(ValueError, match="1 s has no direction"):
        crowd.sample(
            Shell("sleep 0.3; echo 1"), lambda text: Quantity(float(text), "s"), of_all="mean"
        )
