"""A host's machine: QEMU's command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_vperf.lab.command_line import Machine, command_line, links
from pytest_vperf.lab.kinds import KINDS, KVM, XEN


def words_after(argv: list[str], option: str) -> list[str]:
    return [argv[place + 1] for place, word in enumerate(argv) if word == option]


@pytest.fixture(params=list(KINDS))
def argv(request: pytest.FixtureRequest) -> list[str]:
    return command_line("qemu", Machine(KINDS[request.param], "tcg", 2048, 3, 2222))


def test_the_host_is_reached_only_over_loopback_and_reaches_nothing(argv: list[str]) -> None:
    assert words_after(argv, "-netdev") == [
        "user,id=net,restrict=on,ipv6=off,hostfwd=tcp:127.0.0.1:2222-10.0.2.15:22"
    ]


def test_image_is_never_written_to(argv: list[str]) -> None:
    assert "-snapshot" in argv
    assert [word.split(",")[0] for word in words_after(argv, "-drive")] == [
        "file=disk",
        "file=keys.tar",
    ]


def test_paths_are_relative_to_the_state_folder(argv: list[str]) -> None:
    root = "root=/dev/vda"  # a path of the host
    assert not [word for word in argv if "/" in word.replace(root, "")]


def test_memory_and_processors_are_as_requested(argv: list[str]) -> None:
    assert words_after(argv, "-m") == ["2048M"]
    assert words_after(argv, "-smp") == ["3"]


@pytest.mark.parametrize(
    ("kind", "accelerator", "cpu"),
    [
        ("kvm", "tcg", "max"),
        ("kvm", "kvm", "host"),
        ("xen", "tcg", "Nehalem"),
        ("xen", "kvm", "host"),
    ],
)
def test_accelerator_and_processor_go_together(kind: str, accelerator: str, cpu: str) -> None:
    argv = command_line("qemu", Machine(KINDS[kind], accelerator, 2048, 2, 2222))
    assert words_after(argv, "-cpu") == [cpu]
    assert f",accel={accelerator}," in words_after(argv, "-machine")[0]


def test_kvm_host_boots_its_kernel() -> None:
    argv = command_line("qemu", Machine(KVM, "tcg", 2048, 2, 2222))
    assert (words_after(argv, "-kernel"), words_after(argv, "-initrd")) == (
        ["vmlinuz"],
        ["initramfs"],
    )
    line = words_after(argv, "-append")[0].split()
    assert {"root=/dev/vda", "console=ttyS0", "modules_load=kvm_amd", "modules_load=vhost_net"} <= {
        *line
    }


def test_xen_host_boots_xen_with_the_kernel_as_its_first_module() -> None:
    argv = command_line("qemu", Machine(XEN, "tcg", 2048, 2, 2222))
    assert words_after(argv, "-kernel") == ["xen"]
    assert "dom0_mem=1536M,max:1536M" in words_after(argv, "-append")[0].split()
    kernel, *others = words_after(argv, "-initrd")[0].split(",")
    assert kernel.startswith("vmlinuz root=/dev/vda ")
    assert "console=hvc0" in kernel.split()
    assert others == ["initramfs"]


@pytest.mark.parametrize("kind", KINDS.values(), ids=list(KINDS))
def test_process_name_fits_into_process_lists(kind: object) -> None:
    machine = Machine(kind, "tcg", 2048, 2, 2222)  # type: ignore[arg-type]
    assert words_after(command_line("qemu", machine), "-name") == [
        f"{machine.name},process={machine.name}"
    ]
    assert len(machine.name) <= 15


def test_files_that_qemu_opens_are_linked_from_the_image() -> None:
    image = Path("/a, b/image")
    assert links(KVM, image) == {name: image / name for name in ("disk", "vmlinuz", "initramfs")}
    assert links(XEN, image) == {**links(KVM, image), "xen": image / "xen"}


def test_mitigations_are_off_only_under_emulation() -> None:
    for kind, option, word in ((KVM, "-append", "mitigations=off"), (XEN, "-append", "xpti=no")):
        emulated = command_line("qemu", Machine(kind, "tcg", 2048, 2, 2222))
        real = command_line("qemu", Machine(kind, "kvm", 2048, 2, 2222))
        assert word in words_after(emulated, option)[0].split()
        assert word not in words_after(real, option)[0].split()
