"""Leftover guests of killed runs: none with a private daemon; those at another daemon are found and ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest
from guests_here import qemus, start_daemon
from victims import traces, victim

from pytest_vperf.commands import clean
from pytest_vperf.machine import cgroups, leftovers
from pytest_vperf.machine.runs import LABEL_FOLDER, LABEL_PLACE, LABEL_RUN, NOTE, Run, place
from pytest_vperf.targets.guest.boot import Boot, GuestConfig, domain_xml
from pytest_vperf.targets.libvirt import connect
from pytest_vperf.targets.libvirt import leftovers as leftover_machines
from pytest_vperf.targets.libvirt.network import VirtualNetwork
from pytest_vperf.targets.limits import Limits

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from guests_here import Place

    from pytest_vperf.targets.libvirt.daemon import Daemon

#: Starts a guest on its own daemon or at an address, prints its run, and waits to be killed.
VICTIM = """
import sys, time
from pytest_vperf.fixtures import core as tools_image
from pytest_vperf.machine.runs import Run
from pytest_vperf.targets.guest.guests import Guests
from pytest_vperf.targets.kernel.guest_kernel import distribution_kernel
from pytest_vperf.targets.scope import Scope
from pytest_vperf.targets.libvirt import connect

with Run.begin() as run:
    daemon = connect.connect(sys.argv[2], run) if sys.argv[2:] else connect._start(run)
    guests = Guests(
        lambda: daemon, tools_image.make_tools_image, distribution_kernel, Scope(), accelerator="tcg"
    )
    try:
        guests.start(init="small")
        if sys.argv[2:]:
            daemon.network()
        print(run.id, flush=True)
        if sys.argv[1] == "wait":
            time.sleep(120)
    finally:
        daemon.close()
"""

#: Makes a network at an address, prints its run, and waits to be killed.
NETWORKER = """
import sys, time
from pytest_vperf.machine.runs import Run
from pytest_vperf.targets.libvirt import connect

with Run.begin() as run:
    connect.connect(sys.argv[1], run).network()
    print(run.id, flush=True)
    time.sleep(120)
"""


def wait_until_gone(run: str, what: str, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while any(what in trace for trace in traces(run)):
        assert time.monotonic() < deadline, traces(run)
        time.sleep(0.1)


def test_kill_9_ends_a_daemon_of_the_runs_own_with_its_machines(
    guest_place: Place, runs_dir: Path
) -> None:
    process, run = victim(VICTIM, "wait")
    try:
        before = "\n".join(traces(run))
        assert "qemu-system" in before
        assert "libvirtd" in before
        assert "unshare" in before
        os.kill(process.pid, signal.SIGKILL)
        process.communicate(timeout=30)
        # The kernel does it: no sweep runs here.
        wait_until_gone(run, "qemu-system", 20)
        wait_until_gone(run, "libvirtd", 20)
        wait_until_gone(run, "unshare", 20)
        assert (runs_dir / f"run-{run}").is_dir()
    finally:
        process.kill()
        process.communicate()
        removed = leftovers.sweep()
    assert {leftover.run for leftover in removed} == {run}
    assert {"cgroup", "folder"} <= {leftover.kind for leftover in removed}
    assert traces(run) == []
    assert list(runs_dir.iterdir()) == []
    assert [name for name in guest_place.daemon.storage.names() if run in name] == []


def test_a_run_that_ends_by_itself_leaves_nothing(guest_place: Place, runs_dir: Path) -> None:
    process, run = victim(VICTIM, "end")
    process.communicate(timeout=60)
    assert process.returncode == 0
    assert traces(run) == []
    assert leftovers.find() == []


def test_ctrl_c_leaves_nothing(guest_place: Place, runs_dir: Path) -> None:
    process, run = victim(VICTIM, "wait")
    os.kill(process.pid, signal.SIGINT)
    process.communicate(timeout=60)
    assert traces(run) == []
    assert leftovers.find() == []


def test_at_anothers_daemon_machines_end_with_the_run_that_made_them(
    guest_place: Place, runs_dir: Path
) -> None:
    process, run = victim(VICTIM, "wait", guest_place.own.uri)
    try:
        name = f"vperf-{run}-1"
        assert name in guest_place.machines()
        networks = guest_place.daemon.connection.handle.listAllNetworks()
        assert [each.name() for each in networks if run in each.name()]
        os.kill(process.pid, signal.SIGKILL)
        process.communicate(timeout=30)
        deadline = time.monotonic() + 20
        while name in guest_place.machines():
            assert time.monotonic() < deadline
            time.sleep(0.1)
    finally:
        process.kill()
        process.communicate()
        leftovers.sweep()
        # As the next run at this daemon does after its own sweep.
        leftovers.remove(leftover_machines.find(guest_place.daemon.connection))
    assert [each for each in guest_place.daemon.storage.names() if run in each] == []
    networks = guest_place.daemon.connection.handle.listAllNetworks()
    assert [each.name() for each in networks if run in each.name()] == []
    assert cgroups.of_machines(f"vperf-{run}") == []


# ---- machines that a daemon does not end by itself, as Xen's ------------------------------------------


@pytest.fixture
def other(runs_dir: Path, short_folder: Path) -> Iterator[Daemon]:
    """A daemon that belongs to no dead run: its socket is outside the folder of these tests' runs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("VPERF_RUNS_DIR", str(short_folder / "o"))
        run = Run.begin()
    before = groups()
    with run:
        _, daemon = start_daemon(run, short_folder / "pool")
        try:
            yield daemon
            # A machine that ends with its daemon leaves a control group, which is not named after the run.
            for machine in daemon.connection.handle.listAllDomains():
                machine.destroy()
        finally:
            daemon.close()
        assert qemus(run) == []
    assert groups() <= before


def groups() -> set[Path]:
    """The control groups of the machines that `leave` makes."""
    return {*cgroups.of_machines("vperf-01234567"), *cgroups.of_machines("of")}


def leave(daemon: Daemon, name: str, labels: Mapping[str, str]) -> None:
    """A machine that outlives its maker."""
    boot = Boot("")
    config = GuestConfig(name, "qemu", boot, 1, 64, "q35", "maximum", Limits(), labels=labels)
    handle = daemon.connection.handle
    handle.createXML(domain_xml(config), daemon.connection.libvirt.VIR_DOMAIN_START_PAUSED)


def machines(daemon: Daemon) -> set[str]:
    return {domain.name() for domain in daemon.connection.handle.listAllDomains()}


def test_clean_ends_the_machines_of_dead_runs_and_spares_others(
    other: Daemon, runs_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = runs_dir / "run-01234567"
    dead = {LABEL_RUN: "01234567", LABEL_PLACE: place(), LABEL_FOLDER: str(folder)}
    with Run.begin() as alive:
        leave(other, "vperf-01234567-1", dead)
        leave(other, "of-a-living-run", alive.labels)
        leave(other, "of-elsewhere", {**dead, LABEL_PLACE: "elsewhere/0"})
        leave(other, "of-another-folder", {**dead, LABEL_FOLDER: "/not/here/run-01234567"})
        leave(other, "of-somebody", {})
        other.storage._create("vperf-01234567-2.qcow2", 1 << 20)
        other.storage._create("vperf-76543210-2.qcow2", 1 << 20)
        folder.mkdir(mode=0o700)
        (folder / "owner").write_text('{"pid": 1, "command": [], "began": 0}')
        (folder / NOTE).write_text(f"{other.connection.uri}\n" * 2)

        assert clean.run(dry_run=True) == 0
        shown = capsys.readouterr().out
        for what in ("vperf-01234567-1 at qemu:///system", "vperf-01234567-2.qcow2", str(folder)):
            assert what in shown
        assert "vperf-01234567-1" in machines(other)

        assert clean.run() == 0
        said = capsys.readouterr().out
        assert " things removed" in said
        assert " left" not in said
        assert machines(other) == {
            "of-a-living-run",
            "of-elsewhere",
            "of-another-folder",
            "of-somebody",
        }
        assert other.storage.names() == ["vperf-76543210-2.qcow2"]
        assert not folder.exists()
        assert leftover_machines.find(other.connection) == []


def test_the_next_run_at_a_daemon_ends_what_dead_ones_left_there(
    other: Daemon, runs_dir: Path
) -> None:
    folder = runs_dir / "run-01234567"
    dead = {LABEL_RUN: "01234567", LABEL_PLACE: place(), LABEL_FOLDER: str(folder)}
    leave(other, "vperf-01234567-1", dead)
    with Run.begin() as run:
        connect.connect(other.connection.uri, run).close()
    assert machines(other) == set()


@pytest.fixture
def left_by(other: Daemon, runs_dir: Path) -> Iterator[str]:
    """The ID of a killed run that left a network and a disk at somebody else's daemon."""
    process, run = victim(NETWORKER, other.connection.uri)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate(timeout=30)
    other.storage._create(f"vperf-{run}-2.qcow2", 1 << 20)
    assert networks(other) == [f"vperf-{run}-0"]
    yield run
    for network in other.connection.handle.listAllNetworks():
        network.destroy()


def networks(daemon: Daemon) -> list[str]:
    return [network.name() for network in daemon.connection.handle.listAllNetworks()]


def test_a_next_run_that_never_asks_the_daemon_takes_networks_and_disks_from_it(
    other: Daemon, left_by: str, runs_dir: Path, tmp_path: Path
) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "test_next.py").write_text("def test_next(vperf_run): pass\n")
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_next.py"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert networks(other) == []
    assert [name for name in other.storage.names() if left_by in name] == []
    assert traces(left_by, runs_dir) == []


def test_clean_takes_networks_of_dead_runs_alone(
    other: Daemon, left_by: str, runs_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Run.begin() as alive:
        living = VirtualNetwork(other.connection, alive.id, labels=alive.labels)
        labels = {**alive.labels, LABEL_FOLDER: "/not/here/run-76543210"}
        elsewhere = VirtualNetwork(other.connection, "76543210", labels=labels)
        assert clean.run() == 0
        assert f"vperf-{left_by}-0 at qemu:///system" in capsys.readouterr().out
        assert sorted(networks(other)) == sorted([living.name, elsewhere.name])
        elsewhere.close()
        living.close()
    assert networks(other) == []
    assert traces(left_by, runs_dir) == []


def test_clean_does_not_hang_with_a_daemon_that_is_gone(
    runs_dir: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import socket

    monkeypatch.setenv("DOCKER_HOST", f"unix://{runs_dir}/none")
    folder = runs_dir / "run-01234567"
    folder.mkdir(mode=0o700)
    (folder / "owner").write_text('{"pid": 1, "command": [], "began": 0}')
    with socket.create_server(("127.0.0.1", 0)) as silent:
        uri = f"qemu+tcp://127.0.0.1:{silent.getsockname()[1]}/system"
        (folder / NOTE).write_text(f"{uri}\nqemu:///system?socket={runs_dir}/x/libvirt-sock\n")
        began = time.perf_counter()
        assert clean.run() == 1
        assert time.perf_counter() - began < 25
    said = capsys.readouterr().err
    assert (
        f"vperf clean: libvirt at {uri} did not answer within 10 s, so machines were not looked for there\n"
        in said
    )
    assert "x/libvirt-sock" not in said, "a daemon of the run's own ended with it"
    assert not folder.exists()
