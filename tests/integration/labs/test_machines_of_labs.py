"""Guests under KVM, domUs and pods under Xen on the hosts of a lab, which runs anywhere.

A start takes half a minute there, so tests that only read share one domU.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
from labs_here import leaving_nothing, left

from pytest_vperf.machine import compiler
from pytest_vperf.targets.base import CannotConnect, CannotStart, TimedOut, Unavailable, link_of
from pytest_vperf.targets.guest.probe import probe_kvm
from pytest_vperf.targets.image import rootfs
from pytest_vperf.targets.kernel.guest_kernel import XEN, distribution_kernel
from pytest_vperf.targets.pod import assets
from pytest_vperf.targets.xen.domus import Domus
from pytest_vperf.targets.xen.pods import XenPods

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pytest_vperf.targets.disks import Disk
    from pytest_vperf.targets.guest.guests import Guests
    from pytest_vperf.targets.image.rootfs import Rootfs
    from pytest_vperf.targets.libvirt.daemon import Daemon
    from pytest_vperf.targets.scope import Scope
    from pytest_vperf.targets.xen.domus import Domu

pytestmark = pytest.mark.patient


@pytest.fixture
def domus(daemon_of: Callable[[str], Daemon], tools: Rootfs) -> Iterator[Domus]:
    daemon = daemon_of("xen")
    with leaving_nothing(daemon) as scope:
        yield domus_of(daemon, tools, scope)


def domus_of(daemon: Daemon, tools: Rootfs, scope: Scope) -> Domus:
    return Domus(lambda: daemon, lambda: tools, distribution_kernel, scope, timeout=240)


@dataclass(frozen=True)
class One:
    """A domU with every optional part."""

    domu: Domu
    domus: Domus
    raw: Disk
    formatted: Disk


@pytest.fixture(scope="module")
def one(daemon_of: Callable[[str], Daemon], tools: Rootfs) -> Iterator[One]:
    """Shared by the tests that only read from it; it is up until the last test of this file."""
    daemon = daemon_of("xen")
    with leaving_nothing(daemon) as scope:
        domus = domus_of(daemon, tools, scope)
        raw = domus.disks.make("2 MiB")
        formatted = domus.disks.make("16 MiB", format="ext4")
        domu = domus.start(
            init="small",
            memory="384 MiB",
            vcpus=2,
            cpu_shares=512,
            cpus=1.5,
            cpuset="1",
            network=domus.network,
            disks=[raw, formatted],
        )
        yield One(domu, domus, raw, formatted)


def test_kvm_is_probed_by_booting_a_guest(daemon_of: Callable[[str], Daemon]) -> None:
    answer = probe_kvm(daemon_of("kvm"), distribution_kernel())
    assert answer.usable, answer
    assert answer.why.endswith("a guest kernel got to its userspace")


def test_qemu_libvirt_and_the_guest_kernel_report_kvm(guests: Guests) -> None:
    with guests.start(init="small", cpu_shares=512, cpuset="0") as guest:
        assert guest.name == "guest kvm (lab kvm)"
        details = guest.facts().details
        # As reported by QEMU (query-kvm), libvirt, and the guest kernel.
        assert details["accelerator"] == "kvm"
        assert details["domain_type"] == "kvm"
        assert "Hypervisor detected: KVM" in guest.run(["dmesg"]).text
        assert details["emulated"] == "yes"
        assert details["on"] == details["lab"].join(["lab ", ""])
        assert details["cpu_shares"] == "512"
        assert details["cpuset"] == "0"
        assert [name for name, _ in guest.startup_time.breakdown] == [
            "process",
            "firmware",
            "kernel",
            "userspace",
        ]


def test_a_domu_is_as_requested(one: One) -> None:
    domu = one.domu
    assert domu.name == "domu pv (lab xen)"
    assert "Hypervisor detected: Xen PV" in domu.run(["dmesg"]).text
    details = domu.facts().details
    assert (details["xen_weight"], details["xen_cap"]) == ("128", "150")
    assert details["cpuset"] == "1"
    assert domu.run(["nproc"]).text == "2\n"
    assert 300 < int(domu.run(["awk", "/MemTotal/ {print $2}", "/proc/meminfo"]).text) / 1024 < 384
    assert domu.usage().cpu_time > 0


def test_a_domu_is_a_machine_like_any_other(one: One, tmp_path: Path) -> None:
    domu = one.domu
    done = domu.run(
        ["sh", "-c", "cat; pwd; echo $A; echo no >&2; exit 3"],
        input=b"hallo ",
        cwd="/usr",
        env={"A": "b"},
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (3, b"hallo /usr\nb\n", b"no\n")
    assert domu.run(["/no/such"], check=False).returncode == 127
    with pytest.raises(TimedOut, match="sleep 100 did not end within 2 s"):
        domu.run(["sleep", "100"], timeout=2)
    # Every byte passes the console, even its control characters.
    source, back = tmp_path / "all", tmp_path / "back"
    source.write_bytes(bytes(range(256)) * 600)
    source.chmod(0o751)
    domu.put(source, "/root/all")
    assert domu.run(["stat", "-c", "%a %s", "/root/all"]).text == f"751 {256 * 600}\n"
    domu.get("/root/all", back)
    assert back.read_bytes() == source.read_bytes()


def test_host_and_machine_run_the_same_bytes(one: One) -> None:
    host, domu = one.domus.host, one.domu
    here, there = host.program("sysbench"), domu.program("sysbench")
    assert here.sha256 == there.sha256
    assert here.argv != there.argv
    for target, program in ((host, here), (domu, there)):
        said = target.run([*program.argv, "cpu", "--events=5", "--time=0", "run"]).text
        assert "total number of events:              5" in said
    assert host.facts().details["on"] == "lab xen"


def test_the_host_resolves_the_address_of_a_domu(one: One) -> None:
    link, host = one.domu.link, one.domus.host
    assert link is not None
    address = link.address_for(link_of(host))
    seen = host.run(
        ["sh", "-c", f"ip neighbour flush all; nc -z -w 5 {address} 1; ip neighbour"], check=False
    )
    assert f"{address} dev" in seen.text
    assert "lladdr 02:76:70:66" in seen.text


def test_a_domu_has_its_disks_and_keeps_them(one: One) -> None:
    raw, formatted, domu = one.raw, one.formatted, one.domu
    assert domu.run(["blockdev", "--getsize64", raw.where(domu)]).text == f"{2 << 20}\n"
    assert domu.run(["stat", "-f", "-c", "%T", formatted.where(domu)]).text == "ext2/ext3\n"
    with pytest.raises(CannotStart, match=f"{raw.name} is in domu pv"):
        one.domus.start(disks=[raw])


def test_a_domu_boots_a_full_userspace(domus: Domus) -> None:
    disk = domus.disks.make("16 MiB", format="ext4")
    with domus.start(disks=[disk]) as domu:
        assert domu.run(["cat", "/proc/1/comm"]).text == "systemd\n"
        parts = [name for name, _ in domu.startup_time.breakdown]
        assert parts == ["process", "kernel", "agent"]
    # It is the host's again.
    assert disk.where(domus.host).endswith("/own")


@pytest.fixture
def xen_pods(daemon_of: Callable[[str], Daemon]) -> Iterator[XenPods]:
    daemon = daemon_of("xen")
    made = assets.prepare(rootfs.default_rootfs())
    with leaving_nothing(daemon) as scope:
        yield XenPods(lambda: daemon, lambda: made, scope, timeout=240)


def test_a_domu_in_single_user_mode_has_its_agent(domus: Domus) -> None:
    with domus.start(init="rescue") as domu:
        domu.run(["systemctl", "is-system-running", "--wait"], check=False, timeout=300)
        for target, state in (("rescue", "active"), ("multi-user", "inactive")):
            said = domu.run(["systemctl", "is-active", f"{target}.target"], check=False)
            assert said.text == f"{state}\n"


def test_a_pod_runs_on_xen(xen_pods: XenPods) -> None:
    with xen_pods.start(cpuset="0") as pod:
        assert pod.name == "pod xen (lab xen)"
        assert pod.facts().kind == "pod"
        assert pod.facts().details["cpuset"] == "0"
        parts = [name for name, _ in pod.startup_time.breakdown]
        assert parts == ["process", "kernel", "agent", "container"]
        assert pod.run(["hostname"]).text == "pod\n"
        # The container's own processes, not the machine's.
        assert pod.run(["cat", "/proc/1/comm"]).text == "sleep\n"
    with pytest.raises(CannotStart, match=r"its container ended at once \(false\) with status 1"):
        xen_pods.start(command=("false",))


def test_a_pinning_that_xen_does_not_apply_fails_the_start(
    domus: Domus, daemon_of: Callable[[str], Daemon]
) -> None:
    """The host has two processors."""
    before = left(daemon_of("xen"))
    with pytest.raises(CannotStart, match=r"asked for cpuset '0-3', the hypervisor has \[0, 1\]"):
        domus.start(init="small", cpuset="0-3")
    assert left(daemon_of("xen")) == before


def test_files_for_machines_are_made_and_uploaded_once(
    domus: Domus,
    daemon_of: Callable[[str], Daemon],
    tools: Rootfs,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    daemon, kernel = daemon_of("xen"), distribution_kernel()
    daemon.root_disk(tools), daemon.kernel(kernel)
    kept = daemon.initramfs(kernel, XEN)
    with monkeypatch.context() as patch:
        patch.setattr(compiler, "build", None)
        patch.setattr(daemon.storage, "_found", None)
        domus.start(init="small").close()
    # A file may vanish meanwhile: the start reports it, and the next one makes it again.
    domus.host.run(["rm", kept])
    with pytest.raises(CannotStart, match=f"{kept} was uploaded but has since gone"):
        domus.start(init="small")
    domus.start(init="small").close()
    assert daemon.initramfs(kernel, XEN) != kept


def test_a_domu_that_ends_during_a_command_is_gone(domus: Domus) -> None:
    with domus.start(init="small") as domu:
        with pytest.raises(
            CannotConnect, match=r"domu pv \(lab xen\) is gone: its kernel panicked; it said:\n"
        ) as caught:
            domu.run(["sh", "-c", "echo c >/proc/sysrq-trigger; sleep 60"], timeout=120)
        assert "Kernel panic - not syncing: sysrq triggered crash" in str(caught.value)


def test_modes_that_need_hardware_virtualisation_are_refused(domus: Domus) -> None:
    with pytest.raises(Unavailable, match="cannot run machines in the mode pvh"):
        domus.start(mode="pvh")
