"""Containers as targets, by each runtime that runs here."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_vperf.machine import cgroup_view
from pytest_vperf.machine.cgroups import hierarchies, paths_of
from pytest_vperf.machine.runs import LABEL_RUN, Run
from pytest_vperf.targets.base import (
    CannotConnect,
    CannotStart,
    CommandFailed,
    Started,
    TargetError,
    TimedOut,
    Unavailable,
)
from pytest_vperf.targets.container import runtimes
from pytest_vperf.targets.container.address import connect
from pytest_vperf.targets.container.containers import Containers
from pytest_vperf.targets.container.engine import Engine
from pytest_vperf.targets.container.private_engine import PrivateEngine
from pytest_vperf.targets.image import rootfs as image
from pytest_vperf.targets.scope import Scope

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_vperf.targets.container.container import Container

    Factory = Callable[[str], Containers]

RUNTIMES = ["runc", "runsc"]


@pytest.fixture(params=RUNTIMES)
def factory(request: pytest.FixtureRequest, containers: Factory) -> Containers:
    return containers(request.param)


@pytest.fixture
def container(factory: Containers) -> Container:
    return factory.start()


def test_a_start_is_timed_and_its_parts_add_up(factory: Containers) -> None:
    container = factory.start()
    assert isinstance(container, Started)
    startup = container.startup_time
    assert startup.direction == "lower"
    assert startup.unit == "ms"
    assert [name for name, _ in startup.breakdown] == ["create", "start"]
    assert sum(value for _, value in startup.breakdown) == startup.value > 0
    assert all(value > 0 for _, value in startup.breakdown)


def test_facts_are_those_of_the_runtime_and_equal_for_each_start(
    factory: Containers, rootfs: str
) -> None:
    facts = factory.start().facts()
    assert (facts.kind, facts.name) == ("container", f"container {factory.runtime}")
    assert facts.details["runtime_version"].startswith(f"{factory.runtime} version")
    assert facts.details["image"] == rootfs
    assert facts.details["rootfs_sha256"] == image.default_rootfs().sha256
    same_kernel = facts.details["kernel"] == os.uname().release
    assert same_kernel == (factory.runtime == "runc")
    assert factory.start().facts() == facts


def test_programs_gain_no_privileges(container: Container) -> None:
    """Neither the first process nor a command."""
    for pid in ("1", "self"):
        found = container.run(["grep", "NoNewPrivs", f"/proc/{pid}/status"], check=False)
        if (
            "runsc" in container.name
        ):  # which does not report it, and has no access to the host's programs
            assert found.text == ""
        else:
            assert found.text == "NoNewPrivs:\t1\n"


def test_the_number_of_processes_is_limited(containers: Factory) -> None:
    def most(container: Container) -> list[str]:
        path = next(each for each in paths_of(container.pid).items() if each[0] in ("pids", ""))
        point = hierarchies()[path[0]]
        return (point / path[1].lstrip("/") / "pids.max").read_text().split()

    plain, asked = containers("runc").start(), containers("runc").start(pids=40)
    assert (most(plain), most(asked)) == (["4096"], ["40"])
    assert asked.facts().details["pids"] == "40"
    bomb = "i=0; while [ $i -lt 60 ]; do sleep 30 & i=$((i+1)); done; wait"
    done = asked.run(["sh", "-c", bomb], check=False)
    assert done.returncode != 0
    assert b"Resource temporarily unavailable" in done.stderr or b"can't fork" in done.stderr
    assert plain.run(["true"]).returncode == 0


def test_output_of_a_machine_does_not_fill_the_disk(containers: Factory) -> None:
    flood = "yes | head -c 20000000; echo end >/done; sleep infinity"
    factory = containers("runc")
    container = factory.start(["sh", "-c", flood])
    container.run(["sh", "-c", "until [ -e /done ]; do sleep 0.1; done"], timeout=120)
    log = Path(factory.engine.client.api.inspect_container(container.id)["LogPath"])
    sizes = {each.name: each.stat().st_size for each in log.parent.glob(f"{log.name}*")}
    assert 0 < sum(sizes.values()) < 3 << 20, sizes


def test_commands_have_input_environment_folder_and_status(container: Container) -> None:
    done = container.run(
        ["sh", "-c", 'cat; echo "$A"; pwd; echo e >&2'], input=b"in\n", env={"A": "b c"}, cwd="/etc"
    )
    assert (done.stdout, done.stderr, done.returncode) == (b"in\nb c\n/etc\n", b"e\n", 0)
    with pytest.raises(CommandFailed) as caught:
        container.run(["sh", "-c", "exit 7"])
    assert caught.value.completed.returncode == 7
    for argv, status in (
        (["no-such-command"], 127),
        (["/no/such/file"], 127),
        (["/etc"], 126),
        (["/etc/passwd"], 126),
        (["sh", "-c", "kill -9 $$"], 137),
    ):
        assert container.run(argv, check=False).returncode == status, argv


def test_large_input_is_passed_whole(container: Container) -> None:
    data = os.urandom(2_000_000)
    assert container.run(["cat"], input=data).stdout == data
    assert container.run(["true"], input=data).returncode == 0


def test_no_byte_of_a_quick_command_is_lost(container: Container) -> None:
    assert {container.run(["echo", "x"]).stdout for _ in range(20)} == {b"x\n"}


@pytest.mark.parametrize(
    "script",
    [
        "echo begun; sleep 4321",
        "trap '' TERM INT HUP; echo begun; sleep 4321 & sleep 4321 & exit 0",
        "echo begun; setsid sleep 4321; echo after",
    ],
)
def test_at_the_limit_the_command_is_ended_and_the_container_lives(
    container: Container, script: str
) -> None:
    with pytest.raises(TimedOut) as caught:
        container.run(["sh", "-c", script], timeout=2)
    assert caught.value.stdout == b"begun\n"
    assert str(caught.value) == (
        f"sh -c {script} did not end within 2 s in {container.name} and was killed"
    )
    assert "sleep 4321" not in container.run(["ps"]).text


def test_files_are_seen_inside_and_come_back(container: Container, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_bytes(os.urandom(300_000))
    source.chmod(0o751)
    container.put(source, "/tmp/there")
    assert container.run(["stat", "-c", "%a %s", "/tmp/there"]).text == "751 300000\n"
    container.run(["cp", "-p", "/tmp/there", "/tmp/made inside"])
    container.run(["ln", "-s", "made inside", "/tmp/link"])
    container.get("/tmp/link", tmp_path / "back")
    assert (tmp_path / "back").read_bytes() == source.read_bytes()
    assert (tmp_path / "back").stat().st_mode & 0o7777 == 0o751


def test_files_that_cannot_be_copied(container: Container, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_text("x")
    cases: dict[str, Callable[[], object]] = {
        "/no/such/x cannot be written in": lambda: container.put(source, "/no/such/x"),
        "/tmp cannot be written in": lambda: container.put(source, "/tmp"),
        "/proc/x cannot be written in": lambda: container.put(source, "/proc/x"),
        "tmp/x is not the absolute path": lambda: container.put(source, "tmp/x"),
        "/no/such cannot be read in": lambda: container.get("/no/such", tmp_path / "x"),
        "/etc cannot be read: it is not a file": lambda: container.get("/etc", tmp_path / "x"),
        f"{tmp_path}/none cannot be read": lambda: container.put(tmp_path / "none", "/tmp/x"),
    }
    for message, action in cases.items():
        with pytest.raises(TargetError) as caught:
            action()
        assert str(caught.value).startswith(message)
        assert type(caught.value) is TargetError


def test_files_are_copied_without_tar_in_the_image_where_possible(
    containers: Factory, tmp_path: Path
) -> None:
    source = tmp_path / "source"
    source.write_text("content")
    for runtime in RUNTIMES:
        container = containers(runtime).start()
        container.run(["rm", "/bin/tar"])
        if runtime == "runsc":
            with pytest.raises(TargetError, match="the image of container runsc has no tar"):
                container.put(source, "/tmp/there")
            continue
        container.put(source, "/tmp/there")
        assert container.run(["cat", "/tmp/there"]).text == "content"
        container.get("/tmp/there", tmp_path / "back")
        assert (tmp_path / "back").read_text() == "content"
        with pytest.raises(TargetError, match="/tmp cannot be written in container runc: "):
            container.put(source, "/tmp")


def test_limits_are_read_back_from_the_system(factory: Containers) -> None:
    container = factory.start(cpus=0.5, cpuset="0", cpu_shares=512, memory=200 << 20)
    details = container.facts().details
    if "cpu_period" not in details or not details["memory"].isdigit():
        pytest.skip(f"control groups of another kind: {details}")
    assert details["cpuset"] == "0"
    assert details["memory"] == str(200 << 20)
    assert details["cpu_shares"] in ("512", "20")  # version 1, or the weight of version 2
    assert "memory" not in factory.start().facts().details


def test_usage_grows(container: Container) -> None:
    before = container.usage()
    container.run(["sh", "-c", "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done"])
    after = container.usage()
    assert after.cpu_time > before.cpu_time > 0
    assert after.memory


def of_run(engine: Engine, run: Run) -> list[object]:
    """The containers of this run; the machine's engine may have others."""
    label = f"{LABEL_RUN}={run.id}"
    return [*engine.client.containers.list(all=True, filters={"label": label})]


def test_a_process_that_ends_at_once_has_not_started(
    containers: Factory, engine: Engine, session_run: Run
) -> None:
    factory = containers("runc")
    with pytest.raises(CannotStart) as caught:
        factory.start(["sh", "-c", "echo why; exit 4"])
    assert str(caught.value) == "container runc ended at once with status 4:\nwhy"
    with pytest.raises(CannotStart) as caught:
        factory.start(["false"])
    assert str(caught.value) == "container runc ended at once with status 1 and no output"
    with pytest.raises(CannotStart, match=r'container runc did not start: .*"no-such"'):
        factory.start(["no-such"])
    assert of_run(engine, session_run) == []


def test_crun_starts_with_hybrid_control_groups_too(
    containers: Factory, engine: Engine, session_run: Run, rootfs: str
) -> None:
    crun = containers("crun")
    hidden = cgroup_view.HIDDEN if engine.private and cgroup_view.hybrid() else None
    beside = runtimes.beside("runc", "crun")
    scope = Scope()
    runc = Containers(lambda: engine, session_run, scope, runtime=beside, rootfs=lambda _: rootfs)
    try:
        for starter, name in ((crun, "crun"), (runc, "runc")):
            container = starter.start(memory="16 MiB")
            assert container.run(["echo", "here"]).text == "here\n"
            details = container.facts().details
            assert details.get("control_groups") == hidden
            assert details["runtime_version"].startswith(name)
    finally:
        scope.close_since()
    assert "control_groups" not in containers("runc").start().facts().details


def test_an_unknown_runtime_is_unavailable(engine: Engine, session_run: Run, rootfs: str) -> None:
    factory = Containers(
        lambda: engine, session_run, Scope(), runtime="runq", rootfs=lambda _: rootfs
    )
    with pytest.raises(Unavailable, match=r"knows no runtime runq; it knows .*runc"):
        factory.start()


def test_a_vanished_image_fails_the_start(engine: Engine, session_run: Run) -> None:
    factory = Containers(
        lambda: engine, session_run, Scope(), rootfs=lambda _: "sha256:" + "0" * 64
    )
    with pytest.raises(CannotStart, match="container runc did not start: No such image"):
        factory.start()


def test_a_container_has_the_runs_labels_and_name_until_its_end(
    container: Container, engine: Engine, session_run: Run
) -> None:
    known = engine.client.containers.get(container.id)
    assert known.labels.items() >= session_run.labels.items()
    assert str(known.name).startswith(f"vperf-{session_run.id}-")
    container.close()
    container.close()
    assert of_run(engine, session_run) == []
    with pytest.raises(CannotConnect) as caught:
        container.run(["true"])
    assert str(caught.value) == f"{container.name} is gone: the engine has no such container"


def test_a_killed_container_is_reported(container: Container, engine: Engine) -> None:
    engine.client.containers.get(container.id).kill()
    with pytest.raises(CannotConnect, match=f"{container.name} is not running: "):
        container.run(["true"])
    with pytest.raises(CannotConnect, match=f"{container.name} has ended: it uses nothing now"):
        container.usage()


def test_an_engine_stopped_before_a_command_is_reported(runs_dir: Path, engine: Engine) -> None:
    if not engine.private:
        pytest.skip("a private engine is needed, and another one answers")
    with Run.begin() as run:
        own = PrivateEngine.start(run)
        mine = Engine(connect(own.url), own.url, run, own)
        scope = Scope()
        factory = Containers(
            lambda: mine,
            run,
            scope,
            rootfs=lambda e: image.import_into(e.client, image.default_rootfs()),
        )
        container = factory.start()
        own.stop()
        message = (
            f"the Docker engine at {own.url} does not answer any more: No such file or directory"
        )
        for action in (factory.start, lambda: container.run(["true"]), container.usage):
            with pytest.raises(CannotConnect) as caught:
                action()
            assert str(caught.value) == message
        scope.close_since()
        mine.close()


def test_an_engine_stopped_during_a_command_is_reported(runs_dir: Path, engine: Engine) -> None:
    if not engine.private:
        pytest.skip("a private engine is needed, and another one answers")
    import threading

    with Run.begin() as run:
        own = PrivateEngine.start(run)
        mine = Engine(connect(own.url), own.url, run, own)
        image_id = image.import_into(mine.client, image.default_rootfs())
        container = Containers(lambda: mine, run, Scope(), rootfs=lambda _: image_id).start()
        stopper = threading.Timer(0.3, own.stop)
        stopper.start()
        with pytest.raises(CannotConnect):
            container.run(["sleep", "50"], timeout=40)
        stopper.join()
        container.close()
        mine.close()
