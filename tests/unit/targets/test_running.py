"""Targets that stay for some samples of a claim, and are then replaced; and the kernel's share of a start."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from pytest_vperf.quantity import Quantity
from pytest_vperf.targets.base import CannotStart, Facts, Unavailable
from pytest_vperf.targets.kernel.phase import kernel_phase
from pytest_vperf.targets.scope import Scope, Starter

if TYPE_CHECKING:
    from collections.abc import Callable


class Machine:
    """A machine that knows whether it runs."""

    def __init__(self, number: int, options: dict[str, Any]) -> None:
        self.name = f"machine {number}"
        self.options, self.running = options, True

    def facts(self) -> Facts:
        return Facts("pod", "pod tcg qboot", {"name": self.name})

    def close(self) -> None:
        self.running = False


class Machines(Starter):
    """Starts such machines, and remembers them; an error is raised instead where one is left."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope
        self.started: list[Machine] = []
        self.errors: list[Exception] = []

    def start(self, **options: Any) -> Machine:
        if self.errors:
            raise self.errors.pop()
        machine: Any = Machine(len(self.started), options)
        self.started.append(self._scope.own(machine))
        return self.started[-1]

    @property
    def alive(self) -> list[str]:
        return [machine.name for machine in self.started if machine.running]


@pytest.fixture
def scope() -> Scope:
    return Scope()


@pytest.fixture
def machines(scope: Scope) -> Machines:
    return Machines(scope)


def sample(scope: Scope, machine: Callable[[], Any]) -> str:
    """Take a sample as a claim does: targets that it started through the test's scope are ended."""
    mark = scope.mark
    found: Machine = machine()
    assert found.running
    scope.close_since(mark)
    return found.name


def test_a_running_machine_stays_for_some_samples(machines: Machines, scope: Scope) -> None:
    running = machines.running(samples=2, memory="1 GiB")
    assert machines.started == []
    names = [sample(scope, running) for _ in range(5)]
    assert names == [f"machine {number}" for number in (0, 0, 1, 1, 2)]
    assert machines.alive == ["machine 2"]
    assert {str(machine.options) for machine in machines.started} == {"{'memory': '1 GiB'}"}
    scope.close_since()
    assert machines.alive == []


def test_two_of_one_starter_have_machines_of_their_own(machines: Machines, scope: Scope) -> None:
    one, other = machines.running(), machines.running()
    assert [sample(scope, each) for each in (one, other, one)] == [
        "machine 0",
        "machine 1",
        "machine 0",
    ]


def test_a_sample_has_the_facts_of_the_machine_it_was_taken_in(
    machines: Machines, scope: Scope
) -> None:
    running = machines.running(samples=1)
    for name in ("machine 0", "machine 1"):
        mark = scope.mark
        running()
        assert [each.details for each in scope.facts_since(mark)] == [{"name": name}]
        scope.close_since(mark)


def test_a_machine_that_fails_to_start_is_started_again(machines: Machines, scope: Scope) -> None:
    running = machines.running()
    machines.errors.append(CannotStart("panic"))
    with pytest.raises(CannotStart, match="panic"):
        running()
    assert sample(scope, running) == "machine 0"


def test_a_machine_gives_at_least_one_sample(machines: Machines) -> None:
    with pytest.raises(ValueError, match=r"^samples is 0, not a whole number of at least 1$"):
        machines.running(samples=0)


def test_the_kernels_phase_is_its_part_of_the_start() -> None:
    machine: Any = SimpleNamespace(
        name="pod tcg qboot",
        startup_time=Quantity(500, "ms", (("firmware", 100), ("kernel", 400))),
    )
    assert kernel_phase(machine) == Quantity(400, "ms", direction="lower")


def test_a_silent_kernel_has_no_phase() -> None:
    machine: Any = SimpleNamespace(
        name="pod tcg qboot", startup_time=Quantity(500, "ms", (("firmware+kernel", 500),))
    )
    with pytest.raises(Unavailable) as caught:
        kernel_phase(machine)
    assert str(caught.value) == (
        "the kernel of pod tcg qboot prints nothing when it starts, so its share of the start is unknown"
        " (to mend it: a kernel with CONFIG_SERIAL_8250_CONSOLE)"
    )
