"""What dead runs left at shared libvirt daemons: machines and networks, known by their labels, and disks.

A daemon ends a machine with the connection that made it if its driver can: QEMU's can, Xen's cannot. A machine's disk
is unlinked once the machine has opened it, so a disk that still has a name belongs to a machine that never started.
"""

from __future__ import annotations

import contextlib
import re
from functools import partial
from typing import Any

from pytest_vperf.machine import leftovers
from pytest_vperf.machine.leftovers import Leftover
from pytest_vperf.machine.runs import (
    LABEL_FOLDER,
    LABEL_PLACE,
    LABEL_RUN,
    NOTE,
    dead_run,
    is_alive,
    runs_folder,
)
from pytest_vperf.targets.base import TargetError, Unavailable
from pytest_vperf.targets.libvirt import address
from pytest_vperf.targets.libvirt.connection import Connection, words
from pytest_vperf.targets.libvirt.storage import POOL, labels_of

#: Seconds for a daemon to answer, so that the search does not hang on one that is gone.
TIMEOUT = 10.0
_DISK = re.compile(r"vperf-(?P<run>[0-9a-f]{8})-\d+\.qcow2")


def find(connection: Connection) -> list[Leftover]:
    """The machines, networks and disks at a daemon that dead runs of this machine and user left.

    Args:
        connection: to the daemon.

    Raises:
        TargetError: the daemon cannot list them.
    """
    try:
        return [*_machines(connection), *_networks(connection), *_disks(connection)]
    except connection.libvirt.libvirtError as error:
        raise TargetError(f"libvirt at {connection.shown}: {words(error)}") from None


def _machines(connection: Connection) -> list[Leftover]:
    found = []
    for domain in connection.handle.listAllDomains():
        # One that has just ended can no longer be described.
        with contextlib.suppress(connection.libvirt.libvirtError):
            run = dead_run(_labels(domain))
            if run:
                what = f"machine {domain.name()} at {connection.shown}"
                found.append(Leftover(run, "machine", what, partial(_destroy, connection, domain)))
    return found


def _labels(domain: Any) -> dict[str, str]:
    """The labels of the run that made a machine or network, with the prefix that they lack in XML."""
    found = labels_of(domain.XMLDesc())
    names = (LABEL_RUN, LABEL_PLACE, LABEL_FOLDER)
    return {name: found.get(name.rpartition(".")[2], "") for name in names}


def _networks(connection: Connection) -> list[Leftover]:
    """Networks of dead runs, which a daemon keeps until told to end them."""
    libvirt = connection.libvirt
    try:
        networks = connection.handle.listAllNetworks()
    except libvirt.libvirtError as error:
        if error.get_error_code() == libvirt.VIR_ERR_NO_SUPPORT:
            return []  # it has no networks
        raise
    found = []
    for network in networks:
        with contextlib.suppress(libvirt.libvirtError):  # it has just ended
            run = dead_run(_labels(network))
            if run:
                what = f"network {network.name()} at {connection.shown}"
                found.append(Leftover(run, "network", what, partial(_end, connection, network)))
    return found


def _is_dead(run: str) -> bool:
    """Whether a dead run of this machine and user left its folder. Others may use the daemon too."""
    folder = runs_folder() / f"run-{run}"
    return folder.is_dir() and not is_alive(folder)


def _end(connection: Connection, network: Any) -> str:
    libvirt = connection.libvirt
    try:
        network.destroy()
    except libvirt.libvirtError as error:
        gone = (libvirt.VIR_ERR_NO_NETWORK, libvirt.VIR_ERR_OPERATION_INVALID)
        return "" if error.get_error_code() in gone else words(error)
    return ""


def _disks(connection: Connection) -> list[Leftover]:
    """Disks of runs killed between making a disk and starting its machine."""
    try:
        pool = connection.handle.storagePoolLookupByName(POOL)
        names = pool.listVolumes()
    except connection.libvirt.libvirtError:
        return []  # no run has stored files there yet
    found = []
    for name in names:
        known = _DISK.fullmatch(name)
        if known and _is_dead(known["run"]):
            what = f"disk {name} at {connection.shown}"
            take_away = partial(_delete, connection, pool, name)
            found.append(Leftover(known["run"], "disk", what, take_away))
    return found


def _destroy(connection: Connection, domain: Any) -> str:
    libvirt = connection.libvirt
    try:
        domain.destroy()
    except libvirt.libvirtError as error:
        gone = (libvirt.VIR_ERR_NO_DOMAIN, libvirt.VIR_ERR_OPERATION_INVALID)
        return "" if error.get_error_code() in gone else words(error)
    return ""


def _delete(connection: Connection, pool: Any, name: str) -> str:
    libvirt = connection.libvirt
    try:
        pool.storageVolLookupByName(name).delete(0)
    except libvirt.libvirtError as error:
        return "" if error.get_error_code() == libvirt.VIR_ERR_NO_STORAGE_VOL else words(error)
    return ""


def noted() -> list[str]:
    """The addresses of the daemons that dead runs used, as noted in their folders, without private daemons.

    Raises:
        PermissionError: the folder of runs belongs to another user.
    """
    found: dict[str, None] = {}
    for note in sorted(runs_folder().glob(f"run-*/{NOTE}")):
        with contextlib.suppress(OSError, UnicodeDecodeError):  # gone meanwhile, or not ours
            if is_alive(note.parent):
                continue
            for uri in note.read_text(encoding="utf-8").split("\n"):
                # A daemon in a run's folder ended with the run, and its machines with it.
                if uri and str(note.parent.parent) not in uri.replace("%2F", "/"):
                    found[uri] = None
    return list(found)


def in_reach() -> tuple[list[Leftover], list[str]]:
    """`find` at each daemon that a dead run used, and why any could not be searched; starts no daemon."""
    found: list[Leftover] = []
    problems: list[str] = []
    for uri in noted():
        try:
            found += find(Connection.open(uri, timeout=TIMEOUT))
        except Unavailable as error:
            problems.append(f"machines at {address.shown(uri)} were not looked for: {error}")
        except TargetError as error:
            problems.append(f"{error}, so machines were not looked for there")
    return found, problems


def sweep() -> None:
    """Silently remove what is `in_reach`, at the start of a run, before the folders that lead to it go.

    What cannot be removed does not stop the run.
    """
    found, _ = in_reach()
    leftovers.remove(found)
