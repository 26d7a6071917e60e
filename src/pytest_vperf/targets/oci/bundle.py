"""The bundle that an OCI runtime starts a container from: a folder with ``config.json``.

The configuration is the one that ``runc spec`` writes (opencontainers/runc, libcontainer/specconv/example.go),
without a terminal: namespaces for processes, network, IPC, host name and mounts, a read-only root, three
capabilities, no seccomp filter. The format is the OCI runtime specification's (opencontainers/runtime-spec,
config.md and config-linux.md).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_CAPABILITIES = ("CAP_AUDIT_WRITE", "CAP_KILL", "CAP_NET_BIND_SERVICE")
_PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_NO = ("nosuid", "noexec", "nodev")
_SHM = "/dev/shm"  # nosec B108 # in the container, a file system of its own
#: Destination, type, source and options.
_MOUNTS: tuple[tuple[str, str, str, tuple[str, ...]], ...] = (
    ("/proc", "proc", "proc", ()),
    ("/dev", "tmpfs", "tmpfs", ("nosuid", "strictatime", "mode=755", "size=65536k")),
    (
        "/dev/pts",
        "devpts",
        "devpts",
        ("nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620", "gid=5"),
    ),
    (_SHM, "tmpfs", "shm", (*_NO, "mode=1777", "size=65536k")),
    ("/dev/mqueue", "mqueue", "mqueue", _NO),
    ("/sys", "sysfs", "sysfs", (*_NO, "ro")),
    ("/sys/fs/cgroup", "cgroup", "cgroup", (*_NO, "relatime", "ro")),
)
_MASKED = (
    "/proc/acpi",
    "/proc/asound",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/proc/sched_debug",
    "/sys/firmware",
    "/proc/scsi",
)
_READ_ONLY = ("/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger")
_NAMESPACES = ("pid", "ipc", "uts", "mount")


@dataclass(frozen=True)
class Settings:
    """What differs between the containers of one root file system.

    Attributes:
        command: of the first process.
        memory: the limit in bytes; ``None`` for none.
        network: whether it has a network namespace of its own; else it shares the host's.
    """

    command: Sequence[str] = ("/bin/true",)
    memory: int | None = None
    network: bool = True


def write(folder: Path, root: Path, cgroup: str, settings: Settings) -> None:
    """Write the bundle of one container.

    Args:
        folder: the bundle.
        root: the unpacked root file system, which may be shared: it is mounted read-only.
        cgroup: the container's control group, as a path from the root of each hierarchy.
        settings: the container's.
    """
    (folder / "config.json").write_text(json.dumps(_config(root, cgroup, settings), indent=1))


def _config(root: Path, cgroup: str, settings: Settings) -> dict[str, Any]:
    capabilities = ("bounding", "effective", "permitted", "ambient")
    resources: dict[str, Any] = {"devices": [{"allow": False, "access": "rwm"}]}
    if settings.memory is not None:
        resources["memory"] = {"limit": settings.memory}
    namespaces = (*_NAMESPACES, "network") if settings.network else _NAMESPACES
    return {
        "ociVersion": "1.0.2",
        "process": {
            "terminal": False,
            "user": {"uid": 0, "gid": 0},
            "args": list(settings.command),
            "env": [_PATH, "TERM=xterm"],
            "cwd": "/",
            "capabilities": {name: list(_CAPABILITIES) for name in capabilities},
            "rlimits": [{"type": "RLIMIT_NOFILE", "hard": 1024, "soft": 1024}],
            "noNewPrivileges": True,
        },
        "root": {"path": str(root), "readonly": True},
        "hostname": "vperf",
        "mounts": [
            {"destination": where, "type": kind, "source": source, "options": list(options)}
            for where, kind, source, options in _MOUNTS
        ],
        "linux": {
            "cgroupsPath": cgroup,
            "resources": resources,
            "namespaces": [{"type": name} for name in namespaces],
            "maskedPaths": list(_MASKED),
            "readonlyPaths": list(_READ_ONLY),
        },
    }
