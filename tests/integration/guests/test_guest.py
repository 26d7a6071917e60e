"""Real guests: libvirt, QEMU's emulation, a kernel, an init, an agent, and commands in them."""

from __future__ import annotations

import json
import os
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest
from guests_here import qemus

from pytest_vperf.commands import doctor
from pytest_vperf.machine import cgroups
from pytest_vperf.targets.base import CannotStart, CommandFailed, TargetError, TimedOut
from pytest_vperf.targets.guest.guest import PHASES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from guests_here import Place

    from pytest_vperf.targets.guest.guest import Guest


@pytest.fixture(scope="module")
def guest(guest_place: Place) -> Iterator[Guest]:
    """One guest, shared by tests that only read from it."""
    with guest_place.guests().start(init="small") as guest:
        yield guest


@pytest.mark.parametrize("init", ["small", "systemd"])
def test_the_startup_time_is_the_sum_of_its_phases(guest_place: Place, init: str) -> None:
    before = guest_place.traces()
    began = time.perf_counter()
    with guest_place.guests().start(init=init) as guest:
        waited = (time.perf_counter() - began) * 1e3
        startup = guest.startup_time
        assert startup.unit == "ms"
        assert [name for name, _ in startup.breakdown] == list(PHASES)
        assert all(value > 0 for _, value in startup.breakdown)
        assert sum(value for _, value in startup.breakdown) == pytest.approx(startup.value)
        # No time is invented: the caller waited at least as long.
        assert startup.value <= waited
        first = "/usr/lib/vperf/init" if init == "small" else "/sbin/init"
        assert first.encode() in guest.run(["cat", "/proc/1/cmdline"]).stdout
        facts = guest.facts()
        assert (facts.kind, facts.name) == ("guest", "guest tcg")
        # As QEMU itself reports: without KVM.
        assert facts.details["accelerator"] == "tcg"
        assert facts.details["init"] == init
        assert facts.details["guest_kernel"] == guest_place.kernel.release
        assert guest.run(["uname", "-r"]).text.strip() == guest_place.kernel.release
        assert re.fullmatch(r"\d+\.\d+\.\d+", facts.details["libvirt"])
        assert re.fullmatch(r"QEMU \d+\.\d+\.\d+", facts.details["hypervisor"])
    assert guest_place.traces() == before


def test_single_user_mode_has_the_agent(guest_place: Place) -> None:
    with guest_place.guests().start(init="rescue") as guest:
        guest.run(["systemctl", "is-system-running", "--wait"], check=False, timeout=180)
        for target, state in (("rescue", "active"), ("multi-user", "inactive")):
            said = guest.run(["systemctl", "is-active", f"{target}.target"], check=False)
            assert said.text == f"{state}\n"
        assert guest.facts().details["init"] == "rescue"
        work = ["cpu", "--threads=1", "--events=10", "--cpu-max-prime=1000", "run"]
        assert "total number of events" in guest.run([*guest.program("sysbench").argv, *work]).text


def test_a_command_runs_in_the_guest(guest: Guest) -> None:
    done = guest.run(
        ["sh", "-c", "echo out; echo err >&2; pwd; echo $A"], env={"A": "b c"}, cwd="/tmp"
    )
    assert (done.text, done.stderr, done.returncode) == ("out\n/tmp\nb c\n", b"err\n", 0)
    assert guest.run(["hostname"]).text == "localhost\n"
    assert guest.program("sysbench").path == "/usr/bin/sysbench"


def test_qemu_of_the_runs_own_daemon_filters_its_system_calls_and_leaves_no_core(
    guest: Guest,
) -> None:
    (pid,) = (
        each.pid
        for each in psutil.process_iter(["cmdline"])
        if any(guest.identity in word for word in each.info["cmdline"] or ())
        and "qemu-system" in each.info["cmdline"][0]
    )
    status = Path(f"/proc/{pid}/status").read_text()
    for line in ("Seccomp:\t2", "NoNewPrivs:\t1"):
        assert re.search(f"^{line}$", status, re.MULTILINE), line
    limits = Path(f"/proc/{pid}/limits").read_text()
    assert re.search(r"^Max core file size +0 +0 ", limits, re.MULTILINE)


def test_input_of_any_size_passes(guest: Guest) -> None:
    data = os.urandom(700_000)
    assert guest.run(["cat"], input=data).stdout == data
    assert guest.run(["true"], input=data).returncode == 0
    assert guest.run(["wc", "-c"], input=b"").text == "0\n"
    assert "vperf-" not in guest.run(["ls", "/run"]).text, "the input's file is removed"


def test_output_of_any_size_passes_or_is_an_error(guest: Guest) -> None:
    assert len(guest.run(["head", "-c", "2900000", "/dev/zero"]).stdout) == 2_900_000
    with pytest.raises(
        TargetError,
        match=r"^guest tcg: its agent's answer to guest-exec-status is too long for libvirt: .*\n"
        r"\(`head -c 4000000 /dev/zero`; output may have 2900000 bytes\)$",
    ):
        guest.run(["head", "-c", "4000000", "/dev/zero"])
    assert guest.run(["echo", "well"]).text == "well\n"


def test_output_beyond_libvirts_limit_loses_the_agent(guest_place: Place) -> None:
    with guest_place.guests().start(init="small") as guest:
        with pytest.raises(TargetError, match="libvirt no longer speaks to this agent"):
            guest.run(["head", "-c", "12000000", "/dev/zero"])
        with pytest.raises(
            TargetError, match=r"guest tcg: its agent .*not available due to an error"
        ):
            guest.run(["true"])


@pytest.mark.parametrize(
    ("argv", "status"),
    [
        (["sh", "-c", "exit 3"], 3),
        (["sh", "-c", "kill -9 $$"], 137),
        (["no-such-command"], 127),
        (["/etc"], 126),
        (["/etc/passwd"], 126),
    ],
)
def test_statuses_are_a_shells(guest: Guest, argv: list[str], status: int) -> None:
    assert guest.run(argv, check=False).returncode == status
    with pytest.raises(CommandFailed, match=rf"ended with status {status} in guest tcg"):
        guest.run(argv)


def test_a_missing_folder_is_the_commands_failure(guest: Guest) -> None:
    with pytest.raises(CommandFailed, match="can't cd to /nowhere"):
        guest.run(["true"], cwd="/nowhere")


def test_a_time_limit_ends_the_command_with_its_children(guest: Guest) -> None:
    with pytest.raises(TimedOut) as caught:
        guest.run(["sh", "-c", "echo begun; sleep 1234 & sleep 1234"], timeout=1.0)
    assert caught.value.stdout == b"begun\n"
    assert "did not end in time in guest tcg; it was killed" in str(caught.value)
    assert guest.run(["pgrep", "-f", "sleep 123[4]"], check=False).returncode == 1


def test_no_answer_is_lost_while_a_console_is_read(guest: Guest) -> None:
    # libvirt's client lost about ten per cent of its answers for seconds to a thread that waited for a stream.
    began = time.perf_counter()
    for _ in range(100):
        guest.run(["true"])
    assert time.perf_counter() - began < 100


def test_files_pass_with_their_mode(guest: Guest, tmp_path: Path) -> None:
    source = tmp_path / "with a space"
    source.write_bytes(os.urandom(3_000_000))
    source.chmod(0o751)
    guest.put(source, "/tmp/file")
    assert guest.run(["stat", "-c", "%a %s", "/tmp/file"]).text == "751 3000000\n"
    guest.get("/tmp/file", tmp_path / "back")
    assert (tmp_path / "back").read_bytes() == source.read_bytes()
    source.write_bytes(b"")
    guest.put(source, "/tmp/file")
    assert guest.run(["wc", "-c", "/tmp/file"]).text == "0 /tmp/file\n"


def test_files_that_cannot_be_copied_say_why(guest: Guest, tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"x")
    with pytest.raises(TargetError, match=r"'/no/where' .*: No such file or directory"):
        guest.put(tmp_path / "f", "/no/where")
    with pytest.raises(TargetError, match=r"'/absent' .*: No such file or directory"):
        guest.get("/absent", tmp_path / "g")
    with pytest.raises(TargetError, match="Is a directory"):
        guest.get("/etc", tmp_path / "g")
    assert not (tmp_path / "g").exists()
    with pytest.raises(TargetError, match="NUL"):
        guest.run(["echo", "a\0b"])


def test_usage_grows_with_work(guest: Guest) -> None:
    before = guest.usage()
    guest.run(["sh", "-c", "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done"])
    after = guest.usage()
    assert after.cpu_time > before.cpu_time > 0.1
    assert after.memory is not None
    assert after.memory > 50 << 20


def test_limits_are_read_back_and_in_force(guest_place: Place) -> None:
    limits: dict[str, Any] = {"cpu_shares": 512, "cpus": 0.5, "cpuset": "0"}
    others = set(cgroups.of_machines(guest_place.run.cgroup))
    with guest_place.guests().start(init="small", **limits) as guest:
        details = guest.facts().details
        assert (details["cpu_shares"], details["cpuset"]) == ("512", "0")
        quota = int(details["cpu_quota"])
        groups = [
            group for group in cgroups.of_machines(guest_place.run.cgroup) if group not in others
        ]
        if (Path("/sys/fs/cgroup") / "cpu").is_dir():
            assert in_force(groups, "cpu.shares") == {"512"}
            assert in_force(groups, "cpu.cfs_quota_us") == {str(quota)}
            period = in_force(groups, "cpu.cfs_period_us")
            assert {quota / int(each) for each in period} == {0.5}
        else:
            assert {each.split()[0] for each in in_force(groups, "cpu.max")} == {str(quota)}


def in_force(groups: list[Path], name: str) -> set[str]:
    """The kernel's values for a machine's own control group, below which libvirt makes more."""
    return {(group / name).read_text().strip() for group in groups if (group / name).exists()}


def test_a_cpuset_holds_every_thread_of_qemu(guest_place: Place) -> None:
    others = qemus(guest_place.run)
    with guest_place.guests().start(init="small", cpuset="0", vcpus=2) as guest:
        assert guest.run(["nproc"]).text == "2\n"
        (found,) = (each for each in qemus(guest_place.run) if each not in others)
        tasks = Path(f"/proc/{found.split()[0]}/task")
        allowed = {
            line.split()[1]
            for task in tasks.iterdir()
            for line in (task / "status").read_text().splitlines()
            if line.startswith("Cpus_allowed_list:")
        }
        assert allowed == {"0"}


def test_two_guests_at_once_see_nothing_of_each_other(guest_place: Place) -> None:
    guests = guest_place.guests()
    with (
        guests.start(init="small") as first,
        guests.start(init="small", memory="384 MiB") as second,
    ):
        assert len(guest_place.machines()) >= 2
        first.run(["sh", "-c", "echo mine > /etc/passwd"])
        assert first.run(["cat", "/etc/passwd"]).text == "mine\n"
        assert second.run(["head", "-n", "1", "/etc/passwd"]).text.startswith("root:")
        total = int(second.run(["awk", "/MemTotal/{print $2}", "/proc/meminfo"]).text)
        assert 250_000 < total < 384 * 1024


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"vcpus": 0}, "vcpus is 0, not a whole number of at least 1"),
        ({"init": "upstart"}, "unknown init 'upstart': choose one of systemd, rescue, small"),
        ({"cpu": "i4004"}, "guest tcg: libvirt could not start it: Unknown CPU model i4004"),
        ({"memory": "4000 GiB"}, "cannot set up guest memory"),
    ],
)
def test_unavailable_settings_are_refused(
    guest_place: Place, asked: dict[str, Any], words: str
) -> None:
    with pytest.raises(CannotStart, match=words):
        guest_place.guests().start(**{"init": "small", **asked})


def test_the_doctor_starts_a_guest(
    guest_place: Place, capsys: pytest.CaptureFixture[str], runs_dir: Path
) -> None:
    assert doctor.run(["guest", "guests with tcg"], json=True) == 0
    answers = json.loads(capsys.readouterr().out)["checks"]
    assert re.fullmatch(
        r"libvirt \d\S* .*, QEMU \S+, guest kernel \S+, accelerators: .*tcg", answers[0]["why"]
    )
    assert answers[1]["why"] == "libvirt at qemu:///system: a guest kernel got to its userspace"
    assert list(runs_dir.iterdir()) == []


def test_a_firmware_boots_a_guest_from_a_disk(guest_place: Place) -> None:
    guests = guest_place.guests()
    with guests.start(init="small", boot="firmware") as guest:
        assert guest.facts().details["boot"] == "firmware"
        parts = dict(guest.startup_time.breakdown)
        assert list(parts) == ["process", "firmware", "kernel", "userspace"]
        line = guest.run(["cat", "/proc/cmdline"]).text
        assert "BOOT_IMAGE=/vmlinuz" in line  # set by the boot loader (SYSLINUX)
        assert "root=/dev/vda" in line
        # Its root is the same disk as in a direct boot; the boot disk is the last one.
        assert guest.run(["cat", "/sys/block/vdb/ro"]).text == "1\n"
