"""What a test asks for domUs: starts them, each owned by the test's scope."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

from pytest_vperf.targets.base import CannotStart, Unavailable
from pytest_vperf.targets.disks import attached
from pytest_vperf.targets.domu.boot import boot
from pytest_vperf.targets.domu.config import MODES, DomuConfig, XenDisk
from pytest_vperf.targets.domu.domu import Domu
from pytest_vperf.targets.domu.host import need_mode, set_limits
from pytest_vperf.targets.domu.pinning import pinned, reader
from pytest_vperf.targets.guest.guests import INITS
from pytest_vperf.targets.kernel.lines import INIT_LINE
from pytest_vperf.targets.kernel.root_initramfs import XEN
from pytest_vperf.targets.limits import Limits
from pytest_vperf.targets.many import share_of_memory
from pytest_vperf.targets.virt.attached_disks import check_place, lend, put_in_place
from pytest_vperf.targets.virt.failures import failed
from pytest_vperf.targets.virt.machines import Machines
from pytest_vperf.targets.virt.root_disk import SIZE
from pytest_vperf.targets.virt.size import memory_mib_of, vcpus_of
from pytest_vperf.targets.virt.virtual_network import VirtualNetwork, check_kind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_vperf.targets.disks import CappedDisk, Disk
    from pytest_vperf.targets.image import Rootfs
    from pytest_vperf.targets.kernel.guest_kernel import GuestKernel
    from pytest_vperf.targets.scope import Scope
    from pytest_vperf.targets.virt.daemon import Daemon

#: What the kernel is told: nothing but its death is printed on the console, which carries the agent's frames. It
#: stays for some seconds then: of a machine that Xen has ended the rest of the console is lost. With a loglevel of 0
#: it would die without a word (include/linux/printk.h, console_verbose).
PARAMETERS = (
    *("console=hvc0", "vperf.wire=hvc0", "quiet", "loglevel=1", "panic=5"),
    *(
        "root=/dev/xvda",
        "rw",
        "net.ifnames=0",
        "systemd.show_status=no",
        "systemd.log_target=journal",
    ),
)
#: The share of the free memory that machines may have as theirs: Xen keeps page tables and more of each (libxl,
#: ``libxl_domain_need_memory``: of 512 MiB some 6 MiB).
_THEIRS = 0.95


class Domus(Machines):
    """Starts domUs, through a libvirt daemon with Xen's driver; see `pytest_vperf.targets.virt.machines.Machines`."""

    @property
    def daemon(self) -> Daemon:
        """The daemon that starts them.

        Raises:
            Unavailable: there is none with Xen's driver.
            CannotConnect: it does not answer.
        """
        try:
            return self._daemon()
        except Unavailable as error:
            error.target = "domu"
            raise

    def owned_by(self, scope: Scope) -> Domus:
        """DomUs like these, owned by another scope."""
        return Domus(self._daemon, self._rootfs, self._kernel, scope, timeout=self._timeout)

    def memory_each(self, machines: int, most: str) -> str:
        """As of all machines; of what Xen has to give, which dom0 does not see."""
        shown = self.daemon.connection.shown
        return share_of_memory(_THEIRS * self.free_memory(), machines, most, f"Xen at {shown}")

    def free_memory(self) -> int:
        """Bytes that Xen has to give.

        Raises:
            Unavailable: there is no daemon with Xen's driver.
            CannotConnect: it has gone.
            CannotStart: it does not tell.
        """
        connection = self.daemon.connection
        try:
            return int(connection.handle.getFreeMemory())
        except connection.libvirt.libvirtError as error:
            raise failed(error, "tell what memory is free", connection.shown) from None

    def start(
        self,
        *,
        vcpus: int = 1,
        memory: str = "512 MiB",
        init: str = "systemd",
        mode: str = "pv",
        cpus: float | None = None,
        cpuset: str | None = None,
        cpu_shares: int | None = None,
        disks: Sequence[Disk | CappedDisk] = (),
        network: VirtualNetwork | None = None,
    ) -> Domu:
        """Start a domU and wait until its agent takes orders.

        Args:
            vcpus: virtual CPUs.
            memory: the machine's memory, e.g. ``512 MiB``.
            init: ``systemd`` boots a full userspace, ``small`` hardly any.
            mode: ``pv``, or ``pvh`` or ``hvm`` where the host's processor helps.
            cpus: how many of its host's CPUs' time it may use, e.g. 0.5: Xen's cap.
            cpuset: the host's CPUs that it may run on, e.g. ``0-1``.
            cpu_shares: its weight against others of the host; 1024 is the usual one, Xen's 256.
            disks: of `disks`, as further disks of the machine, at `Disk.where`; Xen has no caps for them.
            network: what its network card is plugged into, of the same fixture; ``None``: it has none.

        Raises:
            Unavailable: there can be no such domU here: the claim is not measured.
            CannotStart: the start failed, or an argument makes no sense.
            CannotConnect: the daemon has gone.
            TimedOut: it took longer than the time limit.
        """
        present, caps = attached(disks)
        limits = Limits(cpus, cpuset, cpu_shares)
        size, memory_mib = vcpus_of(vcpus), memory_mib_of(memory)
        if init not in INITS:
            raise CannotStart(f"unknown init {init!r}: choose one of {', '.join(INITS)}")
        if mode not in MODES:
            raise CannotStart(f"unknown mode {mode!r} of a domU: choose one of {', '.join(MODES)}")
        name = f"domu {mode}"
        try:
            daemon = self._daemon()
            name += daemon.mark
            need_mode(daemon.connection, mode)
            host = reader(daemon, limits)
            rootfs, kernel = self._rootfs(), self._kernel()
            base = daemon.root_disk(rootfs)
            paths = daemon.kernel(kernel), daemon.initramfs(kernel, XEN)
        except Unavailable as error:
            error.target = name
            raise
        if caps:
            raise Unavailable(
                "Xen's driver of libvirt has no caps for disks", remedy="cap a guest's", target=name
            )
        check_place(present, name, remote=daemon.is_remote)
        identity = daemon.new_name()
        with ExitStack() as undo:
            plug = None
            if network is not None:
                plug = check_kind(network, name, VirtualNetwork).plug("Xen's back end")
            if plug is not None:
                undo.callback(plug.link.close)
            lent = undo.enter_context(lend(present, name))
            # By its name, since a Ctrl-C may come when it is made and not yet ours.
            undo.callback(daemon.storage.remove, f"{identity}.qcow2")
            disk = daemon.storage.overlay(f"{identity}.qcow2", base, SIZE)
            config = DomuConfig(
                name=identity,
                mode=mode,
                kernel=paths[0],
                initramfs=paths[1],
                parameters=" ".join((*PARAMETERS, f"init={INITS[init]}")),
                disks=(
                    XenDisk(disk.path, "qcow2"),
                    *(XenDisk(each.device, block=True) for each in present),
                ),
                vcpus=size,
                memory_mib=memory_mib,
                limits=limits,
                bridge=plug.bridge if plug else "",
                mac=plug.mac if plug else "",
                labels=daemon.run.labels,
            )
            with daemon.storage.relied_on():
                booted = boot(
                    daemon.connection,
                    config,
                    name,
                    kernel_line=INIT_LINE,
                    timeout=self._timeout,
                    opened=disk.unlink,
                )
            undo.callback(booted.domain.destroy)
            details = {
                **_details(config, init, rootfs, kernel),
                **set_limits(booted.domain, limits),
                **pinned(host, booted.domain, limits, size),
                **daemon.details,
            }
            domu = Domu("domu", booted, details, rootfs)
            domu.disks, domu.on_close = present, lent.close
            letters = zip(present, "bcdefghijklmnopqrstuvwxyz", strict=False)
            put_in_place(domu, [(each, f"/dev/xvd{letter}") for each, letter in letters])
            if plug is not None:
                domu.join(plug.link, plug.address)
            undo.pop_all()
        return self._scope.own(domu)


def _details(config: DomuConfig, init: str, rootfs: Rootfs, kernel: GuestKernel) -> dict[str, str]:
    return {
        "accelerator": "xen",
        "mode": config.mode,
        "vcpus": str(config.vcpus),
        "memory": f"{config.memory_mib} MiB",
        "init": init,
        "guest_kernel": kernel.release,
        "guest_kernel_sha256": kernel.sha256,
        "rootfs": rootfs.name,
        "rootfs_sha256": rootfs.sha256,
    }
