"""A remote machine, with a program in place of ssh that runs the commands here."""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest
from attacks import ROOM, ends_within, grows_less_than

from pytest_vperf.machine import fingerprint, lock
from pytest_vperf.machine.runs import Run
from pytest_vperf.targets.base import (
    CannotConnect,
    CannotStart,
    CommandFailed,
    TargetError,
    Unavailable,
)
from pytest_vperf.targets.container.engine import connect_there
from pytest_vperf.targets.remote import address
from pytest_vperf.targets.remote.connection import Hold, SshConnection
from pytest_vperf.targets.remote.machine import Lines, RemoteMachine, SentFiles
from pytest_vperf.targets.remote.pods import PodsThere

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ssh_in_place: Path) -> Iterator[Run]:
    monkeypatch.setenv("VPERF_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("VPERF_LOCK", str(tmp_path / "lock"))
    with Run.begin() as run:
        yield run


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def machine(run: Run, said: list[str]) -> Iterator[RemoteMachine]:
    made = RemoteMachine(address.of_url("ssh://root@there"), run, say=said.append)
    yield made
    made.close()


def gone(path: str, seconds: float = 5.0) -> bool:
    deadline = time.monotonic() + seconds
    while Path(path).exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    return not Path(path).exists()


def test_a_machine_is_described_by_its_own_files(machine: RemoteMachine) -> None:
    here = {f"on_{name}": value for name, value in fingerprint.read().as_dict().items()}
    details = dict(machine.details)
    assert details.pop("ssh_round_trip").endswith(" ms")
    assert details == {"on": "root@there", **here}
    assert machine.mark == " (root@there)"


def test_files_of_the_machine_are_read(machine: RemoteMachine) -> None:
    assert machine.read("/proc/sys/kernel/ostype") == "Linux\n"
    with pytest.raises(OSError, match="No such file or directory"):
        machine.read("/no/such/file")


def test_the_folder_on_the_machine_is_removed_with_the_connection(machine: RemoteMachine) -> None:
    folder = machine.new_folder("pod")
    assert Path(folder).stat().st_mode & 0o777 == 0o700
    assert machine.new_folder("pod") != folder
    assert Path(folder).is_relative_to(machine.folder)
    machine.close()
    machine.close()
    assert gone(machine.folder)


def test_a_file_is_sent_once(machine: RemoteMachine, said: list[str], tmp_path: Path) -> None:
    source = tmp_path / "kernel"
    source.write_bytes(bytes(range(256)) * 10)
    there = Path(machine.sent.keep(source, "kernel"))
    assert there.read_bytes() == source.read_bytes()
    assert there.parent == tmp_path / "cache" / "sent"
    assert [path.name for path in there.parent.iterdir()] == [there.name]
    before = there.stat().st_mtime_ns
    assert machine.sent.keep(source, "kernel") == str(there)
    assert there.stat().st_mtime_ns == before
    assert said == []


def test_a_large_file_is_announced(machine: RemoteMachine, said: list[str], tmp_path: Path) -> None:
    source = tmp_path / "image"
    source.write_bytes(b"0" * (17 << 20))
    there = machine.sent.keep(source, "image")
    assert said == [f"sending {Path(there).name} to root@there, once: 17 MiB"]


def test_a_file_that_cannot_be_stored_is_an_error(machine: RemoteMachine, tmp_path: Path) -> None:
    (tmp_path / "cache").mkdir(exist_ok=True)
    (tmp_path / "cache" / "sent").write_text("no folder")
    source = tmp_path / "kernel"
    source.write_bytes(b"1")
    with pytest.raises(
        TargetError, match=r"kernel cannot be sent to \S+/sent on root@there: mkdir"
    ):
        machine.sent.keep(source, "kernel")


def hold(run: Run, said: list[str]) -> Hold:
    connection = SshConnection("ssh://there", run, name="there")
    return Hold(connection, lock=True, say=said.append)


def test_the_lock_is_shared_with_those_who_measure_on_the_machine(
    run: Run, said: list[str]
) -> None:
    held = hold(run, said)
    with pytest.raises(lock.LockTimeout), lock.measuring(limit=0):
        pass
    held.close()
    with lock.measuring(limit=5):
        pass
    assert said == []


@pytest.mark.usefixtures("more_files_than_select_knows")
def test_a_machine_is_reached_with_more_files_open_than_select_knows(
    run: Run, said: list[str]
) -> None:
    held = hold(run, said)
    assert Path(held.folder).is_dir()
    held.close()


def test_another_measurement_is_waited_for(run: Run, said: list[str]) -> None:
    with lock.measuring():

        def let_go(text: str) -> None:
            said.append(text)
            os.kill(holder, 9)

        # Held by another process: this one would get it at once.
        holder = os.fork()
        if not holder:
            time.sleep(60)
            os._exit(0)
    # The child has the descriptor, and so the lock, until it ends.
    try:
        connection = SshConnection("ssh://there", run, name="there")
        held = Hold(connection, lock=True, say=let_go)
    finally:
        os.waitpid(holder, 0)
    assert Path(held.folder).is_dir()
    held.close()
    assert len(said) == 1
    assert said[0].startswith("there is being measured by another run (")
    assert said[0].endswith("): waiting for it")


def test_a_folder_that_cannot_be_created_is_reported(
    run: Run, said: list[str], tmp_path: Path
) -> None:
    refusing = tmp_path / "mktemp"
    refusing.write_text("#!/bin/sh\necho 'mktemp: no space left' >&2; exit 1\n")
    refusing.chmod(0o755)
    with pytest.raises(
        CannotStart,
        match=r"^there: cannot create a folder or take the measuring lock there: mktemp: no space left$",
    ):
        hold(run, said)


def test_endless_words_of_the_machine_are_cut(
    run: Run, said: list[str], ssh_in_place: Path
) -> None:
    endless = "tr '\\0' x </dev/zero & tr '\\0' x </dev/zero >&2 & read -r word; kill $!"
    text = ssh_in_place.read_text()
    connection = SshConnection("ssh://there", run, name="there")
    ssh_in_place.write_text(text.replace('sh -c "$last"', f'sh -c "{endless}"'))
    with ends_within(60), grows_less_than(ROOM), pytest.raises(CannotStart) as caught:
        Hold(connection, lock=True, say=said.append)
    assert str(caught.value).startswith("there: cannot create a folder or take the measuring lock")
    assert len(str(caught.value)) < 1000


def test_a_lock_that_is_no_file_is_refused_at_once(
    run: Run, said: list[str], tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "lock")
    with pytest.raises(CannotStart, match=r"measuring lock there: \S+/lock is not a regular file$"):
        hold(run, said)
    assert gone_all(tmp_path)


def gone_all(tmp_path: Path) -> bool:
    """No process has the lock's file in its arguments any more."""
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        if not any(str(tmp_path) in " ".join(each.info["cmdline"] or ()) for each in processes()):
            return True
        time.sleep(0.05)
    return False


def processes() -> Iterator[psutil.Process]:
    return psutil.process_iter(["cmdline"])


def test_a_missing_flock_is_reported(
    run: Run, said: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in ("sh", "env", "mktemp", "cat", "find", "rm", "losetup", "setsid", "head", "tr"):
        found = shutil.which(name)
        if found:
            (programs / name).symlink_to(found)
    monkeypatch.setenv("PATH", f"{tmp_path}:{programs}")
    with (
        Run.begin() as later,
        pytest.raises(CannotStart, match=r"flock is not installed \(apt-get"),
    ):
        hold(later, said)


def test_a_lock_that_was_lost_is_noticed(machine: RemoteMachine, run: Run) -> None:
    machine.check()
    for process in processes():
        with contextlib.suppress(psutil.Error):
            words = " ".join(process.info["cmdline"] or ())
            if "vperf-measuring.lock" in words and process.environ().get("VPERF_RUN") == run.id:
                process.kill()
    deadline = time.monotonic() + 5
    try:
        while time.monotonic() < deadline:
            machine.ssh.run(["true"])
    except CannotConnect as error:
        said = str(error)
    assert said.startswith("root@there: the command that holds its measuring lock and our folder")
    folder = machine.folder
    assert Path(folder).is_dir(), "it was killed, and could not remove it"
    machine.close()
    assert not Path(folder).exists()


def test_a_login_shell_that_prints_is_refused(
    run: Run, said: list[str], ssh_in_place: Path
) -> None:
    text = ssh_in_place.read_text()
    ssh_in_place.write_text(text.replace('sh -c "$last"', 'sh -c "echo Welcome to this; $last"'))
    with pytest.raises(
        CannotConnect,
        match=r"^root@there: its shell prints at each login, .*: 'Welcome to this'; make it silent where",
    ):
        RemoteMachine(address.of_url("ssh://root@there"), run, say=said.append)


@pytest.mark.parametrize(
    ("variable", "message"),
    [
        (
            "tcp://10.0.0.1:2375",
            r"^DOCKER_HOST on root@there names tcp://10\.0\.0\.1:2375: only a Unix socket can",
        ),
        (
            "unix:///no/such.sock",
            r"^no Docker engine listens on root@there \(/no/such\.sock\) \(to mend it: ",
        ),
    ],
)
def test_the_engine_that_is_named_there_or_none(
    run: Run, said: list[str], monkeypatch: pytest.MonkeyPatch, variable: str, message: str
) -> None:
    monkeypatch.setenv("DOCKER_HOST", variable)
    machine = RemoteMachine(address.of_url("ssh://root@there"), run, say=said.append)
    try:
        with pytest.raises(Unavailable, match=message):
            connect_there(machine, run)
    finally:
        machine.close()


def test_an_incomplete_file_is_sent_again(machine: RemoteMachine, run: Run, tmp_path: Path) -> None:
    source = tmp_path / "kernel"
    source.write_bytes(b"whole")
    there = Path(machine.sent.keep(source, "kernel"))
    there.write_bytes(b"wh")
    later = SentFiles(machine.ssh, print)
    assert later.keep(source, "kernel") == str(there)
    assert there.read_bytes() == b"whole"


def test_sessions_are_shared_out(run: Run) -> None:
    first = SshConnection("ssh://there", run, name="there")
    opened: list[SshConnection] = []

    def another() -> SshConnection:
        opened.append(SshConnection("ssh://there", run, name="there"))
        return opened[-1]

    lines = Lines(first, another)
    taken = [lines.take() for _ in range(15)]
    assert taken == [first] * 7 + [opened[0]] * 7 + [opened[1]]
    lines.give(first)
    assert lines.take() is first
    lines.close()
    assert first.is_open
    assert not any(each.is_open for each in opened)
    first.close()


def test_a_machine_that_fails_late_leaves_nothing(
    run: Run, said: list[str], tmp_path: Path
) -> None:
    note = tmp_path / "note"
    for name, script in (("true", "exit 1"), ("mktemp", f'/usr/bin/mktemp "$@" | tee {note}')):
        program = tmp_path / name
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
    with pytest.raises(CommandFailed, match=r"^true ended with status 1 in root@there"):
        RemoteMachine(address.of_url("ssh://root@there"), run, say=said.append)
    folder = note.read_text().strip()
    assert folder.startswith("/var/tmp/vperf-")
    assert not Path(folder).exists()


def test_a_connection_without_sessions_is_not_kept(run: Run) -> None:
    first = SshConnection("ssh://there", run, name="there")
    lines = Lines(first, lambda: SshConnection("ssh://there", run, name="there"))
    taken = [lines.take() for _ in range(8)]
    lines.give(taken[7])
    assert not taken[7].is_open, "it would end by itself, and be handed out after that"
    again = lines.take()
    assert again is not taken[7]
    assert again.is_open
    for line in [*taken[:7], again]:
        lines.give(line)
    assert first.is_open
    first.close()


def test_another_architecture_is_refused(run: Run, said: list[str], tmp_path: Path) -> None:
    other = tmp_path / "uname"
    other.write_text("#!/bin/sh\n[ $1 != -m ] || exec echo riscv64\nexec echo Linux 6.1\n")
    other.chmod(0o755)
    with pytest.raises(
        Unavailable, match=r"^root@there has another architecture \(riscv64\) than this"
    ):
        RemoteMachine(address.of_url("ssh://root@there"), run, say=said.append)


def test_missing_programs_are_reported_with_their_packages(
    machine: RemoteMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = PodsThere(lambda: machine, "root@there")
    monkeypatch.setattr("pytest_vperf.targets.remote.pods.QEMU", "no-such-qemu")
    with pytest.raises(
        Unavailable,
        match=r"^no-such-qemu is not installed on root@there \(to mend it: apt-get install qemu-system-x86, there\)$",
    ):
        place.qemu()
    monkeypatch.setattr(
        "pytest_vperf.targets.pod.place.FIRMWARE_FILES",
        {"none": ("no-such.rom", "no-such-package")},
    )
    with pytest.raises(
        Unavailable,
        match=r"firmware none: none of /usr/share/qemu/no-such\.rom, .* is on root@there"
        r" \(to mend it: apt-get install no-such-package, there\)",
    ):
        place.firmware("none")


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("ssh://root@host", "root@host"),
        ("ssh://host:2222", "host:2222"),
        ("lab:kvm", "lab kvm"),
    ],
)
def test_a_machine_is_named_as_people_do(text: str, where: str) -> None:
    assert address.check(text, ("kvm", "xen")) == text
    assert address.where(text) == where


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("lab:kmv", "there is no lab 'kmv'; there are: lab:kvm, lab:xen"),
        ("host", r"'host' is not ssh://\[user@\]host\[:port\], nor lab:KIND"),
        ("ssh://a b", r"'ssh://a b' is not ssh://\[user@\]host\[:port\], nor lab:KIND"),
        ("ssh://[x", r"'ssh://\[x' is not ssh://\[user@\]host\[:port\], nor lab:KIND"),
    ],
)
def test_bad_machine_names_are_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}$"):
        address.check(text, ("kvm", "xen"))


@pytest.mark.parametrize(
    ("url", "driver", "uri"),
    [
        ("ssh://root@host:2222", "qemu", "qemu+ssh://root@host:2222/system"),
        ("ssh://host", "xen", "xen+ssh://host/"),
    ],
)
def test_the_libvirt_uri_of_a_remote_machine(url: str, driver: str, uri: str) -> None:
    assert address.libvirt_uri(url, driver) == uri
