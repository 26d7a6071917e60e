"""Reading kernel files, and refusing others."""

import lzma
import struct

import pytest

from pytest_vperf.targets.base import CannotStart
from pytest_vperf.targets.kernel import guest_kernel
from pytest_vperf.targets.kernel.guest_kernel import from_file, read_release


def bzimage(release=b"6.1.0-1-cloud-amd64 (builder@host) #1"):
    head = bytearray(0x1000)
    head[0x1FE:0x200] = b"\x55\xaa"
    head[0x202:0x206] = b"HdrS"
    struct.pack_into("<H", head, 0x20E, 0x400 - 0x200)
    head[0x400 : 0x400 + len(release)] = release
    return bytes(head)


def test_the_release_is_the_first_word_of_the_version_string(tmp_path):
    kernel = tmp_path / "vmlinuz"
    kernel.write_bytes(bzimage())
    assert read_release(kernel) == "6.1.0-1-cloud-amd64"


@pytest.mark.parametrize(
    "content", [b"", b"#!/bin/sh\n", b"\x7fELF" + b"\0" * 4096, b"\0" * 0x210, bzimage()[:0x200]]
)
def test_a_file_that_is_no_kernel_is_refused_with_its_path(tmp_path, content):
    kernel = tmp_path / "vmlinuz-fake"
    kernel.write_bytes(content)
    with pytest.raises(CannotStart) as caught:
        from_file(kernel)
    assert str(caught.value) == (
        f"guest kernel {kernel}: not a Linux kernel for x86 (no boot header at offset 0x202); "
        "give a bzImage, usually named vmlinuz-*"
    )


def test_a_missing_kernel_is_refused(tmp_path):
    with pytest.raises(CannotStart, match=r"guest kernel .*/absent: No such file or directory"):
        from_file(tmp_path / "absent")


def test_a_folder_is_refused(tmp_path):
    with pytest.raises(CannotStart, match="Is a directory"):
        from_file(tmp_path)


def test_an_invalid_version_string_is_an_unknown_release(tmp_path):
    kernel = tmp_path / "vmlinuz"
    kernel.write_bytes(bzimage(b"\xff\xfe;rm -rf"))
    assert read_release(kernel) == "unknown"


def test_modules_are_found_in_the_tree_the_kernel_came_from(tmp_path):
    (tmp_path / "boot").mkdir()
    (tmp_path / "lib/modules/6.1.0-1-cloud-amd64").mkdir(parents=True)
    kernel = tmp_path / "boot/vmlinuz-6.1.0-1-cloud-amd64"
    kernel.write_bytes(bzimage())
    assert from_file(kernel).modules == tmp_path / "lib/modules/6.1.0-1-cloud-amd64"


def module(depends="", signature=b""):
    body = b"\x7fELF\0license=GPL\0depends=" + depends.encode() + b"\0name=x\0"
    if not signature:
        return body
    trailer = b"\0" * 8 + len(signature).to_bytes(4, "big") + b"~Module signature appended~\n"
    return body + signature + trailer


def test_a_module_comes_once_and_after_its_dependencies(tmp_path):
    (tmp_path / "a.ko").write_bytes(module("b,c-d"))
    (tmp_path / "b.ko").write_bytes(module("c-d"))
    (tmp_path / "c-d.ko.xz").write_bytes(lzma.compress(module()))
    assert [name for name, _ in guest_kernel.collect_modules(tmp_path, ("a", "b"))] == [
        "c_d.ko",
        "b.ko",
        "a.ko",
    ]


def test_a_signature_is_cut_off(tmp_path):
    (tmp_path / "a.ko").write_bytes(module(signature=b"S" * 500))
    assert guest_kernel.collect_modules(tmp_path, ("a",)) == [("a.ko", module())]


def test_built_in_modules_are_left_out_and_missing_ones_named(tmp_path):
    (tmp_path / "modules.builtin").write_text("kernel/fs/squashfs/squashfs.ko\n")
    assert guest_kernel.collect_modules(tmp_path, ("squashfs",)) == []
    with pytest.raises(CannotStart, match=r"module overlay is neither in .* nor built in"):
        guest_kernel.collect_modules(tmp_path, ("overlay",))
