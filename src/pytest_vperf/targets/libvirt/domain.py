"""One running machine of libvirt's: its life, its end, its use of the host, and its limits as they really are.

The size of a machine, as a test asks for it.

What a whole machine has as a target, whatever it is spoken to by: a network, disks of the run, and its end.
"""

from __future__ import annotations

import contextlib
import re
import time
from typing import TYPE_CHECKING, Any

from pytest_vperf.quantity import amount
from pytest_vperf.targets.base import CannotConnect, CannotStart, Usage
from pytest_vperf.targets.libvirt.connection import failed, is_lost, words
from pytest_vperf.targets.libvirt.storage import described

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_vperf.targets.base import Link, Target
    from pytest_vperf.targets.disks import Disk
    from pytest_vperf.targets.libvirt.connection import Connection, Watch
    from pytest_vperf.targets.libvirt.console import Console


def vcpus_of(value: object) -> int:
    """A number of virtual CPUs.

    Raises:
        CannotStart: it is no whole number of at least 1.
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise CannotStart(f"vcpus is {value!r}, not a whole number of at least 1")
    return value


def memory_mib_of(value: object) -> int:
    """A machine's memory in MiB, of a text such as ``512 MiB``.

    Raises:
        QuantityError: it is no size.
        CannotStart: it is less than 1 MiB.
    """
    found = round(amount("memory", value, "MiB", such_as="512 MiB"))
    if found < 1:
        raise CannotStart(f"memory is {value!r}, less than 1 MiB")
    return found


class WholeMachine:
    """A part of a target that is a machine of libvirt's.

    Attributes:
        link: how it is on a network, if it is.
        disks: of the run, that it was started with.
        on_close: gives them back.
    """

    link: Link | None = None
    disks: tuple[Disk, ...] = ()
    on_close: Callable[[], None] = staticmethod(lambda: None)
    _domain: Domain

    def join(self: Machine, link: Link, address: str) -> None:
        """Take an address on a network; the machine is ended where that fails.

        Raises:
            Unavailable: its image has no program for that.
            TargetError: it refuses; with its words.
        """
        from pytest_vperf.targets.network.card import configure

        self.link = link
        try:
            configure(self, address)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End the machine; it has nothing to save."""
        self._domain.destroy()
        self.on_close()
        if self.link is not None:
            self.link.close()


if TYPE_CHECKING:
    from typing import Protocol

    class Machine(Target, Protocol):
        """A target that is such a machine."""

        link: Link | None
        disks: tuple[Disk, ...]
        on_close: Callable[[], None]

        def join(self, link: Link, address: str) -> None:
            """As of `WholeMachine`."""


#: How a kernel says it (Linux, kernel/panic.c); its last lines, which are shown as well, often do not.
_PANIC = re.compile(r"Kernel panic - (?P<why>.*)")
#: Seconds to hear why a machine ended after a call to it failed.
_NEWS = 2.0


class Domain:
    """A machine from before it is made until it is destroyed.

    Args:
        connection: to the daemon.
        identity: its name in libvirt.
        name: its name in messages and reports.

    Attributes:
        handle: libvirt's domain; there once it is made.
        console: what it prints; likewise, where it has one.
    """

    def __init__(self, connection: Connection, identity: str, name: str) -> None:
        self.connection = connection
        self.identity = identity
        self.name = name
        self.handle: Any = None
        self.console: Console | None = None
        self._watch: Watch = connection.watches.add(identity)

    @property
    def watch(self) -> Watch:
        """What libvirt says of it."""
        return self._watch

    def create(self, xml: str, flags: int) -> None:
        """Make it.

        Raises:
            Unavailable: the daemon is an ordinary user's, and cannot limit it so.
            CannotStart: libvirt or the hypervisor refuses; with their words.
            CannotConnect: the daemon is gone.
        """
        libvirt = self.connection.libvirt
        try:
            self.handle = self.connection.handle.createXML(xml, flags)
        except libvirt.libvirtError as error:
            raise failed(error, "start it", self.name) from None

    def resume(self) -> None:
        """Let a machine that was made stopped go.

        Raises:
            CannotStart: it does not go.
        """
        try:
            self.handle.resume()
        except self.connection.libvirt.libvirtError as error:
            raise failed(error, "let it go", self.name) from None

    @property
    def ended(self) -> bool:
        """Whether it has ended, asked after a call to it failed: waits a moment for the news."""
        return self._watch.wait_end(time.perf_counter() + _NEWS)

    def why_gone(self) -> str:
        """Why it is no more, in words."""
        if self._watch.lost:
            return f"the connection to libvirt at {self.connection.shown} ended: {self._watch.lost}"
        why = self._watch.ended or "nobody says why"
        if self.console is not None:
            self.console.settle(1.0)
            panic = _PANIC.search(self.console.text())
            if panic is not None:
                why = f"its kernel panicked ({panic['why'].strip()})"
        return why

    def why_stopped(self) -> str:
        """Why its hypervisor holds it still, such as for a disk that cannot grow; empty where it does not."""
        libvirt = self.connection.libvirt
        try:
            state, _ = self.handle.state()
            if state != libvirt.VIR_DOMAIN_PAUSED:
                return ""
            errors = self.handle.diskErrors()
        except libvirt.libvirtError:
            return ""
        full = [
            disk
            for disk, error in errors.items()
            if error == libvirt.VIR_DOMAIN_DISK_ERROR_NO_SPACE
        ]
        if full:
            return f"on its host no space is left for what it writes to its disk {', '.join(full)}"
        return f"its disk {', '.join(errors)} failed on its host" if errors else "it is paused"

    def last_words(self) -> str:
        """The end of its console, for the end of a message."""
        return self.console.last_words() if self.console is not None else ""

    def pause(self, seconds: float) -> None:
        """Wait, but not on after its end.

        Raises:
            CannotConnect: it has ended.
        """
        if self._watch.wait_end(time.perf_counter() + seconds):
            raise CannotConnect(
                f"{self.name} is gone: {self.why_gone()}{self.last_words()}", target=self.name
            )

    def usage(self) -> Usage:
        """What it has used of its host since it was made: of the hypervisor's process, threads and all.

        Raises:
            CannotConnect: it is gone.
        """
        libvirt = self.connection.libvirt
        try:
            used = self.handle.info()
            try:
                memory: int | None = self.handle.memoryStats()["rss"] * 1024
            except (libvirt.libvirtError, KeyError):
                memory = None
        except libvirt.libvirtError as error:
            raise CannotConnect(f"{self.name} is gone: {words(error)}", target=self.name) from None
        return Usage(used[4] / 1e9, memory)

    @property
    def port(self) -> str:
        """The tap of its first network card, as libvirt named it; empty without one.

        Raises:
            CannotConnect: it is gone.
            CannotStart: what libvirt says of it is no XML.
        """
        try:
            text = self.handle.XMLDesc()
        except self.connection.libvirt.libvirtError as error:
            raise CannotConnect(f"{self.name} is gone: {words(error)}", target=self.name) from None
        tap = described(text, self.name).find("devices/interface/target")
        return "" if tap is None else tap.get("dev", "")

    def scheduler(self) -> dict[str, int]:
        """Its processor weights and quotas, as the hypervisor has them (virDomainGetSchedulerParameters).

        Raises:
            CannotStart: they cannot be read.
        """
        try:
            found: dict[str, int] = self.handle.schedulerParameters()
        except self.connection.libvirt.libvirtError as error:
            raise failed(error, "tell its processor weight", self.name) from None
        return found

    def check(self, what: str, asked: int, found: int | None) -> str:
        """Make sure that a limit is what was asked for; it, as text.

        Raises:
            CannotStart: it is not.
        """
        if found != asked:
            raise CannotStart(
                f"{self.name}: asked for {what} {asked}, the hypervisor has {found}",
                target=self.name,
            )
        return str(found)

    def destroy(self) -> None:
        """End it. Safe to repeat; quiet where it is gone, or the daemon is."""
        if self.handle is None:
            # A Ctrl-C may have come when it was made, and before we were told.
            with contextlib.suppress(self.connection.libvirt.libvirtError):
                self.handle = self.connection.handle.lookupByName(self.identity)
        if self.handle is not None:
            try:
                self.handle.destroy()
            except self.connection.libvirt.libvirtError as error:
                if is_lost(error):
                    self.connection.destroy_anew(self.identity)
                else:
                    self._watch.wait_end(time.perf_counter() + _NEWS)
        if self.console is not None:
            self.console.close()
        self.connection.watches.remove(self.identity)
