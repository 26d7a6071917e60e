"""Connections to libvirt daemons, the events they deliver, and libvirt's errors as errors of targets.

libvirt delivers events from its event loop, which one thread of this process runs for all connections. They are
timestamped with the host's monotonic clock and kept for whoever waits for that machine.

For ``qemu+ssh://…`` libvirt calls the system's ``ssh``, with the user's settings but all forwarding off.
"""

from __future__ import annotations

import contextlib
import shlex
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, quote, urlsplit, urlunsplit

from pytest_vperf.machine import cache
from pytest_vperf.machine.preflight import find_program
from pytest_vperf.targets.base import CannotConnect, CannotStart, TargetError, TimedOut, Unavailable
from pytest_vperf.targets.libvirt import address
from pytest_vperf.targets.remote.connection import KEEPS_TO_ITSELF

if TYPE_CHECKING:
    from pathlib import Path
    from types import ModuleType


_started = threading.Lock()
_running: list[threading.Thread] = []


def run_event_loop(libvirt: ModuleType) -> None:
    """Start libvirt's event loop, once per process, before the first connection is opened."""
    with _started:
        if _running:
            return
        libvirt.virEventRegisterDefaultImpl()

        def loop() -> None:
            while True:
                libvirt.virEventRunDefaultImpl()

        thread = threading.Thread(target=loop, name="libvirt events", daemon=True)
        _running.append(thread)
        thread.start()


@dataclass
class Watch:
    """The state of one machine, from libvirt's events.

    Attributes:
        agent: when its agent connected, on time.perf_counter()'s clock; ``None`` while none is connected.
        ended: why the machine ended, e.g. ``it crashed``; empty while it runs.
        lost: why no events arrive any more; empty while the connection is open.
    """

    agent: float | None = None
    ended: str = ""
    lost: str = ""
    _changed: threading.Condition = field(default_factory=threading.Condition, repr=False)

    def tell(self, **news: Any) -> None:
        """Update the state and wake the waiters."""
        with self._changed:
            for name, value in news.items():
                setattr(self, name, value)
            self._changed.notify_all()

    def wait(self, deadline: float) -> bool:
        """Wait until the agent is connected or never can be; false at the deadline."""
        with self._changed:
            return self._changed.wait_for(
                lambda: self.agent is not None or bool(self.ended or self.lost),
                max(0.0, deadline - time.perf_counter()),
            )

    def wait_end(self, deadline: float) -> bool:
        """Wait until the machine has ended or the connection is lost; false at the deadline."""
        with self._changed:
            return self._changed.wait_for(
                lambda: bool(self.ended or self.lost), max(0.0, deadline - time.perf_counter())
            )


class Watches:
    """The watches of one connection, by the machine's name."""

    def __init__(self, libvirt: ModuleType, handle: Any) -> None:
        self._libvirt = libvirt
        self._watches: dict[str, Watch] = {}
        for event, told in (
            (libvirt.VIR_DOMAIN_EVENT_ID_LIFECYCLE, self._life),
            (libvirt.VIR_DOMAIN_EVENT_ID_AGENT_LIFECYCLE, self._agent),
        ):
            try:
                handle.domainEventRegisterAny(None, event, told, None)
            except libvirt.libvirtError:  # Xen's driver has no agent events
                continue
        handle.registerCloseCallback(self._closed, None)

    def add(self, name: str) -> Watch:
        """Start watching a machine; called before it is created, so that no event is missed."""
        watch = self._watches[name] = Watch()
        return watch

    def remove(self, name: str) -> None:
        """Stop watching a machine."""
        self._watches.pop(name, None)

    def _life(self, _: Any, domain: Any, event: int, detail: int, __: Any) -> None:
        libvirt = self._libvirt
        watch = self._watches.get(domain.name())
        if watch is None:
            return
        if event == libvirt.VIR_DOMAIN_EVENT_STOPPED:
            watch.tell(ended=_STOPPED.get(detail, "stopped"), agent=None)
        elif event == libvirt.VIR_DOMAIN_EVENT_CRASHED:
            watch.tell(ended="its kernel panicked", agent=None)

    def _agent(self, _: Any, domain: Any, state: int, __: int, ___: Any) -> None:
        now = time.perf_counter()
        watch = self._watches.get(domain.name())
        if watch is None:
            return
        connected = state == self._libvirt.VIR_CONNECT_DOMAIN_EVENT_AGENT_LIFECYCLE_STATE_CONNECTED
        watch.tell(agent=now if connected else None)

    def _closed(self, _: Any, reason: int, __: Any) -> None:
        why = _CLOSED.get(reason, "closed")
        for watch in list(self._watches.values()):
            watch.tell(lost=why, agent=None)


#: virDomainEventStoppedDetailType and virConnectCloseReason, in the order of libvirt-domain.h and libvirt-host.h.
_STOPPED = dict(
    enumerate(
        (
            "it shut down",
            "it was destroyed",
            "it crashed",
            "it was migrated away",
            "it was saved",
            "its hypervisor failed",
            "it was replaced by a snapshot",
        )
    )
)
_CLOSED = dict(
    enumerate(
        (
            "an error on its connection",
            "the daemon has gone",
            "the daemon does not answer",
            "it was closed",
        )
    )
)


#: How a user's daemon reports that limits need root (libvirt, src/qemu/qemu_validate.c).
_SESSION = "not available in session mode"
_UNSUPPORTED = "unsupported configuration: "
#: How a daemon reports that /dev/vhost-net cannot be opened (libvirt, src/qemu/qemu_interface.c).
_NO_VHOST = "vhost-net was requested for an interface, but is unavailable"
#: The remedy for an ordinary user.
AS_SYSTEM = "--libvirt-uri=qemu:///system, as root or a member of the group libvirt"
REMEDY = "apt-get install libvirt-dev pkg-config gcc python3-dev, then: pip install 'pytest-vperf[libvirt]'"


def library() -> ModuleType:
    """The module ``libvirt``, set not to print its errors, since they are raised.

    Raises:
        Unavailable: libvirt-python is not installed.
    """
    try:
        import libvirt
    except ImportError as error:
        raise Unavailable(f"libvirt-python is not usable: {error}", remedy=REMEDY) from None
    libvirt.registerErrorHandler(_silent, None)
    module: ModuleType = libvirt
    return module


def _silent(_: object, __: object) -> None:
    """Ignore errors, which are raised too: printed, they would end up between pytest's lines."""


def words(error: Any) -> str:
    """An error's message on one line, without prefixes about libvirt's internals."""
    said = " ".join(str(error.get_error_message() or error).split())
    for prefix in ("internal error: ", "operation failed: ", "Requested operation is not valid: "):
        said = said.removeprefix(prefix)
    return said


def is_lost(error: Any) -> bool:
    """Whether an error means that the connection to the daemon is lost."""
    libvirt = library()
    code = error.get_error_code()
    if code in (libvirt.VIR_ERR_NO_CONNECT, libvirt.VIR_ERR_INVALID_CONN):
        return True
    if error.get_error_domain() not in (libvirt.VIR_FROM_RPC, libvirt.VIR_FROM_REMOTE):
        return False
    return code in (
        libvirt.VIR_ERR_RPC,
        libvirt.VIR_ERR_SYSTEM_ERROR,
        libvirt.VIR_ERR_INTERNAL_ERROR,
    )


def failed(error: Any, what: str, target: str) -> TargetError:
    """The error for a call that failed on an open connection.

    What a user's daemon or its kernel cannot provide counts as *not measured*, not as a failure.

    Args:
        error: libvirt's.
        what: the attempted action.
        target: the target it was for.
    """
    if is_lost(error):
        return CannotConnect(
            f"{target}: the connection to libvirt was lost while it was to {what}: {words(error)}",
            target=target,
        )
    said = words(error)
    if _SESSION in said:
        reason = f"{target}: libvirt could not {what}: {said.removeprefix(_UNSUPPORTED)}"
        return Unavailable(reason, remedy=AS_SYSTEM, target=target)
    if _NO_VHOST in said:
        reason = f"{target}: its host's kernel cannot move the packets of its card: {said.removeprefix(_UNSUPPORTED)}"
        return Unavailable(reason, remedy="modprobe vhost_net, as root, there", target=target)
    return CannotStart(f"{target}: libvirt could not {what}: {said}", target=target)


def keeping_to_itself(uri: str) -> str:
    """The address with a script of ours in place of ``ssh``; unchanged for other transports.

    libvirt can be told which program to call (https://libvirt.org/uri.html, ``command``), but not with which options.
    A program already named in the address is the user's choice and stays.
    """
    parts = urlsplit(uri)
    program = find_program("ssh")
    if not parts.scheme.endswith("+ssh") or "command" in parse_qs(parts.query) or program is None:
        return uri
    command = f"command={quote(str(_script(program)), safe='/')}"
    return urlunsplit(parts._replace(query="&".join(filter(None, (parts.query, command)))))


def _script(program: str) -> Path:
    text = f'#!/bin/sh\nexec {shlex.join([program, *KEEPS_TO_ITSELF])} "$@"\n'

    def write(folder: Path) -> None:
        (folder / "ssh").write_text(text)
        (folder / "ssh").chmod(0o755)

    return cache.entry("ssh", cache.content_key([text]), write) / "ssh"


#: Seconds for a daemon to answer. Transports such as ssh have limits of their own, which are longer.
OPEN_TIMEOUT = 30.0
#: The same, when reconnecting to end a machine after its connection broke.
_ANEW = 10.0
#: Seconds between keepalives, and how many may be missed: a daemon that is only busy is not to be taken for dead. An
#: emulated host was seen to be silent for 20 s while reading a disk.
_KEEP_ALIVE = (5, 12)


class Connection:
    """An open connection to a daemon.

    Args:
        uri: the daemon's address.
        handle: libvirt's connection.

    Attributes:
        libvirt: the library.
        watches: the states of machines, from libvirt's events.
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
            uri: the daemon's address, as `address.check` accepts it.
            timeout: seconds.

        Raises:
            Unavailable: libvirt-python is not installed.
            CannotConnect: no daemon answers there, or it refuses us; with libvirt's message.
            TimedOut: no answer within ``timeout``.
        """
        libvirt = library()
        run_event_loop(libvirt)
        shown = address.shown(uri)
        opened: list[Any] = []
        problem: list[BaseException] = []
        given_up = threading.Event()

        def connect() -> None:
            try:
                handle = libvirt.open(keeping_to_itself(uri))
            except BaseException as error:
                problem.append(error)
                return
            opened.append(handle)
            if given_up.is_set():
                handle.close()

        # libvirt.open() has no time limit; an abandoned thread ends with its transport.
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
        # A transport may lack keepalives: the next call then notices its end.
        with contextlib.suppress(libvirt.libvirtError):
            handle.setKeepAlive(*_KEEP_ALIVE)
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
        """Have the daemon probe its hypervisor's capabilities now, not at the first start of a machine."""
        with contextlib.suppress(self.libvirt.libvirtError):  # the start will report the cause
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
        """End a machine over a new connection after this one broke: not every driver ends it with its client.

        If that fails too, the daemon is gone or the next search for leftovers finds the machine.
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
        """Close the connection. Machines bound to it end with it. Safe to repeat."""
        with contextlib.suppress(self.libvirt.libvirtError):  # it is gone already
            self.handle.close()


def _version(number: int) -> str:
    """``major * 1,000,000 + minor * 1,000 + release`` (libvirt-host.h, virConnectGetVersion)."""
    return f"{number // 1_000_000}.{number // 1000 % 1000}.{number % 1000}"
