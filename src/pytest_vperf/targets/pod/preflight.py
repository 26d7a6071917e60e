"""What ``vperf doctor`` says about pods."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_vperf.machine.preflight import Readiness
from pytest_vperf.machine.runs import Run
from pytest_vperf.targets.base import TargetError, Unavailable
from pytest_vperf.targets.image import default_rootfs
from pytest_vperf.targets.pod import firmware
from pytest_vperf.targets.pod.assets import Assets, prepare
from pytest_vperf.targets.pod.probe import ACCELERATORS, probe

if TYPE_CHECKING:
    from pathlib import Path


def check(guest_kernel: Path | None = None, *, afresh: bool = True) -> list[Readiness]:
    """Whether pods can start, with each accelerator and firmware; boots a pod for each accelerator.

    Args:
        guest_kernel: the kernel to boot; ``None`` takes the distribution's.
        afresh: boot although an earlier answer is remembered.

    Returns:
        ``pod`` first: usable when the files are there and at least one accelerator works.
    """
    firmwares = [firmware.check(name) for name in firmware.FILES]
    try:
        assets = prepare(default_rootfs(), guest_kernel)
    except TargetError as error:
        remedy = error.remedy if isinstance(error, Unavailable) else ""
        why = error.reason if isinstance(error, Unavailable) else str(error)
        missing = [
            Readiness(f"accelerator {name}", False, f"cannot be probed: {why}", remedy)
            for name in ACCELERATORS
        ]
        return [Readiness("pod", False, why, remedy), *missing, *firmwares]
    accelerators = _probed(assets, afresh=afresh)
    working = [answer.name.removeprefix("accelerator ") for answer in accelerators if answer.usable]
    pod = Readiness(
        "pod",
        bool(working),
        f"QEMU {assets.qemu_version}, guest kernel {assets.kernel.release}, accelerators: "
        f"{', '.join(working) or 'none works'}",
    )
    return [pod, *accelerators, *firmwares]


def _probed(assets: Assets, *, afresh: bool) -> list[Readiness]:
    with Run.begin() as run:
        return [probe(name, lambda: assets, run, afresh=afresh) for name in ACCELERATORS]
