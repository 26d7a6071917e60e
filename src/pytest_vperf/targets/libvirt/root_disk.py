"""The image's root file system as a machine's root disk, and a disk that firmware can boot a kernel from."""

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
#: Bytes beside kernel and initramfs, for the file system's own tables and the loader.
_ROOM = 8 << 20
#: No prompt, no delay, no menu.
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
    """The boot disk for one kernel, initramfs and command line, built once, and its content key.

    Raises:
        Unavailable: a program that builds it is missing.
        CannotStart: building failed; with the program's message.
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
        # Fixed serial number and dates, so that equal input gives an equal disk.
        _call(folder, "mkfs.vfat", "--invariant", "-n", "VPERF-BOOT", str(disk))
        for file, name in (
            (kernel.image, "vmlinuz"),
            (initramfs, "initramfs"),
            (configuration, "syslinux.cfg"),
        ):
            _call(folder, "mcopy", "-i", str(disk), str(file), f"::{name}")
        _call(folder, "syslinux", "--install", str(disk))

    return cache.entry("boot", key, build) / "boot.fat", key


def _call(folder: Path, name: str, *arguments: str) -> None:
    """Call a program whose own files, if it is killed, are to go with a folder."""
    program = find_program(name) or name
    environment = {**os.environ, "LC_ALL": "C", "MTOOLS_SKIP_CHECK": "1", "TMPDIR": str(folder)}
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
        raise CannotStart(f"the boot disk cannot be built: {name}: {said}")


#: The disk's size for the machine, in bytes. The file is sparse: only written blocks take space.
SIZE = 4 << 30
#: The programs that run first, and the architecture of every machine.
_FIRST_PROGRAMS = ("/sbin/init", "/bin/sh")
_MACHINE = "x86_64"
#: Changed whenever the files added below change.
_LAYOUT = "root disk 2"
SMALL_INIT = "usr/lib/vperf/init"
#: Init a test can ask for → program that the kernel starts.
INITS = {
    "systemd": "/sbin/init",
    # Single-user mode (systemd.special(7)), with the agent.
    "rescue": "/sbin/init systemd.unit=rescue.target",
    "small": f"/{SMALL_INIT}",
}
_AGENT = "usr/lib/vperf/agent"
#: libvirt offers no agent channel on Xen, so our agent uses the console.
_UNIT = f"""[Unit]
Description=Agent of pytest-vperf, on the console
ConditionVirtualization=xen

[Service]
ExecStart=/{_AGENT} --machine
StandardOutput=journal
"""
_UNIT_NAME = "vperf-agent.service"
#: In single-user mode a shell waits on the console, which on Xen is our agent's.
_NO_SHELL = """[Service]
ExecStart=
ExecStart=/bin/sleep infinity
StandardInput=null
StandardOutput=null
StandardError=null
"""
_NO_SHELL_NAME = "rescue.service.d/vperf.conf"
#: QEMU's agent needs no such link: udev starts it with its device, whatever the target.
_WANTED_BY = ("multi-user.target", "rescue.target")
#: Services that would disturb a measurement: servers on the ports that tests use, timers, and a login prompt on the
#: agent's console.
_MASKED = (
    *("netperf.service", "iperf3.service"),
    *("e2scrub_reap.service", "e2scrub_all.timer", "fstrim.timer", "dpkg-db-backup.timer"),
    *("systemd-tmpfiles-clean.timer", "serial-getty@hvc0.service"),
)
#: Without a machine ID systemd asks questions at the first boot (machine-id(5)). All machines may share one, since an
#: overlay lives for one run.
_MACHINE_ID = b"76706572660000000000000000000001\n"


def init_parameter(init: str) -> str:
    """The kernel parameter that selects one of `INITS`.

    Raises:
        CannotStart: there is no such init.
    """
    if init not in INITS:
        raise CannotStart(f"unknown init {init!r}: choose one of {', '.join(INITS)}")
    return f"init={INITS[init]}"


def build_root_disk(rootfs: Rootfs) -> tuple[Path, str]:
    """The root disk of an image, built once, and its content key.

    Returns:
        The raw disk, an ext4 file system without a partition table, and its key.

    Raises:
        Unavailable: a program that builds it is missing.
        CannotStart: it cannot be built, or its programs are for another architecture.
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
        _NO_SHELL,
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
            archive.file(f"etc/systemd/system/{_NO_SHELL_NAME}", _NO_SHELL.encode())
            for target in _WANTED_BY:
                wanted = f"etc/systemd/system/{target}.wants/{_UNIT_NAME}"
                archive.link(wanted, f"../{_UNIT_NAME}")
            for unit in _MASKED:
                archive.link(f"etc/systemd/system/{unit}", "/dev/null")
        write_ext4(tar, folder / "root.ext4", SIZE)
        tar.unlink()

    return cache.entry("machine", key, build) / "root.ext4", key


def _check_architecture(rootfs: Rootfs) -> None:
    """Refuse an image for another architecture: its kernel would only panic.

    Raises:
        CannotStart: the image is for another architecture.
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
