"""The image with the tools, for real: the same bytes run on the host, in containers and in a pod."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_vperf.targets.base import Unavailable
from pytest_vperf.targets.container.containers import Containers
from pytest_vperf.targets.container.engine import check as check_engine
from pytest_vperf.targets.host import Host
from pytest_vperf.targets.image import debian
from pytest_vperf.targets.image import rootfs as image
from pytest_vperf.targets.image.tar import Tree
from pytest_vperf.targets.pod.assets import prepare
from pytest_vperf.targets.pod.pods import Pods
from pytest_vperf.targets.pod.probe import check as check_pods
from pytest_vperf.targets.scope import Scope
from pytest_vperf.workloads import programs
from pytest_vperf.workloads.registry import TOOLS, packages_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytest_vperf.machine.preflight import Readiness
    from pytest_vperf.machine.runs import Run
    from pytest_vperf.targets.base import Target
    from pytest_vperf.targets.container.engine import Engine
    from pytest_vperf.targets.image.rootfs import Rootfs

PROGRAMS = (
    "sysbench",
    "fio",
    "iperf",
    "iperf3",
    "stress-ng",
    "free",
    "ps",
    "ip",
    "mount",
    "mkfs.ext4",
)


@pytest.fixture(scope="module")
def rootfs(require: Callable[[str, Readiness], None]) -> Rootfs:
    require("container", debian.check()[0])
    return debian.tools_rootfs(packages_of(TOOLS), programs.build())


@pytest.fixture(scope="module")
def host(rootfs: Rootfs) -> Iterator[Target]:
    with Host(None, lambda: rootfs) as host:
        yield host


@pytest.fixture(scope="module", params=["runc", "runsc"])
def container(
    request: pytest.FixtureRequest,
    engine: Engine,
    session_run: Run,
    rootfs: Rootfs,
    require: Callable[[str, Readiness], None],
) -> Iterator[Target]:
    require("container", check_engine([request.param])[1])
    scope = Scope()
    imported = image.import_into(engine.client, rootfs)
    yield Containers(
        lambda: engine,
        session_run,
        scope,
        runtime=request.param,
        rootfs=lambda _: imported,
        tree=lambda: rootfs,
    ).start()
    scope.close_since()


@pytest.fixture(scope="module")
def pod(
    rootfs: Rootfs, session_run: Run, require: Callable[[str, Readiness], None]
) -> Iterator[Target]:
    require("pod", check_pods(afresh=False)[0])
    assets, scope = prepare(rootfs), Scope()
    yield Pods(lambda: assets, session_run, scope, accelerator="tcg", timeout=300).start()
    scope.close_since()


def runs_the_tools(target: Target, rootfs: Rootfs) -> None:
    """Each tool is there, is the image's, and starts; the ones with engines and threads work."""
    for name in PROGRAMS:
        program = target.program(name)
        assert program.origin == "image"
        assert Tree(rootfs.path).resolve(program.path)

    def call(name: str, *words: str) -> str:
        return target.run([*target.program(name).argv, *words], timeout=300).text

    assert "total number of events" in call("sysbench", "--threads=2", "--events=20", "cpu", "run")
    assert call("iperf3", "--version").startswith("iperf 3")
    assert "Mem:" in call("free", "-b")
    assert "PID" in call("ps", "-e")
    assert "127.0.0.1" in call("ip", "address", "show", "lo")
    done = target.run([*target.program("stress-ng").argv, "--cpu", "1", "-t", "1"], timeout=300)
    assert b"successful run completed" in done.stdout + done.stderr
    for name in programs.build():
        assert call(name, "--version").startswith(name.rpartition("/")[2])


def engine_works(target: Target, engine: str) -> None:
    words = [f"--ioengine={engine}", "--rw=randread", "--bs=4k", "--size=1m", "--io_size=256k"]
    done = target.run(
        [
            *target.program("fio").argv,
            *("--name=x", "--filename=/tmp/vperf-fio-test", "--output-format=json", *words),
        ],
        timeout=300,
    )
    target.run(["rm", "/tmp/vperf-fio-test"])
    job = json.loads(done.text[done.text.index("{") :])["jobs"][0]
    assert job["error"] == 0
    assert job["read"]["total_ios"] == 64


def test_the_host_runs_the_tools_in_place(host: Target, rootfs: Rootfs) -> None:
    runs_the_tools(host, rootfs)
    for engine in ("psync", "libaio"):
        engine_works(host, engine)
    assert host.facts().details["rootfs_sha256"] == rootfs.sha256


def test_the_host_runs_fio_with_io_uring(host: Target) -> None:
    setting = Path("/proc/sys/kernel/io_uring_disabled")  # not there before Linux 6.6
    if setting.exists() and setting.read_text().strip() != "0":
        pytest.skip(f"this kernel has io_uring switched off ({setting})")
    engine_works(host, "io_uring")


def test_containers_run_the_same_bytes(container: Target, host: Target, rootfs: Rootfs) -> None:
    runs_the_tools(container, rootfs)
    for engine in ("psync", "libaio"):
        engine_works(container, engine)
    for name in PROGRAMS:
        assert container.program(name).sha256 == host.program(name).sha256
    details = container.facts().details
    assert (details["rootfs"], details["rootfs_sha256"]) == (rootfs.name, rootfs.sha256)


def test_a_pod_runs_the_same_bytes(pod: Target, host: Target, rootfs: Rootfs) -> None:
    runs_the_tools(pod, rootfs)
    for engine in ("psync", "libaio", "io_uring"):
        engine_works(pod, engine)
    for name in PROGRAMS:
        assert pod.program(name).sha256 == host.program(name).sha256
    assert pod.facts().details["rootfs_sha256"] == rootfs.sha256


def test_a_pod_has_the_same_files_as_a_container(pod: Target) -> None:
    mounts = {
        line.split()[1]: line.split()[2]
        for line in pod.run(["cat", "/proc/mounts"]).text.splitlines()
    }
    wanted = {
        "/proc": "proc",
        "/sys": "sysfs",
        "/dev/pts": "devpts",
        "/dev/shm": "tmpfs",
        "/dev/mqueue": "mqueue",
    }
    assert wanted.items() <= mounts.items()
    pod.run(["sh", "-c", "echo x >/tmp/x && echo x >/var/tmp/x && echo x >/dev/shm/x"])
    assert pod.run(["sh", "-c", "echo x >/sys/x"], check=False).returncode != 0


def test_tools_of_one_target_talk_over_loopback(pod: Target) -> None:
    script = (
        "iperf3 -s -1 -D && for i in 1 2 3 4 5 6 7 8 9; do sleep 0.3;"
        " iperf3 -c 127.0.0.1 -n 1M && exit 0; done; exit 1"
    )
    assert "receiver" in pod.run(["sh", "-c", script], timeout=120).text


def test_netperf_is_present_or_its_absence_explained(host: Target, rootfs: Rootfs) -> None:
    try:
        program = host.program("netperf")
    except Unavailable as error:
        assert dict(rootfs.without)["netperf"] in str(error)  # noqa: PT017
        return
    assert host.run([*program.argv, "-V"]).text.startswith("Netperf version 2.")
    assert host.run([*host.program("netserver").argv, "-V"]).text.startswith("Netperf version 2.")


def test_the_image_is_cached_and_small(rootfs: Rootfs) -> None:
    said: list[str] = []
    assert debian.tools_rootfs(packages_of(TOOLS), programs.build(), say=said.append) == rootfs
    assert said == []
    assert rootfs.path.stat().st_size < 1e9


@pytest.mark.patient
def test_another_build_has_the_same_bytes(
    rootfs: Rootfs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VPERF_CACHE_DIR", str(tmp_path))
    ours = {path: file.read_bytes() for path, file in programs.build().items()}
    said: list[str] = []
    again = debian.tools_rootfs(packages_of(TOOLS), ours, say=said.append)
    assert said == ["building the image with the tools, once: this takes some minutes"]
    assert again.path != rootfs.path
    if again.name == rootfs.name and installed(again) != installed(rootfs):
        pytest.skip("the package sources changed between the two builds")
    assert again.sha256 == rootfs.sha256


def installed(rootfs: Rootfs) -> bytes:
    return Tree(rootfs.path).read("/var/lib/dpkg/status")
