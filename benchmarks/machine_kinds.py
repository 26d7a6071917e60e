"""The kinds of machines for `machines_ten_times.py`: how they are had, killed from outside, and looked for."""

from __future__ import annotations

import contextlib
import os
import signal
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import psutil

from pytest_vperf.fixtures import core
from pytest_vperf.lab import labs
from pytest_vperf.targets.guest.guests import Guests
from pytest_vperf.targets.kernel.guest_kernel import distribution_kernel
from pytest_vperf.targets.libvirt import connect
from pytest_vperf.targets.scope import Scope
from pytest_vperf.targets.xen.domus import Domus

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pytest_vperf.machine.runs import Run
    from pytest_vperf.targets.base import Target
    from pytest_vperf.targets.libvirt.daemon import Daemon

TIMEOUT = 600.0
#: One that is being torn down has no name there any more (xl(1), "list").
_LIST = ["xl", "list"]
#: All at once: an emulated host takes seconds for each. Prints the names of those that there were.
_DESTROY = (
    'for name; do { xl destroy "$name" >/dev/null 2>&1 && echo "$name"; } & done; wait; exit 0'
)
_PROCESSES = ["ps", "-ww", "-e", "-o", "pid=,args="]


@dataclass(frozen=True)
class Kind:
    """A kind of machine.

    Attributes:
        accelerator: of guests; ``xen`` for domUs.
        death: what the error of a machine that was killed says.
        command: seconds that a command in a machine takes.
        kill_after: seconds from the command's request until machines are killed.
    """

    accelerator: str
    death: str
    command: float = 4.0
    kill_after: float = 1.0


KINDS = {
    "guest.tcg": Kind("tcg", "its hypervisor failed"),
    "guest.kvm": Kind("kvm", "its hypervisor failed"),
    # Their host is an emulated one, most likely: it takes a while for what it is told.
    "domu": Kind("xen", "is gone: it ended while sleep", command=40.0, kill_after=8.0),
}


class Hypervisors(Protocol):
    """What keeps a run's machines alive."""

    def running(self) -> list[str]:
        """One for each machine."""
        ...

    def kill(self, chosen: Sequence[str]) -> int:
        """End some of them without asking libvirt; how many there still were."""
        ...

    def left(self) -> list[str]:
        """All that there is of machines, in words."""
        ...


class Processes:
    """The QEMU processes of this machine: guests'.

    Args:
        mark: in the command line of each of the run's.
    """

    def __init__(self, mark: str) -> None:
        self._mark = mark

    def running(self) -> list[str]:
        """Their numbers."""
        return sorted(str(pid) for pid in self._pids())

    def _pids(self) -> Iterator[int]:
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                words = process.cmdline()
                if (
                    words
                    and "qemu-system" in words[0]
                    and any(self._mark in word for word in words)
                ):
                    yield process.pid

    def kill(self, chosen: Sequence[str]) -> int:
        """Kill some; how many there still were."""
        killed = 0
        for pid in chosen:
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)
                killed += 1
        return killed

    def left(self) -> list[str]:
        """All of them, in words."""
        return [f"process {pid}" for pid in self.running()]


class XenDomains:
    """What Xen itself has of a run's machines, whatever libvirt thinks; and the processes of their disks.

    Args:
        host: the machine that Xen runs.
        mark: in the name of each of the run's.
    """

    def __init__(self, host: Target, mark: str) -> None:
        self._host = host
        self._mark = mark

    def running(self) -> list[str]:
        """Their names."""
        lines = self._host.run(_LIST).text.splitlines()
        return sorted(line.split()[0] for line in lines if self._mark in line)

    def kill(self, chosen: Sequence[str]) -> int:
        """Have Xen take some away; how many there still were."""
        done = self._host.run(["sh", "-c", _DESTROY, "sh", *chosen], timeout=TIMEOUT)
        return len(done.text.split())

    def left(self) -> list[str]:
        """The domains, and the host's processes that have to do with one, in words."""
        lines = self._host.run(_PROCESSES).text.splitlines()
        return [
            *(f"domain {name}" for name in self.running()),
            *(f"process {line.strip()[:80]} of the host" for line in lines if self._mark in line),
        ]


@contextlib.contextmanager
def daemon_of(kind: Kind, run: Run) -> Iterator[Daemon]:
    """The libvirt daemon for a kind: this machine's or the run's own; for domUs that of a lab where Xen is not here.

    A lab of the user's that is up is taken; else one is started, and ended with this.

    Raises:
        TargetError: there can be none here.
    """
    with contextlib.ExitStack() as undo:
        if kind.accelerator != "xen":
            daemon = connect.find(run)
        elif connect.is_dom0():
            daemon = connect.find_xen(run)
        else:
            host = labs.running("xen")
            if host is None:
                host = labs.up(
                    "xen", run=run, say=lambda text: print(f"lab xen: {text}", flush=True)
                )
                undo.callback(labs.end, host)
            details, ssh = dict(host.details), (host.ssh_url, host.ssh_config)
            daemon = connect.connect(host.uri, run, details=details, ssh=ssh)
        undo.callback(daemon.close)
        yield daemon


@contextlib.contextmanager
def machines_of(kind: Kind, daemon: Daemon) -> Iterator[tuple[Guests | Domus, Hypervisors]]:
    """Machines of a kind on a daemon, and what keeps them alive.

    Raises:
        Unavailable: there are no such machines here.
    """
    rootfs, kernel = core.make_tools_image(), distribution_kernel()
    needs = (lambda: daemon, lambda: rootfs, lambda: kernel, Scope())
    mark = daemon.run.cgroup
    if kind.accelerator != "xen":
        guests = Guests(*needs, accelerator=kind.accelerator, timeout=TIMEOUT)
        yield guests, Processes(mark)
        return
    with daemon.host(lambda: rootfs) as host:
        yield Domus(*needs, timeout=TIMEOUT), XenDomains(host, mark)
