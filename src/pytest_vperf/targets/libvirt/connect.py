"""Finding the libvirt daemon of this machine, or starting one for the run."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_vperf.machine import leftovers
from pytest_vperf.machine.procfile import text
from pytest_vperf.targets.base import CannotConnect, CannotStart, TargetError, Unavailable
from pytest_vperf.targets.engine_address import knock
from pytest_vperf.targets.virt import failures, private_daemon
from pytest_vperf.targets.virt.connection import Connection
from pytest_vperf.targets.virt.daemon import Daemon
from pytest_vperf.targets.virt.private_daemon import PrivateDaemon

if TYPE_CHECKING:
    from pytest_vperf.machine.procfile import Read
    from pytest_vperf.machine.runs import Run

SYSTEM = "qemu:///system"
SESSION = "qemu:///session"
XEN = "xen:///system"
#: Where a system's daemon listens: the one for all drivers, and the one for QEMU alone (libvirt.org/daemons.html).
_SOCKETS = (Path("/run/libvirt/libvirt-sock"), Path("/run/libvirt/virtqemud-sock"))


def connect(
    uri: str,
    run: Run,
    *,
    details: dict[str, str] | None = None,
    ssh: tuple[str, Path] | None = None,
) -> Daemon:
    """The daemon at an address.

    Args:
        uri: the address.
        run: whose machines are started there.
        details: for the record of every machine on it.
        ssh: how its machine is reached otherwise.

    Raises:
        Unavailable: there is no libvirt-python.
        CannotConnect: nobody answers there.
        TimedOut: likewise, within the time limit.
        CannotStart: the daemon cannot keep files for machines.
    """
    connection = Connection.open(uri)
    try:
        daemon = Daemon(connection, run, details=details, ssh=ssh)
        _take_away_leftovers(connection)
        return daemon
    except BaseException:
        connection.close()
        raise


def _take_away_leftovers(connection: Connection) -> None:
    """End what dead runs have left there; what cannot be ended is no reason not to run."""
    from pytest_vperf.targets import leftover_machines

    with contextlib.suppress(TargetError):
        leftovers.remove(leftover_machines.find(connection))


def is_dom0(read: Read = text) -> bool:
    """Whether a machine is the host of Xen's machines (Xen wiki, "Xen FAQ Dom0": ``control_d``).

    Args:
        read: reads the machine's files.
    """
    try:
        return "control_d" in read(Path("/proc/xen/capabilities"))
    except OSError:
        return False


def find_xen(run: Run) -> Daemon:
    """This machine's daemon with Xen's driver.

    Raises:
        Unavailable: this machine is no Xen host.
        CannotConnect: it is, and its libvirt does not answer.
    """
    failures.library()
    need_dom0()
    return connect(XEN, run)


def need_dom0() -> None:
    """Make sure that this machine is the host of Xen's machines.

    Raises:
        Unavailable: it is not.
    """
    if not is_dom0():
        raise Unavailable(
            "this machine is no Xen host (no control_d in /proc/xen/capabilities)",
            remedy="--lab=xen, which starts one inside QEMU, or --libvirt-uri=xen+ssh://root@HOST/",
        )


def find(run: Run) -> Daemon:
    """The system's daemon if it answers; else one of the run's own, or, for an ordinary user, the user's.

    Raises:
        Unavailable: there is none, and none can be started; says what mends it.
        CannotStart: one that was started ended.
    """
    failures.library()
    if any(knock(path) is None for path in _SOCKETS):
        try:
            return connect(SYSTEM, run)
        except CannotConnect:
            if os.geteuid() == 0:
                raise
            # An ordinary user may see the socket and not be let in (polkit).
    if os.geteuid() == 0:
        return _start(run)
    try:
        return connect(SESSION, run)
    except CannotConnect as error:
        raise Unavailable(str(error), remedy=private_daemon.REMEDY) from None


def _start(run: Run) -> Daemon:
    started = PrivateDaemon.start(run)
    try:
        connection = Connection.open(started.uri)
        try:
            return Daemon(
                connection,
                run,
                folder=_own_folder(),
                details={"libvirt_daemon": "of the run"},
                stop=started.stop,
            )
        except BaseException:
            connection.close()
            raise
    except CannotConnect as error:
        started.stop()
        raise CannotStart(str(error)) from None
    except BaseException:
        started.stop()
        raise


def _own_folder() -> str:
    """A daemon of our own runs machines as this user, who has a cache."""
    from pytest_vperf.machine import cache

    return str(cache.root() / "libvirt")
