"""The fixtures' starter of pods, each owned by the test's scope."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_vperf.quantity import amount
from pytest_vperf.targets.base import CannotStart, Once, Unavailable
from pytest_vperf.targets.disks import attached
from pytest_vperf.targets.kernel.guest_kernel import from_file
from pytest_vperf.targets.limits import Limits
from pytest_vperf.targets.network.card import configure
from pytest_vperf.targets.pod.disk import build_initramfs, serial
from pytest_vperf.targets.pod.place import HERE, Here
from pytest_vperf.targets.pod.pod import IDLE, Pod, boot
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
        assets: returns the files that pods are started from; called before the first start is timed.
        run: owns the machines' processes.
        scope: owns the pods.
        accelerator: ``kvm``, ``tcg`` or ``xen``; ``auto`` is ``kvm`` where it works, else ``tcg``.
        timeout: seconds for one start.
        probed: returns the files to probe the accelerator with if ``assets`` are themselves under test: a failed
            start with those is an error, not an unavailable accelerator.
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
        """The accelerator of these pods; ``auto`` is resolved by a probe on first use.

        Raises:
            Unavailable: ``auto``, and the files that a probe needs are unavailable.
        """
        if self._asked == "auto":
            kvm = probe("kvm", self._probed, self._run, place=self._place)
            self._asked = "kvm" if kvm.usable else "tcg"
            self._why = "auto: kvm works" if kvm.usable else f"auto: no kvm: {kvm.why}"
        return self._asked

    def of(
        self,
        *,
        kernel: Path | str | None = None,
        qemu: Path | str | None = None,
        firmware: Path | str | None = None,
    ) -> Pods:
        """Pods like these with another kernel, QEMU or firmware, for tests that compare two.

        Args:
            kernel: a bzImage, with its modules beside it as in its package; ``None`` for that of these pods.
            qemu: a program; likewise.
            firmware: a file, whichever firmware is asked for; likewise.

        Raises:
            Unavailable: for ``qemu`` and ``firmware``, they are started on another machine.
        """
        place = self._place
        if qemu is not None or firmware is not None:
            if not isinstance(place, Here):
                raise Unavailable(
                    "QEMU and firmware by their paths are this machine's", remedy="run pytest there"
                )
            place = place.using(qemu=qemu, firmware=firmware)

        def prepared() -> Assets:
            usual = self._assets()
            program, version = (
                place.qemu() if qemu is not None else (usual.qemu, usual.qemu_version)
            )
            image = from_file(Path(kernel).absolute()) if kernel is not None else usual.kernel
            return replace(
                usual,
                qemu=program,
                qemu_version=version,
                kernel=image,
                initramfs=build_initramfs(image),
                place=place,
            )

        return self._like(_assets=Once(prepared), _place=place)

    def sharing(self, group: MemoryGroup | None, scope: Scope) -> Pods:
        """Pods like these in one shared control group, owned by another scope.

        Args:
            group: the control group; ``None`` for none.
            scope: owns them.

        Raises:
            Unavailable: they are started on another machine.
        """
        if not isinstance(self._place, Here):
            raise Unavailable(
                "pods on another machine have no control group of this one",
                remedy="run pytest there",
                target=f"pod {self.accelerator}{self._place.mark}",
            )
        place = self._place.sharing(group.member() if group is not None else None)
        accelerator = self.accelerator  # probed once for all of them
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
            cpus: CPU time that QEMU may use, in host CPUs, e.g. 0.5.
            cpuset: the host's CPUs that it may run on, e.g. ``0-1``.
            cpu_shares: its weight against others on the host; the default is 1024.
            disks: from the fixture ``disks``, as further disks of the machine, at `Disk.where`; ``disk.capped(…)``
                limits their rates.
            network: for its network card (fixture ``network``); ``None`` for no card.
            vhost: the host's kernel moves the card's packets (vhost-net) instead of QEMU.
            reaches_host: on a user-mode network, used if the tests do not run as root: whether it may open
                connections to all services on the host's loopback and to whatever the host can reach. Otherwise it
                only accepts connections.
            replaceable: whether its container can be replaced, see `Pod.replace`; it adds a bus to the machine.
            timeout: seconds for this start; ``None`` for the default.

        Raises:
            Unavailable: this host cannot run such pods: the claim is not measured.
            CannotStart: the start failed, or an argument is invalid.
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
        """A starter like this one whose pods belong to the caller, and are not recorded until passed to `own`."""
        return self._like(_scope=None)

    def own(self, pod: Pod) -> Pod:
        """Have the scope own a pod started by `unowned`."""
        assert self._scope is not None
        return self._scope.own(pod)

    @property
    def identity(self) -> tuple[str, ...]:
        """Identifies the files that they are started from: equal for pods of the same bytes.

        Raises:
            Unavailable: a file is unavailable.
        """
        assets = self._assets()
        return assets.qemu_version, assets.kernel.sha256, str(assets.initramfs), str(assets.disk)


def _positive(name: str, value: int) -> int:
    if value < 1:
        raise CannotStart(f"a pod with {name} = {value} cannot start")
    return value


def plug_in(pod: Pod, card: Card) -> None:
    """Give a running pod its link, and its address with the image's ``ip``; on an error the pod is ended.

    Raises:
        Unavailable: the image has no ``ip``.
        TargetError: ``ip`` failed; with its message.
    """
    pod.link = card.link
    try:
        configure(pod, card.address)
    except BaseException:
        pod.close()
        raise
