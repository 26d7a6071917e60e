"""Packages from a source in a folder, with the real apt; another user plants files beside or in them."""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import subprocess
import tempfile
from pathlib import Path

import pytest

from pytest_vperf.targets.base import Unavailable
from pytest_vperf.targets.image import apt as apt_packages
from pytest_vperf.targets.kernel import guest_kernel

needs_apt = pytest.mark.skipif(
    not (shutil.which("apt-get") and shutil.which("dpkg-deb")), reason="there is no apt or dpkg-deb"
)
pytestmark = needs_apt

KERNEL = "linux-image-6.1.0-1-cloud-amd64"


def package(folder: Path, name: str, files: dict[str, bytes], depends: str = "") -> Path:
    """Build a package."""
    tree = folder / f"tree-{name}"
    for path, content in {**files, "DEBIAN/control": b""}.items():
        (tree / path).parent.mkdir(parents=True, exist_ok=True)
        (tree / path).write_bytes(content)
    (tree / "DEBIAN/control").write_text(
        f"Package: {name}\nVersion: 1.0-1\nArchitecture: amd64\nMaintainer: nobody\nDescription: none\n"
        + (f"Depends: {depends}\n" if depends else "")
    )
    made = folder / f"{name}_1.0-1_amd64.deb"
    command = ["dpkg-deb", "--root-owner-group", "-b", "-Znone", str(tree), str(made)]
    subprocess.run(command, check=True, capture_output=True)
    return made


def bzimage() -> bytes:
    """The minimum that `read_release` needs."""
    head = bytearray(0x300)
    head[0x1FE:0x200], head[0x202:0x206] = b"\x55\xaa", b"HdrS"
    head[0x20E:0x210] = (0x80).to_bytes(2, "little")
    head[0x280:0x28D] = b"6.1.0-1-cloud"
    return bytes(head)


@pytest.fixture
def source(tmp_path, monkeypatch):
    """A source with a kernel, the only one that this apt knows; its programs can be wrapped."""
    place = tmp_path / "source"
    place.mkdir()
    package(place, "linux-image-cloud-amd64", {"usr/share/doc/it": b""}, depends=KERNEL)
    package(place, KERNEL, {"boot/vmlinuz-6.1.0-1-cloud-amd64": bzimage()})
    index = []
    for each in sorted(place.glob("*.deb")):
        control = subprocess.run(
            ["dpkg-deb", "-f", str(each)], capture_output=True, text=True, check=True
        )
        digest = hashlib.sha256(each.read_bytes()).hexdigest()
        index.append(
            f"{control.stdout}Filename: ./{each.name}\nSize: {each.stat().st_size}\nSHA256: {digest}\n"
        )
    (place / "Packages").write_text("\n".join(index))
    apt = tmp_path / "apt"
    for folder in ("lists/partial", "cache/archives/partial", "none"):
        (apt / folder).mkdir(parents=True)
    (apt / "sources.list").write_text(f"deb [trusted=yes] copy:{place} ./\n")
    (apt / "status").touch()
    own = {
        "Dir::State": apt,
        "Dir::State::lists": apt / "lists",
        "Dir::State::status": apt / "status",
        "Dir::Cache": apt / "cache",
        "Dir::Etc::sourcelist": apt / "sources.list",
        "Dir::Etc::sourceparts": apt / "none",
        "Dir::Etc::parts": apt / "none",
        "APT::Architecture": "amd64",
        "Acquire::Languages": "none",
        "Debug::NoLocking": "true",
    }
    (apt / "apt.conf").write_text("".join(f'{name} "{value}";\n' for name, value in own.items()))
    monkeypatch.setenv("APT_CONFIG", str(apt / "apt.conf"))
    monkeypatch.setenv("VPERF_CACHE_DIR", str(tmp_path / "cached"))
    update = ["apt-get", "-o", "APT::Sandbox::User=root", "update", "--error-on=any"]
    subprocess.run(update, check=True, capture_output=True)
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    return place


@pytest.fixture
def meanwhile(tmp_path):
    """Run something in the download folder while apt-get is at work."""

    def meanwhile(script: str) -> None:
        program = tmp_path / "bin" / "apt-get"
        real = shutil.which("apt-get")
        program.write_text(f'#!/bin/sh\n{real} "$@" || exit\n{script}\n')
        program.chmod(0o755)

    return meanwhile


def test_a_kernel_is_fetched_and_unpacked(source):
    kernel = guest_kernel.distribution_kernel()
    assert kernel.release == "6.1.0-1-cloud"
    assert kernel.image.is_relative_to(Path(os.environ["VPERF_CACHE_DIR"]))


def test_packages_planted_beside_the_kernel_are_not_unpacked(source, meanwhile, tmp_path):
    planted = package(tmp_path, "planted", {"bin/owned": b"#!/bin/sh\n"})
    meanwhile(f"cp {planted} . && stat -c %a . > {tmp_path}/mode")
    kernel = guest_kernel.distribution_kernel()
    tree = kernel.image.parent.parent
    assert not list(tree.rglob("owned"))
    assert stat.S_IMODE(int((tmp_path / "mode").read_text(), 8)) == 0o700


def test_packages_are_not_fetched_into_the_folder_for_temporary_files(
    source, meanwhile, tmp_path, monkeypatch
):
    """With `sudo -E`, that may be another user's, who could replace what is fetched there."""
    (tmp_path / "theirs").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "theirs"))
    monkeypatch.setattr(tempfile, "tempdir", None)
    meanwhile(f"pwd >> {tmp_path}/places")
    guest_kernel.distribution_kernel()
    places = (tmp_path / "places").read_text().splitlines()
    assert places
    assert all(Path(each).is_relative_to(os.environ["VPERF_CACHE_DIR"]) for each in places)


def test_a_package_that_was_changed_is_refused(source, meanwhile):
    meanwhile(f"for each in {KERNEL}_*.deb; do [ ! -e $each ] || printf x >> $each; done")
    with pytest.raises(Unavailable) as caught:
        guest_kernel.distribution_kernel()
    words = f"{KERNEL}_1.0-1_amd64.deb is not what apt's lists have: its size is"
    assert words in str(caught.value)
    assert not list(Path(os.environ["VPERF_CACHE_DIR"]).glob("kernel/*/boot"))


def test_a_package_that_takes_the_place_of_another_is_refused(source, meanwhile, tmp_path):
    planted = package(tmp_path, "planted", {"bin/owned": b"#!/bin/sh\n"})
    meanwhile(f"[ ! -e {KERNEL}_*.deb ] || cp {planted} {KERNEL}_1.0-1_amd64.deb")
    with pytest.raises(Unavailable, match="is not what apt's lists have"):
        guest_kernel.distribution_kernel()


def test_errors_of_apt_are_reported(source, tmp_path):
    with pytest.raises(Unavailable, match="apt-get could not fetch no-such-package: E: Unable to"):
        apt_packages.fetch(["no-such-package"], tmp_path)


def test_a_damaged_package_is_reported(tmp_path):
    (tmp_path / "it.deb").write_bytes(b"x" * 100)
    with pytest.raises(Unavailable, match=r"dpkg-deb could not unpack it\.deb: "):
        apt_packages.unpack(tmp_path / "it.deb", tmp_path / "tree")
