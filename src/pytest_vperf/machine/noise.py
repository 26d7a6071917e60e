"""What disturbed this machine during a measurement, read from a few kernel files.

`snapshot` before and after, `evidence` between the two; `recent` is a first look, before anything was measured.
Kernel counters are subtracted, so a window of any length is exact; the kernel's own averages lag by 10 s or more.
What a machine does not show is left out of the evidence: absent is not 0. A snapshot is taken for every claim, so it
reads few files, and only some processors of a large machine.
"""

from __future__ import annotations

import os
import re
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

from pytest_vperf.machine.procfile import content, first_line

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import TypeAlias

#: The most processors that are read, evenly spread: each costs several reads.
CPUS_LOOKED_AT = 16
#: How much of ``/proc/cpuinfo`` is read, in bytes: the kernel generates it slowly, processor by processor.
CPUINFO_BYTES = 32 * 1024

_RESOURCES = ("cpu", "io", "memory")
# user nice system idle iowait irq softirq steal (proc_stat(5)); guest time is in user and nice already.
_IOWAIT, _STEAL, _STATES = 4, 7, 8
_CPU_FOLDER = re.compile(r"cpu(\d+)")


#: The share of the time in which tasks waited for a resource, 0 to 1 (Documentation/accounting/psi.rst): ``some``, at
#: least one task waited; ``full``, all runnable tasks waited. For the CPU of a whole machine the kernel has no
#: ``full``.
Pressure: TypeAlias = dict[str, float]


class Frequency(TypedDict):
    """Clock rates in MHz over processors and both ends of the window.

    Keys: ``min``, ``max``, ``mean``; ``source``, ``cpufreq`` or ``cpuinfo``: inside a virtual machine the latter
    is mostly a constant.
    """

    min: float
    max: float
    mean: float
    source: str


class NoiseEvidence(TypedDict, total=False):
    """The disturbances in a window; what could not be read has no key.

    Keys: ``window_s``, its length in s, absent in `recent`, which covers the time since boot or the last 10 s;
    ``pressure``, by resource ``cpu``, ``io``, ``memory``; ``steal`` and ``iowait``, shares of all CPU time, 0 to 1;
    ``load``, the averages over 1, 5 and 15 minutes at its end; ``runnable``, tasks running or runnable at its end,
    including ours; ``cpus``, how many are online; ``frequency_mhz``; ``throttled``, how often processors (``core``)
    and packages (``package``) were slowed down by heat.
    """

    window_s: float
    pressure: dict[str, Pressure]
    steal: float
    iowait: float
    load: list[float]
    runnable: int
    cpus: int
    frequency_mhz: Frequency
    throttled: dict[str, int]


@dataclass(frozen=True)
class Snapshot:
    """The counters at one moment.

    Attributes:
        at: seconds, monotonic.
        stalled: microseconds that tasks waited since boot, by resource and ``some`` or ``full``.
        cpu_ticks: the first eight times in ``/proc/stat``, for all processors together; empty if unknown.
        cpus: the number of online processors; ``None`` if unknown.
        loadavg: the content of ``/proc/loadavg``.
        mhz: the clock rates, in MHz.
        mhz_source: where they come from.
        throttles: how often a processor was slowed down by heat since boot, by file.
    """

    at: float
    stalled: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    cpu_ticks: Sequence[int] = ()
    cpus: int | None = None
    loadavg: str = ""
    mhz: Sequence[float] = ()
    mhz_source: str = ""
    throttles: Mapping[str, int] = field(default_factory=dict)


def snapshot(root: Path = Path("/")) -> Snapshot:
    """The current counters of this machine, or of the one whose files are under ``root``; never raises."""
    ticks, cpus = _cpu_ticks(content(root / "proc/stat") or "")
    mhz, source = _frequencies(root)
    return Snapshot(
        at=time.monotonic(),
        stalled={name: _psi(root, name, "total", 1) for name in _RESOURCES},
        cpu_ticks=ticks,
        cpus=cpus,
        loadavg=first_line(root / "proc/loadavg") or "",
        mhz=mhz,
        mhz_source=source,
        throttles=_throttles(root),
    )


def evidence(before: Snapshot, after: Snapshot) -> NoiseEvidence:
    """The disturbances between two snapshots, as plain JSON data."""
    window = after.at - before.at
    found = NoiseEvidence(window_s=round(window, 6))
    if window > 0:
        pressure = {
            name: _waited(before.stalled.get(name, {}), after.stalled.get(name, {}), window)
            for name in _RESOURCES
        }
        _add_pressure(found, pressure)
    if len(before.cpu_ticks) == len(after.cpu_ticks):
        _add_cpu_shares(
            found, [b - a for a, b in zip(before.cpu_ticks, after.cpu_ticks, strict=True)]
        )
    _add_end(found, after)
    mhz = [*before.mhz, *after.mhz] if before.mhz_source == after.mhz_source else list(after.mhz)
    _add_frequency(found, mhz, after.mhz_source)
    slowed = {"core": [0], "package": [0]}
    both = before.throttles.keys() & after.throttles.keys()
    for name in both:
        kind = "package" if name.endswith("package_throttle_count") else "core"
        slowed[kind].append(max(0, after.throttles[name] - before.throttles[name]))
    if both:
        # Each processor of a package counts the package's events.
        found["throttled"] = {"core": sum(slowed["core"]), "package": max(slowed["package"])}
    return found


def recent(root: Path = Path("/")) -> NoiseEvidence:
    """A first look: pressure over the last 10 s, steal and iowait since boot, and the current load."""
    now = snapshot(root)
    found = NoiseEvidence()
    _add_pressure(found, {name: _psi_averages(root, name) for name in _RESOURCES})
    _add_cpu_shares(found, now.cpu_ticks)
    _add_end(found, now)
    _add_frequency(found, now.mhz, now.mhz_source)
    return found


def _psi(root: Path, resource: str, key: str, scale: float) -> dict[str, int]:
    """One figure from each line of a pressure file, times ``scale``, as a whole number."""
    found = {}
    for line in (content(root / "proc/pressure" / resource) or "").splitlines():
        kind, *figures = line.split()[:5] or [""]
        if kind not in ("some", "full") or (resource, kind) == ("cpu", "full"):
            continue
        for figure in figures:
            name, _, value = figure.partition("=")
            if name == key and re.fullmatch(r"\d{1,20}(\.\d{1,6})?", value, re.ASCII):
                found[kind] = round(float(value) * scale) if "." in value else int(value)
    return found


def _psi_averages(root: Path, resource: str) -> Pressure:
    hundredths = _psi(root, resource, "avg10", 100)  # of a percent
    return {kind: value / 10_000 for kind, value in hundredths.items()}


def _waited(before: Mapping[str, int], after: Mapping[str, int], window: float) -> Pressure:
    return {
        kind: round(min(1.0, (after[kind] - before[kind]) / 1e6 / window), 6)
        for kind in after
        if kind in before and after[kind] >= before[kind]
    }


def _add_pressure(found: NoiseEvidence, pressure: Mapping[str, Pressure]) -> None:
    seen = {name: shares for name, shares in pressure.items() if shares}
    if seen:
        found["pressure"] = seen


def _cpu_ticks(stat: str) -> tuple[tuple[int, ...], int | None]:
    """The machine's CPU times in ticks, and the number of processors listed."""
    lines = [line.split() for line in stat.splitlines() if line.startswith("cpu")]
    ticks: tuple[int, ...] = ()
    for line in lines:
        figures = line[1 : 1 + _STATES]
        if line[0] == "cpu" and len(figures) == _STATES and all(map(_is_number, figures)):
            ticks = tuple(map(int, figures))
    return ticks, sum(1 for line in lines if _CPU_FOLDER.fullmatch(line[0])) or None


def _add_cpu_shares(found: NoiseEvidence, ticks: Sequence[int]) -> None:
    total = sum(ticks)
    if len(ticks) != _STATES or total <= 0:
        return
    # iowait may decrease, and then means nothing (proc_stat(5)).
    if ticks[_STEAL] >= 0:
        found["steal"] = round(ticks[_STEAL] / total, 6)
    if ticks[_IOWAIT] >= 0:
        found["iowait"] = round(ticks[_IOWAIT] / total, 6)


def _add_end(found: NoiseEvidence, after: Snapshot) -> None:
    match = re.match(
        r"(\d{1,9}\.\d+) (\d{1,9}\.\d+) (\d{1,9}\.\d+) (\d{1,9})/", after.loadavg, re.ASCII
    )
    if match:
        found["load"] = [float(average) for average in match.groups()[:3]]
        found["runnable"] = int(match[4])
    if after.cpus is not None:
        found["cpus"] = after.cpus


def _add_frequency(found: NoiseEvidence, mhz: Sequence[float], source: str) -> None:
    if mhz:
        found["frequency_mhz"] = Frequency(
            min=min(mhz), max=max(mhz), mean=round(sum(mhz) / len(mhz), 3), source=source
        )


def _frequencies(root: Path) -> tuple[tuple[float, ...], str]:
    """The clock rates now, in MHz, and where they were read."""
    folder = root / "sys/devices/system/cpu/cpufreq"
    policies = _spread([name for name in _names(folder) if name.startswith("policy")])
    texts = [first_line(folder / name / "scaling_cur_freq") or "" for name in policies]
    rates = tuple(int(text) / 1000 for text in texts if _is_number(text))  # the files hold kHz
    if rates:
        return rates, "cpufreq"
    try:
        with (root / "proc/cpuinfo").open("rb", buffering=0) as stream:
            cpuinfo = stream.read(CPUINFO_BYTES)
    except OSError:
        return (), ""
    found = re.findall(rb"^cpu MHz\s*: (\d{1,9}(?:\.\d{1,9})?)\n", cpuinfo, re.MULTILINE)
    return (tuple(map(float, found)), "cpuinfo") if found else ((), "")


def _throttles(root: Path) -> dict[str, int]:
    folder = root / "sys/devices/system/cpu"
    found = {}
    for cpu in _spread([name for name in _names(folder) if _CPU_FOLDER.fullmatch(name)]):
        for name in ("core_throttle_count", "package_throttle_count"):
            text = first_line(folder / cpu / "thermal_throttle" / name) or ""
            if _is_number(text):
                found[f"{cpu}/{name}"] = int(text)
    return found


def _names(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)  # noqa: PTH208 - names are wanted, and quickly
    except OSError:
        return []


def _spread(names: list[str]) -> list[str]:
    """At most `CPUS_LOOKED_AT` of the names, in the order of their numbers, evenly spread."""
    names.sort(key=lambda name: (len(name), name))
    return names[:: -(-len(names) // CPUS_LOOKED_AT) or 1]


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 20
