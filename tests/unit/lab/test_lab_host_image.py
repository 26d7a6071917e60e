"""The cache key of a lab host's image: everything that it was made of."""

from __future__ import annotations

import io
import json
import tarfile
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from pytest_vperf.lab import image
from pytest_vperf.lab.kinds import KVM
from pytest_vperf.machine.preflight import Readiness
from pytest_vperf.targets.image import apt as debian_sources
from pytest_vperf.targets.image import debian
from pytest_vperf.targets.image.apt import Sources
from pytest_vperf.targets.kernel import guest_kernel
from pytest_vperf.targets.kernel.guest_kernel import GuestKernel

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from pytest_vperf.lab.image import HostImage

SOURCES = Sources(("deb http://here bookworm main",), "Debian", "bookworm", ("0" * 64,), ())


class Apt:
    """An apt that has every package in one version."""

    archives = None

    def __init__(self, *_: object) -> None: ...

    def update(self) -> None: ...

    def known(self, names: Iterable[str]) -> set[str]:
        return set(names)

    def resolve(self, names: Iterable[str]) -> dict[str, str]:
        return dict.fromkeys(names, "1.0")

    def download(self, packages: object) -> None: ...


@pytest.fixture
def build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], HostImage]:
    """Builds the image of a KVM host from packages that contain only a kernel."""
    monkeypatch.setenv("VPERF_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(image, "PrivateApt", Apt)
    ready = Readiness("mmdebstrap", True, "/usr/bin/mmdebstrap")
    monkeypatch.setattr(debian, "can_build", lambda: ready)
    monkeypatch.setattr(debian_sources, "configured", lambda: SOURCES)

    def install(apt: Any, sources: Any, packages: Any, tree: Path, layout: Any) -> None:
        with tarfile.open(tree, "w") as archive:
            kernel = tarfile.TarInfo("boot/vmlinuz-6.1.0")
            kernel.size = 1
            archive.addfile(kernel, io.BytesIO(b"k"))

    def read(path: Path) -> GuestKernel:
        return GuestKernel(path, "6.1.0", None, "0" * 64)

    first_root = tmp_path / "initramfs"
    first_root.write_bytes(b"i")
    monkeypatch.setattr(debian, "build", install)
    monkeypatch.setattr(guest_kernel, "from_file", read)
    monkeypatch.setattr(guest_kernel, "build_root_initramfs", lambda *_: first_root)
    monkeypatch.setattr(image, "write_ext4", lambda tree, disk, size: disk.write_bytes(b"d" * 5000))
    return lambda: image.build(KVM, lambda _: None)


def test_a_built_image_is_found_again(build: Callable[[], HostImage]) -> None:
    assert image.built(KVM) is None
    made = build()
    assert image.built(KVM) == made
    assert build() == made
    assert {path.name for path in made.folder.iterdir()} == {
        *("disk", "facts.json", "initramfs", "vmlinuz"),
    }
    assert json.loads((made.folder / "facts.json").read_text()) == {
        "key": made.key,
        "kernel": "6.1.0",
    }
    assert made.size >= 5000


@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("_source", lambda: b"int main(void) { return 1; }"),
        ("_FLAGS", ("-O0",)),
        ("_ASKED_FOR", ()),
        ("VIRTIO", ("virtio_pci",)),
        ("_LAYOUT", "first root 0"),
    ],
)
def test_another_initramfs_makes_another_image(
    build: Callable[[], HostImage], monkeypatch: pytest.MonkeyPatch, name: str, other: object
) -> None:
    made = build()
    monkeypatch.setattr(guest_kernel, name, other)
    assert image.built(KVM) is None
    assert build().key != made.key


def test_newer_package_lists_make_another_image(
    build: Callable[[], HostImage], monkeypatch: pytest.MonkeyPatch
) -> None:
    build()
    newer = replace(SOURCES, releases=("1" * 64,))
    monkeypatch.setattr(debian_sources, "configured", lambda: newer)
    assert image.built(KVM) is None
