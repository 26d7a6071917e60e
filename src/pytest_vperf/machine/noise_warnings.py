"""What makes this machine noisy: each source with its value, why it matters, and how to change it.

Background load is judged by waiting tasks, not running ones: a busy neighbour on its own processor costs little. The
thresholds for shares of time follow from the smallest difference that claims resolve. The default tolerance is 2 %;
time taken from a program lengthens its run by about the same share, so half the tolerance gives a warning.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_vperf.machine import fingerprint
from pytest_vperf.machine.noise_settings import CLOCK, UNKNOWN
from pytest_vperf.machine.procfile import content
from pytest_vperf.machine.tuning import KNOBS, changes_of, commands

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pytest_vperf.machine.noise import NoiseEvidence

#: Share of CPU time that the hypervisor gives to others: half the default tolerance.
STEAL = 0.01
#: Share of the time in which tasks waited. For memory it is that of steal, since the measured program itself waits
#: for reclaim. Starting pytest also waits for processors and disks, so those have ten times as much; the example in
#: psi.rst considers 15 % a stall worth waking a monitor for.
PRESSURE = {"cpu": 0.10, "io": 0.10, "memory": 0.01}
#: Tasks per processor, averaged over a minute, from which a claim's processes usually compete with others.
LOAD = 0.5
# Reading these from a device takes a microsecond or more each time, or they only count timer ticks.
_COARSE_CLOCKS = {"hpet", "acpi_pm", "jiffies", "refined-jiffies", "pit"}

_WAITING = {
    "cpu": "other programs compete for the processors",
    "io": "programs wait for a disk",
    "memory": "programs wait for memory to be reclaimed",
}


@dataclass(frozen=True)
class NoiseWarning:
    """One source of noise.

    Attributes:
        name: what it is.
        value: the observed value.
        why: how it disturbs measurements.
        remedy: the command, or what else helps; or that nothing does.
        by_command: whether the remedy is a command that `vperf doctor --tune` prints.
    """

    name: str
    value: str
    why: str
    remedy: str
    by_command: bool = False

    @property
    def short(self) -> str:
        """Name and value."""
        return f"{self.name} {self.value}"

    def __str__(self) -> str:
        return f"{self.short}: {self.why}; {self.remedy}"


def warnings(
    settings: Mapping[str, str], evidence: NoiseEvidence | None = None, root: Path = Path("/")
) -> list[NoiseWarning]:
    """What makes a machine noisy: first the observed disturbances, then the settings that may disturb.

    Args:
        settings: from `noise_settings.settings`.
        evidence: from `noise.evidence`, or from `noise.recent` before anything was measured.
        root: where that machine's ``sys`` and ``proc`` are, which show what can be changed, and how.
    """
    fixed = _why_not(root)
    return [
        *(_disturbances(evidence, fixed) if evidence else ()),
        *_noisy_settings(settings, root, fixed),
        *_clock(settings, root, fixed),
    ]


def look(root: Path = Path("/")) -> list[NoiseWarning]:
    """The current `warnings`, for the header and the doctor."""
    from pytest_vperf.machine.noise import recent
    from pytest_vperf.machine.noise_settings import settings

    return warnings(settings(root), recent(root), root)


def _why_not(root: Path) -> str:
    """The remedy for something that cannot be changed by a file."""
    cpuinfo = (content(root / "proc/cpuinfo") or "").split("\n\n", 1)[0]
    lines = (line.partition(":") for line in cpuinfo.splitlines())
    kind = fingerprint.detect_hypervisor(
        root, {key.strip(): value.strip() for key, _, value in lines}
    )
    return (
        "cannot be changed from inside this virtual machine"
        if kind != "none"
        else "cannot be changed here"
    )


def _disturbances(evidence: NoiseEvidence, fixed: str) -> Iterator[NoiseWarning]:
    measured = "window_s" in evidence
    steal = evidence.get("steal", 0.0)
    if steal > STEAL:
        yield NoiseWarning(
            "steal",
            f"{_percent(steal)} of CPU time{'' if measured else ' since boot'}",
            "the hypervisor gives the processors to others meanwhile",
            f"{fixed}; its host must have a processor for each of this machine's",
        )
    for resource, limit in PRESSURE.items():
        share = evidence.get("pressure", {}).get(resource, {}).get("some", 0.0)
        if share > limit:
            yield NoiseWarning(
                f"{resource} pressure",
                f"{_percent(share)}{'' if measured else ' in the last 10 s'}",
                _WAITING[resource],
                f"stop what else runs (`cat /proc/pressure/{resource}`, `top`)",
            )
    load, cpus = evidence.get("load"), evidence.get("cpus")
    if load and cpus and load[0] > LOAD * cpus:
        yield NoiseWarning(
            "load",
            f"{load[0]:g} on {cpus} processors",
            "other programs use the processors, their caches and their share of the clock rate",
            "stop what else runs (`top`)",
        )
    slowed = sum(evidence.get("throttled", {}).values())
    if slowed:
        yield NoiseWarning(
            "thermal throttling",
            f"{slowed} times",
            "the processors were slowed down for their heat",
            "see to the cooling, or lower the clock rate",
        )


def _noisy_settings(settings: Mapping[str, str], root: Path, fixed: str) -> Iterator[NoiseWarning]:
    for knob in KNOBS:
        value = settings[knob.key]
        if value.startswith(UNKNOWN) or not knob.noisy(settings):
            continue
        found = commands(changes_of(knob, root), root)
        yield NoiseWarning(
            knob.title,
            settings["swap"] if knob.key == "swappiness" else value,
            knob.why,
            "; ".join(found) or fixed,
            by_command=bool(found),
        )


def _clock(settings: Mapping[str, str], root: Path, fixed: str) -> Iterator[NoiseWarning]:
    clock = settings["clocksource"]
    if clock not in _COARSE_CLOCKS:
        return
    better = sorted(fingerprint.clock_sources(root) & {"tsc", "kvm-clock", "arch_sys_counter"})
    # Never applied by us: the kernel may have abandoned the better clock because it was unreliable.
    yield NoiseWarning(
        "clock source",
        clock,
        "each look at the clock takes a microsecond or more",
        f"echo {better[0]} > {root / CLOCK / 'current_clocksource'}, unless `dmesg` calls it unstable"
        if better
        else fixed,
        by_command=bool(better),
    )


def _percent(share: float) -> str:
    return f"{share * 100:.2g} %" if share < 0.995 else "100 %"
