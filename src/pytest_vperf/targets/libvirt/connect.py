"""Finding a libvirt daemon, here or on another machine, or starting a private one.

A private daemon is started where none answers; it ends with the run, and all its machines with it. It shares nothing
with an installed one: its mount namespace has empty state folders and its own configuration. It has a PID namespace
too, so that the kernel ends its machines with it, however it ends.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from pytest_vperf.machine import cache, cgroups, leftovers
from pytest_vperf.machine.ending import start_bound
from pytest_vperf.machine.leftovers import remove_folder
from pytest_vperf.machine.preflight import Readiness, find_program
from pytest_vperf.machine.procfile import text
from pytest_vperf.machine.waits import waiting_for
from pytest_vperf.targets.base import (
    CannotConnect,
    CannotStart,
    TargetError,
    Unavailable,
    last_lines,
)
from pytest_vperf.targets.container.address import knock
from pytest_vperf.targets.libvirt import connection as failures
from pytest_vperf.targets.libvirt.connection import Connection
from pytest_vperf.targets.libvirt.daemon import Daemon
from pytest_vperf.targets.remote.address import libvirt_uri

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_vperf.machine.procfile import Read
    from pytest_vperf.machine.runs import Run
    from pytest_vperf.targets.remote.machine import RemoteMachine


LAB_HINT = "--vperf-lab=kvm, which starts a host with KVM inside QEMU"


@dataclass(frozen=True)
class KvmHost:
    """The host that guests with KVM are started on.

    Attributes:
        daemon: the host's; ``None`` if there is no such host.
        readiness: whether KVM works there, and if not, why.
    """

    daemon: Daemon | None
    readiness: Readiness


def choose_kvm(
    *,
    named: Callable[[], Daemon | None],
    local: Callable[[], Readiness],
    here: Callable[[], Daemon],
    lab: Callable[[], Daemon | None],
    probe: Callable[[Daemon], Readiness],
) -> KvmHost:
    """Try the daemon that the user named, then this machine, then a lab; a named daemon is never replaced.

    Args:
        named: the daemon that the user named, if any.
        local: whether KVM works on this machine.
        here: this machine's daemon.
        lab: the lab's daemon, if a lab was requested.
        probe: checks that a daemon's KVM works.
    """
    daemon = named()
    if daemon is not None:
        return KvmHost(daemon, probe(daemon))
    ready = local()
    if ready.usable:
        daemon = here()
        ready = probe(daemon)
        if ready.usable:
            return KvmHost(daemon, ready)
    daemon = lab()
    if daemon is not None:
        return KvmHost(daemon, probe(daemon))
    remedy = f"{ready.remedy}; or {LAB_HINT}" if ready.remedy else LAB_HINT
    return KvmHost(None, Readiness("guest kvm", False, f"no KVM here: {ready.why}", remedy))


REMEDY = "apt-get install libvirt-daemon-system, as root"
_START_TIMEOUT = 30.0
_GONE = 15.0
#: libvirt's folders for state, logs, sockets and console locks, whose PIDs mean nothing in this namespace. They are
#: compiled in, so each is covered by an empty file system.
_STATE = ("/run/libvirt", "/var/lib/libvirt", "/var/log/libvirt", "/run/lock")
#: libvirt's probe of QEMU takes seconds, so its result is kept between runs, as an installed daemon keeps it.
_CACHE = "/var/cache/libvirt"
_NAMESPACES = (
    *("unshare", "--mount", "--propagation", "private"),
    *("--pid", "--fork", "--mount-proc", "--kill-child"),
)
#: The namespace's first process stays, to reap orphans of libvirt's machines.
_SCRIPT = """set -e
for folder in {state}; do mkdir -p "$folder"; mount -t tmpfs -o mode=755,nosuid,nodev none "$folder"; done
mkdir -p /etc/libvirt {cache} {kept}
mount --bind {kept} {cache}
mount --bind {configuration} /etc/libvirt
{libvirtd} --config {configuration}/libvirtd.conf --pid-file {folder}/pid &
child=$!
trap 'kill -TERM "$child"' TERM
while kill -0 "$child" 2>/dev/null; do wait "$child" || :; done
"""
#: It ends with us, so it need not ask whether we live; we may be too busy to answer in its 30 s.
_LIBVIRTD = """unix_sock_dir = "{folder}"
auth_unix_rw = "none"
auth_unix_ro = "none"
listen_tls = 0
keepalive_interval = -1
log_outputs = "3:stderr"
"""
#: QEMU runs as our user, so that machines' files and /dev/kvm need no other owner. Its system calls are filtered, and
#: it leaves no core dump, which would contain the guest's memory.
_QEMU = """user = "{user}"
group = "{group}"
security_driver = "none"
namespaces = []
stdio_handler = "file"
remember_owner = 0
dynamic_ownership = 0
seccomp_sandbox = 1
max_core = 0
"""


def check() -> Readiness:
    """Whether a private daemon can be started; ``why`` is then libvirtd's path."""
    name = "libvirtd"
    path = find_program(name)
    if path is None:
        return Readiness(name, False, "libvirtd is not installed", REMEDY)
    if os.geteuid() != 0:
        return Readiness(name, False, "only root can start a private libvirt daemon", "run as root")
    return Readiness(name, True, path)


class PrivateDaemon:
    """A private libvirtd with its namespaces and folder.

    Attributes:
        uri: its address.
    """

    def __init__(self, run: Run) -> None:
        self._run = run
        self._folder = run.subfolder("libvirt")
        self._process: subprocess.Popen[bytes] | None = None
        self.uri = f"qemu:///system?socket={quote(str(self._folder / 'libvirt-sock'))}"

    @classmethod
    def start(cls, run: Run) -> PrivateDaemon:
        """Start it, and wait until its socket accepts connections.

        Raises:
            Unavailable: it is not installed, or this user cannot start one.
            CannotStart: it ended, or was not ready in time; with its last output.
        """
        ready = check()
        if not ready.usable:
            raise Unavailable(ready.why, remedy=ready.remedy)
        daemon = cls(run)
        try:
            with waiting_for("a private libvirtd to start"):
                daemon._start(ready.why)
        except BaseException:
            daemon.stop()
            raise
        return daemon

    @property
    def pid(self) -> int:
        """The process whose end ends the daemon."""
        assert self._process is not None
        return self._process.pid

    def _start(self, libvirtd: str) -> None:
        folder, configuration = self._folder, self._folder / "etc"
        configuration.mkdir()
        (configuration / "libvirtd.conf").write_text(_LIBVIRTD.format(folder=folder))
        user, group = os.geteuid(), os.getegid()
        (configuration / "qemu.conf").write_text(_QEMU.format(user=f"+{user}", group=f"+{group}"))
        script = folder / "start.sh"
        script.write_text(
            _SCRIPT.format(
                state=" ".join(_STATE),
                cache=_CACHE,
                kept=shlex.quote(str(cache.root() / "libvirt-knows")),
                configuration=shlex.quote(str(configuration)),
                folder=shlex.quote(str(folder)),
                libvirtd=shlex.quote(libvirtd),
            )
        )
        log = folder / "log"
        with log.open("wb") as stream:
            self._process = start_bound(
                [*_NAMESPACES, "sh", str(script)],
                signal.SIGKILL,
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=subprocess.STDOUT,
                env={**self._run.environment, "LC_ALL": "C"},  # its messages are parsed
                cwd=folder,
                start_new_session=True,  # Ctrl-C is for us alone
            )
        deadline = time.monotonic() + _START_TIMEOUT
        while knock(folder / "libvirt-sock") is not None:
            if self._process.poll() is not None:
                raise CannotStart(
                    f"the private libvirt daemon did not start: status {self._process.returncode}; its last"
                    f" output:\n{last_lines(log)}"
                )
            if time.monotonic() > deadline:
                raise CannotStart(
                    f"the private libvirt daemon was not ready within {_START_TIMEOUT:g} s; its last output:\n"
                    f"{last_lines(log)}"
                )
            time.sleep(0.01)

    def stop(self) -> None:
        """End it with all its machines, and remove its folder. Safe to repeat."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()  # the kernel ends the namespace with it
            self._process.wait()
            self._process = None
            # A machine with much memory takes a moment to end.
            for group in cgroups.of_machines(self._run.cgroup):
                cgroups.remove(group, timeout=_GONE)
        if self._folder.exists():
            remove_folder(self._folder)


SYSTEM = "qemu:///system"
SESSION = "qemu:///session"
XEN = "xen:///system"
#: Sockets of this machine's system daemons: the one for all drivers, and QEMU's own (libvirt.org/daemons.html).
_SOCKETS = (Path("/run/libvirt/libvirt-sock"), Path("/run/libvirt/virtqemud-sock"))


def connect(
    uri: str,
    run: Run,
    *,
    details: dict[str, str] | None = None,
    ssh: tuple[str, Path] | None = None,
) -> Daemon:
    """Connect to the daemon at an address.

    Args:
        uri: the address.
        run: the run whose machines are started there.
        details: for the record of every machine on it.
        ssh: address and configuration of its machine over SSH.

    Raises:
        Unavailable: libvirt-python is not installed.
        CannotConnect: no daemon answers there.
        TimedOut: no answer within the time limit.
        CannotStart: the daemon cannot store files for machines.
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
    """Remove what dead runs left there; a failure to do so does not stop this run."""
    from pytest_vperf.targets.libvirt import leftovers as leftover_machines

    with contextlib.suppress(TargetError):
        leftovers.remove(leftover_machines.find(connection))


def is_dom0(read: Read = text) -> bool:
    """Whether a machine is a Xen host (Xen wiki, "Xen FAQ Dom0": ``control_d``).

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
        Unavailable: this machine is not a Xen host.
        CannotConnect: it is one, but its libvirt does not answer.
    """
    failures.library()
    need_dom0()
    return connect(XEN, run)


def need_dom0() -> None:
    """Make sure that this machine is a Xen host.

    Raises:
        Unavailable: it is not.
    """
    if not is_dom0():
        raise Unavailable(
            "this machine is no Xen host (no control_d in /proc/xen/capabilities)",
            remedy="--vperf-lab=xen, which starts one inside QEMU, or --libvirt-uri=xen+ssh://root@HOST/",
        )


def find(run: Run) -> Daemon:
    """The system's daemon if it answers; otherwise a private one, or, for an ordinary user, the user's.

    Raises:
        Unavailable: there is none, and none can be started; with a remedy.
        CannotStart: a private one was started and ended.
    """
    failures.library()
    if any(knock(path) is None for path in _SOCKETS):
        try:
            return connect(SYSTEM, run)
        except CannotConnect:
            if os.geteuid() == 0:
                raise
            # An ordinary user may reach the socket but be refused (polkit).
    if os.geteuid() == 0:
        return _start(run)
    try:
        return connect(SESSION, run)
    except CannotConnect as error:
        raise Unavailable(str(error), remedy=REMEDY) from None


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
    """The user's cache: a private daemon runs machines as this user."""

    return str(cache.root() / "libvirt")


#: Sockets of another machine's system daemons, by driver: the one for all drivers, and the driver's own.
_SOCKETS_THERE = {
    "qemu": ("/run/libvirt/libvirt-sock", "/run/libvirt/virtqemud-sock"),
    "xen": ("/run/libvirt/libvirt-sock", "/run/libvirt/virtxend-sock"),
}
_LISTENS = 'for s; do [ -S "$s" ] && exit 0; done; exit 1'


def daemon_of(machine: RemoteMachine, driver: str, run: Run) -> Daemon:
    """Connect to another machine's system daemon.

    Args:
        machine: the machine.
        driver: ``qemu`` or ``xen``.
        run: the run whose machines are started.

    Raises:
        Unavailable: the machine has no daemon, or is not a Xen host.
        CannotConnect: the daemon does not answer.
    """
    where = machine.address.where
    if driver == "xen" and not is_dom0(machine.read):
        raise Unavailable(
            f"{where} is no Xen host (no control_d in /proc/xen/capabilities)",
            remedy="--vperf-on=lab:xen, which starts one inside QEMU",
        )
    if machine.ssh.run(
        ["sh", "-c", _LISTENS, "sh", *_SOCKETS_THERE[driver]], check=False
    ).returncode:
        raise Unavailable(
            f"no libvirt daemon listens on {where}",
            remedy="apt-get install libvirt-daemon-system && systemctl start libvirtd, there",
        )
    uri = libvirt_uri(machine.address.url, driver)
    return connect(uri, run, details=dict(machine.details))
