"""Errors of guests are reported soon and with the guest's name; afterwards nothing of the guest is left."""

from __future__ import annotations

import io
import math
import os
import signal
import socket
import struct
import subprocess
import tarfile
import tempfile
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from guests_here import qemus, start_daemon

from pytest_vperf.machine.preflight import Readiness
from pytest_vperf.machine.runs import Run
from pytest_vperf.targets.base import CannotConnect, CannotStart, CommandFailed, TimedOut
from pytest_vperf.targets.guest.guest import GuestAgent
from pytest_vperf.targets.image.rootfs import default_rootfs, from_tar
from pytest_vperf.targets.libvirt.connect import connect
from pytest_vperf.targets.libvirt.connection import Connection, Watch
from pytest_vperf.targets.libvirt.domain import Domain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from guests_here import Place

    from pytest_vperf.targets.image.rootfs import Rootfs

#: Seconds within which each error must come on a busy machine.
SOON = 45.0


@contextmanager
def within(seconds: float) -> Iterator[None]:
    began = time.perf_counter()
    yield
    assert time.perf_counter() - began < seconds


@contextmanager
def later(seconds: float, do: Callable[[], None]) -> Iterator[None]:
    """Run something from outside while the block runs."""
    timer = threading.Timer(seconds, do)
    timer.start()
    try:
        yield
    finally:
        timer.join()


@pytest.fixture(autouse=True)
def nothing_left(guest_place: Place) -> Iterator[None]:
    before = guest_place.traces()
    yield
    deadline = time.monotonic() + 10
    while guest_place.traces() != before and time.monotonic() < deadline:
        time.sleep(0.1)
    assert guest_place.traces() == before


@pytest.fixture
def own_place(guest_place: Place, runs_dir: Path, tmp_path: Path) -> Iterator[Place]:
    """A daemon for one test, which may break it."""
    from guests_here import Place

    with Run.begin() as run:
        own, daemon = start_daemon(run, guest_place_folder())
        try:
            yield Place(run, daemon, own, guest_place.rootfs, guest_place.kernel)
        finally:
            daemon.close()
        assert qemus(run) == []


def guest_place_folder() -> Path:
    from pytest_vperf.machine import cache

    return cache.root() / "libvirt"


def kill_qemu(run: Run, besides: list[str]) -> None:
    for found in qemus(run):
        if found not in besides:
            os.kill(int(found.split()[0]), signal.SIGKILL)


# ---- the daemon ----------------------------------------------------------------------------------


def free_port() -> int:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        return int(server.getsockname()[1])


def test_an_ssh_port_without_a_listener_is_reported(session_run: Run) -> None:
    uri = f"qemu+ssh://root@127.0.0.1:{free_port()}/system"
    with within(SOON), pytest.raises(CannotConnect) as caught:
        connect(uri, session_run)
    assert str(caught.value).startswith(f"libvirt at {uri} does not answer: ")
    assert "Connection refused" in str(caught.value)


def test_a_missing_socket_is_reported(session_run: Run, tmp_path: Path) -> None:
    uri = f"qemu:///system?socket={tmp_path}/none"
    with within(SOON), pytest.raises(CannotConnect) as caught:
        connect(uri, session_run)
    assert str(caught.value) == (
        f"libvirt at qemu:///system does not answer: Failed to connect socket to '{tmp_path}/none':"
        " No such file or directory"
    )


@pytest.mark.patient
def test_a_silent_port_times_out(session_run: Run) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        uri = f"qemu+tcp://127.0.0.1:{server.getsockname()[1]}/system"
        with within(SOON), pytest.raises(TimedOut) as caught:
            connect(uri, session_run)
    assert str(caught.value) == f"libvirt at {uri} did not answer within 30 s"


def test_a_daemon_that_is_killed_while_a_command_runs(own_place: Place) -> None:
    guests = own_place.guests()
    guest = guests.start(init="small")
    pid = own_place.own.pid
    with (
        within(SOON),
        later(1.0, lambda: os.kill(pid, signal.SIGKILL)),
        pytest.raises(
            CannotConnect,
            match="guest tcg is gone: the connection to libvirt at qemu:///system ended: the daemon has gone",
        ),
    ):
        guest.run(["sleep", "60"])
    with pytest.raises(CannotConnect, match="guest tcg is gone"):
        guest.usage()
    with within(SOON), pytest.raises(CannotConnect):
        guests.start(init="small")
    with within(SOON):
        guest.close()


@pytest.mark.patient
@pytest.mark.timeout(200)
def test_a_daemon_that_hangs_is_noticed_by_its_missing_signs_of_life(own_place: Place) -> None:
    guest = own_place.guests().start(init="small")
    stopped = [pid for pid in children(own_place.own.pid) if name_of(pid) == "libvirtd"]
    assert stopped
    for pid in stopped:
        os.kill(pid, signal.SIGSTOP)
    with (
        within(60 + SOON),
        pytest.raises(CannotConnect, match="guest tcg is gone: the connection to libvirt"),
    ):
        guest.run(["sleep", "100"], timeout=100)
    own_place.own.stop()


def children(pid: int) -> list[int]:
    import psutil

    return [child.pid for child in psutil.Process(pid).children(recursive=True)]


def name_of(pid: int) -> str:
    return Path(f"/proc/{pid}/comm").read_text().strip()


# ---- the machine ---------------------------------------------------------------------------------


def test_a_kernel_that_panics_while_a_command_runs(guest_place: Place) -> None:
    with guest_place.guests().start(init="small") as guest:
        with within(SOON), pytest.raises(CannotConnect) as caught:
            guest.run(["sh", "-c", "echo c > /proc/sysrq-trigger; sleep 60"])
        said = str(caught.value)
        assert said.startswith(
            "guest tcg is gone: its kernel panicked (not syncing: sysrq triggered crash)\nits console ended with:\n"
        )
        assert "Kernel Offset: " in said, "the last line of a panic"
        with within(SOON), pytest.raises(CannotConnect, match="its kernel panicked"):
            guest.run(["true"])


def test_a_guest_that_shuts_itself_down(guest_place: Place) -> None:
    with (
        guest_place.guests().start(init="small") as guest,
        within(SOON),
        pytest.raises(CannotConnect, match="guest tcg is gone: it shut down"),
    ):
        guest.run(["sh", "-c", "echo o > /proc/sysrq-trigger; sleep 60"])


def test_qemu_killed_while_a_command_runs(guest_place: Place) -> None:
    others = qemus(guest_place.run)
    with (
        guest_place.guests().start(init="small") as guest,
        within(SOON),
        later(1.0, lambda: kill_qemu(guest_place.run, others)),
        pytest.raises(CannotConnect, match="guest tcg is gone: its hypervisor failed"),
    ):
        guest.run(["sleep", "60"])


def test_qemu_killed_during_the_start(guest_place: Place) -> None:
    others, machines = qemus(guest_place.run), set(guest_place.machines())

    def kill_when_it_runs() -> None:
        libvirt, handle = (
            guest_place.daemon.connection.libvirt,
            guest_place.daemon.connection.handle,
        )
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            running = handle.listAllDomains(libvirt.VIR_CONNECT_LIST_DOMAINS_RUNNING)
            if {domain.name() for domain in running} - machines:
                break
            time.sleep(0.05)
        time.sleep(0.3)
        kill_qemu(guest_place.run, others)

    with (
        within(SOON),
        later(0.0, kill_when_it_runs),
        pytest.raises(
            CannotStart, match=r"guest tcg ended in the phase '\w+': its hypervisor failed"
        ),
    ):
        guest_place.guests().start(init="systemd")


def test_a_start_that_takes_too_long_is_ended(guest_place: Place) -> None:
    with within(SOON), pytest.raises(TimedOut) as caught:
        guest_place.guests(timeout=0.8).start(init="systemd")
    assert str(caught.value).startswith(
        "guest tcg was not ready within 0.8 s: it never left its phase '"
    )


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize(
    ("owner", "step"),
    [(Domain, "create"), (Domain, "resume"), (Watch, "wait"), (GuestAgent, "ask")],
)
def test_an_interrupt_during_the_start_leaves_nothing(
    guest_place: Place, monkeypatch: pytest.MonkeyPatch, owner: type, step: str, moment: str
) -> None:
    """The interrupt is raised by a step of the start itself, so that it is neither too early nor too late."""
    real = getattr(owner, step)

    def interrupted(*arguments: Any, **settings: Any) -> Any:
        monkeypatch.undo()  # the cleanup may call the same step
        if moment == "after":
            real(*arguments, **settings)
        sent.append(time.perf_counter())
        signal.raise_signal(signal.SIGINT)

    sent: list[float] = []
    monkeypatch.setattr(owner, step, interrupted)
    with pytest.raises(KeyboardInterrupt):
        guest_place.guests().start(init="small")
    assert time.perf_counter() - sent[0] < SOON


# ---- the image -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def usual(guest_place: Place) -> float:
    """Seconds that a start takes here at the moment."""
    began = time.perf_counter()
    guest_place.guests().start(init="small").close()
    return time.perf_counter() - began


def test_a_start_without_the_agent_times_out_with_a_hint(guest_place: Place, usual: float) -> None:
    limit = math.ceil(8 * usual)
    with within(limit + SOON), pytest.raises(TimedOut) as caught:
        guest_place.guests(default_rootfs(), timeout=limit).start(init="small")
    said = str(caught.value)
    assert said.startswith(
        f"guest tcg was not ready within {limit} s: it never left its phase 'userspace'; it runs, but its agent never"
        " connected: its image must contain qemu-guest-agent and start it\nits console ended with:\n"
    )
    assert "qemu-ga: not found" in said


def elf_for(machine: int) -> bytes:
    header = bytearray(64)
    header[:7] = b"\x7fELF\x02\x01\x01"
    struct.pack_into("<HH", header, 16, 2, machine)  # e_type, e_machine (elf(5))
    return bytes(header)


def image_with_init(path: Path, machine: int) -> Rootfs:
    """An image with only an init that consists of an ELF header."""
    with tarfile.open(path, "w") as archive:
        for name in ("dev", "proc", "sys", "run", "tmp"):
            folder = tarfile.TarInfo(name)
            folder.type, folder.mode = tarfile.DIRTYPE, 0o755
            archive.addfile(folder)
        program = tarfile.TarInfo("lib/systemd/systemd")
        program.size, program.mode = 64, 0o755
        archive.addfile(program, io.BytesIO(elf_for(machine)))
        link = tarfile.TarInfo("sbin/init")
        link.type, link.linkname = tarfile.SYMTYPE, "/lib/systemd/systemd"
        archive.addfile(link)
    return from_tar(path)


def test_an_image_for_another_architecture_is_refused(guest_place: Place, tmp_path: Path) -> None:
    path = tmp_path / "arm.tar"
    with within(SOON), pytest.raises(CannotStart) as caught:
        guest_place.guests(image_with_init(path, 183)).start()
    assert str(caught.value) == (
        f"the image {path} is for aarch64 (its /sbin/init is), and machines here are x86_64:"
        " name an image for x86_64"
    )


def test_an_image_whose_init_cannot_be_executed(guest_place: Place, tmp_path: Path) -> None:
    with within(SOON), pytest.raises(CannotStart) as caught:
        guest_place.guests(image_with_init(tmp_path / "empty.tar", 62)).start()
    said = str(caught.value)
    assert said.startswith("guest tcg ended in the phase 'userspace': ")
    assert "/sbin/init: Exec format error" in said


# ---- disks ---------------------------------------------------------------------------------------


def test_a_full_disk_in_a_guest_fails_only_the_command(guest_place: Place) -> None:
    with guest_place.guests().start(init="small") as guest:
        with (
            within(SOON),
            pytest.raises(CommandFailed, match="No space left on device"),
        ):
            guest.run(["fallocate", "-l", "8G", "/big"])
        assert guest.run(["echo", "well"]).text == "well\n"


@pytest.fixture
def small_folder(
    request: pytest.FixtureRequest, require: Callable[[str, Readiness], None], short_folder: Path
) -> Iterator[Path]:
    """A folder with room for so many MiB."""
    folder = Path(tempfile.mkdtemp(dir=short_folder))
    command = ["mount", "-t", "tmpfs", "-o", f"size={request.param}m", "none", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    require("guest", Readiness("a small file system", done.returncode == 0, done.stderr.strip()))
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.fixture
def small_place(guest_place: Place, runs_dir: Path, small_folder: Path) -> Iterator[Place]:
    """A daemon that keeps its machines' disks in that folder."""
    from guests_here import Place

    with Run.begin() as run:
        own, daemon = start_daemon(run, small_folder)
        try:
            yield Place(run, daemon, own, guest_place.rootfs, guest_place.kernel)
        finally:
            daemon.close()


@pytest.mark.parametrize("small_folder", [64], indirect=True)
def test_a_host_without_room_for_the_root_disk_is_reported(
    small_place: Place, small_folder: Path
) -> None:
    with within(SOON), pytest.raises(CannotStart) as caught:
        small_place.guests().start(init="small")
    said = str(caught.value)
    assert said.startswith("libvirt at qemu:///system could not take the file ")
    assert f"no space is left in {small_folder}" in said
    assert small_place.traces() == []
    disks = [name for name in small_place.daemon.storage.names() if "root" in name]
    assert disks == [], "half a disk"


@pytest.mark.parametrize("small_folder", [4096], indirect=True)
def test_a_host_that_gets_full_while_a_command_writes(
    small_place: Place, small_folder: Path
) -> None:
    with small_place.guests().start(init="small") as guest:
        free = os.statvfs(small_folder).f_bavail * os.statvfs(small_folder).f_frsize
        with (small_folder / "filler").open("wb") as stream:
            os.posix_fallocate(stream.fileno(), 0, free - (32 << 20))
        with within(SOON), pytest.raises(CannotConnect) as caught:
            guest.run(["dd", "if=/dev/urandom", "of=/big", "bs=1M", "count=100", "conv=fsync"])
    assert str(caught.value) == (
        "guest tcg was stopped: its host has no space left for its disk vda"
    )
    assert small_place.traces() == []


def test_a_connection_has_a_time_limit_of_its_own(session_run: Run) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        uri = f"qemu+tcp://127.0.0.1:{server.getsockname()[1]}/system"
        with within(10), pytest.raises(TimedOut, match=r"did not answer within 0\.5 s"):
            Connection.open(uri, timeout=0.5)
