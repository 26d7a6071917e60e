"""What a test asks for pods: starts them, each owned by the test's scope."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import TYPE_CHECKING

from pytest_vperf.quantity import amount
from pytest_vperf.targets.base import CannotStart, Unavailable
from pytest_vperf.targets.disks import attached
from pytest_vperf.targets.limits import Limits
from pytest_vperf.targets.network.card import configure
from pytest_vperf.targets.pod.boot import boot
from pytest_vperf.targets.pod.disk import serial
from pytest_vperf.targets.pod.place import HERE, Here
from pytest_vperf.targets.pod.pod import IDLE, Pod
from pytest_vperf.targets.pod.probe import ACCELERATORS, probe
from pytest_vperf.targets.scope import Starter

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pytest_vperf.machine.runs import Run
    from pytest_vperf.targets.control_group import MemoryGroup
    from pytest_vperf.targets.disks import CappedDisk, Disk
    from pytest_vperf.targets.network.card import Card, Network
    from pytest_vperf.targets.pod.assets import Assets
    from pytest_vperf.targets.pod.place import Place
    from pytest_vperf.targets.scope import Scope

__all__ = ["IDLE", "Pods"]


class Pods(Starter):
    """Starts pods with one accelerator.

    Args:
        assets: gives what pods are started from; called at the first start, outside the clock.
        run: owns the machines' processes.
        scope: owns the pods.
        accelerator: ``kvm``, ``tcg`` or ``xen``; ``auto`` is ``kvm`` where it works, else ``tcg``.
        timeout: seconds that one start may take.
        probed: gives what the accelerator is probed with, where ``assets`` are themselves in question: with them an
            failed start is an error, and not an unavailable accelerator.
        place: the machine that they are started on; that of ``assets``.
    """

    def __init__(
        self,
        assets: Callable[[], Assets],
        run: Run,
        scope: Scope,
        *,
        accelerator: str = "auto",
        timeout: float = 120.0,
        probed: Callable[[], Assets] | None = None,
        place: Place = HERE,
    ) -> None:
        if accelerator != "auto" and accelerator not in ACCELERATORS:
            raise CannotStart(
                f"unknown accelerator {accelerator!r}: choose one of auto, {', '.join(ACCELERATORS)}"
            )
        self._assets = assets
        self._probed = probed or assets
        self._run = run
        self._scope: Scope | None = scope
        self._asked = accelerator
        self._why = ""
        self._timeout = timeout
        self._place = place

    @property
    def accelerator(self) -> str:
        """The accelerator of these pods; ``auto`` is decided by probing at the first look.

        Raises:
            Unavailable: ``auto``, and the files that a probe needs are unavailable.
        """
        if self._asked == "auto":
            kvm = probe("kvm", self._probed, self._run, place=self._place)
            self._asked = "kvm" if kvm.usable else "tcg"
            self._why = "auto: kvm works" if kvm.usable else f"auto: no kvm: {kvm.why}"
        return self._asked

    def sharing(self, group: MemoryGroup | None, scope: Scope) -> Pods:
        """Pods like these, which share a control group and are owned by another scope.

        Args:
            group: ``None``: they are in none.
            scope: owns them.

        Raises:
            Unavailable: they are started on another machine.
        """
        if not isinstance(self._place, Here):
            raise Unavailable(
                "pods on another machine have no control group of this one",
                remedy="call pytest-vperf there",
                target=f"pod {self.accelerator}{self._place.mark}",
            )
        place = Here(group.member()) if group is not None else HERE
        accelerator = self.accelerator  # found out once, for all of them
        return self._like(
            _scope=scope, _asked=accelerator, _assets=lambda: replace(self._assets(), place=place)
        )

    def start(
        self,
        *,
        firmware: str = "qboot",
        vcpus: int = 1,
        memory: str = "512 MiB",
        command: Sequence[str] = IDLE,
        machine: str = "q35",
        cpu: str = "",
        cpus: float | None = None,
        cpuset: str | None = None,
        cpu_shares: int | None = None,
        disks: Sequence[Disk | CappedDisk] = (),
        network: Network | None = None,
        vhost: bool = False,
        reaches_host: bool = False,
        replaceable: bool = False,
        timeout: float | None = None,
    ) -> Pod:
        """Start a pod and wait until its container's process runs.

        Args:
            firmware: ``qboot`` or ``seabios``.
            vcpus: virtual CPUs.
            memory: the machine's memory, e.g. ``512 MiB``.
            command: the container's process.
            machine: QEMU's machine type.
            cpu: QEMU's CPU model; empty for the default of the accelerator.
            cpus: how many of the host's CPUs' time QEMU may use, e.g. 0.5.
            cpuset: the host's CPUs that it may run on, e.g. ``0-1``.
            cpu_shares: its weight against others of the host; 1024 is the usual one.
            disks: of the fixture ``disks``, as further disks of the machine, at `Disk.where`; with
                ``disk.capped(…)`` it may do so much with it.
            network: what its network card is plugged into (fixture ``network``); ``None``: it has none.
            vhost: the host's kernel moves the card's packets (vhost-net) instead of QEMU.
            reaches_host: on a user-mode network, where root does not run the tests: it may open connections to all
                that listens on the host's loopback, and to what the host reaches. Else it is only reached.
            replaceable: its container can be replaced, see `Pod.replace`; the machine has a bus for that.
            timeout: seconds that this start may take; ``None``: as others.

        Raises:
            Unavailable: this host cannot run such pods: the claim is not measured.
            CannotStart: the start failed, or an argument makes no sense.
            TimedOut: it took longer than the time limit.
        """
        present, caps = attached(disks)
        limits = Limits(cpus, cpuset, cpu_shares, disks=caps)
        accelerator = self.accelerator
        # Pods on Xen have no firmware: the hypervisor loads the kernel itself.
        name = f"pod {accelerator}" if accelerator == "xen" else f"pod {accelerator} {firmware}"
        name += self._place.mark
        with contextlib.ExitStack() as undo:
            try:
                readiness = probe(accelerator, self._probed, self._run, place=self._place)
                if not readiness.usable:
                    raise Unavailable(f"{accelerator}: {readiness.why}", remedy=readiness.remedy)
                card = (
                    None
                    if network is None
                    else network.card(vhost=vhost, reaches_host=reaches_host)
                )
                if card is not None:
                    undo.callback(card.link.close)
                    undo.callback(card.given)
                config = self._assets().config(
                    accelerator,
                    firmware,
                    vcpus=_positive("vcpus", vcpus),
                    memory_mib=_positive(
                        "memory", round(amount("memory", memory, "MiB", such_as="512 MiB"))
                    ),
                    machine=machine,
                    cpu=cpu,
                    disks=tuple((serial(disk), disk.device) for disk in present),
                    card=card,
                    replaceable=replaceable,
                )
            except Unavailable as error:
                error.target = name
                raise
            pod = boot(
                self._assets(),
                config,
                firmware,
                self._run,
                command=tuple(command),
                timeout=self._timeout if timeout is None else timeout,
                why_accelerator=self._why,
                limits=limits,
                disks=present,
            )
            undo.callback(pod.close)
            if card is not None:
                card.given()
                plug_in(pod, card)
            undo.pop_all()
        return pod if self._scope is None else self._scope.own(pod)

    def unowned(self) -> Pods:
        """The same, whose pods belong to who starts them, and are in no record until `own` takes them over."""
        return self._like(_scope=None)

    def own(self, pod: Pod) -> Pod:
        """Take over a pod that `unowned` ones have started."""
        assert self._scope is not None
        return self._scope.own(pod)

    @property
    def identity(self) -> tuple[str, ...]:
        """What they are started from: pods of the same bytes have it too.

        Raises:
            Unavailable: it is unavailable.
        """
        assets = self._assets()
        return assets.qemu_version, assets.kernel.sha256, str(assets.initramfs), str(assets.disk)


def _positive(name: str, value: int) -> int:
    if value < 1:
        raise CannotStart(f"a pod with {name} = {value} cannot start")
    return value


def plug_in(pod: Pod, card: Card) -> None:
    """Give a running pod its address, with the ``ip`` of its image, and its link; the pod is ended where that fails.

    Raises:
        Unavailable: the image has none.
        TargetError: it refuses; with its words.
    """
    pod.link = card.link
    try:
        configure(pod, card.address)
    except BaseException:
        pod.close()
        raise
