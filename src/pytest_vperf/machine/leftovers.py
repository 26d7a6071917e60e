"""Leftovers of killed runs: found by their marks, listed, and removed.

A run is dead if its folder's lock is free, or if its folder is gone while processes that name it still exist. Only
runs of this user whose folder is, or was, in `runs_folder` are considered; nothing of a live run is ever removed, nor
this process or its ancestors. Leftovers in a shared engine are found by `pytest_vperf.targets.container.engine`, and
at a libvirt daemon by
`pytest_vperf.targets.libvirt.leftovers`.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
import time
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

import psutil

from pytest_vperf.machine import (
    cache,
    cgroups,
    mounts,
    networks,
    open_vswitch,
    ownership,
    tuning,
    work_trees,
)
from pytest_vperf.machine.processes import describe, end, environment, own_line, owned_by
from pytest_vperf.machine.runs import (
    MARK,
    MARK_FOLDER,
    OWNER,
    default_folder,
    is_alive,
    is_ours,
    nobody_begins,
    remove_tree,
    runs_folder,
)
from pytest_vperf.machine.tuning import TuningError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

#: In the order of removal: users go before what they use; the folder, by which the rest is found, goes last.
Kind = Literal[
    "settings",
    "container",
    "machine",
    "process",
    "network",
    "bridge",
    "link",
    "namespace",
    "mount",
    "loop",
    "cgroup",
    "socket",
    "disk",
    "draft",
    "tree",
    "folder",
]
_ORDER = get_args(Kind)
# Seconds after which a draft of a run's folder is left over where file systems have no locks.
_GRACE = 60.0
_RUN_NAME = re.compile(r"run-[0-9a-f]{8}")


@dataclass(frozen=True)
class Leftover:
    """One leftover of a dead run.

    Attributes:
        run: the run's ID; for settings, the number of the process that changed them; for a draft, ``cache``.
        kind: what sort of thing it is.
        what: its description, one line.
        take_away: removes it; returns the reason if that fails, otherwise empty.
    """

    run: str
    kind: Kind
    what: str
    take_away: Callable[[], str] = field(repr=False, compare=False)

    def __str__(self) -> str:
        return self.what if self.kind == "draft" else f"run {self.run}: {self.what}"


def find() -> list[Leftover]:
    """All leftovers of dead runs, in the order of removal.

    Raises:
        PermissionError: the folder of the runs belongs to somebody else.
    """
    found = [leftover for folder in sorted(_dead_folders()) for leftover in _of_run(folder)]
    found += _settings()
    found += _groups({leftover.what for leftover in found})
    left = (_bridge(run, name) for name, run in open_vswitch.forgotten().items())
    found += [leftover for leftover in left if leftover not in found]
    found += [leftover for leftover in _links() if leftover not in found]
    found += _drafts()
    return sorted(found, key=lambda leftover: _ORDER.index(leftover.kind))


def remove(leftovers: Iterable[Leftover]) -> list[str]:
    """Remove leftovers; return a line, with the reason, for each that could not be removed."""
    errors = []
    for leftover in sorted(leftovers, key=lambda leftover: _ORDER.index(leftover.kind)):
        try:
            error = leftover.take_away()
        except OSError as problem:
            error = str(problem)
        if error:
            errors.append(f"{leftover} could not be removed: {error}")
    return errors


def sweep() -> list[Leftover]:
    """Find and remove leftovers quietly, at the start of a run; return those removed.

    What cannot be removed is left for the next time: it must not prevent a run.
    """
    removed: list[Leftover] = []
    for _ in range(3):  # a process may start another one meanwhile
        found = find()
        if not found:
            break
        remove(found)
        remaining = {str(leftover) for leftover in find()}
        removed += [leftover for leftover in found if str(leftover) not in remaining]
    return removed


def end_of_run(folder: Path) -> list[str]:
    """Remove what an ending run still has, except its folder; return a line for each thing that stays.

    Everything was closed before, but a Ctrl-C between two steps may have left something without an owner.
    """
    return remove(leftover for leftover in _of_run(folder) if leftover.kind != "folder")


def run_id(folder: Path) -> str:
    """The ID in a run folder's name."""
    return folder.name.removeprefix(".").removeprefix("run-")


def _dead_folders() -> set[Path]:
    """The folders of dead runs, existing or gone."""
    home = runs_folder()
    dead = set()
    for folder in home.iterdir():
        with contextlib.suppress(OSError):  # gone meanwhile, or not readable: unknown
            if _is_run(folder) and not is_alive(folder):
                dead.add(folder)
    for process in _of_this_user():
        marks = environment(process)
        folder = Path(marks.get(MARK_FOLDER, ""))
        if (
            marks.get(MARK)
            and folder.parent == home
            and _RUN_NAME.fullmatch(folder.name)
            and not os.path.lexists(folder)
        ):
            dead.add(folder)
    return dead


def _is_run(folder: Path) -> bool:
    """Whether a folder is a run's, dead or alive: the user may keep other folders next to them.

    Raises:
        OSError: it cannot be inspected.
    """
    if not _RUN_NAME.fullmatch(folder.name.removeprefix(".")):
        return False
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid():
        return False
    if folder.name.startswith("."):  # a draft: its owner file may not have been written yet
        if not {path.name for path in folder.iterdir()} <= {OWNER}:
            return False
        try:
            return nobody_begins(folder.parent)
        except OSError:
            return time.time() - status.st_mtime > _GRACE
    return is_ours(folder)


def _of_this_user() -> Iterator[psutil.Process]:
    """This user's processes in the same mount namespace as this one, without it and its ancestors."""
    spared = own_line()
    here = _mount_namespace("self")
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if (
                process.pid not in spared
                and ownership.ours(process.uids().real)
                and _mount_namespace(process.pid) == here
            ):
                yield process


def _mount_namespace(pid: int | str) -> str:
    # In another mount namespace the path in a mark may be another folder.
    return os.readlink(f"/proc/{pid}/ns/mnt")  # noqa: PTH115 - not a path but a name


def _of_run(folder: Path) -> Iterator[Leftover]:
    run = run_id(folder)
    for process in owned_by(MARK_FOLDER, folder, f"vperf-{run}"):
        yield Leftover(run, "process", describe(process), partial(_end, process))
    bridges = open_vswitch.bridges_of(run)
    yield from (_bridge(run, name) for name in bridges)
    for name in networks.links_of(run):
        if name in bridges:  # removed with the bridge
            continue
        yield Leftover(run, "link", f"link {name}", partial(networks.remove_link, name))
    for name in networks.namespaces_of(run):
        take_away = partial(networks.remove_namespace, name)
        yield Leftover(run, "namespace", f"namespace {name}", take_away)
    trees = list(work_trees.of_run(folder))
    for place in (folder, *(made.folder for made in trees)):
        for point in mounts.below(place):
            yield Leftover(run, "mount", f"mount {point}", partial(mounts.unmount, point))
        for device in mounts.loops_below(place):
            yield Leftover(run, "loop", f"loop {device}", partial(mounts.detach_loop, device))
    for group in [*cgroups.named(f"vperf-{run}"), *cgroups.of_machines(f"vperf-{run}")]:
        yield Leftover(run, "cgroup", f"cgroup {group}", partial(cgroups.remove, group))
    for path in shim_sockets(folder):
        yield Leftover(run, "socket", f"socket {path}", partial(_unlink, path))
    for made in trees:
        yield Leftover(run, "tree", f"tree {made.tree} of {made.repository}", made.remove)
    if folder.is_dir():
        yield Leftover(run, "folder", f"folder {folder}", partial(remove_folder, folder))


def _bridge(run: str, name: str) -> Leftover:
    """The leftover for an Open vSwitch bridge."""
    return Leftover(run, "bridge", f"bridge {name}", partial(open_vswitch.remove, name))


def _groups(known: set[str]) -> Iterator[Leftover]:
    """Empty groups of machines whose run's folder is gone.

    A group does not say where its run's folder was, so the default place is assumed.
    """
    if runs_folder() != default_folder():
        return
    for group, run in cgroups.forgotten_machines().items():
        what = f"cgroup {group}"
        if what not in known and not (runs_folder() / f"run-{run}").exists():
            yield Leftover(run, "cgroup", what, partial(cgroups.remove, group))


def _links() -> Iterator[Leftover]:
    """Links whose alias names a run's folder that is gone."""
    home = runs_folder()
    for name, folder in networks.marked().items():
        if (
            folder.parent == home
            and _RUN_NAME.fullmatch(folder.name)
            and not os.path.lexists(folder)
        ):
            take_away = partial(networks.remove_link, name)
            yield Leftover(run_id(folder), "link", f"link {name}", take_away)


def _drafts() -> Iterator[Leftover]:
    """Abandoned drafts in the cache."""
    for draft in cache.abandoned():
        yield Leftover("cache", "draft", f"draft {draft}", partial(cache.discard, draft))


def _settings() -> Iterator[Leftover]:
    """The kernel settings that a killed ``vperf doctor --tune`` did not restore."""
    found = tuning.left_over()
    if found is not None:
        pid, what = found
        yield Leftover(pid, "settings", f"settings {what}", _set_back)


def _set_back() -> str:
    try:
        tuning.recover()
    except TuningError as error:
        return "; ".join(str(error).splitlines())
    return ""


def _end(process: psutil.Process) -> str:
    return "it does not end" if end([process]) else ""


def _unlink(path: Path) -> str:
    path.unlink(missing_ok=True)
    return ""


def remove_folder(folder: Path) -> str:
    """Remove a run's folder, unless something is still mounted below it; return the reason if that fails."""
    held = mounts.below(folder)
    if held:
        return f"{held[0]} is still mounted"
    with contextlib.suppress(FileNotFoundError):  # gone meanwhile
        remove_tree(folder)
    return ""


def shim_sockets(folder: Path) -> list[Path]:
    """The sockets outside its folder of the shims of a run's, or an engine's, containerd.

    A shim listens below ``/run/containerd/s`` whatever its state folder is, and writes the path to the file
    ``address`` in its bundle (containerd, runtime v2).
    """
    found = []
    bundles = "*/io.containerd.runtime.v2.task/*/*/address"
    for note in (*folder.glob(bundles), *folder.glob(f"*/{bundles}")):
        with contextlib.suppress(OSError, UnicodeDecodeError):
            path = Path(note.read_text().strip().removeprefix("unix://"))
            if path.parent == Path("/run/containerd/s") and stat.S_ISSOCK(path.stat().st_mode):
                found.append(path)
    return found
