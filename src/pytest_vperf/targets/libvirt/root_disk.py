"""The image's root file system as the disk of a whole machine: with what it takes to boot, and nothing in its way.

The image is the one that host, containers and pods have; what is added here is a handful of small files: an identity,
switches for services that would disturb a measurement, a small init for who wants no systemd, and our agent.

A disk that a firmware can boot a kernel from: one FAT file system with a boot loader, made without mounting.

The loader is SYSLINUX, in the first sector of an unpartitioned disk (syslinux(1)): a BIOS loads that sector and jumps
into it, whatever is in the others.
"""

from __future__ import annotations

import os
import subprocess
from importlib import resources
from typing import TYPE_CHECKING

from pytest_vperf.machine import cache
from pytest_vperf.machine.preflight import find_program
from pytest_vperf.targets.agent.build import build_agent
from pytest_vperf.targets.base import CannotStart, Unavailable
from pytest_vperf.targets.image import elf
from pytest_vperf.targets.image.ext4 import write_ext4
from pytest_vperf.targets.image.tar import TarWriter, Tree

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_vperf.targets.image.rootfs import Rootfs
    from pytest_vperf.targets.kernel.guest_kernel import GuestKernel


_PROGRAMS = {"mkfs.vfat": "dosfstools", "mcopy": "mtools", "syslinux": "syslinux"}
#: Free room beside kernel and first root, for the file system's own tables and the loader.
_ROOM = 8 << 20
#: Nothing is asked, nothing is waited for, nothing is drawn.
_CONFIGURATION = """DEFAULT linux
PROMPT 0
TIMEOUT 0
LABEL linux
    KERNEL /vmlinuz
    INITRD /initramfs
    APPEND {parameters}
"""
_TIMEOUT = 120.0


def build_boot_disk(kernel: GuestKernel, initramfs: Path, parameters: str) -> tuple[Path, str]:
    """The disk for one kernel, first root and command line, made once, and the key by which its content is known.

    Raises:
        Unavailable: a program that makes it is missing.
        CannotStart: it cannot be made; with the program's words.
    """
    for name, package in _PROGRAMS.items():
        if find_program(name) is None:
            raise Unavailable(f"{name} is not installed", remedy=f"apt-get install {package}")
    key = cache.content_key(
        [kernel.sha256, cache.file_sha256(initramfs), _CONFIGURATION, parameters, str(_ROOM)]
    )

    def build(folder: Path) -> None:
        disk, configuration = folder / "boot.fat", folder / "syslinux.cfg"
        configuration.write_text(_CONFIGURATION.format(parameters=parameters))
        size = kernel.image.stat().st_size + initramfs.stat().st_size + _ROOM
        with disk.open("wb") as stream:
            os.truncate(stream.fileno(), -(-size // (1 << 20)) << 20)
        # Identity and date are not drawn, so that equal input gives an equal disk.
        _call("mkfs.vfat", "--invariant", "-n", "VPERF-BOOT", str(disk))
        for file, name in (
            (kernel.image, "vmlinuz"),
            (initramfs, "initramfs"),
            (configuration, "syslinux.cfg"),
        ):
            _call("mcopy", "-i", str(disk), str(file), f"::{name}")
        _call("syslinux", "--install", str(disk))

    return cache.entry("boot", key, build) / "boot.fat", key


def _call(name: str, *arguments: str) -> None:
    program = find_program(name) or name
    environment = {**os.environ, "LC_ALL": "C", "MTOOLS_SKIP_CHECK": "1"}
    try:
        done = subprocess.run(
            [program, *arguments],
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            timeout=_TIMEOUT,
        )
    except subprocess.TimeoutExpired:
        raise CannotStart(f"{name} did not end within {_TIMEOUT:g} s") from None
    if done.returncode:
        said = " ".join((done.stderr or done.stdout).split())[-300:]
        raise CannotStart(f"a disk to boot from cannot be made: {name}: {said}")


#: What a machine sees. The file is sparse: only what is written takes room.
SIZE = 4 << 30
#: What is executed first, and the processor of all machines.
_FIRST_PROGRAMS = ("/sbin/init", "/bin/sh")
_MACHINE = "x86_64"
#: Changes with what is added below.
_LAYOUT = "root disk 1"
SMALL_INIT = "usr/lib/vperf/init"
#: What a machine can boot to → the program that its kernel starts.
INITS = {"systemd": "/sbin/init", "small": f"/{SMALL_INIT}"}
_AGENT = "usr/lib/vperf/agent"
#: Under Xen there is no port for the agent that libvirt knows: ours speaks over the console.
_UNIT = f"""[Unit]
Description=Agent of pytest-vperf, on the console
ConditionVirtualization=xen

[Service]
ExecStart=/{_AGENT} --machine
StandardOutput=journal
"""
_UNIT_NAME = "vperf-agent.service"
#: Services of the image's packages, and of systemd, that a machine for measuring does not want: a server that takes
#: the port of the one a test starts, jobs by the clock, and a login on the console by which the agent speaks.
_MASKED = (
    *("netperf.service", "iperf3.service"),
    *("e2scrub_reap.service", "e2scrub_all.timer", "fstrim.timer", "dpkg-db-backup.timer"),
    *("systemd-tmpfiles-clean.timer", "serial-getty@hvc0.service"),
)
#: A machine that is new knows no name of its own; without one systemd asks questions at its first start. An overlay
#: lives for one run, so that all may have the same (machine-id(5)).
_MACHINE_ID = b"76706572660000000000000000000001\n"


def init_parameter(init: str) -> str:
    """The kernel's parameter for one of `INITS`.

    Raises:
        CannotStart: there is no such init.
    """
    if init not in INITS:
        raise CannotStart(f"unknown init {init!r}: choose one of {', '.join(INITS)}")
    return f"init={INITS[init]}"


def build_root_disk(rootfs: Rootfs) -> tuple[Path, str]:
    """The disk of an image, made once, and the key by which its content is known.

    Returns:
        The raw disk, an ext4 file system without a partition table, and its key.

    Raises:
        Unavailable: a program that makes it is missing.
        CannotStart: it cannot be made, or its programs are for another processor.
    """
    init = (resources.files(__package__) / "small_init.sh").read_bytes()
    agent = build_agent().read_bytes()
    parts: list[str | bytes] = [
        _LAYOUT,
        rootfs.sha256,
        str(SIZE),
        *_MASKED,
        _MACHINE_ID,
        init,
        agent,
        _UNIT,
    ]
    key = cache.content_key(parts)

    def build(folder: Path) -> None:
        _check_architecture(rootfs)
        tar = folder / "machine.tar"
        with TarWriter(tar) as archive:
            archive.file("etc/machine-id", _MACHINE_ID)
            archive.file(SMALL_INIT, init, 0o755)
            archive.file(_AGENT, agent, 0o755)
            archive.copy(rootfs.path)
            archive.file(f"etc/systemd/system/{_UNIT_NAME}", _UNIT.encode())
            wanted = f"etc/systemd/system/multi-user.target.wants/{_UNIT_NAME}"
            archive.link(wanted, f"../{_UNIT_NAME}")
            for unit in _MASKED:
                archive.link(f"etc/systemd/system/{unit}", "/dev/null")
        write_ext4(tar, folder / "root.ext4", SIZE)
        tar.unlink()

    return cache.entry("machine", key, build) / "root.ext4", key


def _check_architecture(rootfs: Rootfs) -> None:
    """Refuse an image whose first programs a machine could not execute: its kernel would only panic.

    Raises:
        CannotStart: they are for another processor.
    """
    tree = Tree(rootfs.path)
    for path in _FIRST_PROGRAMS:
        entry = tree.entry(path)
        if entry is None or entry.kind != "file":
            continue
        program = elf.read_elf(tree.read(path))
        if program is not None and program.machine != _MACHINE:
            raise CannotStart(
                f"the image {rootfs.name} is for {program.machine} (its {path} is), and machines here are"
                f" {_MACHINE}: name an image for {_MACHINE}"
            )
