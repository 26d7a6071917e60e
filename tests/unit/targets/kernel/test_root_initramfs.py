"""The initramfs of a machine with a disk: an init, and the drivers in loadable order."""

from __future__ import annotations

from pathlib import Path

import pytest

import pytest_vperf
from pytest_vperf.machine import compiler
from pytest_vperf.targets.base import CannotStart, Unavailable
from pytest_vperf.targets.image.elf import read_elf
from pytest_vperf.targets.kernel.guest_kernel import (
    VIRTIO,
    XEN,
    GuestKernel,
    build_root_initramfs,
    parts,
)


@pytest.fixture(autouse=True)
def _cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    if not compiler.check().usable:
        pytest.skip(compiler.check().why)
    # Shared by all tests, so that init is compiled once.
    monkeypatch.setenv("VPERF_CACHE_DIR", str(tmp_path_factory.getbasetemp() / "first-roots"))


def module(name: str, depends: str = "") -> bytes:
    return f"\x7fELF\0license=GPL\0depends={depends}\0name={name}\0".encode()


@pytest.fixture
def kernel(tmp_path: Path) -> GuestKernel:
    """A kernel with modules for QEMU machines; xen_blkfront and xen_netfront are built in."""
    tree = {
        "virtio": "",
        "virtio_ring": "virtio",
        "virtio_pci": "virtio,virtio_ring",
        "virtio_blk": "virtio,virtio_ring",
        "virtio_net": "virtio,virtio_ring",
        "virtio_console": "virtio,virtio_ring",
        "virtio-rng": "virtio",
        "crc32c_generic": "",
        "ext4": "mbcache,jbd2",
        "mbcache": "",
        "jbd2": "",
        "unwanted": "",
    }
    folder = tmp_path / "modules"
    folder.mkdir()
    for name, depends in tree.items():
        (folder / f"{name}.ko").write_bytes(module(name, depends))
    (folder / "modules.builtin").write_text(
        "kernel/drivers/block/xen-blkfront.ko\nkernel/drivers/net/xen-netfront.ko\n"
    )
    return GuestKernel(tmp_path / "vmlinuz", "6.1.0", folder, "0" * 64)


def members(archive: bytes) -> dict[str, tuple[int, bytes]]:
    """Name → mode and content, as the kernel unpacks it (driver-api/early-userspace/buffer-format)."""
    found: dict[str, tuple[int, bytes]] = {}
    at = 0
    while True:
        assert archive[at : at + 6] == b"070701"
        fields = [int(archive[at + n : at + n + 8], 16) for n in range(6, 110, 8)]
        mode, size, length = fields[1], fields[6], fields[11]
        name = archive[at + 110 : at + 110 + length - 1].decode()
        at += (110 + length + 3) // 4 * 4
        if name == "TRAILER!!!":
            return found
        found[name] = (mode, archive[at : at + size])
        at += (size + 3) // 4 * 4


def test_drivers_come_after_their_dependencies(kernel: GuestKernel) -> None:
    found = members(build_root_initramfs(kernel, VIRTIO).read_bytes())
    order = found["modules/order"][1].decode().split()
    assert order == [
        "crc32c_generic.ko",  # which ext4 asks for by another name
        "virtio.ko",
        "virtio_ring.ko",
        "virtio_pci.ko",
        "virtio_blk.ko",
        "virtio_net.ko",
        "virtio_console.ko",
        "virtio_rng.ko",
        "mbcache.ko",
        "jbd2.ko",
        "ext4.ko",
    ]
    assert found["modules/ext4.ko"][1] == module("ext4", "mbcache,jbd2")
    assert {name for name in found if name.endswith(".ko")} == {f"modules/{n}" for n in order}


def test_init_is_a_static_program(kernel: GuestKernel) -> None:
    found = members(build_root_initramfs(kernel, VIRTIO).read_bytes())
    mode, content = found["init"]
    assert mode == 0o100755
    elf = read_elf(content)
    assert elf is not None
    assert elf.is_native
    assert not elf.interpreter
    # It prints before anything else; the host dates the kernel's end by that.
    assert b"vperf-init: up\n" in content
    assert found["dev"][0] == 0o040755
    assert found["dev/console"] == (0o020600, b"")
    assert list(found).index("dev") < list(found).index("dev/console")


def test_a_folder_comes_before_its_files(kernel: GuestKernel) -> None:
    names = list(members(build_root_initramfs(kernel, VIRTIO).read_bytes()))
    for name in names:
        parent = str(Path(name).parent)
        assert parent == "." or names.index(parent) < names.index(name)


def test_built_in_modules_are_not_loaded(kernel: GuestKernel) -> None:
    found = members(build_root_initramfs(kernel, XEN).read_bytes())
    names = found["modules/order"][1].decode().split()
    assert names == ["crc32c_generic.ko", "mbcache.ko", "jbd2.ko", "ext4.ko"]


def test_a_missing_soft_dependency_is_no_error(kernel: GuestKernel) -> None:
    """What uses it finds another driver, or reports the error itself."""
    assert kernel.modules is not None
    (kernel.modules / "crc32c_generic.ko").unlink()
    found = members(build_root_initramfs(kernel, XEN).read_bytes())
    names = found["modules/order"][1].decode().split()
    assert names == ["mbcache.ko", "jbd2.ko", "ext4.ko"]


def test_a_kernel_with_all_drivers_built_in_loads_none(kernel: GuestKernel) -> None:
    whole = GuestKernel(kernel.image, kernel.release, None, kernel.sha256)
    found = members(build_root_initramfs(whole, VIRTIO).read_bytes())
    assert found["modules/order"] == (0o100644, b"")


def test_a_missing_driver_is_reported(kernel: GuestKernel) -> None:
    with pytest.raises(CannotStart) as caught:
        build_root_initramfs(kernel, ("virtio_gpu",))
    assert str(caught.value) == (
        f"guest kernel module virtio_gpu is neither in {kernel.modules} nor built in"
    )


def test_a_changed_module_makes_another_initramfs(kernel: GuestKernel) -> None:
    first = build_root_initramfs(kernel, VIRTIO)
    assert build_root_initramfs(kernel, VIRTIO) == first
    assert kernel.modules is not None
    (kernel.modules / "ext4.ko").write_bytes(module("ext4", "mbcache"))
    assert build_root_initramfs(kernel, VIRTIO) != first


def test_the_content_of_an_initramfs_is_known_without_a_kernel() -> None:
    """It is part of the key by which a lab host's disk is found in the cache."""
    source = Path(pytest_vperf.__file__).parent / "targets/kernel/first_root/init.c"
    for drivers in (VIRTIO, XEN):
        made_of = parts(drivers)
        assert {source.read_bytes(), "crc32c_generic", "-Os", *drivers} <= set(made_of)
    assert parts(VIRTIO) == parts(VIRTIO) != parts(XEN)


def test_a_missing_compiler_is_reported_with_its_package(
    kernel: GuestKernel, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("VPERF_CACHE_DIR", str(tmp_path / "empty"))
    monkeypatch.setattr(compiler, "find_program", lambda name: None)
    with pytest.raises(Unavailable) as caught:
        build_root_initramfs(kernel, VIRTIO)
    assert (caught.value.reason, caught.value.remedy) == (
        "no C compiler (cc)",
        "apt-get install gcc libc6-dev",
    )
