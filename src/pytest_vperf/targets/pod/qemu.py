"""The QEMU that is installed on this machine.

Disks that are plugged into a pod's running machine, and out of it, over QEMU's control socket.

A root bus of a q35 machine takes no devices while it runs (QEMU, docs/pcie.txt, "Hot-plug"), so such a machine gets a
PCI bridge, which costs its start something; the root bus of a pc machine takes them. In both the guest is told by
ACPI, which its kernel has built in. A PCI Express root port would do too; its own signals take Linux five seconds to
unplug (drivers/pci/hotplug/pciehp_ctrl.c, the button that may be pressed again).

The QEMU command line of a pod, in one place: the start, the probe and the benchmark's floor share it.

The QEMU process of a pod with its three channels, on this machine.
"""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import socket
import subprocess
from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING, Protocol

from pytest_vperf.machine.preflight import Readiness, find_program
from pytest_vperf.targets.base import CannotConnect, Usage
from pytest_vperf.targets.pod.qmp import QmpError
from pytest_vperf.targets.pod.sandbox import Sandbox, confine, environment

if TYPE_CHECKING:
    from pytest_vperf.machine.runs import Run
    from pytest_vperf.targets.control_group import Group
    from pytest_vperf.targets.pod.config import MachineConfig
    from pytest_vperf.targets.pod.qmp import Qmp


#: By machine type: the bus, and the arguments that make it.
BUSES = {
    "pc": ("pci.0", ()),
    "q35": ("swap", ("-device", "pci-bridge,id=swap,chassis_nr=1,shpc=off")),
}
#: The image that a machine starts with.
FIRST = "image0"
#: What is in here for QEMU are descriptors that it was given (qemu(1), "-add-fd").
_SETS = PurePath("/dev/fdset")


def serial(name: str) -> str:
    """The serial number under which the guest knows a disk; virtio-blk has room for 20 characters."""
    return f"vperf-{name}"


def first_disk(machine: str, file: PurePath) -> list[str]:
    """QEMU's arguments for an image that can be unplugged.

    Args:
        machine: the machine type, one of `BUSES`.
        file: the image.
    """
    bus, made = BUSES[machine]
    path = str(file).replace(",", ",,")
    return [
        *made,
        "-blockdev",
        f"driver=raw,node-name={FIRST},read-only=on,file.driver=file,file.filename={path}",
        "-device",
        f"virtio-blk-pci,disable-legacy=on,id={FIRST},drive={FIRST},serial={serial(FIRST)},bus={bus}",
    ]


def hand_over(qmp: Qmp, file: PurePath) -> PurePath:
    """Give QEMU a file as a descriptor, where it may not open it by its path; the path that it has for it.

    Raises:
        QmpError: QEMU refused it, or is gone.
        OSError: the file cannot be opened.
    """
    descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return _SETS / str(qmp.execute_with(descriptor, "add-fd")["fdset-id"])
    finally:
        os.close(descriptor)


def plug(qmp: Qmp, machine: str, name: str, file: PurePath) -> None:
    """Plug an image into a machine; the guest finds it some time later.

    Args:
        qmp: the machine's.
        machine: its type, one of `BUSES`.
        name: of the disk, which no other one has.
        file: the image.

    Raises:
        QmpError: QEMU refused it, or is gone; nothing was plugged in.
    """
    opened = {"driver": "file", "filename": str(file)}
    qmp.execute("blockdev-add", driver="raw", node_name=name, read_only=True, file=opened)
    if file.parent == _SETS:  # the disk has its own by now
        qmp.execute("remove-fd", fdset_id=int(file.name))
    try:
        qmp.execute(
            "device_add",
            driver="virtio-blk-pci",
            disable_legacy="on",
            id=name,
            drive=name,
            serial=serial(name),
            bus=BUSES[machine][0],
        )
    except QmpError:
        qmp.execute("blockdev-del", node_name=name)
        raise


def unplug(qmp: Qmp, name: str, timeout: float) -> None:
    """Take a disk out of a machine, and wait until the guest has let it go.

    Raises:
        QmpTimeout: it has not within ``timeout`` seconds.
        QmpError: QEMU refused, or is gone.
    """
    qmp.execute_until("DEVICE_DELETED", name, "device_del", timeout, id=name)
    qmp.execute("blockdev-del", node_name=name)


#: The name of the virtio-serial port to the agent.
AGENT_PORT = "org.pytest-vperf.agent"

#: What the guest kernel is told. Each entry saves a start time that has nothing to do with what is measured, or
#: makes an event visible (Linux documentation, admin-guide/kernel-parameters):
KERNEL_PARAMETERS = (
    # "debug" with "earlyprintk" makes the kernel's first instructions print a line; "quiet" between them, because
    # their order counts, that nothing else is printed but a panic.
    "debug",
    "quiet",
    "earlyprintk=ttyS0",
    "console=ttyS0",
    # A dead kernel ends the machine at once (QEMU has -no-reboot), and the host sees it.
    "panic=-1",
    "reboot=t",
    # No probing for keyboards, serial ports, timers and buses that this machine is known (not) to have.
    "i8042.noaux",
    "i8042.nopnp",
    "i8042.dumbkbd",
    "8250.nr_uarts=1",
    "pci=lastbus=0",
    "tsc=reliable",
    "no_timer_check",
    # No self-tests, no rewriting of locked instructions, no waiting for quiet CPUs at boot.
    "cryptomgr.notests",
    "noreplace-smp",
    "rcupdate.rcu_expedited=1",
    "random.trust_cpu=on",
)


@dataclass(frozen=True)
class Channels:
    """The sockets that QEMU has its channels on, each as QEMU's option ``-chardev socket`` names one.

    ``fd=NUMBER`` is a connected one that it inherits, ``path=FILE`` one that it connects to.
    """

    qmp: str
    console: str
    agent: str


def command_line(qemu: str, config: MachineConfig, channels: Channels, name: str) -> list[str]:
    """The arguments for QEMU. The machine is created stopped (``-S``); QMP's ``cont`` lets it go."""
    argv = [
        qemu,
        *("-name", name),
        *("-nodefaults", "-no-user-config", "-no-reboot", "-S"),
        *("-display", "none"),
        *("-machine", _machine(config)),
        *("-cpu", config.cpu_model),
        *("-smp", str(config.vcpus)),
        *("-m", f"{config.memory_mib}M"),
        *("-bios", str(config.firmware)),
        *("-kernel", str(config.kernel)),
        *("-initrd", str(config.initramfs)),
        *("-append", " ".join(KERNEL_PARAMETERS)),
        *("-chardev", f"socket,id=qmp,{channels.qmp}"),
        *("-mon", "chardev=qmp,mode=control"),
        *("-chardev", f"socket,id=console,{channels.console}"),
        *("-serial", "chardev:console"),
    ]
    if config.disk is not None:
        argv += [
            *("-device", "virtio-serial-pci,disable-legacy=on,max_ports=2"),
            *("-chardev", f"socket,id=agent,{channels.agent}"),
            *("-device", f"virtserialport,chardev=agent,name={AGENT_PORT}"),
        ]
        if config.replaceable:
            argv += first_disk(config.machine, config.disk)
        else:
            disk = str(config.disk).replace(",", ",,")
            argv += [
                *("-drive", f"file={disk},format=raw,if=none,id=image,read-only=on"),
                *("-device", "virtio-blk-pci,disable-legacy=on,drive=image"),
            ]
    for serial, device in config.disks:
        # Past the host's page cache, as the loop device itself is: the guest asks for the disk and gets the disk.
        # For writing from the first, so that one descriptor is enough where it is opened by its descriptor.
        opened = f"file.driver=host_device,file.filename={device},format=raw,auto-read-only=off"
        drive = f"{opened},if=none,id={serial},cache=none,aio=threads"
        argv += [
            *("-drive", drive),
            *("-device", f"virtio-blk-pci,disable-legacy=on,drive={serial},serial={serial}"),
        ]
    if config.card is not None:
        argv += config.card.arguments()
    return argv


def _machine(config: MachineConfig) -> str:
    kind = f"{config.machine},accel={config.accelerator}"
    if config.machine == "q35":
        # A pod has no use for a SATA controller, an SMBus or VMware's port; the kernel would look for each.
        kind += ",sata=off,smbus=off,vmport=off,usb=off"
    return kind


class QemuProcess(Protocol):
    """A QEMU that was started, wherever it runs.

    Attributes:
        qmp: the connected socket of its control channel.
        console: of its serial port.
        agent: of the agent's port.
    """

    qmp: socket.socket
    console: socket.socket
    agent: socket.socket

    @property
    def pid(self) -> int:
        """Its process ID, on the machine that it runs on."""
        ...

    def poll(self) -> int | None:
        """Its status, as `subprocess.Popen.poll` has it; ``None`` while it runs."""
        ...

    def wait(self, timeout: float) -> int:
        """Its status, once it has ended.

        Raises:
            subprocess.TimeoutExpired: it has not, within ``timeout`` seconds.
        """
        ...

    def hand_over(self, qmp: Qmp, file: PurePath) -> PurePath:
        """Let it open a file of its machine that it was not started with; the file as QEMU names it.

        Raises:
            QmpError: it refused, or is gone.
            OSError: the file cannot be opened.
        """
        ...

    def said(self) -> str:
        """The end of what it printed, its own words and not the machine's."""
        ...

    def usage(self) -> Usage:
        """CPU time and resident memory.

        Raises:
            CannotConnect: it is gone.
        """
        ...

    def end(self) -> None:
        """End it and remove what it had, the sockets apart. Safe to repeat."""
        ...


class LocalQemu:
    """A QEMU on this machine; its sockets are inherited: no paths, nothing left in the file system.

    Args:
        qemu: the program.
        config: the machine.
        run: owns the process.
        group: what holds it to its limits; ended with it.
        sandbox: what confines it; ``None``: as `pytest_vperf.targets.pod.sandbox.confine` has it.

    Raises:
        OSError: it cannot be executed.
        TargetError: it cannot be confined.
    """

    def __init__(
        self,
        qemu: str,
        config: MachineConfig,
        run: Run,
        group: Group | None = None,
        sandbox: Sandbox | None = None,
    ) -> None:
        self._group = group
        with contextlib.closing(sandbox or confine(qemu, config)) as confined:
            self._user = confined.user
            self._start(qemu, config, run, confined)

    def _start(self, qemu: str, config: MachineConfig, run: Run, sandbox: Sandbox) -> None:
        group = self._group
        self._folder = run.subfolder("pod")
        self._log = (self._folder / "qemu.log").open("w+b")
        pairs = [socket.socketpair() for _ in range(3)]
        self.qmp, self.console, self.agent = (pair[0] for pair in pairs)
        theirs = [pair[1].fileno() for pair in pairs]
        channels = Channels(*(f"fd={descriptor}" for descriptor in theirs))
        argv = sandbox.command(command_line(qemu, sandbox.config, channels, name=f"vperf-{run.id}"))
        try:
            # A session of its own: Ctrl-C in a terminal reaches pytest, which ends the machine in order.
            self._process = subprocess.Popen(
                group.entered(argv) if group else argv,
                stdin=subprocess.DEVNULL,
                stdout=self._log,
                stderr=self._log,
                pass_fds=(*theirs, *config.descriptors, *sandbox.descriptors),
                env=environment(run.environment),
                start_new_session=True,
            )
        except BaseException:
            for pair in pairs:
                pair[0].close()
            self._log.close()
            raise
        finally:
            for pair in pairs:
                pair[1].close()

    @property
    def pid(self) -> int:
        """Its process ID."""
        return self._process.pid

    def poll(self) -> int | None:
        """Its status; see `QemuProcess.poll`."""
        return self._process.poll()

    def wait(self, timeout: float) -> int:
        """Its status, once it has ended; see `QemuProcess.wait`."""
        return self._process.wait(timeout)

    def hand_over(self, qmp: Qmp, file: PurePath) -> PurePath:
        """Let it open a file; see `QemuProcess.hand_over`."""
        return file if self._user is None else hand_over(qmp, file)

    def said(self) -> str:
        """The end of its log."""
        self._log.flush()
        self._log.seek(0)
        return self._log.read()[-600:].decode("utf-8", "replace").strip()

    def usage(self) -> Usage:
        """CPU time and resident memory; see `QemuProcess.usage`."""
        import psutil

        try:
            if self.poll() is not None:
                raise psutil.NoSuchProcess(self.pid)
            process = psutil.Process(self.pid)
            times = process.cpu_times()
            return Usage(times.user + times.system, process.memory_info().rss)
        except psutil.Error as error:
            raise CannotConnect("QEMU is gone") from error

    def end(self) -> None:
        """End it. It has nothing to save, so it is not asked politely."""
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        self._log.close()
        if self._group is not None:
            self._group.close()
        shutil.rmtree(self._folder, ignore_errors=True)


QEMU = "qemu-system-x86_64"


def check_qemu() -> Readiness:
    """Whether QEMU is installed; ``why`` is its path then."""
    path = find_program(QEMU)
    if path is None:
        return Readiness(
            "qemu", False, f"{QEMU} is not installed", "apt-get install qemu-system-x86"
        )
    return Readiness("qemu", True, path)


@functools.lru_cache(maxsize=4)
def qemu_version(path: str) -> str:
    """QEMU's version with its package's, as the first line of ``--version`` has it after "version"."""
    done = subprocess.run(
        [path, "--version"], capture_output=True, text=True, check=False, timeout=60
    )
    return version_of(done.stdout)


def version_of(said: str) -> str:
    """The version in what ``--version`` printed."""
    return said.partition("\n")[0].partition("version ")[2] or "unknown"
