"""Connections, machines and files of the real library on its test driver, without a daemon."""

from __future__ import annotations

import os
import re
import socket
import time
from typing import TYPE_CHECKING, Any

import pytest

from pytest_vperf.targets.base import CannotConnect, CannotStart, TimedOut
from pytest_vperf.targets.libvirt.connection import Connection, keeping_to_itself
from pytest_vperf.targets.libvirt.domain import Domain
from pytest_vperf.targets.libvirt.storage import RootDisk, Storage

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

XML = "<domain type='test'><name>{}</name><memory>1024</memory><os><type>hvm</type></os></domain>"


def test_details_of_a_target(test_driver: Connection) -> None:
    assert test_driver.shown == "test:///default"
    assert test_driver.is_alive
    versions = test_driver.versions()
    assert set(versions) == {"libvirt", "hypervisor"}
    assert re.fullmatch(r"\d+\.\d+\.\d+", versions["libvirt"])
    assert re.fullmatch(r"TEST \d+\.\d+\.\d+", versions["hypervisor"])
    test_driver.warm_up()  # this driver knows none, which is no error


def test_a_closed_connection_cannot_be_used(test_driver: Connection) -> None:
    test_driver.close()
    test_driver.close()
    assert not test_driver.is_alive
    with pytest.raises(
        CannotConnect,
        match=r"^libvirt at test:///default: the connection to libvirt was lost while it was to tell its versions: ",
    ):
        test_driver.versions()


@pytest.mark.parametrize("scheme", ["qemu+ssh", "xen+ssh"])
def test_libvirts_ssh_gives_nothing_of_this_machine_away(
    scheme: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("libvirt", reason="libvirt-python is not installed")
    program = tmp_path / "ssh"
    program.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" >{tmp_path}/told\nexit 1\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setenv("VPERF_CACHE_DIR", str(tmp_path / "cache"))
    with pytest.raises(CannotConnect):
        Connection.open(f"{scheme}://root@far.example/system?no_tty=1")
    told = (tmp_path / "told").read_text().splitlines()
    assert "far.example" in told
    for option in ("ForwardAgent=no", "ForwardX11=no", "ClearAllForwardings=yes"):
        assert told[told.index(option) - 1] == "-o"


def test_a_program_named_in_the_address_is_called_as_it_is() -> None:
    for uri in (
        "qemu+ssh://far/system?command=/opt/ssh",
        "qemu:///system",
        "qemu+tls://far/system",
    ):
        assert keeping_to_itself(uri) == uri


def test_a_port_without_a_listener(tmp_path: Path) -> None:
    pytest.importorskip("libvirt", reason="libvirt-python is not installed")
    with pytest.raises(CannotConnect) as caught:
        Connection.open(f"qemu:///system?socket={tmp_path}/none")
    assert str(caught.value) == (
        "libvirt at qemu:///system does not answer: "
        f"Failed to connect socket to '{tmp_path}/none': No such file or directory"
    )


def test_a_silent_socket_times_out(tmp_path: Path) -> None:
    pytest.importorskip("libvirt", reason="libvirt-python is not installed")
    with socket.socket(socket.AF_UNIX) as listener:
        # A socket's path may have at most 107 bytes.
        folder = os.open(tmp_path, os.O_RDONLY)
        try:
            path = f"/proc/{os.getpid()}/fd/{folder}/s"
            listener.bind(path)
            listener.listen()
            began = time.perf_counter()
            with pytest.raises(TimedOut) as caught:
                Connection.open(f"qemu:///system?socket={path}", timeout=0.2)
            assert time.perf_counter() - began < 5
        finally:
            os.close(folder)
    assert str(caught.value) == "libvirt at qemu:///system did not answer within 0.2 s"


@pytest.fixture
def domain(test_driver: Connection) -> Iterator[Domain]:
    made = Domain(test_driver, "vperf-unit-1", "guest test")
    yield made
    made.destroy()


def test_a_machines_life_is_pushed(test_driver: Connection, domain: Domain) -> None:
    domain.create(XML.format(domain.identity), 0)
    domain.handle.suspend()
    domain.resume()
    assert not domain.watch.ended
    domain.pause(0.0)
    test_driver.handle.lookupByName(domain.identity).destroy()
    assert domain.ended
    assert domain.why_gone() == "it was destroyed"
    with pytest.raises(CannotConnect) as caught:
        domain.pause(5.0)
    assert str(caught.value) == "guest test is gone: it was destroyed"
    with pytest.raises(CannotConnect, match=r"^guest test is gone: "):
        domain.usage()
    domain.destroy()


def test_usage_of_a_machine(test_driver: Connection, domain: Domain) -> None:
    """The driver accounts for CPU time, but not for memory."""
    domain.create(XML.format(domain.identity), 0)
    usage = domain.usage()
    assert usage.cpu_time > 0
    assert usage.memory is None


def test_a_refused_domain_is_reported(domain: Domain) -> None:
    with pytest.raises(CannotStart, match=r"^guest test: libvirt could not start it: .*kvn"):
        domain.create("<domain type='kvn'><name>x</name></domain>", 0)
    domain.destroy()  # there is nothing to end


def test_a_limit_is_checked_against_the_request(domain: Domain) -> None:
    assert domain.check("cpu_shares", 512, 512) == "512"
    for found in (1024, None):
        with pytest.raises(CannotStart) as caught:
            domain.check("cpu_shares", 512, found)
        assert (
            str(caught.value) == f"guest test: asked for cpu_shares 512, the hypervisor has {found}"
        )
        assert caught.value.target == "guest test"


def test_scheduler_parameters_are_read(domain: Domain) -> None:
    domain.create(XML.format(domain.identity), 0)
    assert domain.scheduler() == {"weight": 50}


@pytest.fixture
def storage(test_driver: Connection, tmp_path: Path) -> Iterator[Storage]:
    # The driver makes no folders, so the pool is one that already exists, stopped.
    pool = test_driver.handle.storagePoolDefineXML(
        f"<pool type='dir'><name>vperf</name><target><path>{tmp_path}</path></target></pool>"
    )
    yield Storage(test_driver)
    pool.destroy()
    pool.undefine()


def test_an_unusable_storage_folder_is_reported(test_driver: Connection) -> None:
    with pytest.raises(CannotStart) as caught:
        Storage(test_driver, "/nowhere/at/all")
    assert str(caught.value).startswith(
        "libvirt at test:///default: libvirt could not keep files in /nowhere/at/all: "
    )


def test_an_overlay_has_its_own_size_and_is_removed(
    storage: Storage, test_driver: Connection
) -> None:
    disk = storage.overlay("vperf-1.qcow2", RootDisk("/base.raw", 1 << 30))
    assert storage.names() == ["vperf-1.qcow2"]
    xml = test_driver.handle.storageVolLookupByPath(disk.path).XMLDesc()
    assert "<capacity unit='bytes'>1073741824</capacity>" in xml
    assert "<path>/base.raw</path>" in xml
    disk.unlink()
    disk.unlink()
    assert storage.names() == []


def test_the_pool_is_found_again(storage: Storage, test_driver: Connection) -> None:
    storage.overlay("kept", RootDisk("/base.raw", 1 << 20))
    again = Storage(test_driver)
    assert again.names() == ["kept"]
    again.remove("kept")
    again.remove("kept")
    assert storage.names() == []


def test_a_disk_with_a_taken_name_is_refused(storage: Storage) -> None:
    storage.overlay("vperf-1.qcow2", RootDisk("/base.raw", 1 << 20))
    with pytest.raises(CannotStart) as caught:
        storage.overlay("vperf-1.qcow2", RootDisk("/base.raw", 1 << 20))
    assert str(caught.value) == (
        "libvirt at test:///default: libvirt could not make the disk vperf-1.qcow2:"
        " storage vol already exists"
    )


def test_an_upload_that_fails_leaves_nothing(storage: Storage, tmp_path: Path) -> None:
    """The driver accepts no uploads."""
    source: Any = tmp_path / "kernel"
    source.write_bytes(b"x" * 100)
    with pytest.raises(CannotStart) as caught:
        storage.cached(source, "kernel-1")
    assert str(caught.value).startswith(
        f"libvirt at test:///default: libvirt could not take the file {source}: "
    )
    assert storage.names() == []
