"""A machine whose clock is wrong is not believed. The clock is the host's here, and lies by a known share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pytest_vperf.targets.base import Completed, Facts, TargetError
from pytest_vperf.targets.host import Host
from pytest_vperf.targets.scope import Scope
from pytest_vperf.workloads import guest_clock
from pytest_vperf.workloads.bench import Bench

if TYPE_CHECKING:
    from collections.abc import Sequence


class Machine(Host):
    """This machine, with another clock."""

    name = "pod tcg qboot"

    def __init__(self, rate: float, kind: str = "pod") -> None:
        super().__init__()
        self._rate, self._kind = rate, kind

    def run(self, argv: Sequence[str], **options: Any) -> Completed:
        done = super().run(argv, **options)
        if argv[0] != "date":
            return done
        shown = f"{int(int(done.stdout) * self._rate)}\n".encode()
        return Completed(done.argv, done.returncode, shown, done.stderr, done.duration)

    def facts(self) -> Facts:
        return Facts(self._kind, self.name)


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guest_clock, "_SPAN", 0.5)


def test_an_honest_clock() -> None:
    assert guest_clock.check(Machine(1.0)) == pytest.approx(1, abs=0.05)


@pytest.mark.parametrize("rate", [0.5, 0.8, 1.25, 2])
def test_a_wrong_clock(rate: float) -> None:
    with pytest.raises(
        guest_clock.WrongClock,
        match=r"^the clock of pod tcg qboot runs at \d\.\d{3} to \d\.\d{3} of the host's: no time measured in it is "
        r"believed$",
    ) as caught:
        guest_clock.check(Machine(rate))
    assert caught.value.target == "pod tcg qboot"


def test_a_clock_without_nanoseconds(monkeypatch: pytest.MonkeyPatch) -> None:
    class Busybox(Machine):
        def run(self, argv: Sequence[str], **options: Any) -> Completed:
            return Completed(tuple(argv), 0, b"1766268000%N\n", b"", 0.0)

    with pytest.raises(TargetError, match=r"date \+%s%N says '1766268000%N', no nanoseconds$"):
        guest_clock.check(Busybox(1.0))


def test_it_is_asked_once_and_of_machines_only(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def check(target: Any) -> float:
        asked.append(target.facts().kind)
        return 1.0

    monkeypatch.setattr(guest_clock, "check", check)
    bench = Bench(Scope())
    for kind in ("pod", "container", "host"):
        machine = Machine(1.0, kind)
        bench.check_clock(machine)
        bench.check_clock(machine)
    assert asked == ["pod"]
