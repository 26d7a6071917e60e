"""A machine whose clock is wrong is not believed. The clock is the test's here, and lies by a known share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from passing_time import Clock

from pytest_vperf.targets.base import Completed, Facts, TargetError
from pytest_vperf.targets.host import Host
from pytest_vperf.targets.scope import Scope
from pytest_vperf.workloads import bench as guest_clock
from pytest_vperf.workloads.bench import Bench

if TYPE_CHECKING:
    from collections.abc import Sequence


#: Seconds that a reading takes; the clock is read in its middle.
READING = 0.02


class Machine(Host):
    """A machine that is busy as long as it is told to, and whose clock runs at a rate of its own."""

    name = "pod tcg qboot"

    def __init__(self, clock: Clock, rate: float = 1.0, kind: str = "pod") -> None:
        super().__init__()
        self._clock, self._rate, self._kind = clock, rate, kind

    def run(self, argv: Sequence[str], **_: Any) -> Completed:
        shown = b""
        if argv[0] == "date":
            self._clock.sleep(READING / 2)
            shown = f"{round(self._clock.now * self._rate * 1e9)}\n".encode()
            self._clock.sleep(READING / 2)
        else:
            self._clock.sleep(guest_clock._SPAN / self._rate)
        return Completed(tuple(argv), 0, shown, b"", 0.0)

    def facts(self) -> Facts:
        return Facts(self._kind, self.name)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The host's, as the check sees it."""
    made = Clock()
    monkeypatch.setattr(guest_clock, "time", made)
    return made


@pytest.mark.parametrize("rate", [0.99, 1.0, 1.01])
def test_a_correct_clock_is_accepted(clock: Clock, rate: float) -> None:
    assert guest_clock.compare_clocks(Machine(clock, rate)) == pytest.approx(rate, rel=2e-4)


def test_this_machine_s_own_clock_is_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    """However long a reading takes: that is in the uncertainty."""
    monkeypatch.setattr(guest_clock, "_SPAN", 0.5)
    assert guest_clock.compare_clocks(Host()) > 0


@pytest.mark.parametrize("rate", [0.5, 0.8, 0.96, 1.04, 1.25, 2])
def test_a_wrong_clock_is_refused(clock: Clock, rate: float) -> None:
    with pytest.raises(
        guest_clock.WrongClock,
        match=r"^the clock of pod tcg qboot runs at \d\.\d{3} to \d\.\d{3} of the host's: no time measured in it is "
        r"believed$",
    ) as caught:
        guest_clock.compare_clocks(Machine(clock, rate))
    assert caught.value.target == "pod tcg qboot"


def test_a_clock_without_nanoseconds(clock: Clock) -> None:
    class Busybox(Machine):
        def run(self, argv: Sequence[str], **options: Any) -> Completed:
            return Completed(tuple(argv), 0, b"1766268000%N\n", b"", 0.0)

    with pytest.raises(TargetError, match=r"date \+%s%N says '1766268000%N', no nanoseconds$"):
        guest_clock.compare_clocks(Busybox(clock))


def test_the_clock_is_checked_once_and_only_in_machines(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def check(target: Any) -> float:
        asked.append(target.facts().kind)
        return 1.0

    monkeypatch.setattr(guest_clock, "compare_clocks", check)
    bench = Bench(Scope())
    for kind in ("pod", "container", "host"):
        machine = Machine(clock, kind=kind)
        bench.check_clock(machine)
        bench.check_clock(machine)
    assert asked == ["pod"]
