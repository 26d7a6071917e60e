"""A daemon: files for machines are made and looked up once, and its host is connected once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pytest_vperf.machine.runs import Run
from pytest_vperf.targets.base import CannotStart, Unavailable
from pytest_vperf.targets.libvirt.daemon import Daemon
from pytest_vperf.targets.libvirt.storage import RootDisk, Storage

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pytest_vperf.targets.base import Target
    from pytest_vperf.targets.libvirt.connection import Connection

VOLUME = "<volume><name>{}</name><capacity>{}</capacity></volume>"


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    monkeypatch.setenv("VPERF_RUNS_DIR", str(tmp_path / "runs"))
    with Run.begin() as run:
        yield run


class Pool:
    """The storage folder on the daemon's host. libvirt's test driver has no files."""

    def __init__(self, pool: Any) -> None:
        self._pool = pool

    def put(self, name: str) -> None:
        """Add a complete file."""
        self._pool.createXML(VOLUME.format(name, 100), 0)
        self._pool.createXML(VOLUME.format(f"{name}.complete", 0), 0)

    def take(self, name: str) -> None:
        self._pool.storageVolLookupByName(name).delete(0)


@pytest.fixture
def pool(test_driver: Connection, tmp_path: Path) -> Iterator[Pool]:
    xml = f"<pool type='dir'><name>vperf</name><target><path>{tmp_path}</path></target></pool>"
    pool = test_driver.handle.storagePoolDefineXML(xml)
    pool.create()
    yield Pool(pool)
    pool.destroy()
    pool.undefine()


@pytest.fixture
def daemon(test_driver: Connection, run: Run, pool: Pool) -> Daemon:
    return Daemon(test_driver, run)


class Maker:
    """Makes a file, and counts how often."""

    def __init__(self, source: Path) -> None:
        self._source = source
        self.calls = 0

    def __call__(self) -> tuple[Path, str]:
        self.calls += 1
        return self._source, "kernel-1"


def test_a_file_is_made_and_asked_for_once(
    daemon: Daemon, pool: Pool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool.put("kernel-1-aaaa")
    make = Maker(tmp_path / "none")
    path = daemon.file(("kernel", "1"), make)
    assert path == f"{tmp_path}/kernel-1-aaaa"
    monkeypatch.setattr(daemon.storage, "_pool", None)  # nothing is asked
    assert daemon.file(("kernel", "1"), make) == path
    assert make.calls == 1
    # It may be the same even if made from another source.
    assert daemon.file(("kernel", "2"), make) == path
    assert make.calls == 2


def test_a_vanished_file_is_reported_and_made_again(
    daemon: Daemon, pool: Pool, tmp_path: Path
) -> None:
    pool.put("kernel-1-aaaa")
    make = Maker(tmp_path / "none")
    path = daemon.file("kernel", make)
    pool.take("kernel-1-aaaa")
    with pytest.raises(CannotStart) as caught, daemon.storage.relied_on():
        raise CannotStart("domu pv: libvirt could not start it", target="domu pv")
    assert str(caught.value) == (
        "domu pv: libvirt could not start it\n"
        f"libvirt at test:///default: {path} was uploaded but has since gone;"
        " the next start uploads it again"
    )
    assert caught.value.target == "domu pv"
    pool.put("kernel-1-bbbb")
    assert daemon.file("kernel", make) == f"{tmp_path}/kernel-1-bbbb"
    assert make.calls == 2


def test_a_failed_start_with_all_files_present_keeps_its_error(
    daemon: Daemon, pool: Pool, tmp_path: Path
) -> None:
    pool.put("kernel-1-aaaa")
    make = Maker(tmp_path / "none")
    daemon.file("kernel", make)
    error = CannotStart("domu pv: it ended")
    with pytest.raises(CannotStart) as caught, daemon.storage.relied_on():
        raise error
    assert caught.value is error


def test_a_vanished_base_image_is_reported(daemon: Daemon, pool: Pool, tmp_path: Path) -> None:
    pool.put("kernel-1-aaaa")
    daemon.file("kernel", Maker(tmp_path / "none"))
    pool.take("kernel-1-aaaa")
    daemon.storage.overlay("vperf-1.qcow2", RootDisk("/base", 1 << 20))
    with pytest.raises(CannotStart, match="kernel-1-aaaa was uploaded but has since gone"):
        daemon.storage.overlay("vperf-1.qcow2", RootDisk("/base", 1 << 20))


def test_a_lost_connection_does_not_blame_a_file(
    daemon: Daemon, pool: Pool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool.put("kernel-1-aaaa")
    daemon.file("kernel", Maker(tmp_path / "none"))

    def refuse() -> list[str]:
        raise daemon.connection.libvirt.libvirtError("gone")

    monkeypatch.setattr(daemon.storage, "names", refuse)
    with pytest.raises(CannotStart, match=r"^it ended$"), daemon.storage.relied_on():
        raise CannotStart("it ended")


def test_a_missing_source_is_reported(test_driver: Connection, pool: Pool, tmp_path: Path) -> None:
    with pytest.raises(CannotStart) as caught:
        Storage(test_driver).cached(tmp_path / "none", "kernel-1")
    assert str(caught.value) == f"{tmp_path}/none cannot be read: No such file or directory"


def test_the_daemons_host_is_connected_once_and_left_with_the_daemon(daemon: Daemon) -> None:
    checked: list[Target] = []
    host = daemon.shell(checked.append)
    assert daemon.shell(checked.append) is host
    assert checked == [host]
    assert host.run(["echo", "here"]).text == "here\n"
    with pytest.raises(Unavailable, match="is asked about its hypervisor alone"):
        host.program("sysbench")
    closed = []
    host.close = lambda: closed.append(True)  # type: ignore[method-assign]
    daemon.close()
    daemon.close()
    assert closed == [True]


def test_a_host_that_fails_its_check_is_disconnected(daemon: Daemon) -> None:
    refused: list[Target] = []

    def refuse(host: Target) -> None:
        refused.append(host)
        raise Unavailable("no xl")

    with pytest.raises(Unavailable, match="no xl"):
        daemon.shell(refuse)
    checked: list[Target] = []
    assert daemon.shell(checked.append) is not refused[0]
    assert len(checked) == 1
