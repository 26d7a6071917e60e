"""Starts guests for tests, each owned by the test's scope."""

from __future__ import annotations

import functools
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from pytest_vperf.targets.base import CannotStart, Once, Unavailable, named
from pytest_vperf.targets.disks import attached
from pytest_vperf.targets.guest.boot import Boot, CardConfig, DiskConfig, GuestConfig
from pytest_vperf.targets.guest.boot import boot as start_guest
from pytest_vperf.targets.guest.guest import Guest
from pytest_vperf.targets.guest.own_image import OwnGuest
from pytest_vperf.targets.image.programs import programs_of
from pytest_vperf.targets.kernel.guest_kernel import VIRTIO, build_root_initramfs, from_file
from pytest_vperf.targets.libvirt.daemon import Machines, kernel_and_image
from pytest_vperf.targets.libvirt.domain import memory_mib_of, vcpus_of
from pytest_vperf.targets.libvirt.network import MachineNetwork
from pytest_vperf.targets.libvirt.root_disk import build_boot_disk, init_parameter
from pytest_vperf.targets.libvirt.storage import RootDisk
from pytest_vperf.targets.limits import Limits
from pytest_vperf.targets.pod.disk import serial

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pytest_vperf.targets.control_group import MemoryGroup
    from pytest_vperf.targets.disks import CappedDisk, Disk
    from pytest_vperf.targets.guest.own_image import OwnImage
    from pytest_vperf.targets.image.rootfs import Rootfs
    from pytest_vperf.targets.kernel.guest_kernel import GuestKernel
    from pytest_vperf.targets.libvirt.daemon import Daemon
    from pytest_vperf.targets.libvirt.network import OvsNetwork, Plug
    from pytest_vperf.targets.libvirt.storage import Volume
    from pytest_vperf.targets.limits import DiskCaps
    from pytest_vperf.targets.scope import Scope

#: Accelerator → libvirt's domain type and a guest's default CPU model.
TYPES = {"kvm": ("kvm", "host-passthrough"), "tcg": ("qemu", "maximum")}
#: Why a guest has one processor where KVM is itself emulated (SVM by QEMU 7.2): with two its kernel never boots, both
#: processors spin, and after a while its host stops answering.
_ONE_PROCESSOR = "with more than one processor, guests hang where KVM is emulated itself, and their host with them"
_REAL_KVM = "give it one, or a host whose processor has KVM"
#: How the kernel is loaded.
BOOTS = ("direct", "firmware")
#: The kernel's command line: that of `pytest_vperf.targets.pod.qemu`, for a full machine.
PARAMETERS = (
    *("debug", "quiet", "earlyprintk=ttyS0", "console=ttyS0", "panic=-1", "reboot=t"),
    # In emulation on a busy host the timer fails the kernel's check, and the kernel panics.
    "no_timer_check",
    *("root=/dev/vda", "rw", "net.ifnames=0", "systemd.show_status=no"),
)


#: The remedy where a guest's own image is in the way.
_LEAVE_OUT = "leave out --guest-image"


class _System(NamedTuple):
    """What a guest boots.

    Attributes:
        disk: its root disk is an overlay of this one.
        boot: how, but for that disk.
        details: for the record.
        make: makes the target of a guest that runs.
    """

    disk: RootDisk
    boot: Boot
    details: Mapping[str, str]
    make: Callable[..., Guest]


class Guests(Machines):
    """Starts guests with one accelerator.

    Args:
        daemon: returns a libvirt daemon with that accelerator; called at the first start.
        rootfs: returns their image; likewise.
        kernel: returns their kernel; likewise.
        scope: owns the guests.
        accelerator: ``kvm``, or ``tcg`` for emulation; neither replaces the other.
        timeout: of one start, in seconds.
        partition: the parent of their control groups; empty for libvirt's default.
        emulator: the QEMU program; empty for libvirt's choice.
        mark: the suffix of their names.
        own: returns their own image; ``None`` makes their disk from ``rootfs``. Called like ``rootfs``.
        own_tools: whether guests with their own image run its programs, and not those of ``rootfs``.
    """

    _network_kind = MachineNetwork
    _disk_prefix = "vd"

    def __init__(
        self,
        daemon: Callable[[], Daemon],
        rootfs: Callable[[], Rootfs],
        kernel: Callable[[], GuestKernel],
        scope: Scope,
        *,
        accelerator: str = "kvm",
        timeout: float = 180.0,
        partition: str = "",
        emulator: str = "",
        mark: str = "",
        own: Callable[[], OwnImage] | None = None,
        own_tools: bool = False,
    ) -> None:
        if accelerator not in TYPES:
            raise CannotStart(
                f"unknown accelerator {accelerator!r} for guests: choose one of {', '.join(TYPES)}"
            )
        self.accelerator = accelerator
        self._partition = partition
        self._emulator = emulator
        self._own = own
        self._own_tools = own_tools
        super().__init__(
            daemon, rootfs, kernel, scope, kind=f"guest {accelerator}", timeout=timeout, mark=mark
        )

    def of(self, *, kernel: Path | str | None = None, qemu: Path | str | None = None) -> Guests:
        """Guests like these with another kernel or QEMU, for tests that compare two.

        Args:
            kernel: a bzImage, with its modules beside it as in its package; ``None`` for that of these guests.
            qemu: a program on the machine of the daemon; likewise.

        Raises:
            CannotStart: they have their own image, and so its kernel.
        """
        changes: dict[str, Any] = {}
        if kernel is not None:
            if self._own is not None:
                raise CannotStart(f"{self._kind}: its own image has its own kernel: {_LEAVE_OUT}")
            changes["_kernel"] = Once(lambda: from_file(Path(kernel).absolute()))
        if qemu is not None:
            changes["_emulator"] = str(qemu)
        return self._like(_host=None, **changes)

    @property
    def ovs_network(self) -> OvsNetwork:
        """As `network`, on Open vSwitch: ``start(network=guests.ovs_network)``.

        Raises:
            Unavailable: no Open vSwitch answers where they run.
        """
        network = self.daemon.ovs_network()
        self.host.link = network.host
        return network

    def sharing(self, group: MemoryGroup | None, scope: Scope) -> Guests:
        """Guests like these in one shared control group, owned by another scope.

        Args:
            group: the parent of their control groups; ``None`` for libvirt's default.
            scope: owns them.

        Raises:
            CannotStart: the group cannot be created where libvirt looks for it.
        """
        partition = group.everywhere() if group is not None else ""
        return self._like(_scope=scope, _host=None, _partition=partition)

    def start(
        self,
        *,
        vcpus: int = 1,
        memory: str = "512 MiB",
        init: str | None = None,
        boot: str | None = None,
        machine: str = "q35",
        cpu: str = "",
        cpus: float | None = None,
        cpuset: str | None = None,
        cpu_shares: int | None = None,
        disks: Sequence[Disk | CappedDisk] = (),
        network: MachineNetwork | None = None,
        vhost: bool = False,
    ) -> Guest:
        """Start a guest and wait until its agent is ready.

        Args:
            vcpus: virtual CPUs.
            memory: the machine's memory, e.g. ``512 MiB``.
            init: ``systemd`` boots a full userspace, ``rescue`` it in single-user mode, ``small`` a minimal one;
                ``None`` is systemd, or that of the guest's own image.
            boot: ``direct``: QEMU loads the kernel; ``firmware``: SeaBIOS starts a boot loader from a disk; ``None``
                is direct, or by firmware from the guest's own image.
            machine: QEMU's machine type.
            cpu: the CPU model; empty for the host's under KVM, and all emulated features otherwise.
            cpus: CPU time it may use, in host CPUs, e.g. 0.5.
            cpuset: the host's CPUs that it may run on, e.g. ``0-1``.
            cpu_shares: its weight against others on the host; the default is 1024.
            disks: from `disks`, as further disks of the machine, at `Disk.where`; ``disk.capped(…)`` limits their
                rates.
            network: for its network card, the same fixture's `network` or `ovs_network`; ``None`` for no card.
            vhost: the host's kernel moves the card's packets (vhost-net) instead of QEMU.

        Raises:
            Unavailable: such a guest cannot run here: the claim is not measured.
            CannotStart: the start failed, or an argument is invalid.
            CannotConnect: the daemon is gone.
            TimedOut: it took longer than the time limit.
        """
        present, caps = attached(disks)
        limits = Limits(cpus, cpuset, cpu_shares)
        size, memory_mib = vcpus_of(vcpus), memory_mib_of(memory)
        init_parameter("systemd" if init is None else init)
        if boot not in (None, *BOOTS):
            raise CannotStart(f"unknown boot {boot!r}: choose one of {', '.join(BOOTS)}")
        kind, model = TYPES[self.accelerator]
        daemon = self.daemon
        name = f"{self._kind}{daemon.mark}{self._mark}"
        with named(name):
            if size > 1 and kind == "kvm" and daemon.details.get("emulated") == "yes":
                raise Unavailable(_ONE_PROCESSOR, remedy=_REAL_KVM)
            system = (
                self._of_image(daemon, init, boot)
                if self._own is None
                else self._of_own_image(daemon, self._own(), init, boot)
            )
        details = {
            "machine_type": machine,
            "cpu_model": cpu or model,
            "vcpus": str(size),
            "memory": f"{memory_mib} MiB",
            **system.details,
            **daemon.details,
        }

        def start(identity: str, root: Volume, plug: Plug | None) -> Guest:
            config = GuestConfig(
                name=identity,
                kind=kind,
                boot=replace(system.boot, disk=root.path),
                vcpus=size,
                memory_mib=memory_mib,
                machine=machine,
                cpu=cpu or model,
                limits=limits,
                disks=tuple(
                    DiskConfig(each.device, serial(each), tune_of(each, caps)) for each in present
                ),
                card=CardConfig(plug.bridge, plug.mac, vhost, plug.switch, plug.offloads)
                if plug
                else None,
                labels=daemon.run.labels,
                partition=self._partition,
                emulator=self._emulator,
            )
            with daemon.storage.relied_on():
                return start_guest(
                    daemon.connection,
                    config,
                    name,
                    timeout=self._timeout,
                    make=system.make,
                    details=details,
                    opened=root.unlink,
                )

        card = "vhost-net moves the packets" if vhost else "QEMU moves the packets"
        return self._equipped(daemon, name, system.disk, present, network, card, start)

    def _of_image(self, daemon: Daemon, init: str | None, boot: str | None) -> _System:
        """What is made from the image with the tools, and a kernel."""
        init, boot = init or "systemd", boot or "direct"
        parameters = " ".join((*PARAMETERS, init_parameter(init)))
        rootfs, kernel = self._rootfs(), self._kernel()
        disk = daemon.root_disk(rootfs)
        return _System(
            disk,
            _way(daemon, kernel, parameters, boot),
            {"init": init, "boot": boot, **kernel_and_image(kernel, rootfs)},
            functools.partial(Guest, find=programs_of(rootfs).find),
        )

    def _of_own_image(
        self, daemon: Daemon, image: OwnImage, init: str | None, boot: str | None
    ) -> _System:
        """What the user's own image is."""
        for name, asked, other in (("init", init, ""), ("boot", boot, "firmware")):
            if asked not in (None, other):
                raise Unavailable(
                    f"a guest with its own image boots as its image says, and cannot be asked for {name}={asked!r}",
                    remedy=_LEAVE_OUT,
                )
        path = daemon.storage.cached(image.path, f"image-{image.sha256}", image.sha256)
        return _System(
            RootDisk(path, image.size, "qcow2"),
            Boot(""),
            {
                "init": "of its own image",
                "boot": "firmware",
                "guest_image": image.name,
                "guest_image_sha256": image.sha256,
            },
            functools.partial(OwnGuest, tools=None if self._own_tools else self._rootfs),
        )


def tune_of(disk: Disk, caps: Sequence[DiskCaps]) -> dict[str, int]:
    """The caps of one disk in libvirt's names (formatdomain, ``iotune``)."""
    found = {}
    for each in caps:
        if each.device == disk.device:
            for name, value in (
                ("read_iops_sec", each.read_iops),
                ("write_iops_sec", each.write_iops),
                ("read_bytes_sec", each.read_bytes),
                ("write_bytes_sec", each.write_bytes),
            ):
                if value is not None:
                    found[name] = value
    return found


def _way(daemon: Daemon, kernel: GuestKernel, parameters: str, boot: str) -> Boot:
    """What a guest boots from, uploaded to the daemon's machine; its root disk is still to be filled in."""
    if boot == "direct":
        there = daemon.kernel(kernel), daemon.initramfs(kernel, VIRTIO)
        return Boot("", *there, parameters)
    disk, key = build_boot_disk(kernel, build_root_initramfs(kernel, VIRTIO), parameters)
    return Boot("", boot_disk=daemon.storage.cached(disk, f"boot-{key}"))
