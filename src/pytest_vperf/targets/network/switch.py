"""The run's own network: a bridge in a network namespace, with named namespaces and taps plugged into it.

The host's own network gets one addition: a link with an address in a subnet that nothing else uses. There is no
firewall rule, no forwarding and no default route: members of the switch reach only each other.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import itertools
import os
import struct
import threading
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from pytest_vperf.machine.networks import NAMESPACES, link_name, namespace_name
from pytest_vperf.targets.base import TargetError, Unavailable
from pytest_vperf.targets.network import addresses
from pytest_vperf.targets.network.card import BACKEND, Card, open_vhost
from pytest_vperf.targets.network.commands import ip
from pytest_vperf.targets.network.link import Port, SwitchLink

if TYPE_CHECKING:
    from collections.abc import Callable
    from ipaddress import IPv4Interface

    from pytest_vperf.machine.runs import Run


if TYPE_CHECKING:
    T = TypeVar("T")

_CLONE_NEWNET = 0x40000000  # Linux, include/uapi/linux/sched.h


class Namespace:
    """A named network namespace.

    Attributes:
        name: as shown by ``ip netns``.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    @classmethod
    def create(cls, name: str) -> Namespace:
        """Create it, with its loopback up.

        Raises:
            Unavailable: this user is not root.
            TargetError: the kernel refuses.
        """
        if os.geteuid() != 0:
            raise Unavailable(
                "only root can make network namespaces and links", remedy="run as root"
            )
        made = cls(name)
        if made.exists:
            raise TargetError(f"a network namespace {name} already exists")
        try:
            ip("netns", "add", name)
            ip("link", "set", "lo", "up", namespace=made.path)
        except BaseException:
            with contextlib.suppress(TargetError):
                made.delete()
            with contextlib.suppress(OSError):  # half created, it is only a file
                made.path.unlink()
            raise
        return made

    @property
    def path(self) -> Path:
        """The file through which it is entered."""
        return NAMESPACES / self.name

    @property
    def exists(self) -> bool:
        """Whether it exists."""
        return self.path.exists()

    def inside(self, work: Callable[[], T]) -> T:
        """Call a function inside it, in a temporary thread; the rest of the process stays outside.

        Raises:
            TargetError: it cannot be entered.
        """
        results: list[T] = []
        errors: list[BaseException] = []

        def call() -> None:
            try:
                _enter(self.path)
                results.append(work())
            except BaseException as error:
                errors.append(error)

        thread = threading.Thread(target=call, name=f"in {self.name}")
        thread.start()
        thread.join()
        if errors:
            raise errors[0]
        return results[0]

    def delete(self) -> None:
        """Remove its name; the kernel removes it with all its links once no process is inside. Safe to repeat.

        Raises:
            TargetError: the kernel refuses.
        """
        if self.exists:
            ip("netns", "delete", self.name)


def _enter(path: Path) -> None:
    """Move the calling thread into a namespace (setns(2), in Python since 3.12)."""
    libc = ctypes.CDLL(None, use_errno=True)
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if libc.setns(descriptor, _CLONE_NEWNET):
            raise TargetError(f"{path} cannot be entered: {os.strerror(ctypes.get_errno())}")
    finally:
        os.close(descriptor)


# Linux, include/uapi/linux/if_tun.h. IFF_VNET_HDR lets the guest send large segments, as QEMU requires.
_TUNSETIFF = 0x400454CA
_IFF_TAP, _IFF_NO_PI, _IFF_VNET_HDR = 0x0002, 0x1000, 0x4000


def open_tap(namespace: Namespace, name: str) -> int:
    """Create a tap in a namespace: the host's end of a machine's network card, which ends with its descriptor.

    Returns:
        The descriptor, which the caller closes once QEMU has inherited it.

    Raises:
        Unavailable: the kernel has no taps, or this user may not create one.
    """

    def make() -> int:
        descriptor = os.open("/dev/net/tun", os.O_RDWR | os.O_CLOEXEC)
        try:
            request = struct.pack("16sH22x", name.encode(), _IFF_TAP | _IFF_NO_PI | _IFF_VNET_HDR)
            fcntl.ioctl(descriptor, _TUNSETIFF, request)
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    try:
        return namespace.inside(make)
    except OSError as error:
        raise Unavailable(
            f"a tap cannot be made: /dev/net/tun: {error.strerror}", remedy="modprobe tun, as root"
        ) from error


BRIDGE = "br0"


class Switch:
    """A bridge in a namespace of its own, joined to the host by one link.

    Attributes:
        subnet: its addresses, e.g. ``198.18.4.0/24``.
        host: the host's link to it.
    """

    def __init__(self, run: Run) -> None:
        """Create it.

        Raises:
            Unavailable: this user may not create networks, or no subnet is free.
            TargetError: the kernel refuses.
        """
        self._run = run.id
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        self._hosts: list[Namespace] = []
        self._namespace = Namespace.create(namespace_name(run.id, "switch"))
        try:
            inside = self._namespace.path
            # No spanning tree and no delay: a port forwards at once. No snooping: there is no multicast querier to
            # learn from.
            options = ("stp_state", "0", "forward_delay", "0", "mcast_snooping", "0")
            ip("link", "add", BRIDGE, "type", "bridge", *options, namespace=inside)
            ip("link", "set", BRIDGE, "up", namespace=inside)
            chosen = addresses.free_subnet(addresses.taken(), start=int(run.id, 16))
            self.subnet = str(chosen)
            self._addresses = addresses.Addresses(chosen)
            self.host = self._join(Path(f"/proc/{os.getpid()}/ns/net"), link_name(run.id, "h"))
        except BaseException:
            self.close()
            raise

    def join(self, namespace: Path, *, note: str = "") -> SwitchLink:
        """Join a network namespace through a pair of links; inside, the link is called ``eth0``.

        Args:
            namespace: its file, e.g. ``/proc/PID/ns/net``.
            note: for the record.

        Raises:
            TargetError: the kernel refuses; or all addresses are in use.
        """
        return self._join(namespace, "eth0", note)

    def _join(self, namespace: Path, name: str, note: str = "") -> SwitchLink:
        with self._lock:
            address = self._addresses.take()
        number = _number(address)
        port = link_name(self._run, f"p{number}")
        inside = self._namespace.path
        draft = link_name(self._run, f"d{number}")
        try:
            # Created in the switch's namespace, then one end is moved: no name is occupied elsewhere in between.
            ip("link", "add", port, "type", "veth", "peer", "name", draft, namespace=inside)
            ip("link", "set", draft, "address", addresses.mac(address), namespace=inside)
            ip("link", "set", port, "master", BRIDGE, "up", namespace=inside)
            ip("link", "set", draft, "netns", str(namespace), "name", name, namespace=inside)
            ip("address", "add", str(address), "dev", name, namespace=namespace)
            ip("link", "set", "lo", "up", namespace=namespace)
            ip("link", "set", name, "up", namespace=namespace)
        except BaseException:
            self._unplug(address, port)
            raise
        return self._link("veth", address, port, note)

    def card(self, *, vhost: bool = False, reaches_host: bool = False) -> Card:
        """A network card for a virtual machine, with a tap plugged into the switch.

        Args:
            vhost: whether the kernel moves the packets (vhost-net) instead of QEMU.
            reaches_host: ignored: members always reach the host's address on this network, and no other.

        Raises:
            Unavailable: the kernel has no taps, or no vhost-net.
            TargetError: the kernel refuses; or all addresses are in use.
        """
        descriptors = [open_vhost()] if vhost else []
        try:
            with self._lock:
                address = self._addresses.take()
            name = link_name(self._run, f"t{_number(address)}")
            try:
                descriptors.append(open_tap(self._namespace, name))
                ip("link", "set", name, "master", BRIDGE, "up", namespace=self._namespace.path)
            except BaseException:
                self._unplug(address, name)
                raise
        except BaseException:
            for descriptor in descriptors:
                os.close(descriptor)
            raise
        kernel = f"vhost=on,vhostfd={descriptors[0]}" if vhost else "vhost=off"
        how = "vhost-net moves the packets" if vhost else "QEMU moves the packets"
        return Card(
            f"tap,id={BACKEND},fd={descriptors[-1]},{kernel}",
            addresses.mac(address),
            str(address),
            self._link("tap", address, name, how),
            tuple(descriptors),
        )

    def new_host(self) -> tuple[Namespace, SwitchLink]:
        """Another host: a namespace joined to the switch, removed with the switch at the latest.

        Raises:
            TargetError: the kernel refuses; or all addresses are in use.
        """
        made = Namespace.create(namespace_name(self._run, f"host{next(self._numbers)}"))
        self._hosts.append(made)
        try:
            return made, self.join(made.path)
        except BaseException:
            made.delete()
            raise

    def close(self) -> None:
        """Remove it with everything plugged in. Safe to repeat.

        Raises:
            TargetError: the kernel refuses.
        """
        with contextlib.suppress(TargetError):  # never created, or gone
            ip("link", "delete", link_name(self._run, "h"))
        with contextlib.ExitStack() as all_of_them:  # a failure does not spare the others
            for namespace in [self._namespace, *self._hosts]:
                all_of_them.callback(namespace.delete)
        self._hosts.clear()

    def _link(self, kind: str, address: IPv4Interface, port: str, note: str) -> SwitchLink:
        mirror = self._mirror(address)
        return SwitchLink(
            kind,
            str(address.ip),
            self.subnet,
            Port(self._namespace.path, port, mirror),
            note,
            unplug=_once(lambda: self._unplug(address, port)),
            monitor=link_name(self._run, f"m{_number(address)}"),
        )

    def _mirror(self, address: IPv4Interface) -> str:
        return link_name(self._run, f"i{_number(address)}")

    def _unplug(self, address: IPv4Interface, port: str) -> None:
        for name in (port, self._mirror(address)):
            # A pair ends with either end, a tap with its last descriptor: often it is already gone.
            with contextlib.suppress(TargetError):
                ip("link", "delete", name, namespace=self._namespace.path)
        with self._lock:
            self._addresses.give_back(address)


def _number(address: IPv4Interface) -> int:
    """The address's number within its subnet, used in the names of its links."""
    return int(address.ip) - int(address.network.network_address)


def _once(work: Callable[[], None]) -> Callable[[], None]:
    """Run the work at the first call only: later the address may belong to another link."""
    waiting = [work]

    def call() -> None:
        while waiting:
            waiting.pop()()

    return call
