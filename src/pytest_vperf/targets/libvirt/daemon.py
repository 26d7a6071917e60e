"""A libvirt daemon of one run, and what starting machines on it has in common, whatever the hypervisor."""

from __future__ import annotations

import itertools
from contextlib import ExitStack
from typing import TYPE_CHECKING, Protocol, TypeVar

from pytest_vperf.machine.runs import NOTE
from pytest_vperf.targets.base import ON, CannotStart, Target, Unavailable, named
from pytest_vperf.targets.disks import Disks, Here, There, lend, put_disks
from pytest_vperf.targets.libvirt import address
from pytest_vperf.targets.libvirt.network import MachineNetwork, VirtualNetwork, check_kind
from pytest_vperf.targets.libvirt.root_disk import SIZE
from pytest_vperf.targets.libvirt.storage import RootDisk, Storage
from pytest_vperf.targets.scope import Starter

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence
    from pathlib import Path

    from typing_extensions import Self

    from pytest_vperf.machine.runs import Run
    from pytest_vperf.targets.base import Link
    from pytest_vperf.targets.disks import Disk
    from pytest_vperf.targets.image.rootfs import Rootfs
    from pytest_vperf.targets.kernel.guest_kernel import GuestKernel
    from pytest_vperf.targets.libvirt.connection import Connection
    from pytest_vperf.targets.libvirt.domain import Machine
    from pytest_vperf.targets.libvirt.neighbour import Neighbour
    from pytest_vperf.targets.libvirt.network import OvsNetwork, Plug
    from pytest_vperf.targets.libvirt.storage import Volume
    from pytest_vperf.targets.scope import Scope

    M = TypeVar("M", bound=Machine)


_machines_numbers = itertools.count(1)


#: Links a device, or mounts its file system, at a path. Arguments: device, path, file system.
_PUT = """
if [ -z "$3" ]; then exec ln -s "$1" "$2"; fi
mkdir -p "$2" && exec mount -o nosuid,nodev -t "$3" "$1" "$2"
"""


class MachineHost(Target, Protocol):
    """The host of machines, which can be put on their network."""

    @property
    def link(self) -> Link | None:
        """Its link to a network; ``None`` if it has none."""
        ...

    @link.setter
    def link(self, link: Link) -> None: ...


class Machines(Starter):
    """Starts machines through one daemon; subclasses add how.

    Args:
        daemon: returns the libvirt daemon; called on demand, like the next two.
        rootfs: returns the machines' image.
        kernel: returns their kernel.
        scope: owns the machines.
        kind: of machine, for messages.
        timeout: of one start, in seconds.
        mark: the suffix of their names.
    """

    #: The network they can be plugged into, and the prefix of their disks' device names.
    _network_kind: type[MachineNetwork] = VirtualNetwork
    _disk_prefix = "xvd"

    def __init__(
        self,
        daemon: Callable[[], Daemon],
        rootfs: Callable[[], Rootfs],
        kernel: Callable[[], GuestKernel],
        scope: Scope,
        *,
        kind: str = "domu",
        timeout: float = 180.0,
        mark: str = "",
    ) -> None:
        self._kind = kind
        self._mark = mark
        self._daemon = daemon
        self._rootfs = rootfs
        self._kernel = kernel
        self._scope = scope
        self._timeout = timeout
        self._host: MachineHost | None = None

    def _for(self, scope: Scope) -> Self:
        return self._like(_scope=scope, _host=None)

    @property
    def daemon(self) -> Daemon:
        """The daemon that starts them.

        Raises:
            Unavailable: there is none for their kind.
            CannotConnect: it does not answer.
        """
        with named(self._kind):
            return self._daemon()

    @property
    def host(self) -> MachineHost:
        """The machine that they run on, with the same image's programs; the test's scope owns it.

        Raises:
            Unavailable: it cannot be reached, or there is none.
            CannotConnect: it refuses us.
        """
        if self._host is None:
            self._host = self._scope.own(self._daemon().host(self._rootfs))
        return self._host

    @property
    def cpus(self) -> int:
        """The number of processors of their host, from its hypervisor: a Xen host's own kernel may see fewer.

        Raises:
            CannotStart: the hypervisor does not tell.
        """
        from pytest_vperf.targets.libvirt.connection import failed

        connection = self._daemon().connection
        try:
            return int(connection.handle.getInfo()[2])
        except connection.libvirt.libvirtError as error:
            raise failed(
                error, "tell how many processors there are", f"libvirt at {connection.shown}"
            ) from None

    def memory_each(self, machines: int, most: str) -> str:
        """The memory that each of ``machines`` machines can have, at most ``most``, such as ``1 GiB``.

        Raises:
            Unavailable: there is too little memory.
        """
        from pytest_vperf.targets.many import memory_each

        return memory_each(self.host, machines, most)

    @property
    def disks(self) -> Disks:
        """Makes disks on their host, for ``start(disks=[…])``.

        Raises:
            Unavailable: their host cannot be reached, or there is none.
        """
        return self._daemon().disks(self.host, self._scope)

    @property
    def network(self) -> VirtualNetwork:
        """The network for ``start(network=…)``; `host` is already on it.

        Raises:
            Unavailable: libvirt has no networks there.
            CannotStart: it cannot create one.
        """
        network = self._daemon().network()
        self.host.link = network.host
        return network

    def other_host(self, network: MachineNetwork | None = None) -> Neighbour:
        """Another host on a network of theirs, for the far end of a test; the test's scope owns it.

        Args:
            network: the network; ``None`` for `network`.

        Raises:
            Unavailable: it cannot be created where they run.
        """
        from pytest_vperf.targets.libvirt.neighbour import Neighbour

        daemon = self._daemon()
        plug = (network or self.network).plug("a network namespace of the host's")
        try:
            made = Neighbour(self.host, plug, daemon.run.id, next(_machines_numbers), daemon.mark)
        except BaseException:
            plug.link.close()
            raise
        return self._scope.own(made)

    def _equipped(
        self,
        daemon: Daemon,
        name: str,
        base: RootDisk,
        disks: Sequence[Disk],
        network: MachineNetwork | None,
        card: str,
        start: Callable[[str, Volume, Plug | None], M],
    ) -> M:
        """Start a machine with its own root disk, disks of the run and a place on a network.

        Args:
            daemon: starts it.
            name: in messages and reports.
            base: what its root disk is an overlay of.
            disks: further disks of the machine.
            network: for its card; ``None`` for no card.
            card: its kind, for the record.
            start: starts it, given its name in libvirt, its root disk and its place on the network; if it raises,
                nothing is left running.

        Raises:
            TargetError: the machine cannot be started so; nothing is left behind.
        """
        check_place(disks, name, remote=daemon.is_remote)
        identity = daemon.new_name()
        with ExitStack() as undo:
            plug = None
            if network is not None:
                plug = check_kind(network, name, self._network_kind).plug(card)
                undo.callback(plug.link.close)
            lent = undo.enter_context(lend(disks, name))
            # By name, since a Ctrl-C may arrive after its creation, but before we hold it.
            undo.callback(daemon.storage.remove, f"{identity}.qcow2")
            root = daemon.storage.overlay(f"{identity}.qcow2", base)
            machine = start(identity, root, plug)
            undo.callback(machine.close)
            machine.disks, machine.on_close = tuple(disks), lent.close
            letters = zip(disks, "bcdefghijklmnopqrstuvwxyz", strict=False)
            devices = [(each, f"/dev/{self._disk_prefix}{letter}") for each, letter in letters]
            put_disks(machine, _PUT, devices)
            if plug is not None:
                machine.join(plug.link, plug.address)
            undo.pop_all()
        return self._scope.own(machine)


def check_place(disks: Sequence[Disk], target: str, *, remote: bool) -> None:
    """Make sure that disks are on the machine's host.

    Raises:
        CannotStart: one is elsewhere; says how to make one there.
    """
    for disk in disks:
        if disk.remote != remote:
            where = "another machine" if disk.remote else "this machine"
            raise CannotStart(
                f"{disk.name} is on {where}, which {target} is not: make it with machines.disks.make(…), where"
                " machines is the fixture that starts it",
                target=target,
            )


def kernel_and_image(kernel: GuestKernel, rootfs: Rootfs) -> dict[str, str]:
    """The entries in the record of every machine that is made from a kernel and an image."""
    return {
        "guest_kernel": kernel.release,
        "guest_kernel_sha256": kernel.sha256,
        "rootfs": rootfs.name,
        "rootfs_sha256": rootfs.sha256,
    }


_numbers = itertools.count(1)
_networks = itertools.count()


class Daemon:
    """A connected daemon, for one run.

    Args:
        connection: to the daemon.
        run: the run whose machines are started.
        folder: for files of machines; empty for the default.
        details: for the record of every machine on it, e.g. that its host is emulated.
        stop: ends a daemon that was started for the run.
        ssh: address and configuration of its machine over SSH, if known.

    Raises:
        CannotStart: it cannot store files.
    """

    def __init__(
        self,
        connection: Connection,
        run: Run,
        *,
        folder: str = "",
        details: dict[str, str] | None = None,
        stop: Callable[[], None] | None = None,
        ssh: tuple[str, Path] | None = None,
    ) -> None:
        self.connection = connection
        self.run = run
        _note(run, connection.uri)
        self.storage = Storage(connection, folder)
        # libvirt probes QEMU on first need; that takes seconds, which must not count as part of a start.
        connection.warm_up()
        self._details = dict(details or {})
        if self.is_remote:
            self._details[ON] = self._where(connection)
        self._stop = stop
        self.ssh = ssh
        self._network: VirtualNetwork | None = None
        self._ovs_network: OvsNetwork | None = None
        self._shell: Target | None = None
        # What a file is made from → its content key.
        self._keys: dict[Hashable, str] = {}

    def _where(self, connection: Connection) -> str:
        lab = self._details.get("lab")
        return f"lab {lab}" if lab else address.machine(connection.uri)

    @property
    def details(self) -> dict[str, str]:
        """Versions, address and what is known of its host, for records."""
        return {
            **self.connection.versions(),
            "libvirt_uri": self.connection.shown,
            **self._details,
        }

    @property
    def mark(self) -> str:
        """Suffix of its machines' names: names the lab, if its host is in one."""
        lab = self._details.get("lab")
        return f" (lab {lab})" if lab else ""

    @property
    def is_remote(self) -> bool:
        """Whether it may be on another machine."""
        return address.is_remote(self.connection.uri)

    def host(self, rootfs: Callable[[], Rootfs]) -> MachineHost:
        """The host of the daemon's machines, with the programs of their image; the caller closes it.

        Args:
            rootfs: returns the image.

        Raises:
            Unavailable: it is another machine, with no known way to reach it but libvirt.
            CannotConnect: it refuses us.
        """
        if not self.is_remote:
            from pytest_vperf.targets.host import Host

            return Host(self.run, rootfs)
        from pytest_vperf.targets.remote.ssh import ImageHost

        url, config = self.ssh or (address.ssh_url(self.connection.uri), None)
        return ImageHost(
            url,
            self.run,
            rootfs=rootfs,
            name=f"host{self.mark}",
            details=self._details,
            config=config,
        )

    def shell(self, check: Callable[[Target], None]) -> Target:
        """The daemon's machine, to query its hypervisor without libvirt: one connection, closed with this daemon.

        Args:
            check: makes sure, once, that the machine can answer; if it raises, the connection is not kept.

        Raises:
            as `host` and ``check`` do.
        """
        if self._shell is None:
            made = self.host(_no_image)
            try:
                check(made)
            except BaseException:
                made.close()
                raise
            self._shell = made
        return self._shell

    def disks(self, host: Target, scope: Scope) -> Disks:
        """Makes disks on the daemon's machine.

        Args:
            host: that machine, from `host`.
            scope: owns the disks.
        """
        if not self.is_remote:
            return Disks(Here(self.run), scope)
        from pytest_vperf.targets.remote.ssh import ImageHost

        assert isinstance(host, ImageHost)
        return Disks(There(host, f"{host.folder}/disks"), scope)

    def network(self) -> VirtualNetwork:
        """The run's own network there, made at the first call and removed with this daemon.

        Raises:
            CannotStart: libvirt cannot create it.
            Unavailable: libvirt has no networks there.
        """
        if self._network is None:
            self._network = VirtualNetwork(
                self.connection, self.run.id, next(_networks), labels=self.run.labels
            )
        return self._network

    def ovs_network(self) -> OvsNetwork:
        """The run's own network there on Open vSwitch, made at the first call and removed with this daemon.

        Raises:
            Unavailable: no Open vSwitch answers, or the machine cannot be reached.
            CannotConnect: the machine refuses us.
        """
        if self._ovs_network is None:
            from pytest_vperf.targets.libvirt.network import OvsNetwork

            shell, uri = self.shell(lambda _: None), self.connection.uri
            self._ovs_network = OvsNetwork(shell, self.run, uri, next(_networks))
        return self._ovs_network

    def new_name(self) -> str:
        """A unique name for a machine of this run, which tells whose it is."""
        return f"{self.run.cgroup}-{next(_numbers)}"

    def file(self, what: Hashable, make: Callable[[], tuple[Path, str]]) -> str:
        """The path there of a file built here; built and uploaded once, as long as it stays there.

        Args:
            what: its kind, and everything it is made from.
            make: builds it; returns the file and its content key.
        """
        key = self._keys.get(what)
        path = None if key is None else self.storage.known(key)
        if path is None:
            file, key = make()
            path = self.storage.cached(file, key)
            self._keys[what] = key
        return path

    def kernel(self, kernel: GuestKernel) -> str:
        """The path of a kernel there."""
        return self.storage.cached(kernel.image, f"kernel-{kernel.sha256[:16]}")

    def root_disk(self, rootfs: Rootfs) -> RootDisk:
        """An image's root disk there."""

        def make() -> tuple[Path, str]:
            from pytest_vperf.targets.libvirt.root_disk import build_root_disk

            disk, key = build_root_disk(rootfs)
            return disk, f"root-{key}"

        return RootDisk(self.file(("root", rootfs.sha256), make), SIZE)

    def initramfs(self, kernel: GuestKernel, drivers: tuple[str, ...]) -> str:
        """The path there of an initramfs for machines with a root disk."""

        def make() -> tuple[Path, str]:
            from pytest_vperf.targets.kernel.guest_kernel import build_root_initramfs

            file = build_root_initramfs(kernel, drivers)
            return file, f"initramfs-{file.parent.name}"

        return self.file(("initramfs", kernel.sha256, kernel.modules, drivers), make)

    def close(self) -> None:
        """Close the connection, and end the daemon if it was started for the run. Safe to repeat."""
        for network in (self._network, self._ovs_network):
            if network is not None:
                network.close()
        self._network = self._ovs_network = None
        if self._shell is not None:
            self._shell.close()
            self._shell = None
        self.connection.close()
        if self._stop is not None:
            self._stop()


def _no_image() -> Rootfs:
    raise Unavailable("the machine is asked about its hypervisor alone, and was given no image")


def _note(run: Run, uri: str) -> None:
    with (run.folder / NOTE).open("a", encoding="utf-8") as stream:
        stream.write(f"{uri}\n")
