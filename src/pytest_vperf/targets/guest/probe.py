"""Whether guests work on a daemon's machine, with KVM or emulated: libvirt is asked, then a guest is started.

Neither an existing ``/dev/kvm`` nor libvirt's word proves anything: under some hypervisors a guest kernel never
reaches userspace with it. So a small machine without a disk is started, which must get that far. ``vperf doctor``
does this with each accelerator.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

from pytest_vperf.machine import checks
from pytest_vperf.machine.lock import LockTimeout, measuring
from pytest_vperf.machine.preflight import Readiness, program
from pytest_vperf.machine.runs import Run
from pytest_vperf.targets.base import CannotConnect, TargetError, Unavailable
from pytest_vperf.targets.guest.boot import Boot, GuestConfig, domain_xml
from pytest_vperf.targets.guest.guests import TYPES
from pytest_vperf.targets.image import debian
from pytest_vperf.targets.kernel.guest_kernel import INIT_LINE, VIRTIO
from pytest_vperf.targets.libvirt.connection import words
from pytest_vperf.targets.libvirt.console import Console
from pytest_vperf.targets.libvirt.domain import Domain
from pytest_vperf.targets.limits import Limits

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_vperf.targets.kernel.guest_kernel import GuestKernel
    from pytest_vperf.targets.libvirt.daemon import Daemon


GUEST, KVM, TCG = NAMES = ("guest", "guests with kvm", "guests with tcg")


def check(guest_kernel: Path | None = None) -> list[Readiness]:
    """Whether guests can start here, with KVM and emulated. Starts a small machine; waits for a measurement.

    If no daemon answers and this user can start one, a private one is started, and ended afterwards.

    Args:
        guest_kernel: the kernel to boot; ``None`` takes the distribution's.

    Returns:
        ``guest`` first: usable if libvirt answers, an image is available, and one accelerator works.
    """
    from pytest_vperf.targets.kernel.guest_kernel import distribution_kernel, from_file
    from pytest_vperf.targets.libvirt import connect

    try:
        kernel = from_file(guest_kernel) if guest_kernel else distribution_kernel()
        # The machines started here would disturb a running measurement.
        with measuring(), Run.begin() as run:
            daemon = connect.find(run)
            try:
                return _of(daemon, kernel, run)
            finally:
                daemon.close()
    except (TargetError, LockTimeout) as error:
        refusal = _refusal(error)
        return [replace(refusal, name=name) for name in NAMES]


def needs() -> Readiness:
    """Whether all that guests need, besides a daemon, is installed; starts nothing."""
    from pytest_vperf.targets.libvirt.connection import library

    try:
        library()
    except Unavailable as error:
        return Readiness(GUEST, False, error.reason, error.remedy)
    for needed in (
        program("qemu-system-x86_64", "qemu-system-x86"),
        debian.check()[0],
        program("mke2fs", "e2fsprogs"),
    ):
        if not needed.usable:
            what = f"the {needed.name}: " if needed.name == debian.NAME else ""
            return Readiness(GUEST, False, f"{what}{needed.why}", needed.remedy)
    return Readiness(GUEST, True, "everything that guests need is installed")


def _of(daemon: Daemon, kernel: GuestKernel, run: Run) -> list[Readiness]:

    tcg = replace(probe(daemon, kernel, "tcg"), name=TCG)
    kvm = replace(_kvm(daemon, kernel, run), name=KVM)
    return [_guest(daemon, kernel, [kvm, tcg]), kvm, tcg]


def _kvm(daemon: Daemon, kernel: GuestKernel, run: Run) -> Readiness:
    """KVM as tests see it: where it does not work for pods, whose probe is cached, it does not for guests either."""
    from pytest_vperf.targets.image.rootfs import default_rootfs
    from pytest_vperf.targets.libvirt.connect import choose_kvm
    from pytest_vperf.targets.pod.assets import prepare
    from pytest_vperf.targets.pod.probe import probe as probe_pods

    return choose_kvm(
        named=lambda: None,
        local=lambda: probe_pods("kvm", lambda: prepare(default_rootfs()), run),
        here=lambda: daemon,
        lab=lambda: None,
        probe=lambda found: probe(found, kernel, "kvm"),
    ).readiness


def _guest(daemon: Daemon, kernel: GuestKernel, accelerators: list[Readiness]) -> Readiness:
    details = daemon.details
    own = " of the run's own" if details.get("libvirt_daemon") else f" at {details['libvirt_uri']}"
    working = ", ".join(each.name.split()[-1] for each in accelerators if each.usable)
    why = (
        f"libvirt {details['libvirt']}{own}, {details['hypervisor']}, guest kernel {kernel.release},"
        f" accelerators: {working or 'none works'}"
    )
    lacking = needs()
    if not lacking.usable:
        return Readiness(GUEST, False, f"{why}; but {lacking.why}", lacking.remedy)
    # A private daemon runs QEMU as our user, whose access to the device does not change.
    hazard = checks.check_kvm_device()
    if not hazard.usable and not details.get("libvirt_daemon"):
        return Readiness(GUEST, bool(working), f"{why}; {hazard.why}", hazard.remedy)
    return Readiness(GUEST, bool(working), why)


def _refusal(error: TargetError | LockTimeout) -> Readiness:
    if isinstance(error, Unavailable):
        return Readiness(GUEST, False, error.reason, error.remedy)
    return Readiness(GUEST, False, " ".join(str(error).split())[:400])


#: Seconds for a kernel to reach its first process: it takes about one with KVM, and many where the daemon's host is
#: itself emulated.
TIME_LIMIT = 90.0
PARAMETERS = "console=ttyS0 earlyprintk=ttyS0 quiet panic=-1 reboot=t no_timer_check"

_KVM_REMEDY = "a host with /dev/kvm, or --vperf-lab=kvm for an emulated one"


def probe_kvm(daemon: Daemon, kernel: GuestKernel) -> Readiness:
    """Whether guests with KVM work there. Takes seconds; the answer holds while the daemon's host is up."""
    return probe(daemon, kernel, "kvm")


def probe(daemon: Daemon, kernel: GuestKernel, accelerator: str) -> Readiness:
    """Whether guests with an accelerator work there.

    Args:
        daemon: starts the machine.
        kernel: its kernel.
        accelerator: ``kvm`` or ``tcg``.

    Raises:
        CannotConnect: the daemon is gone, which answers nothing.
    """
    name = f"guest {accelerator}"
    kind, cpu = TYPES[accelerator]
    connection = daemon.connection
    where = f"libvirt at {connection.shown}"
    try:
        connection.handle.getDomainCapabilities(None, "x86_64", None, kind)
    except connection.libvirt.libvirtError as error:
        if accelerator == "kvm":
            return Readiness(name, False, f"{where} has no KVM", _KVM_REMEDY)
        return Readiness(
            name, False, f"{where} has no QEMU: {words(error)}", "apt-get install qemu-system-x86"
        )
    domain = Domain(connection, daemon.new_name(), name)
    try:
        return _try(domain, daemon, kernel, Readiness(name, True, where), (kind, cpu))
    except CannotConnect:
        raise
    except TargetError as error:
        return Readiness(name, False, str(error))
    finally:
        domain.destroy()


def _try(
    domain: Domain,
    daemon: Daemon,
    kernel: GuestKernel,
    asked: Readiness,
    processor: tuple[str, str],
) -> Readiness:
    kind, cpu = processor
    boot = Boot(
        "", daemon.kernel(kernel), daemon.initramfs(kernel, VIRTIO), f"{PARAMETERS} root=/dev/none"
    )
    config = GuestConfig(
        name=domain.identity,
        kind=kind,
        boot=boot,
        vcpus=1,
        memory_mib=256,
        machine="q35",
        cpu=cpu,
        limits=Limits(),
        labels=daemon.run.labels,
    )
    connection = daemon.connection
    libvirt = connection.libvirt
    domain.create(
        domain_xml(config),
        libvirt.VIR_DOMAIN_START_PAUSED | libvirt.VIR_DOMAIN_START_AUTODESTROY,
    )
    console = domain.console = Console(connection, domain.handle, (INIT_LINE,))
    domain.resume()
    deadline = time.perf_counter() + TIME_LIMIT
    while console.when(INIT_LINE) is None and time.perf_counter() < deadline:
        if domain.watch.wait_end(time.perf_counter() + 0.05):
            console.settle(1.0)
            break
    if console.when(INIT_LINE) is not None:
        return Readiness(asked.name, True, f"{asked.why}: a guest kernel got to its userspace")
    why = domain.why_gone() if domain.watch.ended else f"not within {TIME_LIMIT:g} s"
    has = "KVM" if kind == "kvm" else "QEMU"
    return Readiness(
        asked.name,
        False,
        f"{asked.why} has {has}, but a guest kernel never reached its userspace ({why})",
        _KVM_REMEDY if kind == "kvm" else "",
    )
