"""A pod's QEMU on this machine: command line, process with three channels, and hot-plugging of disks.

The root bus of a running q35 machine does not accept devices (QEMU, docs/pcie.txt, "Hot-plug"), so it gets a PCI
bridge, which makes its start a little slower; the root bus of a pc machine accepts them. Both notify the guest by
ACPI, which its kernel has built in. A PCI Express root port would do too, but with its native hot-plug Linux takes
five seconds to unplug a disk (drivers/pci/hotplug/pciehp_ctrl.c: the attention button could be pressed again).

The start, the probe and the benchmark's floor share the command line.
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
from pytest_vperf.targets.pod import QEMU
from pytest_vperf.targets.pod.qmp import QmpError
from pytest_vperf.targets.pod.sandbox import Sandbox, confine, environment

if TYPE_CHECKING:
    from pytest_vperf.machine.runs import Run
    from pytest_vperf.targets.control_group import Group
    from pytest_vperf.targets.pod.config import MachineConfig
    from pytest_vperf.targets.pod.qmp import Qmp


#: By machine type: the bus for hot-plugging, and the arguments that create it.
BUSES = {
    "pc": ("pci.0", ()),
    "q35": ("swap", ("-device", "pci-bridge,id=swap,chassis_nr=1,shpc=off")),
}
#: The image that a machine starts with.
FIRST = "image0"
#: Paths here are QEMU's names for descriptors that it was given (qemu(1), "-add-fd").
_SETS = PurePath("/dev/fdset")


def serial(name: str) -> str:
    """The serial number by which the guest finds a disk; virtio-blk allows 20 characters."""
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
    """Pass QEMU a descriptor of a file that it may not open by path; return the path that QEMU has for it.

    Raises:
        QmpError: QEMU refused, or is gone.
        OSError: the file cannot be opened.
    """
    descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return _SETS / str(qmp.execute_with(descriptor, "add-fd")["fdset-id"])
    finally:
        os.close(descriptor)


def plug(qmp: Qmp, machine: str, name: str, file: PurePath) -> None:
    """Plug an image into a machine; the guest notices it asynchronously.

    Args:
        qmp: the machine's.
        machine: its type, one of `BUSES`.
        name: a unique one for the disk.
        file: the image.

    Raises:
        QmpError: QEMU refused, or is gone; nothing was plugged in.
    """
    opened = {"driver": "file", "filename": str(file)}
    qmp.execute("blockdev-add", driver="raw", node_name=name, read_only=True, file=opened)
    if file.parent == _SETS:  # the disk has its own descriptor now
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
    """Unplug a disk, and wait until the guest has released it.

    Raises:
        QmpTimeout: it has not done so within ``timeout`` seconds.
        QmpError: QEMU refused, or is gone.
    """
    qmp.execute_until("DEVICE_DELETED", name, "device_del", timeout, id=name)
    qmp.execute("blockdev-del", node_name=name)


#: The name of the virtio-serial port to the agent.
AGENT_PORT = "org.pytest-vperf.agent"

#: The guest kernel's command line. Each parameter saves time at the start that is irrelevant to the measurement, or
#: makes an event visible (Linux documentation, admin-guide/kernel-parameters):
KERNEL_PARAMETERS = (
    # "debug" and "earlyprintk" make the kernel's first instructions print a line; "quiet" suppresses all else but a
    # panic. Their order matters.
    "debug",
    "quiet",
    "earlyprintk=ttyS0",
    "console=ttyS0",
    # A panic ends the machine at once (QEMU has -no-reboot), which the host notices.
    "panic=-1",
    "reboot=t",
    # No probing for keyboards, serial ports, timers and buses: what this machine has is known.
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
    """The sockets of QEMU's channels, in the syntax of its option ``-chardev socket``.

    ``fd=NUMBER`` is a connected socket that it inherits, ``path=FILE`` one that it connects to.
    """

    qmp: str
    console: str
    agent: str


def command_line(qemu: str, config: MachineConfig, channels: Channels, name: str) -> list[str]:
    """QEMU's command line. The machine is created paused (``-S``); QMP's ``cont`` starts it."""
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
        # Bypass the host's page cache, as the loop device does, so that the guest measures the disk. Opened for
        # writing from the start, so that a single descriptor is enough if QEMU is given one.
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
        # A pod needs no SATA controller, SMBus or VMware port, and the kernel would probe each.
        kind += ",sata=off,smbus=off,vmport=off,usb=off"
    return kind


class QemuProcess(Protocol):
    """A QEMU process, on this or another machine.

    Attributes:
        qmp: the connected socket of its control channel.
        console: that of its serial port.
        agent: that of the agent's port.
    """

    qmp: socket.socket
    console: socket.socket
    agent: socket.socket

    @property
    def pid(self) -> int:
        """Its process ID, on the machine that it runs on."""
        ...

    def poll(self) -> int | None:
        """Its status, as from `subprocess.Popen.poll`; ``None`` while it runs."""
        ...

    def wait(self, timeout: float) -> int:
        """Wait for its end and return its status.

        Raises:
            subprocess.TimeoutExpired: it has not ended within ``timeout`` seconds.
        """
        ...

    def hand_over(self, qmp: Qmp, file: PurePath) -> PurePath:
        """Let it open a further file on its machine; return the path that QEMU has for it.

        Raises:
            QmpError: it refused, or is gone.
            OSError: the file cannot be opened.
        """
        ...

    def said(self) -> str:
        """The end of QEMU's own output, without the guest's."""
        ...

    def usage(self) -> Usage:
        """CPU time and resident memory.

        Raises:
            CannotConnect: it is gone.
        """
        ...

    def end(self) -> None:
        """End it and remove all that it had except the sockets. Safe to repeat."""
        ...


class LocalQemu:
    """A QEMU on this machine; it inherits its sockets, so that none is left in the file system.

    Args:
        qemu: the program.
        config: the machine.
        run: owns the process.
        group: the control group with its limits; removed with it.
        sandbox: confines it; ``None`` for the default, `pytest_vperf.targets.pod.sandbox.confine`.

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
            # A session of its own, so that Ctrl-C in a terminal only reaches pytest, which ends the machine in order.
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
        """Kill it: it has nothing to save."""
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        self._log.close()
        if self._group is not None:
            self._group.close()
        shutil.rmtree(self._folder, ignore_errors=True)


def check_qemu() -> Readiness:
    """Whether QEMU is installed; ``why`` is then its path."""
    path = find_program(QEMU)
    if path is None:
        return Readiness(
            "qemu", False, f"{QEMU} is not installed", "apt-get install qemu-system-x86"
        )
    return Readiness("qemu", True, path)


@functools.lru_cache(maxsize=4)
def qemu_version(path: str) -> str:
    """The versions of QEMU and its package, as printed by ``--version`` after "version"."""
    done = subprocess.run(
        [path, "--version"], capture_output=True, text=True, check=False, timeout=60
    )
    return version_of(done.stdout)


def version_of(said: str) -> str:
    """The version in the output of ``--version``."""
    return said.partition("\n")[0].partition("version ")[2] or "unknown"
