"""Limits and disks on real targets: taken, read back, refused, and gone afterwards."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_vperf.machine import cgroups, leftovers, mounts
from pytest_vperf.targets.base import CannotStart, TargetError, Unavailable
from pytest_vperf.targets.control_group import ControlGroup
from pytest_vperf.targets.disks import Disks, Here
from pytest_vperf.targets.host import Host
from pytest_vperf.targets.image.rootfs import default_rootfs
from pytest_vperf.targets.limits import Limits
from pytest_vperf.targets.pod.assets import prepare
from pytest_vperf.targets.pod.pods import Pods
from pytest_vperf.targets.pod.probe import check as check_pods

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_vperf.machine.preflight import Readiness
    from pytest_vperf.machine.runs import Run
    from pytest_vperf.targets.container.containers import Containers
    from pytest_vperf.targets.scope import Scope

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0, reason="control groups and loop devices need root"
)


@pytest.fixture
def host(session_run: Run, vperf_scope: Scope) -> Host:
    return vperf_scope.own(Host(session_run))


@pytest.fixture
def disks(session_run: Run, vperf_scope: Scope) -> Disks:
    return Disks(Here(session_run), vperf_scope)


def test_commands_of_the_host_are_in_the_group_that_was_read_back(host: Host) -> None:
    limited = host.limited(cpus=0.5, cpuset="0", cpu_shares=512, memory="100 MiB")
    details = limited.facts().details
    assert details["cpuset"] == "0"
    assert details["memory"] == str(100 << 20)
    assert details["cpu_quota"].split()[0] == "50000"
    assert limited.run(["nproc"]).text == "1\n"
    assert "/host" in limited.run(["cat", "/proc/self/cgroup"]).text
    assert limited.run(["no-such-command"], check=False).returncode == 127
    assert "cpuset" not in host.facts().details
    assert host.run(["cat", "/proc/self/cgroup"]).text.count("/vperf-") == 0


def test_a_group_goes_with_its_target(host: Host, session_run: Run) -> None:
    limited = host.limited(cpu_shares=512)
    path = next(
        line.rpartition(":")[2]
        for line in limited.run(["cat", "/proc/self/cgroup"]).text.splitlines()
        if session_run.cgroup in line
    )
    places = [point / path.lstrip("/") for point in cgroups.hierarchies().values()]
    assert any(place.is_dir() for place in places)
    host.close()
    assert not any(place.is_dir() for place in places)


def test_another_value_than_was_asked_for_is_an_error(session_run: Run) -> None:
    group = ControlGroup(session_run, Limits(cpuset="0"), "host")
    try:
        assert group.details == {"cpuset": "0"}
        name = Path(group.entered(["true"])[5]).parent
        (name / "cpuset.cpus").write_text("0-1")
        with pytest.raises(CannotStart, match=r"host: asked for cpuset '0', the system has '0-1'"):
            group.read_back()
    finally:
        group.close()


def test_a_limit_that_the_system_refuses_is_an_error(host: Host) -> None:
    with pytest.raises(CannotStart, match=r"host: cpuset '4000' is refused: .*cpuset\.cpus: "):
        host.limited(cpuset="4000")


def test_the_host_uses_a_disk_until_it_is_closed(
    host: Host, disks: Disks, session_run: Run
) -> None:
    raw, formatted = disks.make("2 MiB"), disks.make("8 MiB", format="ext4")
    assert raw.where(host) == raw.device
    assert host.run(["blockdev", "--getsize64", raw.device]).text == f"{2 << 20}\n"
    place = formatted.where(host)
    assert host.run(["stat", "-f", "-c", "%T", place]).text == "ext2/ext3\n"
    assert raw.details["file"] == "written"
    folder = Path(place).parent
    assert {raw.device, formatted.device} <= set(mounts.loops_below(session_run.folder))
    for disk in (raw, formatted):
        disk.close()
        disk.close()
        assert disk.device not in mounts.loops_below(session_run.folder)
    assert not folder.exists()
    assert mounts.below(folder) == []


def test_a_disk_in_memory(host: Host, disks: Disks, session_run: Run) -> None:
    disk = disks.make("2 MiB", below="memory")
    assert disk.details["below"] == "tmpfs"
    assert disk.device in mounts.loops_below(session_run.folder)
    disk.close()
    assert disk.device not in mounts.loops_below(session_run.folder)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"format": "ext5"}, "format is 'ext5', not 'ext4', or '' for a raw disk"),
        ({"below": "mem"}, "below is 'mem', not 'disk' or 'memory'"),
        ({"size": "huge"}, "size is 'huge', not one such as '256 MiB': "),
    ],
)
def test_bad_disk_options_are_refused(disks: Disks, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        disks.make(**options)


def test_bad_caps_are_refused(disks: Disks) -> None:
    disk = disks.make("1 MiB")
    with pytest.raises(ValueError, match="read_iops is 0: a cap is a whole number, and"):
        disk.capped(read_iops=0)
    with pytest.raises(ValueError, match="write_rate is 0: a cap is a whole number, and"):
        disk.capped(write_rate="0.1 byte/s")
    with pytest.raises(
        ValueError, match=r"read_rate is '19\.2 Mbit', not one such as '19\.2 MB/s'"
    ):
        disk.capped(read_rate="19.2 Mbit")


def test_too_small_disks_are_refused(disks: Disks) -> None:
    with pytest.raises(CannotStart, match="a disk of 4 KiB is too small: at least 1 MiB"):
        disks.make("4 KiB")


@pytest.mark.parametrize("runtime", ["runc", "runsc"])
def test_a_disk_in_a_container(
    containers: Callable[[str], Containers], disks: Disks, host: Host, runtime: str
) -> None:
    factory = containers(runtime)
    formatted = disks.make("8 MiB", format="ext4")
    with factory.start(disks=[formatted]) as container:
        container.run(["sh", "-c", f"echo here >{formatted.where(container)}/file"])
        assert (Path(formatted.where(host)) / "file").read_text() == "here\n"
    raw = disks.make("2 MiB")
    capped = raw.capped(read_iops=50, read_rate="1 MB/s")
    if runtime == "runsc":
        with pytest.raises(Unavailable, match="its runtime does not pass block devices through"):
            factory.start(disks=[capped])
        return
    with factory.start(disks=[capped]) as container:
        details = container.facts().details
        assert details["disk_read_iops"] == f"{raw.number} 50"
        assert details["disk_read_bytes"] == f"{raw.number} 1000000"
        container.run(["dd", f"if={raw.where(container)}", "of=/dev/null", "bs=4096", "count=1"])
    with (
        factory.start() as container,
        pytest.raises(TargetError, match="is not attached to container runc: start it with disks="),
    ):
        raw.where(container)


def test_disks_and_limits_of_a_pod(
    disks: Disks,
    host: Host,
    session_run: Run,
    vperf_scope: Scope,
    require: Callable[[str, Readiness], None],
) -> None:
    require("pod", check_pods(afresh=False)[0])
    assets = prepare(default_rootfs())
    pods = Pods(lambda: assets, session_run, vperf_scope, accelerator="tcg")
    raw, formatted = disks.make("2 MiB"), disks.make("8 MiB", format="ext4")
    with pods.start(cpuset="0", cpu_shares=512, disks=[raw.capped(read_iops=99), formatted]) as pod:
        details = pod.facts().details
        assert (details["cpuset"], details["disk_read_iops"]) == ("0", f"{raw.number} 99")
        assert any("/vperf-" in path for path in cgroups.paths_of(pod.pid).values())
        pod.run(["dd", f"if={raw.where(pod)}", "of=/dev/null", "bs=4096", "count=1"])
        pod.run(["sh", "-c", f"echo here >{formatted.where(pod)}/file && sync"])
        with pytest.raises(CannotStart, match="is in pod tcg qboot: it cannot be mounted here too"):
            formatted.where(host)
        with pytest.raises(CannotStart, match="is in pod tcg qboot already"):
            pods.start(disks=[formatted])
    assert (Path(formatted.where(host)) / "file").read_text() == "here\n"


VICTIM = """
import time
from pytest_vperf.machine.runs import Run
from pytest_vperf.targets.disks import Disks, Here
from pytest_vperf.targets.host import Host
from pytest_vperf.targets.scope import Scope

with Run.begin() as run:
    scope = Scope()
    host = scope.own(Host(run))
    disks = Disks(Here(run), scope)
    disks.make("8 MiB", format="ext4").where(host)
    disks.make("2 MiB", below="memory")
    limited = host.limited(cpuset="0")
    print(run.id, flush=True)
    time.sleep(60)
"""


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_leftovers_of_a_run_are_found_and_removed(runs_dir: Path, how: int) -> None:
    victim = subprocess.Popen(
        [sys.executable, "-c", VICTIM], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert victim.stdout is not None
    run = victim.stdout.readline().strip()
    os.kill(victim.pid, how)
    victim.communicate(timeout=60)
    folder = runs_dir / f"run-{run}"
    found = leftovers.find()
    kinds = [each.kind for each in found if each.run == run]
    # Without a fixture nobody closes the scope after Ctrl-C either: both ways the same is left.
    assert [kind for kind in kinds if kind in ("mount", "loop")] == [
        "mount",
        "mount",
        "loop",
        "loop",
    ]
    assert "cgroup" in kinds
    leftovers.sweep()
    assert leftovers.find() == []
    assert mounts.loops_below(folder) == []
    assert mounts.below(folder) == []
    assert cgroups.named(f"vperf-{run}") == []
    assert not folder.exists()
