"""Response under load, and many containers at once: with real targets, of which nothing is left."""

from __future__ import annotations

import itertools
import os
import signal
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from pytest_vperf.machine.runs import LABEL_RUN
from pytest_vperf.quantity import Quantity
from pytest_vperf.targets.base import CannotConnect, TargetError
from pytest_vperf.targets.container.containers import Containers
from pytest_vperf.targets.host import EmbeddedHost, Host
from pytest_vperf.targets.image import rootfs
from pytest_vperf.targets.many import start_many
from pytest_vperf.targets.scope import Scope
from pytest_vperf.workloads.bench import Bench
from pytest_vperf.workloads.cpuhog import CpuHog
from pytest_vperf.workloads.crowd import Crowds
from pytest_vperf.workloads.loaded import Loaded, loaders_for
from pytest_vperf.workloads.netperf import Netperf
from pytest_vperf.workloads.sysbench import SysbenchCpu

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytest_vperf.machine.runs import Run
    from pytest_vperf.targets.container.container import Container
    from pytest_vperf.targets.container.engine import Engine
    from pytest_vperf.targets.image.rootfs import Rootfs
    from pytest_vperf.targets.network.switch import Switch

pytestmark = pytest.mark.patient


@pytest.fixture
def scope() -> Iterator[Scope]:
    owner = Scope()
    yield owner
    owner.close_since()


@pytest.fixture
def containers(engine: Engine, session_run: Run, scope: Scope, tools: Rootfs) -> Containers:
    identity = rootfs.import_into(engine.client, tools)
    return Containers(
        lambda: engine, session_run, scope, rootfs=lambda _: identity, tree=lambda: tools
    )


@pytest.fixture
def host(session_run: Run, scope: Scope, tools: Rootfs) -> Host:
    return scope.own(Host(session_run, lambda: tools))


@pytest.fixture
def loaded(scope: Scope) -> Loaded:
    return Loaded(CpuHog(Bench(scope)), scope)


def running(engine: Engine, run: Run) -> list[str]:
    found: Any = engine.client.api
    return [each["Id"] for each in found.containers(filters={"label": f"{LABEL_RUN}={run.id}"})]


def test_a_container_answers_in_a_loaded_system_while_it_is_loaded_itself(
    containers: Containers, host: Host, loaded: Loaded, switch: Switch, scope: Scope, tools: Rootfs
) -> None:
    run = containers._run
    client = scope.own(EmbeddedHost(*switch.new_host(), run=run, rootfs=lambda: tools))
    container = containers.start(network=switch, cpuset="0")
    under = loaded("loaded_both", by=lambda vcpus: containers.start(), on=host)
    netperf = Netperf(Bench(scope))
    with netperf.serve(container) as server:
        sample = under.during(
            container, lambda: netperf.tcp_rr(client, to=server, time=1).transactions
        )
        found = sample()
    assert found.value > 0
    beside = dict(found.extra)
    assert list(beside) == ["mean", "p50", "p90", "p99", "system_load", "target_load"]
    assert 0 < beside["system_load"].values[0] <= 105
    assert 0 < beside["target_load"].values[0] <= 105
    cpus = len(os.sched_getaffinity(0))
    (load,) = [facts for facts in scope.facts if facts.kind == "load"]
    assert load.details["loaders"] == str(len(loaders_for(cpus)))
    assert load.details["busy_loops"].startswith("container runc with ")
    # Which program answered, and where, is in what the record has of the sample.
    uses = {(use.target, use.program.name) for use in scope.take_tools()}
    assert ("container runc", "netserver") in uses
    assert ("other host (embedded)", "netperf") in uses


def send(container: Container, signal: str) -> None:
    """Send a signal to every process of the load, by name, as an outsider would."""
    script = """
        for each in /proc/[0-9]*; do
            read -r name <"$each/comm" || continue
            case $name in stress-ng*) kill -"$1" "${each#/proc/}" ;; esac
        done
    """
    container.run(["sh", "-c", script, "sh", signal], check=False)


def after(work: Callable[[], object]) -> Quantity:
    """A sample in which something happens to the load."""
    work()
    time.sleep(0.5)
    return Quantity(1, "s")


def test_a_loader_that_is_killed_in_the_middle_is_an_error(
    containers: Containers, host: Host, loaded: Loaded
) -> None:
    started: list[Container] = []

    def start(vcpus: int) -> Container:
        started.append(containers.start())
        return started[-1]

    under = loaded("loaded_system", by=start, on=host)
    assert under.during(host, lambda: after(lambda: None))().value == 1
    send(started[0], "STOP")  # which is there, and does nothing
    with pytest.raises(TargetError, match=r"the load on container runc was none: it had \d"):
        under.during(host, lambda: after(lambda: None))()
    send(started[0], "CONT")
    with pytest.raises(TargetError, match=r"the load on container runc ended too early: 0 of 1"):
        under.during(host, lambda: after(lambda: send(started[0], "KILL")))()
    with pytest.raises(CannotConnect):
        under.during(host, lambda: after(started[0].close))()


def test_a_load_that_ended_after_the_last_sample_is_reported_at_the_end(
    containers: Containers, host: Host, scope: Scope
) -> None:
    own = Scope()
    loaded = Loaded(CpuHog(Bench(own)), own)
    started: list[Container] = []

    def start(vcpus: int) -> Container:
        started.append(containers.start())
        return started[-1]

    loaded("loaded_system", by=start, on=host)
    send(started[0], "KILL")
    with pytest.raises(TargetError, match="the load on container runc ended too early"):
        own.close_since()


def test_five_containers_work_at_once(
    engine: Engine, session_run: Run, containers: Containers, scope: Scope
) -> None:
    crowd = Crowds(Bench(scope), scope, 5).start(containers.start)
    assert len(set(running(engine, session_run))) == 5
    work = SysbenchCpu(max_prime=20_000, events=150)
    samples = [
        crowd.sample(work, lambda result: result.total_time, of_all="mean") for _ in range(2)
    ]
    for sample in samples:
        figures = {name: list(series.values) for name, series in sample.extra}
        assert figures["targets"] == [5]
        assert len(figures["each"]) == 5
        assert sample.value == pytest.approx(sum(figures["each"]) / 5)
        assert 0.5 < figures["fairness"][0] <= 1
        # They waited for one another: the last one began before the first one had done anything to speak of.
        assert figures["start_spread"][0] < 500 * min(figures["each"])
    scope.close_since()
    assert running(engine, session_run) == []


def test_nothing_is_left_where_the_start_of_many_is_interrupted(
    engine: Engine, session_run: Run, containers: Containers, scope: Scope
) -> None:
    main = threading.main_thread().ident
    assert main is not None
    numbers = itertools.count(1)

    def start() -> Container:
        started = containers.start()
        # All others wait for their turn, and the main thread for them.
        if next(numbers) == 10:
            signal.pthread_kill(main, signal.SIGINT)
        return started

    with pytest.raises(KeyboardInterrupt):
        start_many(start, 200, scope)
    assert 0 < len(running(engine, session_run)) < 200
    scope.close_since()
    assert running(engine, session_run) == []
