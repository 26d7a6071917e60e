"""Machines with two kernels: what starts them, how long they stay, and the message where no kernel was named."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from pytest_vperf.quantity import Quantity
from pytest_vperf.targets.base import CannotStart, Facts, Unavailable
from pytest_vperf.targets.kernel.pair import Kernels, NotNamed, kernel_phase
from pytest_vperf.targets.scope import Scope

if TYPE_CHECKING:
    from collections.abc import Callable


class Machine:
    """A machine that knows its kernel and whether it runs."""

    def __init__(self, kernel: str, number: int, options: dict[str, Any]) -> None:
        self.name = f"{kernel} {number}"
        self.kernel, self.options, self.running = kernel, options, True

    def facts(self) -> Facts:
        return Facts("pod", "pod tcg qboot", {"guest_kernel": self.kernel})

    def close(self) -> None:
        self.running = False


class Machines:
    """Starts such machines for a scope, and remembers them."""

    def __init__(self) -> None:
        self.started: list[Machine] = []

    def with_kernel(self, kernel: str) -> Callable[[Scope], Any]:
        def maker(scope: Scope) -> Any:
            def start(**options: Any) -> Machine:
                machine: Any = Machine(kernel, len(self.started), options)
                self.started.append(scope.own(machine))
                return self.started[-1]

            return SimpleNamespace(start=start)

        return maker

    @property
    def running(self) -> list[str]:
        return [machine.name for machine in self.started if machine.running]


@pytest.fixture
def machines() -> Machines:
    return Machines()


@pytest.fixture
def scope() -> Scope:
    return Scope()


@pytest.fixture
def kernels(machines: Machines, scope: Scope) -> Kernels:
    return Kernels("pod.tcg", machines.with_kernel("6.12"), machines.with_kernel("6.1"), scope)


def sample(scope: Scope, machine: Callable[[], Any]) -> Machine:
    """Take a sample as a claim does: targets that it started through the test's scope are ended."""
    mark = scope.mark
    found: Machine = machine()
    scope.close_since(mark)
    return found


def test_each_starter_starts_its_kernel_in_the_tests_scope(
    kernels: Kernels, machines: Machines, scope: Scope
) -> None:
    new, baseline = kernels.new.start(memory="1 GiB"), kernels.baseline.start()
    assert (new.kernel, new.options, baseline.kernel) == ("6.12", {"memory": "1 GiB"}, "6.1")
    assert machines.running == ["6.12 0", "6.1 1"]
    scope.close_since()
    assert machines.running == []


def test_a_running_machine_stays_for_some_samples(
    kernels: Kernels, machines: Machines, scope: Scope
) -> None:
    new, baseline = kernels.running(samples=2, memory="1 GiB")
    assert machines.started == []
    names = [(sample(scope, new).name, sample(scope, baseline).name) for _ in range(5)]
    assert names == [
        *2 * [("6.12 0", "6.1 1")],
        *2 * [("6.12 2", "6.1 3")],
        ("6.12 4", "6.1 5"),
    ]
    assert machines.running == ["6.12 4", "6.1 5"]
    assert {str(machine.options) for machine in machines.started} == {"{'memory': '1 GiB'}"}
    scope.close_since()
    assert machines.running == []


def test_a_sample_has_the_facts_of_the_machine_it_was_taken_in(
    kernels: Kernels, scope: Scope
) -> None:
    new, baseline = kernels.running()
    for machine, kernel in ((new, "6.12"), (baseline, "6.1")):
        mark = scope.mark
        machine()
        assert [each.details for each in scope.facts_since(mark)] == [{"guest_kernel": kernel}]
        scope.close_since(mark)


def test_a_machine_that_fails_to_start_is_started_again(scope: Scope) -> None:
    errors = [CannotStart("panic"), None]
    machines = Machines()

    def maker(owner: Scope) -> Any:
        def start(**_: Any) -> Machine:
            error = errors.pop(0)
            if error is not None:
                raise error
            started: Machine = machines.with_kernel("6.12")(owner).start()
            return started

        return SimpleNamespace(start=start)

    new, _ = Kernels("pod.tcg", maker, machines.with_kernel("6.1"), scope).running()
    with pytest.raises(CannotStart, match="panic"):
        new()
    assert new().name == "6.12 0"


def test_a_machine_gives_at_least_one_sample(kernels: Kernels) -> None:
    with pytest.raises(ValueError, match=r"^samples is 0, not a whole number of at least 1$"):
        kernels.running(samples=0)


def test_without_a_named_kernel_nothing_starts() -> None:
    with pytest.raises(Unavailable) as caught:
        NotNamed("pod.kvm").start(memory="1 GiB")
    error = caught.value
    assert error.reason == "no kernel to compare was named"
    assert error.remedy == (
        "--vperf-kernel=FILE, and --baseline-kernel=FILE unless it is compared with the default kernel"
    )
    assert error.target == "pod kvm"


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
