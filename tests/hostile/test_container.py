"""A container whose programs lie and never stop: its output is limited, and it gains nothing here.

Its image's ``tar``, which `get` runs, is the attacker's: the requested file's name decides what it sends.
"""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import psutil
import pytest
from attacks import CONTROL, ROOM, ends_within, grows_less_than
from engine_here import require

from pytest_vperf.machine import cache, mounts
from pytest_vperf.targets.base import TargetError
from pytest_vperf.targets.container.containers import Containers
from pytest_vperf.targets.container.engine import check
from pytest_vperf.targets.disks import Disks, Here
from pytest_vperf.targets.host import Host
from pytest_vperf.targets.image import rootfs
from pytest_vperf.targets.image.rootfs import Rootfs
from pytest_vperf.targets.scope import Scope

#: Seconds that an attack may take on a busy machine.
LONG = 120.0

# The last word that tar is given is the name of the file.
LYING_TAR = b"""#!/bin/sh
for name do :; done
if [ -f "/lies/$name" ]; then exec cat "/lies/$name"; fi
cat /lies/endless.head
exec cat /dev/zero
"""


def packed(*members: tuple[tarfile.TarInfo, bytes]) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:", format=tarfile.PAX_FORMAT) as archive:
        for member, content in members:
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return stream.getvalue()


def member(
    name: str = "file", kind: bytes = tarfile.REGTYPE, mode: int = 0o644, link: str = ""
) -> tarfile.TarInfo:
    made = tarfile.TarInfo(name)
    made.type, made.mode, made.linkname = kind, mode, link
    return made


def endless() -> bytes:
    made = member("file")
    made.size = 1 << 40
    return made.tobuf(tarfile.GNU_FORMAT)


LIES = {
    "privileged": packed((member(mode=0o6777), b"#!/bin/sh\nid\n")),
    "link": packed((member(kind=tarfile.SYMTYPE, link="/etc/shadow"), b"")),
    "hard-link": packed((member(kind=tarfile.LNKTYPE, link="/etc/shadow"), b"")),
    "device": packed((member(kind=tarfile.CHRTYPE), b"")),
    "folder": packed((member(kind=tarfile.DIRTYPE), b"")),
    "elsewhere": packed((member("../../../../../../etc/cron.d/owned"), b"content")),
    "cut": packed((member(), b"x" * 4096))[:1024],
    "nothing": b"",
    "no-tar": b"\033]0;owned\007" * 512,
    "negative": packed((member(), b"x"))[:124] + b"-0000000001\0" + packed((member(), b"x"))[136:],
    "endless.head": endless(),
}


@pytest.fixture(scope="module")
def enemy(tmp_path_factory) -> Rootfs:
    """The image built here, with another tar."""
    honest = rootfs.default_rootfs()
    path = tmp_path_factory.mktemp("enemy") / "rootfs.tar"
    with tarfile.open(honest.path) as source, tarfile.open(path, "w:") as archive:
        for each in source:
            if Path(each.name).name != "tar":
                archive.addfile(each, source.extractfile(each) if each.isreg() else None)
        lies = {f"lies/{name}": content for name, content in LIES.items()}
        for name, content in {"bin/tar": LYING_TAR, **lies}.items():
            made = member(name, mode=0o755)
            made.size = len(content)
            archive.addfile(made, io.BytesIO(content))
    return Rootfs(path, cache.file_sha256(path), "an enemy's image")


@pytest.fixture(scope="module")
def start(engine, enemy, session_run):
    """Starts a container of a runtime."""
    identity = rootfs.import_into(engine.client, enemy)
    scope = Scope()

    def start(runtime: str, **options):
        require("container", check([runtime])[1])
        return Containers(
            lambda: engine, session_run, scope, runtime=runtime, rootfs=lambda _: identity
        ).start(**options)

    yield start
    scope.close_since()


@pytest.fixture(scope="module", params=["runc", "runsc"])
def container(request, start):
    return start(request.param)


def test_a_file_brings_no_privilege(container, tmp_path):
    container.get("/lies/privileged", tmp_path / "got")
    assert (tmp_path / "got").stat().st_mode & 0o7777 == 0o755
    container.get("/lies/elsewhere", tmp_path / "here")
    assert (tmp_path / "here").read_bytes() == b"content"


@pytest.mark.parametrize(
    ("lie", "words"),
    [
        ("link", "cannot be read: it is not a file"),
        ("hard-link", "cannot be read: it is not a file"),
        ("device", "cannot be read: it is not a file"),
        ("folder", "cannot be read: it is not a file"),
        ("cut", "cannot be read"),
        ("nothing", "cannot be read"),
        ("no-tar", "cannot be read"),
        ("negative", "cannot be read"),
    ],
)
def test_a_source_that_is_not_a_file_is_refused_and_leaves_nothing(container, tmp_path, lie, words):
    with ends_within(LONG), pytest.raises(TargetError, match=words) as caught:
        container.get(f"/lies/{lie}", tmp_path / "got")
    assert not CONTROL.search(str(caught.value))
    assert list(tmp_path.iterdir()) == []


def test_an_endless_file_is_cut(container, tmp_path):
    with (
        ends_within(LONG),
        grows_less_than(ROOM),
        pytest.raises(TargetError, match="more than 8 MiB"),
    ):
        container.get("/lies/endless", tmp_path / "got", limit=8 << 20)
    assert list(tmp_path.iterdir()) == []


def test_a_link_at_the_destination_is_not_followed(container, tmp_path):
    (tmp_path / "precious").write_text("ours")
    (tmp_path / "got").symlink_to(tmp_path / "precious")
    container.get("/lies/elsewhere", tmp_path / "got")
    assert (tmp_path / "precious").read_text() == "ours"
    assert (tmp_path / "got").read_bytes() == b"content"


def test_the_host_follows_no_link_that_a_container_has_made_on_its_disk(
    start, session_run, tmp_path
):
    """As fio would, which makes its files by names that are known before."""
    precious = tmp_path / "precious"
    precious.write_text("ours")
    scope = Scope()
    disk = Disks(Here(session_run), scope).make("8 MiB", format="ext4")
    host = scope.own(Host(session_run))
    try:
        container = start("runc", disks=[disk])
        plant = f'ln -s {precious} "$1/link"; echo theirs > "$1/file"'
        container.run(["sh", "-c", plant, "sh", disk.where(container)], timeout=LONG)
        there = disk.where(host)
        assert host.run(["cat", f"{there}/file"]).text == "theirs\n"
        done = host.run(["sh", "-c", 'echo theirs > "$1/link"', "sh", there], check=False)
        inside = container.run(["readlink", f"{disk.where(container)}/link"], timeout=LONG)
        container.close()
    finally:
        scope.close_since()
    assert precious.read_text() == "ours"
    assert b"Too many levels of symbolic links" in done.stderr
    assert inside.text == f"{precious}\n", "the container may use links"
    assert mounts.below(Path(there).parent) == []


def test_endless_output_is_cut(container):
    with (
        ends_within(LONG),
        grows_less_than(ROOM),
        pytest.raises(TargetError, match="more than 8 MiB"),
    ):
        container.run(["cat", "/dev/zero"], timeout=LONG, max_output=8 << 20)
    assert container.run(["echo", "still", "here"], timeout=LONG).stdout == b"still here\n"


def test_endless_forks_are_limited(start):
    """With runc alone: gVisor's are no processes of this machine."""
    script = "n=0; while [ $n -lt 20000 ]; do sleep 60 & n=$((n + 1)); done"
    with ends_within(LONG):
        done = start("runc").run(["sh", "-c", script], timeout=LONG, check=False)
    assert b"can't fork" in done.stderr
    assert len(psutil.pids()) < 20000


def test_output_of_a_container_does_not_fill_the_disk(container, engine):
    """The engine keeps what a container's first process prints, and everybody in it may write there."""
    flood = "yes $(head -c 4000 /dev/zero | tr '\\0' y) | head -c 20000000 > /proc/1/fd/1"
    with ends_within(LONG):
        container.run(["sh", "-c", flood], timeout=LONG)
    for each in engine.client.api.containers(all=True):
        log = Path(engine.client.api.inspect_container(each["Id"])["LogPath"] or "/dev/null")
        assert sum(part.stat().st_size for part in log.parent.glob(f"{log.name}*")) < 8 << 20


def test_a_program_gains_no_privilege(start):
    """With runc alone: /proc of gVisor does not have the line."""
    status = start("runc").run(["cat", "/proc/self/status"], timeout=LONG).stdout.decode()
    assert "NoNewPrivs:\t1" in status
