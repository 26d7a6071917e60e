"""``--vperf-on``: targets of a machine that is reached by SSH, which is this one behind a network of its own.

Its ``sshd`` is in a network namespace, so that every byte goes over a link; its engine is a private one.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest
import sshd_here
from netns_here import namespace

from pytest_vperf.machine.preflight import Readiness, find_program

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytest_vperf.targets.container.engine import Engine


@dataclass
class There:
    """The other machine, and pytest as a user calls it here.

    Attributes:
        url: for ``--vperf-on``.
        folder: with ``ssh`` first in the path, which takes the server's keys.
        server: its sshd.
    """

    url: str
    folder: Path
    server: sshd_here.Server

    def command(self, *arguments: str) -> list[str]:
        """Of pytest."""
        return [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-rs", *arguments]

    @property
    def environment(self) -> dict[str, str]:
        """Of pytest."""
        runs = self.folder / "runs"
        path = f"{self.folder}:{os.environ['PATH']}"
        return {**os.environ, "PATH": path, "VPERF_RUNS_DIR": str(runs), "VPERF_REQUIRE": ""}

    def pytest(self, text: str, *arguments: str, **variables: str) -> str:
        """What pytest prints of a test file, started on the other machine."""
        file = self.folder / "test_it.py"
        file.write_text(text)
        done = subprocess.run(
            self.command(f"--vperf-on={self.url}", *arguments, str(file)),
            env={**self.environment, **variables},
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        return done.stdout + done.stderr


@pytest.fixture(scope="module")
def there(
    short_folder: Path, engine: Engine, require: Callable[[str, Readiness], None]
) -> Iterator[There]:
    require("host", sshd_here.check())
    is_root = Readiness("a network namespace", os.geteuid() == 0, "only root can make one")
    require("host", is_root)
    folder = short_folder / "on"
    folder.mkdir()
    with namespace() as (inside, address):
        settings = f"SetEnv DOCKER_HOST={engine.url}"
        server_folder = short_folder / "ond"
        with sshd_here.serve(server_folder, address, inside=inside, settings=settings) as server:
            wrapper = folder / "ssh"
            wrapper.write_text(f'#!/bin/sh\nexec {find_program("ssh")} -F {server.config} "$@"\n')
            wrapper.chmod(0o755)
            yield There(f"ssh://root@{address}:{server.port}", folder, server)


def test_a_pod_on_another_machine_is_confined_too(there: There) -> None:
    said = there.pytest(
        """
        def test_pod(pods_on, native, disks):
            disk = disks.make("2 MiB")
            with pods_on("tcg").start(disks=[disk], replaceable=True) as pod:
                status = native.run(["cat", f"/proc/{pod.pid}/status"]).text
                found = dict(line.split(":", 1) for line in status.splitlines())
                assert "0" not in found["Uid"].split() + found["Gid"].split()
                assert found["Groups"].strip() == ""
                assert int(found["CapEff"], 16) == int(found["CapPrm"], 16) == 0
                assert (found["NoNewPrivs"].strip(), found["Seccomp"].strip()) == ("1", "2")
                limits = native.run(["cat", f"/proc/{pod.pid}/limits"]).text
                assert " ".join(limits.split("core file size")[1].split()[:2]) == "0 0"
                assert pod.facts().details["sandbox"] == "seccomp, a user of its own"
                write = f"dd if=/dev/zero of={disk.where(pod)} bs=64k count=8 conv=fsync"
                for _ in range(2):
                    pod.run(["sh", "-c", write])
                    pod.replace()
        """.replace("\n        ", "\n"),
    )
    assert "1 passed" in said, said


def test_every_kind_of_target_runs_on_another_machine(there: There) -> None:
    where = there.url.removeprefix("ssh://")
    said = there.pytest(
        f"""
        def test_pod(pods_on):
            with pods_on("tcg").start() as pod:
                assert pod.name == "pod tcg qboot ({where})"
                facts = pod.facts().details
                assert facts["on"] == "{where}"
                assert facts["on_kernel"]
                assert float(facts["ssh_round_trip"].split()[0]) > 0
                assert [name for name, _ in pod.startup_time.breakdown][0] == "process"
                assert pod.run(["cat"], input=b"x" * 300_000).stdout == b"x" * 300_000
                used = pod.usage()
                assert used.cpu_time > 0 and used.memory > 50e6

        def test_host(native):
            assert native.name == "host ({where})"
            program = native.program("busybox")
            assert native.run([*program.argv, "echo", "hello"]).text == "hello\\n"
            assert program.argv[0].startswith("/var/tmp/vperf-")
            assert native.facts().details["on"] == "{where}"

        def test_container(containers):
            with containers.start(cpu_shares=512, memory="64 MiB") as container:
                assert container.name == "container runc ({where})"
                facts = container.facts().details
                assert facts["on"] == "{where}"
                assert facts["cpu_shares"] in ("512", "20")
                assert facts["runtime_version"].startswith("runc version")
                assert container.run(["cat"], input=b"y" * 300_000).stdout == b"y" * 300_000
                assert container.usage().memory > 0

        def test_disk(disks, containers, native):
            disk = disks.make("8 MiB", format="ext4")
            with containers.start(disks=[disk]) as container:
                assert "lost+found" in container.run(["ls", disk.where(container)]).text
                container.run(["touch", disk.where(container) + "/made"])
                assert "made" in native.run(["ls", disk.where(native)]).text

        def test_raw_disk(disks, pods_on):
            disk = disks.make("8 MiB")
            with pods_on("tcg").start(disks=[disk]) as pod:
                pod.run(["test", "-b", disk.where(pod)])
        """.replace("\n        ", "\n"),
    )
    assert "5 passed" in said, said


def test_targets_that_another_machine_lacks_are_not_measured(there: There) -> None:
    said = there.pytest(
        """
        def test_limited_pod(pods_on):
            pods_on("tcg").start(cpu_shares=512)

        def test_network(network):
            pass

        def test_limited_host(limited_host):
            limited_host(cpus=0.5)

        def test_kvm(pods_on):
            pods_on("kvm").start()

        def test_domu(domu):
            pass
        """.replace("\n        ", "\n"),
    )
    where = re.escape(there.url.removeprefix("ssh://"))
    assert re.search(
        rf"not measured: a pod on {where} cannot be held to limits from here \(to", said
    )
    assert re.search(r"not measured: the run's own network is on this machine, and targets", said)
    assert re.search(rf"not measured: host \({where}\) cannot be held to limits from here", said)
    assert re.search(rf"not measured: {where} is no Xen host \(no control_d", said)
    assert "5 skipped" in said or "4 skipped" in said, said
    assert "failed" not in said.splitlines()[-1], said


@pytest.mark.patient
def test_a_claim_says_where_it_was_measured(there: There) -> None:
    record = there.folder / "record.json"
    said = there.pytest(
        """
        import pytest
        pytestmark = pytest.mark.startup

        def test_order(claim, pods_on):
            pods = pods_on("tcg")
            claim("startup.order.tcg.qboot_before_seabios").compares(
                lambda: pods.start(firmware="qboot").startup_time,
                to=lambda: pods.start(firmware="seabios").startup_time)
        """.replace("\n        ", "\n"),
        f"--claims-json={record}",
        f"--claims-thresholds={Path(__file__).parents[2] / 'thresholds'}",
        "--claims-advisory",
        "--claims-budget=12 s",
    )
    where = there.url.removeprefix("ssh://")
    assert f"claims: targets on {where}" in said
    assert f"claims: hardware any (auto does not know {where}: name its profile with --hw)" in said
    (claim,) = json.loads(record.read_text())["claims"]
    assert claim["verdict"] in ("holds", "inconclusive", "refuted")
    assert any(where in json.dumps(value) for value in claim.values())


@pytest.mark.patient
def test_a_lock_that_is_lost_ends_the_measurement(there: There) -> None:
    said = there.pytest(
        f"""
        import time
        import psutil

        def test_it(native):
            native.run(["true"])
            for process in psutil.Process({there.server.process.pid}).children(recursive=True):
                try:
                    words = process.cmdline() or [""]
                except psutil.Error:
                    continue
                if words[0] == "sh" and "vperf-measuring.lock" in " ".join(words):
                    process.kill()
            deadline = time.monotonic() + 60
            while time.monotonic() < deadline:
                time.sleep(0.1)
                native.run(["true"])
        """.replace("\n        ", "\n"),
    )
    assert re.search(
        r"CannotConnect: root@.*: the command that holds its measuring lock and our folder there has ended",
        said,
    ), said


def test_xdist_workers_are_refused(there: There) -> None:
    said = there.pytest("", "-n2")
    assert (
        "ERROR: --vperf-on: one run at a time measures on another machine: run without pytest-xdist's -n"
        in said
    )


def test_a_machine_that_refuses_our_key(there: There) -> None:
    text = "def test_host(native):\n    pass\n"
    said = there.pytest(text, "--vperf-on=ssh://root@127.0.0.1:1")
    assert "127.0.0.1:1: ssh cannot reach 127.0.0.1: " in said, said
    assert "Connection refused" in said


def test_a_bad_machine_name_is_a_usage_error(there: There) -> None:
    said = there.pytest("", "--vperf-on=root@host")
    assert "ERROR: --vperf-on: 'root@host' is not ssh://[user@]host[:port], nor lab:KIND" in said, (
        said
    )


A_POD = """
import os, time
def test_pod(pods_on, disks, native):
    disk = disks.make("8 MiB", format="ext4")
    program = native.program("busybox").argv
    native.run([*program, "ls", disk.where(native)])
    pod = pods_on("tcg").start()
    print("pid", pod.pid, "folder", "/".join(program[0].split("/")[:4]), flush=True)
    pod.run(["sleep", "60"])
"""


@contextlib.contextmanager
def a_pod(there: There) -> Iterator[tuple[subprocess.Popen[str], psutil.Process, str]]:
    """pytest with a pod there that runs a command; its QEMU; and the run's folder there."""
    file = there.folder / "test_pod.py"
    file.write_text(A_POD)
    with subprocess.Popen(
        there.command("-s", f"--vperf-on={there.url}", str(file)),
        env=there.environment,
        cwd=there.folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as user:
        assert user.stdout is not None
        try:
            for line in user.stdout:
                if found := re.search(r"pid (\d+) folder (/var/tmp/vperf-\w{8})$", line):
                    break
            else:
                raise AssertionError("no pod")
            yield user, psutil.Process(int(found[1])), found[2]
        finally:
            user.kill()


def traces(folder: str) -> list[str]:
    """What there is of a run's folder there: itself, what is mounted below it, and loop devices on its files."""
    said = subprocess.run(["losetup", "--list", "--noheadings"], capture_output=True, text=True)
    lines = [*Path("/proc/mounts").read_text().splitlines(), *said.stdout.splitlines()]
    return [*([folder] if Path(folder).exists() else []), *(x for x in lines if f"{folder}/" in x)]


def ended(process: psutil.Process, seconds: float = 20.0) -> bool:
    with contextlib.suppress(psutil.NoSuchProcess):
        with contextlib.suppress(psutil.TimeoutExpired):
            process.wait(seconds)
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    return True


@pytest.mark.patient
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_an_ended_run_leaves_nothing_on_another_machine(there: There, how: signal.Signals) -> None:
    with a_pod(there) as (user, qemu, folder):
        # The folder; the disk, and its loop device.
        assert len(traces(folder)) >= 3
        user.send_signal(how)
        user.wait(60)
        assert ended(qemu)
    deadline = time.monotonic() + 20
    while traces(folder) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert traces(folder) == []


def said_by(user: subprocess.Popen[str]) -> str:
    assert user.stdout is not None
    text = user.stdout.read()
    user.wait(60)
    return text


@pytest.mark.patient
def test_a_machine_killed_on_the_other_machine_is_reported(there: There) -> None:
    with a_pod(there) as (user, qemu, _):
        qemu.kill()
        said = said_by(user)
    assert re.search(r"CannotConnect: pod tcg qboot \(.*\)", said), said
    assert "1 failed" in said


@pytest.mark.patient
def test_a_broken_connection_is_reported_and_ends_remote_targets(there: There) -> None:
    with a_pod(there) as (user, qemu, _):
        for process in psutil.Process(there.server.process.pid).children():
            process.kill()  # the sessions; the server stays
        said = said_by(user)
        assert ended(qemu)
    assert re.search(r"Cannot(Connect|Start): ", said), said
    assert "1 failed" in said
