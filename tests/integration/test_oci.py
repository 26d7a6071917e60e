"""OCI runtimes called without an engine: what they take, what they refuse, and that nothing stays behind."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from victims import traces, victim

from pytest_vperf import Unavailable
from pytest_vperf.machine import cgroup_view, cgroups, leftovers
from pytest_vperf.machine.processes import describe, owned_by
from pytest_vperf.machine.runs import MARK_FOLDER, Run
from pytest_vperf.targets.base import CannotStart, TimedOut
from pytest_vperf.targets.container.runtimes import installed
from pytest_vperf.targets.image import rootfs as image
from pytest_vperf.targets.oci.runtime import OciRuntime
from pytest_vperf.targets.scope import Scope

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0, reason="an OCI runtime without an engine needs root"
)
#: youki is not packaged.
NAMES = [name for name in ("runc", "crun", "runsc", "youki") if name in installed()]


@pytest.fixture
def scope() -> Iterator[Scope]:
    scope = Scope()
    yield scope
    scope.close_since()


@pytest.fixture
def run(scope: Scope) -> Iterator[Run]:
    with Run.begin() as run:
        yield run
        scope.close_since()
        assert owned_by(MARK_FOLDER, run.folder, run.cgroup) == []
        assert leftovers.end_of_run(run.folder) == []
        assert cgroups.named(run.cgroup) == []


@pytest.fixture
def make(run: Run, scope: Scope) -> Callable[..., OciRuntime]:
    def make(name: str, **options: object) -> OciRuntime:
        return OciRuntime(name, run, scope, rootfs=image.default_rootfs, **options)  # type: ignore[arg-type]

    return make


@pytest.mark.parametrize("name", NAMES)
def test_a_container_runs_and_is_gone(
    name: str, make: Callable[..., OciRuntime], scope: Scope, run: Run
) -> None:
    runtime = make(name)
    for ran in (runtime.run(), runtime.cycle(), runtime.detached(), runtime.run(network=False)):
        assert ran.duration.unit == ran.cpu_time.unit == "ms"
        assert ran.cpu_time.value > 0
    assert list(run.folder.glob("oci0/vperf-*")) == []
    (facts,) = scope.facts
    assert facts.name == f"container {name} (no engine)"
    assert facts.details["runtime_version"].startswith(name)
    hidden = cgroup_view.HIDDEN if cgroup_view.hybrid() else None
    assert facts.details.get("control_groups") == hidden


@pytest.mark.parametrize("name", NAMES)
def test_what_a_container_sees(name: str, make: Callable[..., OciRuntime]) -> None:
    runtime = make(name)
    read_only = "! touch /here 2>/dev/null"
    own_network = "test $(ls /sys/class/net | wc -l) -le 1"
    runtime.run(("sh", "-c", f"{read_only} && test $$ = 1 && {own_network}"))


@pytest.mark.parametrize("name", NAMES)
def test_containers_in_a_row(name: str, make: Callable[..., OciRuntime]) -> None:
    runtime = make(name)
    one, five = (min(runtime.run(times=n).cpu_time.value for _ in range(3)) for n in (1, 5))
    assert 2 * one < five < 20 * one
    with pytest.raises(CannotStart, match="run ended with status 3"):
        runtime.run(("sh", "-c", "exit 3"), times=5)


@pytest.mark.parametrize("name", NAMES)
def test_a_command_that_fails_is_an_error(name: str, make: Callable[..., OciRuntime]) -> None:
    runtime = make(name)
    with pytest.raises(CannotStart) as caught:
        runtime.run(("sh", "-c", "echo too bad >&2; exit 3"))
    assert "run ended with status 3:\ntoo bad" in str(caught.value)
    with pytest.raises(CannotStart, match="ended with status"):
        runtime.cycle(("/no/such/program",))
    runtime.run()  # and the next one starts


@pytest.mark.parametrize("name", NAMES)
def test_a_start_that_hangs_is_ended(name: str, make: Callable[..., OciRuntime]) -> None:
    runtime = make(name, timeout=3.0)
    with pytest.raises(TimedOut, match="run did not end within 3 s and was killed"):
        runtime.run(("sleep", "600"))
    runtime.cycle(("sleep", "600"))  # which waits for nothing


@pytest.mark.skipif("runc" not in NAMES, reason="runc is not installed")
def test_the_least_memory_is_found_by_starts(make: Callable[..., OciRuntime]) -> None:
    runtime = make("runc")
    least = runtime.least_memory()
    assert least.memory.unit == "KiB"
    assert least.memory.value == least.sizes.size(least.found.size)
    assert any(not each.answer.works for each in least.found.tries)
    assert runtime.peak_memory().value > 1000


def test_a_least_memory_above_the_top_is_an_error(make: Callable[..., OciRuntime]) -> None:
    with pytest.raises(CannotStart, match="no least memory was found"):
        make("runc").least_memory(top="16 KiB")


def test_a_runtime_that_is_missing_says_how_to_get_it(
    make: Callable[..., OciRuntime], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(Unavailable) as caught:
        make("crun").run()
    assert str(caught.value) == "crun is not installed (to mend it: apt-get install crun)"


VICTIM = """
import time
from pytest_vperf.machine.runs import Run
from pytest_vperf.targets.image import rootfs
from pytest_vperf.targets.oci.runtime import OciRuntime
from pytest_vperf.targets.scope import Scope
import sys
with Run.begin() as run:
    runtime = OciRuntime(sys.argv[1], run, Scope(), rootfs=rootfs.default_rootfs)
    print(run.id, flush=True)
    runtime.run(("sleep", "600"))
"""


@pytest.mark.parametrize("name", NAMES)
def test_nothing_of_a_killed_run_stays(name: str, runs_dir: Path) -> None:
    process, run = victim(VICTIM, name)
    folder = Path(os.environ["VPERF_RUNS_DIR"], f"run-{run}")
    # gVisor's sandbox shows no process of the container.
    inside = ": runsc-sandbox" if name == "runsc" else ": sleep 600"
    while not any(
        inside in describe(each) for each in owned_by(MARK_FOLDER, folder, f"vperf-{run}")
    ):
        assert process.poll() is None
    process.send_signal(signal.SIGKILL)
    process.wait()
    leftovers.sweep()
    assert owned_by(MARK_FOLDER, folder, f"vperf-{run}") == []
    assert traces(run) == []
