"""Whether an accelerator really works here: a bounded boot, remembered for as long as the host is up.

A ``/dev/kvm`` that is there and answers proves nothing: under some hypervisors a guest kernel never reaches
its userspace on it. So a pod is started, with a time limit, and its QEMU is killed if the limit passes.

What ``vperf doctor`` says about pods.
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
from pytest_vperf.targets.pod import boot as booting
from pytest_vperf.targets.pod import place as firmware
from pytest_vperf.targets.pod.assets import Assets, prepare
from pytest_vperf.targets.pod.place import HERE

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pytest_vperf.targets.pod.place import Place


#: Accelerators a pod may ask for, the quickest first.
ACCELERATORS = ("kvm", "tcg", "xen")
#: Seconds a probe may take: KVM boots in about one, emulation in a few on a slow and busy host.
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
        prepared: gives what a pod is started from; not called where no boot is needed to say no.
        run: owns the probe's machine.
        afresh: do not believe an earlier probe.
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
    with lock.measuring():  # a boot would disturb a measurement that goes on, and be slowed by it
        answer, lasting = _boot(accelerator, assets, run)
    if not lasting:
        return answer
    remembered.parent.mkdir(parents=True, exist_ok=True)
    draft = remembered.with_suffix(f".{os.getpid()}")
    draft.write_text(json.dumps([answer.usable, answer.why, answer.remedy]))
    draft.replace(remembered)
    return answer


def _memory(accelerator: str, assets: Assets) -> Path:
    """Where the answer is kept: keyed by this boot of the host, what it loaded, and everything the probe ran."""
    parts = [accelerator, *assets.place.identity(), assets.qemu_version, assets.kernel.sha256]
    key = cache.content_key([*parts, assets.initramfs.parent.name, assets.disk.parent.name])
    return cache.root() / "probe" / f"{key}.json"


def _boot(accelerator: str, assets: Assets, run: Run) -> tuple[Readiness, bool]:
    """The answer, and whether it is to be remembered.

    What works goes on working, and a KVM on which a kernel hangs goes on hanging. Any other failure may be of
    the moment - a busy host, a machine killed, an image without a command - and the next one is to try again.
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
        afresh: boot although an earlier answer is remembered.

    Returns:
        ``pod`` first: usable when the files are there and at least one accelerator works.
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
