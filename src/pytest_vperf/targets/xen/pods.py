"""Pods on Xen: the pod's kernel, initramfs and image, started as a Xen machine through libvirt."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_vperf.targets.agent.wire import Frame, Type, command_payload
from pytest_vperf.targets.base import Unavailable, named
from pytest_vperf.targets.kernel import guest_kernel
from pytest_vperf.targets.libvirt.domain import memory_mib_of, vcpus_of
from pytest_vperf.targets.limits import Limits
from pytest_vperf.targets.pod.disk import build_initramfs
from pytest_vperf.targets.pod.machine import AGENT_LINE, settle, settling_time
from pytest_vperf.targets.pod.pod import DEFAULT_ENVIRONMENT
from pytest_vperf.targets.pod.pods import IDLE
from pytest_vperf.targets.scope import Starter
from pytest_vperf.targets.xen.boot import DomuConfig, XenDisk, boot
from pytest_vperf.targets.xen.domus import finished, need_mode, reader

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from pytest_vperf.targets.kernel.guest_kernel import GuestKernel
    from pytest_vperf.targets.libvirt.daemon import Daemon
    from pytest_vperf.targets.pod.assets import Assets
    from pytest_vperf.targets.scope import Scope
    from pytest_vperf.targets.xen.domus import Domu

NAME = "pod xen"
#: The kernel's command line; see `pytest_vperf.targets.xen.domus`.
PARAMETERS = (
    "console=hvc0 vperf.wire=hvc0 quiet loglevel=1 panic=5 cryptomgr.notests random.trust_cpu=on"
)


class XenPods(Starter):
    """Starts pods on Xen, as `pytest_vperf.targets.pod.pods.Pods` does on QEMU.

    Args:
        daemon: returns a libvirt daemon with Xen's driver; called at the first start.
        assets: returns what pods are started from; likewise.
        scope: owns the pods.
        timeout: of one start, in seconds.
        mark: the suffix of their names.
    """

    accelerator = "xen"

    def __init__(
        self,
        daemon: Callable[[], Daemon],
        assets: Callable[[], Assets],
        scope: Scope,
        *,
        timeout: float = 120.0,
        mark: str = "",
    ) -> None:
        self._mark = mark
        self._daemon = daemon
        self._assets = assets
        self._scope = scope
        self._timeout = timeout

    def start(
        self,
        *,
        vcpus: int = 1,
        memory: str = "512 MiB",
        command: Sequence[str] = IDLE,
        cpus: float | None = None,
        cpuset: str | None = None,
        cpu_shares: int | None = None,
        replaceable: bool = False,
    ) -> Domu:
        """Start a pod and wait until its container's process runs.

        Args:
            vcpus: virtual CPUs.
            memory: the machine's memory, e.g. ``512 MiB``.
            command: the container's process.
            cpus: CPU time it may use, in host CPUs, e.g. 0.5.
            cpuset: the host's CPUs that it may run on, e.g. ``0-1``.
            cpu_shares: its weight against others on the host; the default is 1024, which is 256 for Xen.
            replaceable: not available.

        Raises:
            Unavailable: there is no Xen host, or pinning cannot be read back: the claim is not measured.
            CannotStart: the start failed, or an argument is invalid.
            CannotConnect: the daemon is gone.
            TimedOut: it took longer than the time limit.
        """
        limits = Limits(cpus, cpuset, cpu_shares)
        size, memory_mib = vcpus_of(vcpus), memory_mib_of(memory)
        name = NAME
        if replaceable:
            raise Unavailable(
                "the container of a pod on Xen cannot be replaced: images are plugged in over QEMU's control socket, "
                "and a paravirtualised machine of Xen's has no QEMU",
                target=name,
            )
        with named(name):
            daemon = self._daemon()
        name += daemon.mark + self._mark
        with named(name):
            need_mode(daemon.connection, "pv")
            host = reader(daemon, limits)
            assets = self._assets()
            image = daemon.storage.cached(assets.disk, f"image-{assets.disk.parent.name}")
            config = DomuConfig(
                name=daemon.new_name(),
                mode="pv",
                kernel=daemon.kernel(assets.kernel),
                initramfs=_initramfs(daemon, assets.kernel),
                parameters=PARAMETERS,
                disks=(XenDisk(image, readonly=True),),
                vcpus=size,
                memory_mib=memory_mib,
                limits=limits,
                labels=daemon.run.labels,
            )
        with daemon.storage.relied_on():
            booted = boot(
                daemon.connection,
                config,
                name,
                kernel_line=AGENT_LINE,
                timeout=self._timeout,
                opened=lambda: None,  # its disk is read-only and kept
            )
        with booted:
            payload = command_payload(tuple(command), dict(DEFAULT_ENVIRONMENT), "/")
            booted.speaker.wire.send(Frame(Type.START, 1, payload))
            booted.await_frame(Type.RUNNING, "container")
            took = booted.marks["container"] - booted.began
            watched = settling_time(took, booted.marks["container"] - booted.marks["agent"])
            settle(booted.frames, name, tuple(command), watched)
            kernel, rootfs = assets.kernel, assets.rootfs
            pod = finished("pod", booted, config, host, daemon, kernel, rootfs, DEFAULT_ENVIRONMENT)
        return self._scope.own(pod)


def _initramfs(daemon: Daemon, kernel: GuestKernel) -> str:
    """The path of a Xen pod's initramfs on the daemon's machine."""

    def make() -> tuple[Path, str]:
        file = build_initramfs(kernel, needed=guest_kernel.MODULES_NEEDED_ON_XEN)
        return file, f"initramfs-{file.parent.name}"

    return daemon.file(("pod initramfs", kernel.sha256, kernel.modules), make)
