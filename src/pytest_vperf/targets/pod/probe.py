"""Whether an accelerator really works here: a bounded boot, cached as long as the host is up.

A ``/dev/kvm`` that exists and answers proves nothing: under some hypervisors a guest kernel never reaches userspace
with it. So a pod is started with a time limit, and its QEMU is killed if that passes. ``vperf doctor`` does this with
each accelerator.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

from pytest_vperf.machine import cache, lock
from pytest_vperf.machine.preflight import Readiness
from pytest_vperf.machine.runs import Run
from pytest_vperf.targets.base import TargetError, TimedOut, Unavailable
from pytest_vperf.targets.image.rootfs import default_rootfs
from pytest_vperf.targets.pod import place as firmware
from pytest_vperf.targets.pod import pod as booting
from pytest_vperf.targets.pod.assets import Assets, prepare
from pytest_vperf.targets.pod.place import HERE

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pytest_vperf.targets.pod.place import Place


#: The accelerators for pods, the fastest first.
ACCELERATORS = ("kvm", "tcg", "xen")
#: Seconds for a probe: KVM boots in about one, emulation in a few, more on a slow or busy host.
TIME_LIMITS = {"kvm": 20.0, "tcg": 120.0}
FIRMWARE = "qboot"


def probe(
    accelerator: str,
    prepared: Callable[[], Assets],
    run: Run,
    *,
    afresh: bool = False,
    place: Place = HERE,
) -> Readiness:
    """Whether pods can run with an accelerator on a host.

    Args:
        accelerator: ``kvm``, ``tcg`` or ``xen``.
        prepared: returns the files that a pod is started from; not called if the answer is no without a boot.
        run: owns the probe's machine.
        afresh: ignore the cached answer.
        place: the host.
    """
    name = f"accelerator {accelerator}"
    quick = place.refusal(accelerator)
    if quick is not None:
        return Readiness(name, False, *quick)
    assets = prepared()
    remembered = _memory(accelerator, assets)
    if not afresh and remembered.is_file():
        usable, why, remedy = json.loads(remembered.read_text())
        return Readiness(name, bool(usable), str(why), str(remedy))
    with lock.measuring():  # a boot would disturb a running measurement, and be slowed by it
        answer, lasting = _boot(accelerator, assets, run)
    if not lasting:
        return answer
    remembered.parent.mkdir(parents=True, exist_ok=True)
    draft = remembered.with_suffix(f".{os.getpid()}")
    draft.write_text(json.dumps([answer.usable, answer.why, answer.remedy]))
    draft.replace(remembered)
    return answer


def _memory(accelerator: str, assets: Assets) -> Path:
    """The cached answer's file, keyed by the host's boot and loaded modules, and by all that the probe runs."""
    parts = [accelerator, *assets.place.identity(), assets.qemu_version, assets.kernel.sha256]
    key = cache.content_key([*parts, assets.initramfs.parent.name, assets.disk.parent.name])
    return cache.root() / "probe" / f"{key}.json"


def _boot(accelerator: str, assets: Assets, run: Run) -> tuple[Readiness, bool]:
    """The answer, and whether to cache it.

    What works keeps working, and a KVM that hangs a kernel keeps hanging it. Any other failure may be temporary - a
    busy host, a killed machine, an image without the command - so the next probe tries again.
    """
    name = f"accelerator {accelerator}"
    limit = TIME_LIMITS[accelerator]
    try:
        config = assets.config(accelerator, FIRMWARE)
        with booting.boot(
            assets, config, FIRMWARE, run, command=("sleep", "infinity"), timeout=limit
        ) as pod:
            return Readiness(name, True, f"a pod started in {pod.startup_time}"), True
    except Unavailable as error:
        return Readiness(name, False, error.reason, error.remedy), False
    except TimedOut:
        device = "/dev/kvm is there and answers, but a" if accelerator == "kvm" else "a"
        why = f"{device} guest kernel did not reach a running container within {limit:g} s"
        return Readiness(name, False, why), accelerator == "kvm"
    except TargetError as error:
        return Readiness(name, False, " ".join(str(error).split())[:400]), False


def check(guest_kernel: Path | None = None, *, afresh: bool = True) -> list[Readiness]:
    """Whether pods can start, with each accelerator and firmware; boots a pod for each accelerator.

    Args:
        guest_kernel: the kernel to boot; ``None`` takes the distribution's.
        afresh: boot even if an answer is cached.

    Returns:
        ``pod`` first: usable if the files are available and at least one accelerator works.
    """
    firmwares = [firmware.check_firmware(name) for name in firmware.FIRMWARE_FILES]
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
