"""What ``vperf doctor`` says about guests: one is tried with each accelerator, on this machine's libvirt."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pytest_vperf.machine import hazards
from pytest_vperf.machine.lock import LockTimeout, measuring
from pytest_vperf.machine.preflight import Readiness, program
from pytest_vperf.machine.runs import Run
from pytest_vperf.targets import image_preflight
from pytest_vperf.targets.base import TargetError, Unavailable

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_vperf.targets.kernel.guest_kernel import GuestKernel
    from pytest_vperf.targets.virt.daemon import Daemon

GUEST, KVM, TCG = NAMES = ("guest", "guests with kvm", "guests with tcg")


def check(guest_kernel: Path | None = None) -> list[Readiness]:
    """Whether guests can start here, with KVM and emulated. Starts a small machine; waits for a measurement.

    Where no daemon answers and this user can start one, it is one of a run, and ends with it.

    Args:
        guest_kernel: the kernel to boot; ``None`` takes the distribution's.

    Returns:
        ``guest`` first: usable when libvirt answers, an image can be had, and one accelerator works.
    """
    from pytest_vperf.targets.kernel.guest_kernel import distribution_kernel, from_file
    from pytest_vperf.targets.virt import connect

    try:
        kernel = from_file(guest_kernel) if guest_kernel else distribution_kernel()
        # What is started here would disturb a measurement that goes on.
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
    """Whether what guests are made of is here, beside a daemon: looked for, and nothing tried."""
    from pytest_vperf.targets.virt.failures import library

    try:
        library()
    except Unavailable as error:
        return Readiness(GUEST, False, error.reason, error.remedy)
    for needed in (
        program("qemu-system-x86_64", "qemu-system-x86"),
        image_preflight.check()[0],
        program("mke2fs", "e2fsprogs"),
    ):
        if not needed.usable:
            what = f"the {needed.name}: " if needed.name == image_preflight.NAME else ""
            return Readiness(GUEST, False, f"{what}{needed.why}", needed.remedy)
    return Readiness(GUEST, True, "what guests are made of is here")


def _of(daemon: Daemon, kernel: GuestKernel, run: Run) -> list[Readiness]:
    from pytest_vperf.targets.guest.probe import probe

    tcg = replace(probe(daemon, kernel, "tcg"), name=TCG)
    kvm = replace(_kvm(daemon, kernel, run), name=KVM)
    return [_guest(daemon, kernel, [kvm, tcg]), kvm, tcg]


def _kvm(daemon: Daemon, kernel: GuestKernel, run: Run) -> Readiness:
    """KVM as a test has it: where it does not work for pods it does not for guests, and that is remembered."""
    from pytest_vperf.targets.guest.probe import probe
    from pytest_vperf.targets.image import default_rootfs
    from pytest_vperf.targets.pod.assets import prepare
    from pytest_vperf.targets.pod.probe import probe as probe_pods
    from pytest_vperf.targets.virt.choice import choose_kvm

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
    # A daemon of our own runs QEMU as who we are, who may use the device or not, but always the same.
    hazard = hazards.check_kvm_device()
    if not hazard.usable and not details.get("libvirt_daemon"):
        return Readiness(GUEST, bool(working), f"{why}; {hazard.why}", hazard.remedy)
    return Readiness(GUEST, bool(working), why)


def _refusal(error: TargetError | LockTimeout) -> Readiness:
    if isinstance(error, Unavailable):
        return Readiness(GUEST, False, error.reason, error.remedy)
    return Readiness(GUEST, False, " ".join(str(error).split())[:400])
