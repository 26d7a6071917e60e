"""A libvirt daemon of our own, for a machine where none answers: it, and all its machines, end with the run.

It shares nothing with an installed one: in a mount namespace of its own it sees empty state folders and its own
configuration. It is in a process namespace, too: whatever becomes of it, the kernel ends its machines with it.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
import time
from typing import TYPE_CHECKING
from urllib.parse import quote

from pytest_vperf.machine import cache, cgroups
from pytest_vperf.machine.leftovers import remove_folder
from pytest_vperf.machine.parent_death import start_bound
from pytest_vperf.machine.preflight import Readiness, find_program
from pytest_vperf.targets.base import CannotStart, Unavailable
from pytest_vperf.targets.engine_address import knock
from pytest_vperf.targets.log_end import last_lines

if TYPE_CHECKING:
    from pytest_vperf.machine.runs import Run

REMEDY = "apt-get install libvirt-daemon-system, as root"
_START_TIMEOUT = 30.0
_GONE = 15.0
#: Where libvirt keeps state, logs and sockets, and locks of consoles with numbers of processes, which are others in
#: this namespace: compiled in, so each is covered by an empty file system.
_STATE = ("/run/libvirt", "/var/lib/libvirt", "/var/log/libvirt", "/run/lock")
#: What libvirt found out about QEMU, which takes seconds, is kept from run to run, as an installed daemon keeps it.
_CACHE = "/var/cache/libvirt"
_NAMESPACES = (
    *("unshare", "--mount", "--propagation", "private"),
    *("--pid", "--fork", "--mount-proc", "--kill-child"),
)
#: The first process of the namespace stays: it buries what libvirt's machines leave.
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
_LIBVIRTD = """unix_sock_dir = "{folder}"
auth_unix_rw = "none"
auth_unix_ro = "none"
listen_tls = 0
log_outputs = "3:stderr"
"""
#: QEMU runs as who we are: the files of machines, and /dev/kvm, need no other owner. Its system calls are filtered,
#: and it leaves no core dump, which would have the guest's memory.
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
    """Whether a daemon of our own can be started; ``why`` is its path then."""
    name = "libvirtd"
    path = find_program(name)
    if path is None:
        return Readiness(name, False, "libvirtd is not installed", REMEDY)
    if os.geteuid() != 0:
        return Readiness(
            name, False, "only root can start a libvirt daemon of its own", "run as root"
        )
    return Readiness(name, True, path)


class PrivateDaemon:
    """A libvirtd, its namespaces and its folder.

    Attributes:
        uri: where it answers.
    """

    def __init__(self, run: Run) -> None:
        self._run = run
        self._folder = run.subfolder("libvirt")
        self._process: subprocess.Popen[bytes] | None = None
        self.uri = f"qemu:///system?socket={quote(str(self._folder / 'libvirt-sock'))}"

    @classmethod
    def start(cls, run: Run) -> PrivateDaemon:
        """Start it, and wait until its socket takes connections.

        Raises:
            Unavailable: it is not installed, or this user cannot start one.
            CannotStart: it ended, or was not ready in time; with its last words.
        """
        ready = check()
        if not ready.usable:
            raise Unavailable(ready.why, remedy=ready.remedy)
        daemon = cls(run)
        try:
            daemon._start(ready.why)
        except BaseException:
            daemon.stop()
            raise
        return daemon

    @property
    def pid(self) -> int:
        """The process whose end ends it."""
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
                env={**self._run.environment, "LC_ALL": "C"},  # its words are read
                cwd=folder,
                start_new_session=True,  # a Ctrl-C is for us
            )
        deadline = time.monotonic() + _START_TIMEOUT
        while knock(folder / "libvirt-sock") is not None:
            if self._process.poll() is not None:
                raise CannotStart(
                    f"a libvirt daemon of our own did not start: status {self._process.returncode}; its last"
                    f" words:\n{last_lines(log)}"
                )
            if time.monotonic() > deadline:
                raise CannotStart(
                    f"a libvirt daemon of our own was not ready within {_START_TIMEOUT:g} s; its last words:\n"
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
