"""What the real QEMU of a pod may do, as the kernel tells it of the process."""

from __future__ import annotations

import dataclasses
import os
import pwd
import re
import socket
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

from pytest_vperf.machine.processes import owned_by
from pytest_vperf.machine.runs import Run
from pytest_vperf.targets.image.rootfs import default_rootfs
from pytest_vperf.targets.network.user_mode import GATEWAY, UserNetwork
from pytest_vperf.targets.pod.assets import Assets, prepare
from pytest_vperf.targets.pod.pod import boot
from pytest_vperf.targets.pod.pods import Pods
from pytest_vperf.targets.pod.probe import check
from pytest_vperf.targets.scope import Scope

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytest_vperf.targets.pod.pod import Pod

SECRET = "VERY_SECRET_TOKEN"


@pytest.fixture(scope="module")
def assets(require: Callable[..., None]) -> Assets:
    require("pod", check(afresh=False)[0])
    return prepare(default_rootfs())


@pytest.fixture(scope="module")
def scope() -> Iterator[Scope]:
    scope = Scope()
    yield scope
    scope.close_since()


@pytest.fixture(scope="module")
def pods(assets: Assets, scope: Scope) -> Iterator[Pods]:
    with Run.begin() as run:
        yield Pods(lambda: assets, run, scope, accelerator="tcg")
        scope.close_since()


@pytest.fixture(scope="module")
def pod(pods: Pods) -> Pod:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(SECRET, "1")
        return pods.start(memory="256 MiB", replaceable=True)


def status(pid: int) -> dict[str, str]:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


def test_qemu_has_no_privileges_and_filters_its_system_calls(pod: Pod) -> None:
    found = status(pod.pid)
    ids = {*found["Uid"].split(), *found["Gid"].split()}
    if os.geteuid() == 0:
        assert len(ids) == 1
        assert int(ids.pop()) not in {0, *(each.pw_uid for each in pwd.getpwall())}
        assert found["Groups"] == ""
    for name in ("CapEff", "CapPrm", "CapInh", "CapAmb"):
        assert int(found[name], 16) == 0, name
    assert found["NoNewPrivs"] == "1"
    assert found["Seccomp"] == "2"
    # Every thread: the filter is of a thread, and what a guest runs on is a thread.
    for thread in Path(f"/proc/{pod.pid}/task").iterdir():
        own = status(int(thread.name))
        assert (own["Seccomp"], own["NoNewPrivs"], own["CapEff"]) == ("2", "1", found["CapEff"])
    limits = Path(f"/proc/{pod.pid}/limits").read_text()
    assert re.search(r"^Max core file size +0 +0 ", limits, re.MULTILINE)
    assert re.search(rf"^Max file size +{64 << 20} +{64 << 20} ", limits, re.MULTILINE)
    want = "seccomp, a user of its own" if os.geteuid() == 0 else "seccomp"
    assert pod.facts().details["sandbox"] == want


def test_qemu_has_no_descriptor_of_others(pods: Pods) -> None:
    with open("/etc/passwd") as foreign:  # noqa: PTH123 - its number is wanted
        os.set_inheritable(foreign.fileno(), True)
        pod = pods.start(memory="256 MiB")
        links = {each.readlink() for each in Path(f"/proc/{pod.pid}/fd").iterdir()}
    pod.close()
    known = re.compile(
        r"/dev/(null|kvm|urandom)|.*/pod\d+/qemu\.log|(socket|anon_inode|pipe):.*"
        r"|.*/(image\.squashfs|initramfs|vmlinuz[^/]*|qboot\.rom)"
    )
    assert [str(each) for each in links if not known.fullmatch(str(each))] == []


def test_qemu_has_no_secret_of_the_session(pod: Pod) -> None:
    environment = psutil.Process(pod.pid).environ()
    assert SECRET not in environment
    assert "VPERF_RUN" in environment


def test_each_pod_has_a_user_of_its_own_that_cannot_touch_another(pods: Pods, pod: Pod) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root's pods have users of their own")
    other = pods.start(memory="256 MiB")
    mine, its = (psutil.Process(each.pid).uids().real for each in (pod, other))
    assert mine != its
    child = os.fork()
    if not child:
        os.setgroups([])
        os.setgid(mine)
        os.setuid(mine)
        try:
            os.kill(other.pid, 0)
        except PermissionError:
            os._exit(7)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    other.close()


def test_a_kernel_that_only_root_may_read_boots(assets: Assets, tmp_path: Path) -> None:
    kernel = tmp_path / "vmlinuz"
    kernel.write_bytes(assets.kernel.image.read_bytes())
    kernel.chmod(0o600)
    own = dataclasses.replace(assets, kernel=dataclasses.replace(assets.kernel, image=kernel))
    config = own.config("tcg", "qboot")
    with (
        Run.begin() as run,
        boot(own, config, "qboot", run, command=("sleep", "infinity"), timeout=300) as pod,
    ):
        assert pod.run(["true"]).returncode == 0


def test_a_container_is_replaced_twice_by_files_that_qemu_may_not_open(pod: Pod) -> None:
    for _ in range(2):
        assert pod.replace().value > 0
        assert pod.run(["echo", "new"]).text == "new\n"


def test_a_pod_of_a_dead_run_is_found_although_it_has_another_user(pod: Pod) -> None:
    run = Path(psutil.Process(pod.pid).environ()["VPERF_RUN_FOLDER"])
    found = owned_by("VPERF_RUN_FOLDER", run, "vperf-none")
    assert pod.pid in [process.pid for process in found]


def connects(pod: Pod, port: int) -> bool:
    """Whether a pod's connection to a port of the host's loopback is taken; busybox has ``nc``."""
    done = pod.run(
        ["sh", "-c", f"echo hello | timeout 5 nc {GATEWAY} {port}"], check=False, timeout=30
    )
    return done.returncode == 0 and b"welcome" in done.stdout


@pytest.fixture
def listener() -> Iterator[int]:
    """A server on the host's 127.0.0.1 that others have there: a database, an engine."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            try:
                while True:
                    taken, _ = server.accept()
                    with taken:
                        taken.sendall(b"welcome\n")
            except OSError:
                return

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)


def test_a_pod_on_a_user_mode_network_does_not_reach_the_hosts_loopback(
    pods: Pods, listener: int
) -> None:
    pod = pods.start(network=UserNetwork(), memory="256 MiB")
    assert not connects(pod, listener)
    assert pod.facts().details["network_reach"] == "nothing"
    pod.close()


def test_a_pod_reaches_the_hosts_loopback_where_allowed(pods: Pods, listener: int) -> None:
    pod = pods.start(network=UserNetwork(), reaches_host=True, memory="256 MiB")
    assert connects(pod, listener)
    assert pod.facts().details["network_reach"] == "all that the host reaches"
    pod.close()
