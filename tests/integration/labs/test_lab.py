"""Whole hosts inside QEMU: they come up, libvirt answers, and nothing is left of them.

Shared hosts are ended in `test_the_end_of_labs.py`.
"""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import psutil
import pytest
from labs_here import START, vperf

from pytest_vperf.lab import image, labs, state
from pytest_vperf.lab.kinds import KINDS
from pytest_vperf.machine import processes
from pytest_vperf.targets.base import TimedOut
from pytest_vperf.targets.remote.ssh import SshHost

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from labs_here import SharedLabs

    from pytest_vperf.lab.state import LabHost
    from pytest_vperf.machine.preflight import Readiness
    from pytest_vperf.machine.runs import Run

#: Starts a KVM host for a run, or as the user's own, and is killed while it does.
STARTS = """
from pytest_vperf.lab import labs
from pytest_vperf.machine.runs import Run
run = Run.begin() if {owned} else None
labs.up("kvm", run=run)
"""


@pytest.fixture(scope="module", autouse=True)
def usable(require: Callable[[str, Readiness], None]) -> None:
    require("domu", labs.check())


@pytest.fixture(scope="module", params=["kvm", pytest.param("xen", marks=pytest.mark.patient)])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def host(kind: str, shared_labs: SharedLabs) -> Iterator[LabHost]:
    """The user's own."""
    found = shared_labs.get(kind)
    with shared_labs.as_user():
        yield found


def lab_processes(below: Path) -> list[psutil.Process]:
    return [
        process
        for process in psutil.process_iter()
        if processes.environment(process).get(state.MARK, "").startswith(f"{below}/")
    ]


def test_command_that_starts_one_prints_its_uri_alone(
    host: LabHost, shared_labs: SharedLabs
) -> None:
    done = shared_labs.said[host.kind]
    assert done.stdout == f"{host.uri}\n"
    assert "waiting for its libvirt" in done.stderr


def test_libvirt_answers_by_the_uri(host: LabHost) -> None:
    libvirt = pytest.importorskip("libvirt")
    connection = libvirt.open(host.uri)
    try:
        assert connection.getType() == {"kvm": "QEMU", "xen": "Xen"}[host.kind]
        assert f"<domain type='{host.kind}'" in connection.getCapabilities()
        network = connection.networkCreateXML(
            "<network><name>alone</name><ip address='192.168.77.1' netmask='255.255.255.0'>"
            "<dhcp><range start='192.168.77.2' end='192.168.77.9'/></dhcp></ip></network>"
        )
        assert network.isActive()
        network.destroy()
        pool = connection.storagePoolCreateXML(
            "<pool type='dir'><name>images</name><target><path>/var/lib/libvirt/images</path></target></pool>"
        )
        volume = pool.createXML(
            "<volume><name>a.qcow2</name><capacity unit='MiB'>8</capacity>"
            "<target><format type='qcow2'/></target></volume>"
        )
        volume.delete()
        pool.destroy()
    finally:
        connection.close()


def test_host_has_the_devices_and_tools_of_its_kind(host: LabHost) -> None:
    if host.kind == "xen":
        done = vperf("lab", "ssh", "xen", "--", "xl", "info")
        facts = dict(line.split(":", 1) for line in done.stdout.splitlines() if ":" in line)
        assert {name.strip(): text.strip() for name, text in facts.items()}[
            "xen_scheduler"
        ] == "credit2"
        return
    done = vperf(
        "lab", "ssh", "kvm", "--", "stat", "--format=%n %G %a", "/dev/kvm", "/dev/vhost-net"
    )
    assert done.stdout == "/dev/kvm kvm 660\n/dev/vhost-net kvm 660\n"


def test_host_is_a_target(host: LabHost, session_run: Run) -> None:
    with SshHost(host.ssh_url, session_run, config=host.ssh_config) as target:
        assert target.run(["uname", "-r"]).text.strip() == host.details["lab_kernel"]
        # It has no route out, not even to the machine that it runs on.
        outside = target.run(
            ["nc", "-z", "-w", "3", "10.0.2.2", host.ssh_url.rpartition(":")[2]], check=False
        )
        assert outside.returncode == 1


def test_key_of_the_host_is_checked(host: LabHost, tmp_path: Path) -> None:
    others = tmp_path / "known_hosts"
    wrong = (host.ssh_config.parent / "key.pub").read_text().split()[:2]
    others.write_text(f"[127.0.0.1]:{host.ssh_url.rpartition(':')[2]} {' '.join(wrong)}\n")
    config = tmp_path / "config"
    text = host.ssh_config.read_text()
    config.write_text(text.replace(str(host.ssh_config.parent / "known_hosts"), str(others)))
    done = subprocess.run(
        ["ssh", "-F", str(config), "127.0.0.1", "true"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 255
    assert "Host key verification failed." in done.stderr


def test_keys_are_secret(host: LabHost) -> None:
    folder = host.ssh_config.parent
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE((folder / "key").stat().st_mode) == 0o600
    assert not (folder / "keys.tar").exists()
    for log in ("console.log", "qemu.log"):
        assert "PRIVATE KEY" not in (folder / log).read_text(errors="replace")


def test_port_is_open_on_loopback_only(host: LabHost) -> None:
    found = state.read(host.ssh_config.parent)
    assert found is not None
    listening = [
        each.laddr
        for each in psutil.Process(found.pid).net_connections("inet")
        if each.status == psutil.CONN_LISTEN
    ]
    assert listening == [("127.0.0.1", found.port)]


def test_the_program_that_really_runs_is_recorded(host: LabHost) -> None:
    with state.control(host.ssh_config.parent) as qmp:
        accelerated = qmp.execute("query-kvm")["enabled"]
    assert host.accelerator == ("kvm" if accelerated else "tcg")
    assert host.details["emulated"] == ("no" if accelerated else "yes")
    assert host.details["lab_vcpus"] == "2"


def test_running_lab_is_reused_shown_and_left_alone(host: LabHost) -> None:
    assert vperf("lab", "up", host.kind).stdout == f"{host.uri}\n"
    shown = vperf("lab", "status").stdout
    assert "up for " in shown
    assert f"{host.kind}: {host.uri}\n" in shown
    cleaned = vperf("clean", check=False).stdout
    assert f"lab {host.kind} is up (to end it: vperf lab down {host.kind})\n" in cleaned
    assert labs.running(host.kind) == host


def test_fixture_returns_the_running_lab(host: LabHost, pytester: pytest.Pytester) -> None:
    pytester.makepyfile(f"def test_it(lab): assert lab({host.kind!r}).uri == {host.uri!r}")
    pytester.runpytest_subprocess().assert_outcomes(passed=1)
    assert labs.running(host.kind) == host


@pytest.mark.parametrize("owned", [True, False], ids=["of a run", "the user's own"])
def test_lab_whose_starter_was_killed_is_found_and_ended(runs_dir: Path, owned: bool) -> None:
    image.build(KINDS["kvm"], print)
    log = (runs_dir / "log").open("w+")
    starter = subprocess.Popen(
        [sys.executable, "-c", STARTS.format(owned=owned)],
        stdout=log,
        stderr=log,
        start_new_session=True,
    )
    deadline = time.monotonic() + 120
    try:
        while not (found := lab_processes(runs_dir)):
            assert starter.poll() is None, (runs_dir / "log").read_text()
            assert time.monotonic() < deadline
            time.sleep(0.1)
    finally:
        os.killpg(starter.pid, signal.SIGKILL)
        starter.wait()
        log.close()
    if owned:  # it ends with its run, by the kernel
        psutil.wait_procs(found, 30)
    assert [process.is_running() for process in found] == [not owned] * len(found)
    cleaned = vperf("clean", check=False).stdout
    assert ("vperf-lab-kvm" in cleaned) is not owned
    assert lab_processes(runs_dir) == []
    assert not [path for path in runs_dir.iterdir() if path.is_dir()]


@pytest.mark.patient
def test_unresponsive_lab_of_the_user_is_ended_by_clean(runs_dir: Path) -> None:
    """Frozen, as where the machine's memory ran out. A small one is requested."""
    host = labs.up("kvm", timeout=START, memory=2048, vcpus=1)
    [process] = lab_processes(runs_dir)
    words = process.cmdline()
    assert (words[words.index("-m") + 1], words[words.index("-smp") + 1]) == ("2048M", "1")
    process.suspend()
    try:
        assert labs.running("kvm") is None
        assert "process" in vperf("clean", check=False, timeout=120).stdout
        assert lab_processes(runs_dir) == []
        assert not host.ssh_config.parent.exists()
    finally:
        labs.end(host)


@pytest.mark.patient
def test_lab_of_a_run_ends_with_the_run(runs_dir: Path, pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        def test_it(lab):
            host = lab("kvm")
            assert lab("kvm") is host
            assert host.details["lab"] == "kvm"
            print("at", host.ssh_config)
        """
    )
    result = pytester.runpytest_subprocess("-s")
    result.assert_outcomes(passed=1)
    assert f"at {runs_dir}/run-" in result.stdout.str()
    assert lab_processes(runs_dir) == []


@pytest.mark.patient
def test_lab_that_does_not_come_up_in_time_leaves_nothing(runs_dir: Path) -> None:
    for seconds in (5, 10, 20):  # longer on a machine so busy that it has printed nothing yet
        with pytest.raises(TimedOut) as error:
            labs.up("kvm", timeout=seconds)
        if "printed nothing" not in str(error.value):
            break
    assert str(error.value).startswith(
        "lab kvm was not ready in time; the last lines of its console:\n"
    )
    assert lab_processes(runs_dir) == []
    assert not (runs_dir / "lab-kvm").exists()
