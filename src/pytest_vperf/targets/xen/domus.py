"""DomUs: full machines on Xen, started through libvirt, reached over their consoles, their limits read back from Xen.

A machine's pinning is read back with ``xl`` on the host (format: Xen, tools/xl/xl_vcpu.c, the same from 4.14 to
4.19). libvirt cannot do it: it first asks for the host's processors (virNodeGetCPUMap), which Xen's driver does not
implement.

Weights and caps are those of Xen's credit schedulers. Source: xl(1), sched-credit2: a weight is from 1 to 65535, 256
by default; a cap is in percent of one processor, and 0 means none.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pytest_vperf.targets.agent.target import ENVIRONMENT, AgentTarget
from pytest_vperf.targets.base import (
    CannotConnect,
    CannotStart,
    Facts,
    Unavailable,
    named,
    startup_quantity,
)
from pytest_vperf.targets.disks import attached
from pytest_vperf.targets.kernel.guest_kernel import INIT_LINE, XEN
from pytest_vperf.targets.libvirt.connection import failed
from pytest_vperf.targets.libvirt.daemon import Machines, kernel_and_image
from pytest_vperf.targets.libvirt.domain import WholeMachine, memory_mib_of, vcpus_of
from pytest_vperf.targets.libvirt.root_disk import init_parameter
from pytest_vperf.targets.libvirt.storage import described
from pytest_vperf.targets.limits import Limits, cpus_of
from pytest_vperf.targets.many import share_of_memory
from pytest_vperf.targets.xen.boot import MODES, DomuConfig, XenDisk, boot

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pytest_vperf.quantity import Quantity
    from pytest_vperf.targets.base import Completed, Target, Usage
    from pytest_vperf.targets.disks import CappedDisk, Disk
    from pytest_vperf.targets.image.rootfs import Rootfs
    from pytest_vperf.targets.kernel.guest_kernel import GuestKernel
    from pytest_vperf.targets.libvirt.connection import Connection
    from pytest_vperf.targets.libvirt.daemon import Daemon
    from pytest_vperf.targets.libvirt.domain import Domain
    from pytest_vperf.targets.libvirt.network import Plug, VirtualNetwork
    from pytest_vperf.targets.libvirt.storage import Volume
    from pytest_vperf.targets.scope import Scope
    from pytest_vperf.targets.xen.boot import Booted


#: The phases of a start, in order. Each ends where the next begins:
#:
#:     process    request → Xen has built the machine, and libvirt resumes it
#:     kernel     → the kernel's first process has printed
#:     agent      → the agent is ready, which on a full machine is after the whole userspace
#:     container  → pods only: the container's process has been executed
#:
#: Each is timestamped on arrival in this process, on its monotonic clock. There is no firmware: Xen loads the kernel.
PHASES = ("process", "kernel", "agent", "container")


class Domu(WholeMachine, AgentTarget):
    """A running machine on Xen, a Target, started by `pytest_vperf.targets.xen.domus.Domus` or `XenPods`.

    Args:
        kind: ``domu`` or ``pod``.
        booted: the machine.
        details: for `facts`.
        rootfs: its image.
        environment: of every command.
    """

    def __init__(
        self,
        kind: str,
        booted: Booted,
        details: Mapping[str, str],
        rootfs: Rootfs,
        environment: Mapping[str, str] = ENVIRONMENT,
    ) -> None:
        super().__init__(booted.speaker, rootfs, environment)
        self._kind = kind
        self._booted = booted
        self._domain = booted.domain
        self._details = dict(details)

    @property
    def startup_time(self) -> Quantity:
        """Time in ms from the request until its agent is ready, or its container runs, with `PHASES` as parts."""
        return startup_quantity(self._booted.began, self._booted.marks, PHASES)

    def facts(self) -> Facts:
        """Versions, hashes and settings of this machine."""
        network = self.link.details() if self.link else {}
        return Facts(self._kind, self.name, {**self._details, **network})

    def usage(self) -> Usage:
        """CPU time and memory, as accounted by Xen."""
        return self._domain.usage()


#: A user's PATH may lack the sbin folders. ``xl info`` tells how many processors "all" stands for.
_ASK = 'PATH="$PATH:/usr/sbin:/sbin"; xl vcpu-list "$1" && xl info'
_ITSELF = "0"
#: Name, ID, number, processor or "-", state, seconds, hard affinity / soft affinity.
_LINE = re.compile(
    r"^\S+ +\d+ +(?P<number>\d{1,5}) +(?:\d+|-) +\S+ +[\d.]+ +(?P<hard>\S+) / \S+ *$", re.M
)
_LAST = re.compile(r"^max_cpu_id *: *(\d{1,5})$", re.M)
_NOT_READ = "the pinning of machines on Xen cannot be read back"


def reader(daemon: Daemon, limits: Limits) -> Target | None:
    """The host from which machines' pinning is read back; ``None`` if ``limits`` sets no pinning.

    It is asked for its own pinning once, so that no machine is started whose pinning could not be read.

    Raises:
        Unavailable: the host cannot be reached, or does not tell.
    """
    if limits.cpuset is None:
        return None
    try:
        return daemon.shell(_check)
    except CannotConnect as error:
        raise Unavailable(
            f"{_NOT_READ}: {error}", remedy="set up ssh to log in there as root without a prompt"
        ) from None
    except Unavailable as error:
        raise Unavailable(f"{_NOT_READ}: {error.reason}", remedy=error.remedy) from None


def _check(host: Target) -> None:
    """Make sure that a host tells its own pinning.

    Raises:
        Unavailable: it does not.
    """
    done = _ask(host, _ITSELF)
    if done.returncode == 127:
        raise Unavailable(
            f"xl is not installed on {host.name}", remedy="apt-get install xen-utils-common, there"
        )
    if done.returncode:
        raise Unavailable(
            f"xl on {host.name} says: {_words(done)}",
            remedy="be root there, e.g. xen+ssh://root@HOST/",
        )
    try:
        affinity(done.text)
    except ValueError as error:
        raise Unavailable(f"xl on {host.name}: {error}") from None


def pinned(host: Target | None, domain: Domain, limits: Limits, vcpus: int) -> dict[str, str]:
    """A machine's pinning, read back, for its facts; empty if none was requested.

    Args:
        host: from `reader`.
        domain: the machine.
        limits: as requested.
        vcpus: the number of its vCPUs.

    Raises:
        CannotStart: Xen has another pinning than requested, or does not tell.
        CannotConnect: the host is gone.
    """
    if host is None or limits.cpuset is None:
        return {}
    done = _ask(host, domain.identity)
    if done.returncode:
        raise CannotStart(
            f"{domain.name}: its pinning cannot be read back: {_words(done)}", target=domain.name
        )
    try:
        found = affinity(done.text)
    except ValueError as error:
        raise CannotStart(f"{domain.name}: {error}", target=domain.name) from None
    wanted = cpus_of(limits.cpuset)
    for number in range(vcpus):
        if found.get(number) != wanted:
            raise CannotStart(
                f"{domain.name}: asked for cpuset {limits.cpuset!r}, the hypervisor has"
                f" {sorted(found.get(number, ()))} for vCPU {number}",
                target=domain.name,
            )
    return {"cpuset": limits.cpuset}


def affinity(said: str) -> dict[int, set[int]]:
    """Number of each vCPU of a machine → processors of the host that it may run on (hard affinity).

    An idle vCPU has an affinity too.

    Args:
        said: output of ``xl vcpu-list MACHINE``, followed by that of ``xl info``.

    Raises:
        ValueError: the output is not understood; with its first lines.
    """
    found: dict[int, set[int]] = {}
    for line in _LINE.finditer(said):
        hard = line["hard"]
        last = _LAST.search(said)
        if hard == "all" and last is not None:
            found[int(line["number"])] = set(range(int(last[1]) + 1))
        elif hard == "none":
            found[int(line["number"])] = set()
        else:
            try:
                found[int(line["number"])] = cpus_of(hard)
            except ValueError:
                raise ValueError(_not_understood(said)) from None
    if not found:
        raise ValueError(_not_understood(said))
    return found


def _not_understood(said: str) -> str:
    return f"the output of xl vcpu-list is not understood: {said[:300]!r}"


def _ask(host: Target, machine: str) -> Completed:
    return host.run(["sh", "-c", _ASK, "sh", machine], check=False)


def _words(done: Completed) -> str:
    said = " ".join(done.stderr.decode("utf-8", "replace").split())
    return said[-300:] or f"it ended with status {done.returncode}"


DEFAULT_WEIGHT = 256
_DEFAULT_SHARES = 1024


def weight_of(limits: Limits) -> int | None:
    """Xen's weight for ``cpu_shares``: ratios are kept, and the default maps to Xen's default.

    Raises:
        CannotStart: it is outside Xen's range.
    """
    if limits.cpu_shares is None:
        return None
    weight = round(limits.cpu_shares * DEFAULT_WEIGHT / _DEFAULT_SHARES)
    if not 1 <= weight <= 65_535:
        raise CannotStart(
            f"cpu_shares is {limits.cpu_shares!r}, a weight of {weight} for Xen, which takes 1 to 65535"
        )
    return weight


def cap_of(limits: Limits) -> int | None:
    """Xen's cap for ``cpus``, in percent of one processor."""
    return None if limits.cpus is None else max(1, round(limits.cpus * 100))


def need_mode(connection: Connection, mode: str) -> None:
    """Make sure that a host can run machines in a mode.

    Raises:
        Unavailable: it cannot, or is not a Xen host.
        CannotStart: libvirt's description of the host is not XML.
    """
    where = f"libvirt at {connection.shown}"
    libvirt = connection.libvirt
    try:
        text = connection.handle.getCapabilities()
    except libvirt.libvirtError as error:
        raise failed(error, "tell what it can", where) from None
    capabilities = described(text, where)
    machines = {element.text for element in capabilities.iterfind("guest/arch/machine")}
    if MODES[mode][1] in machines:
        return
    if MODES["pv"][1] not in machines:
        raise Unavailable(
            f"{where} is no Xen host",
            remedy="--vperf-lab=xen for an emulated one, or a host that runs Xen",
        )
    raise Unavailable(
        f"{where} cannot run machines in the mode {mode}: it has no hardware virtualisation, or Xen may not use it",
        remedy="mode='pv' needs none",
    )


def set_limits(domain: Domain, limits: Limits) -> dict[str, str]:
    """Set a machine's limits in Xen's scheduler; return them as read back.

    Raises:
        CannotStart: Xen has another value than requested, or refuses it.
    """
    asked = {
        name: value
        for name, value in (("weight", weight_of(limits)), ("cap", cap_of(limits)))
        if value is not None
    }
    if not asked:
        return {}
    libvirt = domain.connection.libvirt
    try:
        domain.handle.setSchedulerParameters(asked)
    except libvirt.libvirtError as error:
        raise failed(error, "set its weight", domain.name) from None
    found = domain.scheduler()
    return {
        f"xen_{name}": domain.check(name, value, found.get(name)) for name, value in asked.items()
    }


def finished(
    kind: str,
    booted: Booted,
    config: DomuConfig,
    host: Target | None,
    daemon: Daemon,
    kernel: GuestKernel,
    rootfs: Rootfs,
    environment: Mapping[str, str] = ENVIRONMENT,
    **how: str,
) -> Domu:
    """Set a running machine's limits, read them back and return its target; ``host`` is from `reader`.

    Raises:
        CannotStart: Xen has other limits than requested, or does not tell.
    """
    details = {
        "accelerator": "xen",
        "mode": config.mode,
        "vcpus": str(config.vcpus),
        "memory": f"{config.memory_mib} MiB",
        **how,
        **kernel_and_image(kernel, rootfs),
        **set_limits(booted.domain, config.limits),
        **pinned(host, booted.domain, config.limits, config.vcpus),
        **daemon.details,
    }
    return Domu(kind, booted, details, rootfs, environment)


#: The kernel's command line. The console carries the agent's frames, so only a panic is printed there; with a
#: loglevel of 0 even that would not be (include/linux/printk.h, console_verbose). A panicked kernel stays for some
#: seconds, because Xen drops the unread console output of a machine that has ended.
PARAMETERS = (
    *("console=hvc0", "vperf.wire=hvc0", "quiet", "loglevel=1", "panic=5"),
    *(
        "root=/dev/xvda",
        "rw",
        "net.ifnames=0",
        "systemd.show_status=no",
        "systemd.log_target=journal",
    ),
)
#: The share of free memory that machines may have as their own. Xen needs the rest for page tables and the like
#: (libxl, ``libxl_domain_need_memory``: some 6 MiB for a machine with 512 MiB).
_THEIRS = 0.95


class Domus(Machines):
    """Starts domUs, through a libvirt daemon with Xen's driver; see
    `pytest_vperf.targets.libvirt.daemon.Machines`."""

    def owned_by(self, scope: Scope) -> Domus:
        """DomUs like these, owned by another scope."""
        return self._like(_scope=scope, _host=None)

    def memory_each(self, machines: int, most: str) -> str:
        """As `Machines.memory_each`, but from Xen's free memory, which dom0 does not see."""
        shown = self.daemon.connection.shown
        return share_of_memory(_THEIRS * self.free_memory(), machines, most, f"Xen at {shown}")

    def free_memory(self) -> int:
        """Xen's free memory, in bytes.

        Raises:
            Unavailable: there is no daemon with Xen's driver.
            CannotConnect: the daemon is gone.
            CannotStart: it does not tell.
        """
        connection = self.daemon.connection
        try:
            return int(connection.handle.getFreeMemory())
        except connection.libvirt.libvirtError as error:
            raise failed(error, "tell what memory is free", connection.shown) from None

    def start(
        self,
        *,
        vcpus: int = 1,
        memory: str = "512 MiB",
        init: str = "systemd",
        mode: str = "pv",
        cpus: float | None = None,
        cpuset: str | None = None,
        cpu_shares: int | None = None,
        disks: Sequence[Disk | CappedDisk] = (),
        network: VirtualNetwork | None = None,
    ) -> Domu:
        """Start a domU and wait until its agent is ready.

        Args:
            vcpus: virtual CPUs.
            memory: the machine's memory, e.g. ``512 MiB``.
            init: ``systemd`` boots a full userspace, ``rescue`` it in single-user mode, ``small`` a minimal one.
            mode: ``pv``; ``pvh`` or ``hvm`` need hardware virtualisation on the host.
            cpus: CPU time it may use, in host CPUs, e.g. 0.5: Xen's cap.
            cpuset: the host's CPUs that it may run on, e.g. ``0-1``.
            cpu_shares: its weight against others on the host; the default is 1024, which is 256 for Xen.
            disks: from `disks`, as further disks of the machine, at `Disk.where`; Xen cannot cap them.
            network: the same fixture's, for its network card; ``None`` for no card.

        Raises:
            Unavailable: such a domU cannot run here: the claim is not measured.
            CannotStart: the start failed, or an argument is invalid.
            CannotConnect: the daemon is gone.
            TimedOut: it took longer than the time limit.
        """
        present, caps = attached(disks)
        limits = Limits(cpus, cpuset, cpu_shares)
        size, memory_mib = vcpus_of(vcpus), memory_mib_of(memory)
        parameters = " ".join((*PARAMETERS, init_parameter(init)))
        if mode not in MODES:
            raise CannotStart(f"unknown mode {mode!r} of a domU: choose one of {', '.join(MODES)}")
        name = f"domu {mode}"
        with named(name):
            daemon = self._daemon()
        name += daemon.mark + self._mark
        with named(name):
            need_mode(daemon.connection, mode)
            host = reader(daemon, limits)
            rootfs, kernel = self._rootfs(), self._kernel()
            base = daemon.root_disk(rootfs)
            paths = daemon.kernel(kernel), daemon.initramfs(kernel, XEN)
            if caps:
                raise Unavailable(
                    "Xen's driver of libvirt has no caps for disks", remedy="cap a guest's"
                )

        def start(identity: str, root: Volume, plug: Plug | None) -> Domu:
            config = DomuConfig(
                name=identity,
                mode=mode,
                kernel=paths[0],
                initramfs=paths[1],
                parameters=parameters,
                disks=(
                    XenDisk(root.path, "qcow2"),
                    *(XenDisk(each.device, block=True) for each in present),
                ),
                vcpus=size,
                memory_mib=memory_mib,
                limits=limits,
                bridge=plug.bridge if plug else "",
                mac=plug.mac if plug else "",
                labels=daemon.run.labels,
            )
            with daemon.storage.relied_on():
                booted = boot(
                    daemon.connection,
                    config,
                    name,
                    kernel_line=INIT_LINE,
                    timeout=self._timeout,
                    opened=root.unlink,
                )
            with booted:
                return finished("domu", booted, config, host, daemon, kernel, rootfs, init=init)

        return self._equipped(daemon, name, base, present, network, "Xen's back end", start)
