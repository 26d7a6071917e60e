"""The confinement of a pod's QEMU: its command line, its files, its user."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_vperf.machine import ownership
from pytest_vperf.machine.runs import Run
from pytest_vperf.targets.base import CannotStart, Unavailable
from pytest_vperf.targets.pod import place, sandbox
from pytest_vperf.targets.pod.config import MachineConfig
from pytest_vperf.targets.pod.qemu import LocalQemu

if TYPE_CHECKING:
    from collections.abc import Callable

#: A fake QEMU with or without the filter; started as a machine it prints its state and ends.
QEMU = """#!/bin/sh
case "$*" in
  *--version*) [ {filtered} = yes ] || {{ echo "There is no option group 'sandbox'" >&2; exit 1; }};;
  *) for word; do echo "$word"; done; echo core $(ulimit -c) file $(ulimit -f); env; ls /proc/self/fd;;
esac
"""
FILTER = [
    "-sandbox",
    "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny",
]


@pytest.fixture
def qemu(tmp_path: Path) -> Callable[[str], str]:
    def make(filtered: str = "yes") -> str:
        program = tmp_path / f"qemu-{filtered}"
        program.write_text(QEMU.format(filtered=filtered))
        program.chmod(0o755)
        return str(program)

    return make


@pytest.fixture
def config(tmp_path: Path) -> MachineConfig:
    for name in ("firmware", "kernel", "initramfs", "image", "device"):
        (tmp_path / name).write_text(f"the {name}")
    return MachineConfig(
        "tcg",
        tmp_path / "firmware",
        tmp_path / "kernel",
        tmp_path / "initramfs",
        tmp_path / "image",
        disks=(("vperf-disk0", str(tmp_path / "device")),),
    )


@pytest.fixture
def root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)


@pytest.fixture
def user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)


@pytest.mark.usefixtures("user")
def test_a_users_qemu_filters_its_system_calls(
    qemu: Callable[..., str], config: MachineConfig
) -> None:
    made = sandbox.confine(qemu(), config)
    assert made.config == config
    assert made.descriptors == ()
    words = made.command(["qemu", "-S"])
    assert words[:2] == ["/bin/sh", "-c"]
    assert words[3:] == ["sh", "qemu", "-S", *FILTER]


@pytest.mark.usefixtures("user")
def test_a_qemu_without_the_filter_goes_without_and_the_record_says_so(
    qemu: Callable[..., str], config: MachineConfig
) -> None:
    assert "-sandbox" not in sandbox.confine(qemu("no"), config).command(["qemu"])
    assert place.HERE.sandbox(qemu("no")) == "QEMU has no seccomp filter"
    assert place.HERE.sandbox(qemu()) == "seccomp"


@pytest.mark.usefixtures("root")
def test_roots_qemu_has_another_user_and_opens_nothing_by_its_path(
    qemu: Callable[..., str], config: MachineConfig, tmp_path: Path
) -> None:
    made = sandbox.confine(qemu(), config)
    words = made.command(["qemu", "-S"])
    at = words.index("qemu")
    assert Path(words[4]).name == "setpriv"
    assert words[5:at] == [
        f"--reuid={made.user}",
        f"--regid={made.user}",
        "--clear-groups",
        "--no-new-privs",
        "--",
    ]
    image, device, *others = made.descriptors
    assert words[at:] == [
        *("qemu", "-S", *FILTER),
        *("-add-fd", f"fd={image},set=1", "-add-fd", f"fd={device},set=2"),
    ]
    assert str(made.config.disk) == "/dev/fdset/1"
    assert made.config.disks == (("vperf-disk0", "/dev/fdset/2"),)
    named = [made.config.firmware, made.config.kernel, made.config.initramfs]
    assert [str(each) for each in named] == [f"/proc/self/fd/{each}" for each in others]
    assert [Path(each).read_text() for each in named] == [
        "the firmware",
        "the kernel",
        "the initramfs",
    ]
    assert str(tmp_path) not in " ".join(map(str, (made.config, *words[:at])))
    made.close()
    for each in made.descriptors:
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(each)


@pytest.mark.usefixtures("root")
def test_a_kernel_that_others_may_not_read_is_copied(
    qemu: Callable[..., str], config: MachineConfig
) -> None:
    Path(config.kernel).chmod(0o600)
    made = sandbox.confine(qemu(), config)
    kernel = Path(made.config.kernel)
    assert kernel.read_text() == "the kernel"
    assert stat.S_IMODE(kernel.stat().st_mode) == 0o444
    assert stat.S_IMODE(Path(config.kernel).stat().st_mode) == 0o600
    made.close()


@pytest.mark.usefixtures("root")
def test_a_file_that_is_not_there_leaves_nothing_open(
    qemu: Callable[..., str], config: MachineConfig
) -> None:
    Path(config.initramfs).unlink()
    before = set(os.listdir("/proc/self/fd"))  # noqa: PTH208 - names
    with pytest.raises(FileNotFoundError):
        sandbox.confine(qemu(), config)
    assert set(os.listdir("/proc/self/fd")) == before  # noqa: PTH208


@pytest.mark.usefixtures("root")
def test_root_without_setpriv_starts_no_pod(
    qemu: Callable[..., str], config: MachineConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sandbox, "find_program", lambda _: None)
    with pytest.raises(Unavailable) as caught:
        sandbox.confine(qemu(), config)
    assert caught.value.reason == "setpriv is not installed, which QEMU needs to drop root"
    assert caught.value.remedy == "apt-get install util-linux"


@pytest.mark.parametrize(
    ("mode", "group", "found"),
    [
        (0o666, 0, ()),
        (0o660, 108, (108,)),
        (0o666, 108, ()),
        (0o660, 0, None),  # the group root is root's
        (0o600, 108, None),
        (0o640, 108, None),
    ],
)
def test_who_may_use_kvm(mode: int, group: int, found: tuple[int, ...] | None) -> None:
    assert sandbox.groups_for(stat.S_IFCHR | mode, group) == found


@pytest.mark.usefixtures("root")
def test_kvm_for_root_alone_is_reported_without_a_boot(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    device = tmp_path / "kvm"
    device.touch(mode=0o600)
    for module in (sandbox, place):
        monkeypatch.setattr(module, "KVM", device)
    why = f"{device} is for root alone, and a pod's QEMU is not root"
    assert place.HERE.refusal("kvm") == (
        why,
        f"chgrp kvm {device} && chmod 660 {device}, as udev does",
    )
    device.chmod(0o666)
    assert place.HERE.refusal("kvm") is None


def test_qemu_is_started_confined(
    qemu: Callable[..., str],
    config: MachineConfig,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """By the real LocalQemu, as root or not, with a program in place of QEMU."""
    monkeypatch.setenv("VPERF_RUNS_DIR", str(tmp_path / "runs"))
    monkeypatch.setenv("TOKEN", "secret")
    with (
        tempfile.TemporaryDirectory() as reached,  # by a user who is not root
        open("/etc/passwd") as foreign,  # noqa: PTH123 - a descriptor
        Run.begin() as run,
    ):
        Path(reached).chmod(0o755)
        program = shutil.copy(qemu(), reached)
        number = foreign.fileno()
        os.set_inheritable(number, True)
        process = LocalQemu(program, config, run)
        process.wait(20)
        log = next(run.folder.glob("pod*/qemu.log")).read_text()
        for each in (process.qmp, process.console, process.agent):
            each.close()
        process.end()
    lines = log.splitlines()
    assert "core 0 file 131072" in lines
    assert not [line for line in lines if "secret" in line]
    assert f"VPERF_RUN={run.id}" in lines
    inherited = {int(line) for line in lines if line.isdigit()}
    assert number not in inherited


def test_users_are_unused_and_never_the_same() -> None:
    found = [ownership.free() for _ in range(20)]
    assert len(set(found)) == 20
    taken = {entry.split(":")[2] for entry in Path("/etc/passwd").read_text().splitlines()}
    assert not taken & set(map(str, found))
    assert all(ownership.ours(each) for each in found) == (os.getuid() == 0)
    assert ownership.ours(os.getuid())
    assert not ownership.ours(65_534)


def test_users_in_use_are_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first has a name, the second has processes, the third is free."""
    monkeypatch.setattr(ownership, "RANGES", (range(70_001, 70_004),))
    monkeypatch.setattr(ownership, "_mapped", lambda _: True)

    def named(user: int) -> Any:
        if user != 70_001:
            raise KeyError(user)

    def running(_: int, user: int) -> int:
        if user != 70_002:
            raise ProcessLookupError
        return 0

    monkeypatch.setattr("pwd.getpwuid", named)
    monkeypatch.setattr(os, "getpriority", running)
    assert {ownership.free() for _ in range(5)} == {70_003}
    monkeypatch.setattr(os, "getpriority", lambda *_: 0)
    with pytest.raises(OSError, match="all user IDs from 70001 to 70003 are in use"):
        ownership.free()


def test_a_user_namespace_without_large_numbers_has_small_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    beyond = range(1 << 33, (1 << 33) + 10)
    small = range(60_706, 61_184)
    monkeypatch.setattr(ownership, "RANGES", (beyond, small))
    assert ownership.free() in small
    monkeypatch.setattr(ownership, "RANGES", (beyond,))
    with pytest.raises(OSError, match=r"this user namespace has none of the user IDs 8589934592 "):
        ownership.free()


@pytest.mark.usefixtures("root")
def test_without_a_free_user_no_pod_starts(
    qemu: Callable[..., str], config: MachineConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ownership, "RANGES", (range(1 << 33, (1 << 33) + 10),))
    with pytest.raises(CannotStart, match="there is no user for QEMU: this user namespace has"):
        sandbox.confine(qemu(), config)
