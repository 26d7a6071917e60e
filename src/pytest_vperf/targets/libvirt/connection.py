"""A connection to a libvirt daemon, opened within a time limit and watched for its end."""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING, Any

from pytest_vperf.targets.base import CannotConnect, TargetError, TimedOut
from pytest_vperf.targets.virt import address, over_ssh
from pytest_vperf.targets.virt.events import Watches, run_event_loop
from pytest_vperf.targets.virt.failures import failed, library, words

if TYPE_CHECKING:
    from types import ModuleType

#: Seconds until a daemon must have answered. A transport such as ssh has limits of its own, which are longer.
OPEN_TIMEOUT = 30.0
#: Seconds likewise, to end what was left behind by a connection that broke.
_ANEW = 10.0
#: Seconds between two signs of life, and how many may be missed: a daemon of this machine that hangs is found after
#: 15 s. One on another machine has a minute: an emulated host that reads a disk was seen to be silent for 20 s.
_KEEP_ALIVE, _KEEP_ALIVE_THERE = (5, 3), (5, 12)


class Connection:
    """A daemon that answers.

    Args:
        uri: its address.
        handle: libvirt's connection.

    Attributes:
        libvirt: the library.
        watches: what is pushed about machines.
    """

    def __init__(self, uri: str, handle: Any, libvirt: ModuleType) -> None:
        self.uri = uri
        self.handle = handle
        self.libvirt = libvirt
        self.watches = Watches(libvirt, handle)

    @classmethod
    def open(cls, uri: str, *, timeout: float = OPEN_TIMEOUT) -> Connection:
        """Connect.

        Args:
            uri: the daemon's address, as `address.check` takes it.
            timeout: seconds.

        Raises:
            Unavailable: there is no libvirt-python.
            CannotConnect: nobody answers there, or not to us; with libvirt's words.
            TimedOut: there is no answer within ``timeout``.
        """
        libvirt = library()
        run_event_loop(libvirt)
        shown = address.shown(uri)
        opened: list[Any] = []
        problem: list[BaseException] = []
        given_up = threading.Event()

        def connect() -> None:
            try:
                handle = libvirt.open(over_ssh.keeping_to_itself(uri))
            except BaseException as error:
                problem.append(error)
                return
            opened.append(handle)
            if given_up.is_set():
                handle.close()

        # libvirt.open() has no time limit; a thread that nobody waits for any more ends with its transport.
        thread = threading.Thread(target=connect, name=f"open {shown}", daemon=True)
        thread.start()
        thread.join(timeout)
        if problem:
            error = problem[0]
            if not isinstance(error, libvirt.libvirtError):
                raise error
            raise CannotConnect(f"libvirt at {shown} does not answer: {words(error)}") from None
        if not opened:
            given_up.set()
            raise TimedOut(f"libvirt at {shown} did not answer within {timeout:g} s")
        handle = opened[0]
        # A transport may have no signs of life: its end is then noticed by the next call.
        with contextlib.suppress(libvirt.libvirtError):
            there = address.is_remote(uri)
            handle.setKeepAlive(*(_KEEP_ALIVE_THERE if there else _KEEP_ALIVE))
        return cls(uri, handle, libvirt)

    @property
    def shown(self) -> str:
        """The address, for messages and records."""
        return address.shown(self.uri)

    @property
    def is_alive(self) -> bool:
        """Whether the daemon is still connected."""
        try:
            return bool(self.handle.isAlive() == 1)
        except self.libvirt.libvirtError:
            return False

    def warm_up(self) -> None:
        """Have the daemon find out what its hypervisor can, as it would at the first start of a machine."""
        with contextlib.suppress(self.libvirt.libvirtError):  # the start will say what is wrong
            self.handle.getDomainCapabilities()

    def versions(self) -> dict[str, str]:
        """The hypervisor's and the daemon's versions, for records.

        Raises:
            CannotConnect: the daemon is gone.
        """
        try:
            hypervisor = str(self.handle.getType())
            daemon, version = self.handle.getLibVersion(), self.handle.getVersion()
        except self.libvirt.libvirtError as error:
            raise failed(error, "tell its versions", f"libvirt at {self.shown}") from None
        return {"libvirt": _version(daemon), "hypervisor": f"{hypervisor} {_version(version)}"}

    def destroy_anew(self, machine: str) -> None:
        """End a machine over another connection, after this one broke: not every driver ends it with its client.

        Where that is not possible either, nobody answers there any more, or the next look for leftovers finds it.
        """
        try:
            handle = Connection.open(self.uri, timeout=_ANEW).handle
        except TargetError:
            return
        with contextlib.suppress(self.libvirt.libvirtError):
            handle.lookupByName(machine).destroy()
        with contextlib.suppress(self.libvirt.libvirtError):
            handle.close()

    def close(self) -> None:
        """Let go of it. Machines that were started to end with it end now. Safe to repeat."""
        with contextlib.suppress(self.libvirt.libvirtError):  # it is gone already
            self.handle.close()


def _version(number: int) -> str:
    """``major * 1,000,000 + minor * 1,000 + release`` (libvirt-host.h, virConnectGetVersion)."""
    return f"{number // 1_000_000}.{number // 1000 % 1000}.{number % 1000}"
