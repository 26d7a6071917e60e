"""The image's root file system as the disk of a whole machine: with what it takes to boot, and nothing in its way.

The image is the one that host, containers and pods have; what is added here is a handful of small files: an identity,
switches for services that would disturb a measurement, a small init for who wants no systemd, and our agent.
"""

from __future__ import annotations

from importlib import resources
from typing import TYPE_CHECKING

from pytest_vperf.machine import cache
from pytest_vperf.targets import elf
from pytest_vperf.targets.agent.build import build_agent
from pytest_vperf.targets.base import CannotStart
from pytest_vperf.targets.ext4_image import write_ext4
from pytest_vperf.targets.image_tar import TarWriter
from pytest_vperf.targets.tree import Tree

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_vperf.targets.image import Rootfs

#: What a machine sees. The file is sparse: only what is written takes room.
SIZE = 4 << 30
#: What is executed first, and the processor of all machines.
_FIRST_PROGRAMS = ("/sbin/init", "/bin/sh")
_MACHINE = "x86_64"
#: Changes with what is added below.
_LAYOUT = "root disk 1"
SMALL_INIT = "usr/lib/vperf/init"
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
