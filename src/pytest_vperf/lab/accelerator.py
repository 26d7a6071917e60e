"""Whether a host of a lab is emulated, or has the machine's own virtualisation."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_vperf.machine import cache
from pytest_vperf.machine.runs import Run
from pytest_vperf.targets.base import TargetError
from pytest_vperf.targets.image import default_rootfs
from pytest_vperf.targets.pod import assets
from pytest_vperf.targets.pod.probe import probe

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_vperf.lab.kinds import Kind

_NESTED = tuple(Path(f"/sys/module/kvm_{maker}/parameters/nested") for maker in ("intel", "amd"))
#: Characters of a reason that fits into a line about something else.
_BRIEF = 100
#: Seconds for which a KVM that did not work is not tried again: it may have been the moment, but a trial waits for
#: whoever measures on this machine.
_REMEMBERED = 3600.0


def choose(kind: Kind, run: Run | None, say: Callable[[str], None]) -> tuple[str, str]:
    """The accelerator for a host of this kind on this machine, and why it is not KVM where it is not.

    Whether KVM works is found by starting a pod with it.

    Args:
        kind: of host.
        run: owns the pod; a short one of its own where there is none.
        say: is told, since a measurement that goes on is waited for.
    """
    if kind.name == "kvm" and not _nests():
        return "tcg", "this machine has no KVM that its guests can use in turn (nested)"
    known = _refusal()
    if known.is_file() and time.time() - known.stat().st_mtime < _REMEMBERED:
        return "tcg", known.read_text()
    say("trying whether KVM works here")
    why = _try(run)
    if not why:
        return "kvm", ""
    known.parent.mkdir(parents=True, exist_ok=True)
    known.write_text(why)
    return "tcg", why


def _try(run: Run | None) -> str:
    """Why KVM does not work; empty where it does."""
    if run is None:
        with Run.begin() as own:
            return _try(own)
    try:
        answer = probe("kvm", lambda: assets.prepare(default_rootfs()), run)
    except TargetError as error:
        return f"KVM could not be tried: {' '.join(str(error).split())}"
    if answer.usable:
        return ""
    # A machine that died may have said a lot.
    brief = len(answer.why) <= _BRIEF
    return answer.why if brief else "KVM does not work here; `vperf doctor kvm` says more"


def _refusal() -> Path:
    """Where it is kept that KVM did not work, for this boot of the machine and what it has loaded."""
    boot_id = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    modules = sorted(module.name for module in Path("/sys/module").glob("kvm*"))
    device = Path("/dev/kvm")
    mode = oct(device.stat().st_mode) if device.exists() else "none"
    return cache.root() / "probe" / f"{cache.content_key(['lab', boot_id, mode, *modules])}.no"


def _nests() -> bool:
    """Whether a guest of this machine may itself have guests under KVM.

    Source: Linux kernel documentation, virt/kvm/x86/running-nested-guests.
    """
    for file in _NESTED:
        try:
            return file.read_text().strip() in ("Y", "1")
        except OSError:
            continue
    return False
