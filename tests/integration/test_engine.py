"""Finding an engine, starting one, and leaving nothing of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
from typing import TYPE_CHECKING

import psutil
import pytest

from pytest_vperf.machine import cgroups, mounts
from pytest_vperf.machine.preflight import find_program
from pytest_vperf.machine.processes import owned_by
from pytest_vperf.machine.runs import LABEL_FOLDER, LABEL_RUN, MARK_FOLDER, Run
from pytest_vperf.targets.base import CannotConnect, CannotStart, Unavailable
from pytest_vperf.targets.container import private_engine
from pytest_vperf.targets.container.engine import Engine, check
from pytest_vperf.targets.container.private_engine import PrivateEngine
from pytest_vperf.targets.image import rootfs as image

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def run(runs_dir: Path) -> Iterator[Run]:
    with Run.begin() as run:
        yield run


@pytest.fixture
def root(monkeypatch: pytest.MonkeyPatch) -> None:
    if os.geteuid() != 0 or not find_program("dockerd"):
        pytest.skip(
            "a private engine needs root and dockerd (to mend it: apt-get install docker.io)"
        )


def assert_nothing_left(run: Run) -> None:
    assert [p.name() for p in owned_by(MARK_FOLDER, run.folder, run.cgroup)] == []
    assert mounts.below(run.folder) == []
    assert cgroups.named(run.cgroup) == []
    assert [path.name for path in run.folder.iterdir()] == ["owner"]


def test_an_engine_is_described_with_its_version_and_runtimes(engine: Engine) -> None:
    assert engine.version in engine.description
    assert engine.description.startswith("Docker Engine ")
    assert engine.description.endswith(", private to this run") == engine.private
    assert "runc" in engine.runtimes()
    engine.require_runtime("runc")


def test_an_unknown_runtime_is_unavailable(engine: Engine) -> None:
    with pytest.raises(Unavailable) as caught:
        engine.require_runtime("runq")
    assert caught.value.reason == (
        f"the Docker engine at {engine.url} knows no runtime runq; it knows "
        + ", ".join(engine.runtimes())
    )
    assert caught.value.target == "container runq"


def test_an_engine_named_by_the_environment_is_used(
    engine: Engine, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", engine.url)
    with Engine.connect(run) as other:
        assert (other.url, other.private) == (engine.url, False)
        assert other.client.ping()
    assert engine.client.ping(), "closing a client must not stop an engine that is not its own"
    readiness = check(["runc", "runq"])
    assert [entry.usable for entry in readiness] == [True, True, False]


def test_leftovers_of_a_killed_run_go_with_the_next_connection_to_an_engine(
    engine: Engine, rootfs: str, run: Run, runs_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def create(labels: dict[str, str]) -> str:
        made = engine.client.containers.create(rootfs, ["true"], network_mode="none", labels=labels)
        return str(made.name)

    dead = create({**run.labels, LABEL_RUN: "01234567", LABEL_FOLDER: f"{runs_dir}/run-01234567"})
    alive = create(run.labels)
    monkeypatch.setenv("DOCKER_HOST", engine.url)
    with Engine.connect(run) as other:
        names = [container.name for container in other.client.containers.list(all=True)]
        assert dead not in names
        assert alive in names


def test_a_named_engine_is_never_replaced(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "tcp://127.0.0.1:9")
    with pytest.raises(CannotConnect, match=r"tcp://127\.0\.0\.1:9 \(named by DOCKER_HOST\)"):
        Engine.connect(run)
    assert_nothing_left(run)


def _name(process: psutil.Process) -> str:
    try:
        return process.name()
    except psutil.NoSuchProcess:
        return ""


@pytest.mark.usefixtures("root")
def test_a_private_engine_leaves_nothing(run: Run) -> None:
    own = PrivateEngine.start(run)
    try:
        # Beside the two daemons one may see a program that dockerd asks for its version.
        names = {_name(process) for process in owned_by(MARK_FOLDER, run.folder, run.cgroup)}
        assert {"containerd", "dockerd"} <= names
    finally:
        own.stop()
    assert_nothing_left(run)
    own.stop()


@pytest.mark.usefixtures("root")
@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_a_private_engine_leaves_nothing_after_an_error(
    run: Run, error: type[BaseException]
) -> None:
    with pytest.raises(error):
        _raise_inside(run, error)
    assert_nothing_left(run)


def _raise_inside(run: Run, error: type[BaseException]) -> None:
    from pytest_vperf.targets.container.address import connect

    own = PrivateEngine.start(run)
    with Engine(connect(own.url), own.url, run, own) as engine:
        image_id = image.import_into(engine.client, image.default_rootfs())
        engine.client.containers.run(
            image_id, ["sleep", "60"], detach=True, network_mode="none", labels=run.labels
        )
        raise error


@pytest.mark.usefixtures("root")
def test_a_daemon_that_does_not_start_says_why(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        PrivateEngine, "_configuration", lambda self, dockerd: {"no-such-setting": True}
    )
    with pytest.raises(CannotStart) as caught:
        PrivateEngine.start(run)
    assert "the private Docker engine did not start: " in str(caught.value)
    assert "no-such-setting" in str(caught.value)
    assert_nothing_left(run)


@pytest.mark.usefixtures("root")
def test_a_daemon_that_is_never_ready_times_out(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(private_engine, "_START_TIMEOUT", 0.2)
    monkeypatch.setattr(private_engine, "knock", lambda path: FileNotFoundError())
    with pytest.raises(
        CannotStart, match=r"was not ready within 0\.2 s; the end of the output of .*:\n"
    ):
        PrivateEngine.start(run)
    assert_nothing_left(run)


def test_an_image_is_imported_once(engine: Engine, rootfs: str) -> None:
    known = image.default_rootfs()
    assert image.import_into(engine.client, known) == rootfs
    assert engine.client.images.get(f"{image.REPOSITORY}:{known.sha256[:12]}").id == rootfs


def test_an_image_of_the_engine_is_flattened_once(
    engine: Engine, rootfs: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VPERF_CACHE_DIR", str(tmp_path))
    others = {container.id for container in engine.client.containers.list(all=True)}
    first = image.export(engine.client, rootfs)
    with tarfile.open(first.path, "r:") as archive:
        assert "bin/busybox" in archive.getnames()
    before = first.path.stat().st_mtime_ns
    again = image.export(engine.client, rootfs)
    assert (again, again.path.stat().st_mtime_ns) == (first, before)
    left = engine.client.containers.list(all=True, filters={"ancestor": rootfs})
    assert {container.id for container in left} <= others


def test_a_missing_image_is_reported(engine: Engine) -> None:
    with pytest.raises(CannotStart) as caught:
        image.export(engine.client, "no/such:image")
    assert str(caught.value) == (
        "the image no/such:image is not in the Docker engine; fetch it with"
        " `docker pull no/such:image`, or leave out --container-image to use the image built here"
    )


def test_a_tar_file_stands_for_an_image(engine: Engine, tmp_path: Path) -> None:
    path = tmp_path / "mine.tar"
    path.write_bytes(image.default_rootfs().path.read_bytes())
    assert image.export(engine.client, str(path)).path == path
    path.write_text("no tar")
    with pytest.raises(CannotStart, match="is not a whole tar archive"):
        image.export(engine.client, str(path))


#: Starts a container in an engine where another one has left its bridge, chains and routes, and prints what existed
#: before, meanwhile and after.
BESIDE_ANOTHER = """
import json, os, re, subprocess, sys
from pathlib import Path
from pytest_vperf.machine.runs import Run
from pytest_vperf.targets.container.containers import Containers
from pytest_vperf.targets.container.engine import Engine
from pytest_vperf.targets.image import rootfs
from pytest_vperf.targets.scope import Scope

conf, ours = Path("/proc/sys/net"), os.environ["VPERF_RUNS_DIR"]

def said(*words):
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    return [line for line in done.stdout.splitlines() if not line.startswith("#")]

def rules(program):
    # Without the packets that were counted.
    return [line.partition("[")[0] for line in said(program)]

def network():
    return {
        "links": said("ip", "-o", "link"),
        "addresses": said("ip", "-o", "address"),
        "routes": said("ip", "-o", "route", "show", "table", "all"),
        "rules": [*rules("iptables-save"), *rules("ip6tables-save"), *said("ip", "rule")],
        "namespaces": [
            str(each) for name in ("netns", "docker/netns") for each in Path("/run", name).glob("*")
        ],
        "mounts": [line for line in said("findmnt", "-rno", "TARGET") if not line.startswith(ours)],
        "settings": {
            str(path): path.read_text()
            for family in ("ipv4", "ipv6", "bridge")
            for path in sorted((conf / family).rglob("*forward*"))
        },
        "files": [each for each in sys.argv[2:] if Path(each).exists()],
    }

# Another test's folder that goes takes what is mounted on it from this namespace, too.
for mounted in reversed(said("findmnt", "-rno", "TARGET")):
    if re.search(r"/run-[0-9a-f]{8}/", mounted) and not mounted.startswith(ours):
        subprocess.run(["umount", "--lazy", mounted], capture_output=True, check=False)
for names in Path("/run/netns"), Path("/run/docker/netns"):
    if names.is_dir():  # those of other tests
        said("mount", "-t", "tmpfs", "tmpfs", str(names))
for path in ("ipv4/ip_forward", "ipv6/conf/all/forwarding"):
    (conf / path).write_text("0")
said("ip", "link", "add", "docker0", "type", "bridge")
said("ip", "address", "add", "172.17.0.1/16", "dev", "docker0")
said("ip", "link", "set", "docker0", "addrgenmode", "none")  # the kernel would take a second to make an address
said("ip", "link", "set", "docker0", "up")
said("ip", "route", "add", "192.0.2.0/24", "dev", "docker0")
said("iptables", "-N", "DOCKER")
said("ip6tables", "-N", "DOCKER")
seen = [network()]
with Run.begin() as run, Engine.connect(run) as engine:
    assert engine.private
    scope = Scope()
    image = rootfs.import_into(engine.client, rootfs.default_rootfs())
    made = Containers(lambda: engine, run, scope, runtime=sys.argv[1], rootfs=lambda _: image)
    made.start()
    seen.append(network())
    scope.close_since()
seen.append(network())
print(json.dumps(seen))
"""
#: What an installed engine has outside the network, and a private one must not make.
FOREIGN = ("/etc/docker/key.json", "/var/lib/docker", "/run/docker.sock")


@pytest.mark.usefixtures("root", "runs_dir", "rootfs")
@pytest.mark.parametrize("runtime", ["runc", "runsc"])
def test_a_private_engine_leaves_the_hosts_network_alone(runtime: str) -> None:
    """Where another engine is out of reach: stopped, restarting with its containers alive, or elsewhere."""
    # In namespaces of its own, where nothing else adds or removes anything meanwhile: other tests mount, too.
    unshare = ["unshare", "--net", "--mount"]
    done = subprocess.run(
        [*unshare, sys.executable, "-c", BESIDE_ANOTHER, runtime, *FOREIGN],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    before, meanwhile, after = json.loads(done.stdout)
    assert any("docker0" in line for line in before["links"])
    assert any("DOCKER" in line for line in before["rules"])
    assert meanwhile == before
    assert after == before
