"""What limits a container really has: read from its control groups, not from what was asked for.

An OCI runtime may be told to leave control groups alone, and then the engine still answers with the limits
it was asked for, and with the whole machine's figures for the container's usage.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_vperf.machine import cgroups

if TYPE_CHECKING:
    from collections.abc import Mapping

# Setting → (controller of version 1, its file), and the file of version 2 (kernel documentation,
# admin-guide/cgroup-v1 and cgroup-v2).
_FILES: Mapping[str, tuple[str, str, str]] = {
    "cpu_shares": ("cpu", "cpu.shares", "cpu.weight"),
    "cpu_quota": ("cpu", "cpu.cfs_quota_us", "cpu.max"),
    "cpu_period": ("cpu", "cpu.cfs_period_us", "cpu.max"),
    "cpuset": ("cpuset", "cpuset.cpus", "cpuset.cpus"),
    "memory": ("memory", "memory.limit_in_bytes", "memory.max"),
}


@dataclass(frozen=True)
class Limits:
    """Limits as they were asked for; ``None`` is none.

    Attributes:
        cpus: how many CPUs' time it may use.
        cpuset: which CPUs it may run on, e.g. ``0-1``.
        cpu_shares: its weight against others that want the same CPU; 1024 is the usual one.
        memory: bytes.
    """

    cpus: float | None = None
    cpuset: str | None = None
    cpu_shares: int | None = None
    memory: int | None = None

    def host_config(self) -> dict[str, object]:
        """The arguments of the SDK's ``create_host_config``."""
        wanted: dict[str, object | None] = {
            "nano_cpus": None if self.cpus is None else round(self.cpus * 1e9),
            "cpuset_cpus": self.cpuset,
            "cpu_shares": self.cpu_shares,
            "mem_limit": self.memory,
        }
        return {name: value for name, value in wanted.items() if value is not None}

    def asked(self) -> dict[str, str]:
        """What was asked for, by the names under which it is read back."""
        wanted = {
            "cpu_quota": self.cpus,
            "cpuset": self.cpuset,
            "cpu_shares": self.cpu_shares,
            "memory": self.memory,
        }
        return {name: str(value) for name, value in wanted.items() if value is not None}


def holds(pid: int, container: str) -> bool:
    """Whether a process is on this machine and in control groups of the container's own."""
    return any(container in path for path in cgroups.paths_of(pid).values())


def read_back(
    asked: Limits, pid: int, container: str, host_config: Mapping[str, object]
) -> dict[str, str]:
    """The limits that were asked for, as the system has them.

    Args:
        asked: what is looked up.
        pid: the container's first process, as the engine numbers it.
        container: the container's ID.
        host_config: what the engine answers, for an engine of another machine.

    Returns:
        Setting → value as in the control group's file; or a remark in words where nothing enforces it, or
        where the control group cannot be seen from here.
    """
    names = asked.asked()
    if not holds(pid, container):
        here = container.encode() in _command_line(pid)
        remark = "not enforced by the runtime" if here else f"engine says {_engine(host_config)}"
        return {name: f"asked for {value}; {remark}" for name, value in names.items()}
    paths, points = cgroups.paths_of(pid), cgroups.hierarchies()
    if "cpu_quota" in names:
        names["cpu_period"] = ""
    found = {}
    for name in names:
        controller, old, new = _FILES[name]
        if controller in paths and controller in points:
            file = points[controller] / paths[controller].lstrip("/") / old
        else:
            file = points.get("", Path()) / paths.get("", "").lstrip("/") / new
        try:
            found[name] = file.read_text().strip()
        except OSError as error:
            found[name] = f"asked for {names[name]}; {file.name} cannot be read: {error.strerror}"
    return found


def _command_line(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def _engine(host_config: Mapping[str, object]) -> str:
    keys = ("NanoCpus", "CpusetCpus", "CpuShares", "Memory")
    return ", ".join(f"{key}={host_config[key]}" for key in keys if host_config.get(key))
