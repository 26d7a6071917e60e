"""What there is on this machine that a run may leave: looked at without the product's help."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

#: Settings that a run might change, besides all of the network's; those below /proc/sys that change by themselves
#: are left out.
_SETTINGS = (
    *("kernel/randomize_va_space", "kernel/numa_balancing", "kernel/perf_event_paranoid"),
    *("kernel/sched_autogroup_enabled", "kernel/core_pattern", "kernel/shmmax", "kernel/sysrq"),
    *("vm/swappiness", "vm/overcommit_memory", "vm/nr_hugepages", "vm/drop_caches"),
    *("fs/file-max", "fs/inotify/max_user_instances", "fs/protected_hardlinks"),
)
_OTHER_SETTINGS = (
    "/sys/kernel/mm/transparent_hugepage/enabled",
    "/sys/kernel/mm/transparent_hugepage/defrag",
    "/sys/devices/system/cpu/smt/control",
)
#: Below /proc/sys/net: counts and keys that the kernel changes.
_CHANGES = re.compile(
    r"nf_conntrack_count|/stat/|/route/flush|secret|nf_conntrack_max|/(?:neigh|conf)/"
)
_TIMEOUT = 30.0

State = frozenset[str]


class Machine:
    """What is looked at.

    Args:
        folders: every file below them counts.
        cache: of which only what is no whole entry counts.
        locks: files that nobody may hold locked.
        libvirt: of daemons that others run, what they know.
        groups: which control groups count; by default all.
        spared: numbers of processes that are none of a run's.
    """

    def __init__(
        self,
        folders: Iterable[Path],
        *,
        cache: Path,
        locks: Iterable[Path] = (),
        libvirt: Callable[[], Iterable[str]] = tuple,
        group: re.Pattern[str] = re.compile(r"/vperf-|vperf-[0-9a-f]{8}"),
        spared: Callable[[], set[int]] = set,
    ) -> None:
        self._folders = tuple(folders)
        self._cache = cache
        self._locks = tuple(locks)
        self._libvirt = libvirt
        self._group = group
        self._spared = spared

    def look(self) -> State:
        """Everything, a line for each; what there is twice is told twice."""
        return frozenset(
            [
                *self._processes(),
                *_mounts(),
                *_loops(),
                *_network(),
                *_rules(),
                *self._groups(),
                *self._files(),
                *self._drafts(),
                *_settings(),
                *_memory(),
                *self._held(),
                *(f"libvirt {line}" for line in self._libvirt()),
                *_engine(),
            ]
        )

    def _processes(self) -> Iterator[str]:
        spared = self._spared() | {os.getpid(), *(each.pid for each in psutil.Process().parents())}
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if process.pid not in spared and process.status() != psutil.STATUS_ZOMBIE:
                    words = " ".join(process.cmdline())
                    if words:  # none: a thread of the kernel, or one that ends
                        yield f"process {process.pid} {words[:150]}"

    def _groups(self) -> Iterator[str]:
        # Not Path.glob(): that ends with an error where somebody's group goes while it looks.
        for above, names, _ in os.walk("/sys/fs/cgroup"):
            for name in names:
                if self._group.search(f"/{name}"):
                    yield f"cgroup {above}/{name}"

    def _files(self) -> Iterator[str]:
        for folder in self._folders:
            for above, names, files in os.walk(folder):
                # What pytest itself keeps of its last runs (its option tmp_path_retention_count).
                names[:] = [name for name in names if not name.startswith("pytest-of-")]
                for name in (*names, *files):
                    yield f"file {above}/{name}"

    def _drafts(self) -> Iterator[str]:
        """What is no entry: ``KIND/KEY``; and not a file that is locked while one is built."""
        for above, names, files in os.walk(self._cache):
            for name in (*names, *files):
                if name.startswith(".") or name.endswith((".new", ".part", ".tmp")):
                    yield f"draft {above}/{name}"
            if len(Path(above).relative_to(self._cache).parts) >= 2:
                names.clear()

    def _held(self) -> Iterator[str]:
        for path in self._locks:
            with contextlib.suppress(FileNotFoundError):
                descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    yield f"lock {path}"
                finally:
                    os.close(descriptor)


def _mounts() -> Iterator[str]:
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        fields = line.split()
        yield f"mount {fields[4]} of {fields[fields.index('-') + 2]}"


def _loops() -> Iterator[str]:
    for device in Path("/sys/block").glob("loop*"):
        with contextlib.suppress(OSError):
            yield f"loop {device.name} of {(device / 'loop/backing_file').read_text().strip()}"


def _said(*words: str) -> list[str]:
    if shutil.which(words[0]) is None:
        return []
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=_TIMEOUT)
    return done.stdout.splitlines() if not done.returncode else []


def _network() -> Iterator[str]:
    for line in _said("ip", "-o", "link", "show"):
        yield f"link {line.split(':')[1].strip()}"
    for line in _said("ip", "-o", "address", "show"):
        fields = line.split()
        yield f"address {fields[1]} {fields[3]}"
    yield from (f"route {line}" for line in _said("ip", "route", "show", "table", "all"))
    with contextlib.suppress(OSError):
        yield from (f"namespace {each.name}" for each in Path("/run/netns").iterdir())
    yield from (f"bridge of Open vSwitch {line}" for line in _said("ovs-vsctl", "-t2", "list-br"))
    for line in _said("tc", "qdisc", "show"):
        yield f"queue {line}"


def _rules() -> Iterator[str]:
    for words in (("nft", "list", "ruleset"), ("iptables-save",), ("ip6tables-save",)):
        for line in _said(*words):
            if not line.startswith("#"):
                without_counters = re.sub(r"\[[0-9:]+\]", "", line)
                yield f"rule {without_counters}"


def _settings() -> Iterator[str]:
    paths = [Path("/proc/sys", name) for name in _SETTINGS] + list(map(Path, _OTHER_SETTINGS))
    for above, _, files in os.walk("/proc/sys/net"):
        paths += [Path(above, name) for name in files if not _CHANGES.search(f"{above}/{name}")]
    for path in paths:
        with contextlib.suppress(OSError, UnicodeDecodeError):
            yield f"setting {path} = {path.read_text().strip()[:100]}"


def _memory() -> Iterator[str]:
    for name in ("shm", "sem", "msg"):
        for line in Path(f"/proc/sysvipc/{name}").read_text().splitlines()[1:]:
            yield f"shared memory {name} {' '.join(line.split()[:2])}"


def _engine() -> Iterator[str]:
    """What an engine of others knows, where one answers."""
    if shutil.which("docker") is None or not Path("/run/docker.sock").exists():
        return
    for what in ("container", "network", "volume", "image"):
        yield from (f"docker {what} {line}" for line in _said("docker", what, "ls", "-q"))
