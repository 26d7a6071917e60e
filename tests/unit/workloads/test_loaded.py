"""How a machine is loaded, and what an answer's time is."""

from __future__ import annotations

import contextlib
import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from passing_time import Clock

from pytest_vperf.quantity import Quantity
from pytest_vperf.targets.base import Facts, Unavailable
from pytest_vperf.targets.host import Host
from pytest_vperf.targets.scope import Scope
from pytest_vperf.workloads import loaded
from pytest_vperf.workloads.loaded import CONDITIONS, MOST_LOADERS, Loaded, loaders_for
from pytest_vperf.workloads.netperf import RoundTrips

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.mark.parametrize(
    ("cpus", "loaders"),
    [
        (24, (4,) * 6),
        (1, (1,)),
        (2, (1, 1)),
        (8, (2, 2, 1, 1, 1, 1)),
        (64, (11, 11, 11, 11, 10, 10)),
    ],
)
def test_loaders_are_the_published_six_or_fewer_on_small_machines(
    cpus: int, loaders: tuple[int, ...]
) -> None:
    assert loaders_for(cpus) == loaders


@given(st.integers(1, 4096))
def test_there_is_a_busy_loop_for_every_cpu(cpus: int) -> None:
    loaders = loaders_for(cpus)
    assert sum(loaders) == cpus
    assert 1 <= len(loaders) <= MOST_LOADERS
    assert max(loaders) - min(loaders) <= 1


def test_a_machine_without_cpus_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one CPU, not 0"):
        loaders_for(0)


def test_the_three_conditions_are_those_of_the_field() -> None:
    assert list(CONDITIONS) == ["idle", "loaded_system", "loaded_both"]


def test_the_time_of_an_answer_is_one_over_the_rate() -> None:
    rate = Quantity(8000, "operation/s", direction="higher")
    trips = RoundTrips(rate, None, Quantity(12, "us", direction="lower"), None, None)
    assert (trips.time.value, trips.time.unit, trips.time.direction) == (125, "us", "lower")
    # What a build does not keep is left out, and is no zero.
    assert [name for name, _ in trips.time.extra] == ["p50"]
    assert trips.transactions.value == 8000
    assert dict(trips.transactions.extra)["p50"].values == (12,)


class Hog:
    """Loads nothing, and says that it does: of each load the share of a processor that it has."""

    def __init__(self, share: float = 1.0) -> None:
        self.workers: list[int] = []
        self._share = share

    @contextlib.contextmanager
    def load(self, target: Any, *, workers: int = 1) -> Iterator[Any]:
        self.workers.append(workers)
        yield SimpleNamespace(
            check_running=lambda: None,
            cpu_time=lambda: Quantity(self._share * workers * time.monotonic(), "s"),
        )


def test_a_setting_of_the_user_s_does_not_make_the_machine_smaller(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cpus = int(Host().run(["nproc"]).text)
    monkeypatch.setenv("OMP_NUM_THREADS", str(cpus + 3))
    monkeypatch.setenv("OMP_THREAD_LIMIT", str(cpus + 3))
    hog, scope = Hog(), Scope()
    Loaded(hog, scope)("loaded_system", on=Host())  # type: ignore[arg-type]
    assert sum(hog.workers) == cpus
    scope.close_since()


def test_the_processors_that_the_host_s_own_kernel_does_not_see_are_loaded_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hog, scope, clock = Hog(), Scope(), Clock()
    monkeypatch.setattr(loaded, "time", clock)
    loader = SimpleNamespace(
        name="domu",
        facts=lambda: Facts("domu", "domu"),
        usage=lambda: SimpleNamespace(cpu_time=4 * clock.now),
    )
    under = Loaded(hog, scope)(  # type: ignore[arg-type]
        "loaded_system", by=lambda vcpus: loader, on=Host(), cpus=24
    )
    assert hog.workers == [4] * 6
    (facts,) = scope.facts
    assert facts.details["host_cpus"] == "24"

    def sample() -> Quantity:
        clock.sleep(0.2)
        return Quantity(1, "s")

    found = under.during(Host(), sample)()
    assert dict(found.extra)["system_load"].values[0] == pytest.approx(100)
    scope.close_since()


def there(name: str, cpus: int) -> Any:
    """A machine that was not started here, and whose usage nobody tells."""
    return SimpleNamespace(
        name=name,
        run=lambda *_, **__: SimpleNamespace(text=f"{cpus}\n"),
        facts=lambda: Facts("machine", name),
    )


def test_machines_that_are_there_are_loaded_with_all_their_processors(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hog, scope, clock = Hog(), Scope(), Clock()
    monkeypatch.setattr(loaded, "time", clock)
    machines = [there("machine esxi, loader 1", 4), there("machine esxi, loader 2", 2)]
    under = Loaded(hog, scope)("loaded_system", machines=lambda: machines, on=None)  # type: ignore[arg-type]
    assert hog.workers == [4, 2]
    (facts,) = scope.facts
    assert (facts.details["loaders"], facts.details["host_cpus"]) == ("2", "6")

    def sample() -> Quantity:
        clock.sleep(0.2)
        return Quantity(1, "s")

    # The loads' own time: no host says what the machines use.
    monkeypatch.setattr(time, "monotonic", lambda: clock.now)
    found = under.during(machines[0], sample)()
    assert dict(found.extra)["system_load"].values[0] == pytest.approx(100)
    scope.close_since()


def test_machines_that_cannot_load_their_host_are_refused() -> None:
    scope = Scope()
    with pytest.raises(
        Unavailable,
        match=r"^the loaders have 2 processors together, and their host has 8: it would not be loaded"
        r" \(to mend it: name more of them, or larger ones\)$",
    ):
        Loaded(Hog(), scope)(  # type: ignore[arg-type]
            "loaded_system", machines=lambda: [there("loader", 2)], on=there("host", 8)
        )
    assert scope.facts == ()


def test_no_machine_is_asked_for_where_the_system_is_idle() -> None:
    def machines() -> list[Any]:
        raise AssertionError

    scope = Scope()
    under = Loaded(Hog(), scope)("idle", machines=machines, on=None)  # type: ignore[arg-type]
    value = Quantity(1, "s")
    assert under.during(there("machine", 1), lambda: value)() == value


def test_a_load_needs_a_host_or_machines() -> None:
    with pytest.raises(ValueError, match=r"^name the host whose processors to load: on=host$"):
        Loaded(Hog(), Scope())("loaded_system", on=None)  # type: ignore[arg-type]
