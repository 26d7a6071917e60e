"""Access to a host: private keys, and a host key that is checked."""

from __future__ import annotations

import stat
import subprocess
import tarfile
from pathlib import Path

import pytest

from pytest_vperf.lab import keys, state
from pytest_vperf.machine.preflight import find_program


@pytest.fixture(autouse=True)
def _ssh() -> None:
    if find_program("ssh-keygen") is None or find_program("ssh") is None:
        pytest.skip("OpenSSH is not installed (to mend it: apt-get install openssh-client)")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a space and a quote in its name."""
    made = tmp_path / "it's a lab"
    made.mkdir(mode=0o700)
    keys.make(made)
    keys.write_access(made, "lab-kvm", 2222)
    return made


def test_private_keys_are_for_the_user_alone(folder: Path) -> None:
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}
    assert modes["key"] == modes["keys.tar"] == 0o600
    assert modes["ssh"] == 0o700
    assert "host_key" not in modes  # only the host has it


def test_disk_has_the_keys_of_the_host_and_who_may_log_in(folder: Path) -> None:
    with tarfile.open(folder / "keys.tar") as disk:
        members = {member.name: member for member in disk}
        allowed = disk.extractfile("root/.ssh/authorized_keys")
        assert allowed is not None
        assert allowed.read() == (folder / "key.pub").read_bytes()
        stream = disk.extractfile("etc/ssh/ssh_host_ed25519_key")
        assert stream is not None
        assert b"PRIVATE KEY" in stream.read()
    assert members["etc/ssh/ssh_host_ed25519_key"].mode == 0o600
    assert members["root/.ssh"].mode == 0o700
    assert {member.uid for member in members.values()} == {0}
    assert (folder / "keys.tar").stat().st_size % 512 == 0  # a disk has whole sectors

    keys.forget_disk(folder)
    assert not (folder / "keys.tar").exists()
    keys.forget_disk(folder)


def test_ssh_reads_the_configuration_as_intended(folder: Path) -> None:
    """``ssh -G`` prints the resulting settings."""
    done = subprocess.run(
        [folder / "ssh", "-G", "lab-kvm"], capture_output=True, text=True, check=True
    )
    settings = dict(line.split(" ", 1) for line in done.stdout.splitlines() if " " in line)
    assert (settings["hostname"], settings["port"], settings["user"]) == (
        "127.0.0.1",
        "2222",
        "root",
    )
    assert settings["stricthostkeychecking"] in ("true", "yes")
    assert settings["userknownhostsfile"].strip('"') == str(folder / "known_hosts")
    assert settings["identityfile"].strip('"') == str(folder / "key")
    assert settings["identitiesonly"] == settings["batchmode"] == "yes"


def test_known_host_is_the_key_that_the_host_gets(folder: Path) -> None:
    name, kind, key = (folder / "known_hosts").read_text().split()
    assert name == "[127.0.0.1]:2222"
    assert [kind, key] == (folder / "host_key.pub").read_text().split()[:2]


def test_uri_calls_our_ssh_whatever_the_folder_is_called() -> None:
    assert state.libvirt_uri("qemu", 2222, Path("/var/tmp/vperf-1/lab-kvm")) == (
        "qemu+ssh://root@127.0.0.1:2222/system?command=/var/tmp/vperf-1/lab-kvm/ssh"
    )
    assert state.libvirt_uri("xen", 2222, Path("/a b&c/lab-xen")) == (
        "xen+ssh://root@127.0.0.1:2222/system?command=/a%20b%26c/lab-xen/ssh"
    )


def test_a_hosts_state_gives_its_address_and_details(folder: Path) -> None:
    up = state.State("xen", 1, 2222, 0.0, "tcg", {"emulated": "yes"})
    host = up.host(folder)
    assert (host.kind, host.ssh_url, host.accelerator) == (
        "xen",
        "ssh://root@127.0.0.1:2222",
        "tcg",
    )
    assert host.ssh_config == folder / "ssh_config"
    assert host.details == {"emulated": "yes"}
