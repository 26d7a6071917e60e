"""A libvirt machine from creation to end: its size, its usage of the host, and its limits as read back."""

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
    """Check a number of virtual CPUs.

    Raises:
        CannotStart: it is not a whole number of at least 1.
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise CannotStart(f"vcpus is {value!r}, not a whole number of at least 1")
    return value


def memory_mib_of(value: object) -> int:
    """A machine's memory in MiB, from a text such as ``512 MiB``.

    Raises:
        QuantityError: it is not a size.
        CannotStart: it is less than 1 MiB.
    """
    found = round(amount("memory", value, "MiB", such_as="512 MiB"))
    if found < 1:
        raise CannotStart(f"memory is {value!r}, less than 1 MiB")
    return found


class WholeMachine:
    """What targets that are libvirt machines share: a network, disks and their end.

    Attributes:
        link: to a network, if any.
        disks: the run's disks that it was started with.
        on_close: returns the disks.
    """

    link: Link | None = None
    disks: tuple[Disk, ...] = ()
    on_close: Callable[[], None] = staticmethod(lambda: None)
    _domain: Domain

    def join(self: Machine, link: Link, address: str) -> None:
        """Take an address on a network; if that fails, end the machine.

        Raises:
            Unavailable: its image lacks the program for that.
            TargetError: the machine refuses; with its message.
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
        """A target that is a libvirt machine."""

        link: Link | None
        disks: tuple[Disk, ...]
        on_close: Callable[[], None]

        def join(self, link: Link, address: str) -> None:
            """See `WholeMachine.join`."""


#: A kernel's panic message (Linux, kernel/panic.c); the last lines of output, also shown, often lack it.
_PANIC = re.compile(r"Kernel panic - (?P<why>.*)")
#: Seconds to wait for the reason a machine ended, after a call to it failed.
_NEWS = 2.0


class Domain:
    """A machine, from before its creation until its end.

    Args:
        connection: to the daemon.
        identity: its name in libvirt.
        name: its name in messages and reports.

    Attributes:
        handle: libvirt's domain; ``None`` before creation.
        console: its console; ``None`` before creation, or if it has none.
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
        """Its state, from libvirt's events."""
        return self._watch

    def create(self, xml: str, flags: int) -> None:
        """Create the machine.

        Raises:
            Unavailable: a user's daemon cannot set such limits.
            CannotStart: libvirt or the hypervisor refuses; with their message.
            CannotConnect: the daemon is gone.
        """
        libvirt = self.connection.libvirt
        try:
            self.handle = self.connection.handle.createXML(xml, flags)
        except libvirt.libvirtError as error:
            raise failed(error, "start it", self.name) from None

    def resume(self) -> None:
        """Resume a machine that was created paused.

        Raises:
            CannotStart: it cannot be resumed.
        """
        try:
            self.handle.resume()
        except self.connection.libvirt.libvirtError as error:
            raise failed(error, "resume it", self.name) from None

    @property
    def ended(self) -> bool:
        """Whether it has ended. Meant for after a failed call: waits up to two seconds for the event."""
        return self._watch.wait_end(time.perf_counter() + _NEWS)

    def why_gone(self) -> str:
        """The reason it ended, for messages."""
        if self._watch.lost:
            return f"the connection to libvirt at {self.connection.shown} ended: {self._watch.lost}"
        why = self._watch.ended or "the reason is unknown"
        if self.console is not None:
            self.console.settle(1.0)
            panic = _PANIC.search(self.console.text())
            if panic is not None:
                why = f"its kernel panicked ({panic['why'].strip()})"
        return why

    def why_stopped(self) -> str:
        """Why its hypervisor paused it, e.g. a disk that cannot grow; empty if it is not paused."""
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
            return f"its host has no space left for its disk {', '.join(full)}"
        return f"its disk {', '.join(errors)} failed on its host" if errors else "it is paused"

    def last_words(self) -> str:
        """The end of its console output, to append to a message."""
        return self.console.last_words() if self.console is not None else ""

    def pause(self, seconds: float) -> None:
        """Wait, but no longer than it runs.

        Raises:
            CannotConnect: it has ended.
        """
        if self._watch.wait_end(time.perf_counter() + seconds):
            raise CannotConnect(
                f"{self.name} is gone: {self.why_gone()}{self.last_words()}", target=self.name
            )

    def usage(self) -> Usage:
        """CPU time since its creation, and memory: those of the hypervisor's process with all its threads.

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
        """The tap of its first network card, as named by libvirt; empty without a card.

        Raises:
            CannotConnect: it is gone.
            CannotStart: libvirt's description of it is not XML.
        """
        try:
            text = self.handle.XMLDesc()
        except self.connection.libvirt.libvirtError as error:
            raise CannotConnect(f"{self.name} is gone: {words(error)}", target=self.name) from None
        tap = described(text, self.name).find("devices/interface/target")
        return "" if tap is None else tap.get("dev", "")

    def scheduler(self) -> dict[str, int]:
        """Its CPU weights and quotas, as read back from the hypervisor (virDomainGetSchedulerParameters).

        Raises:
            CannotStart: they cannot be read.
        """
        try:
            found: dict[str, int] = self.handle.schedulerParameters()
        except self.connection.libvirt.libvirtError as error:
            raise failed(error, "tell its processor weight", self.name) from None
        return found

    def check(self, what: str, asked: int, found: int | None) -> str:
        """Make sure that a limit is as requested, and return it as text.

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
        """End it. Safe to repeat; silent if it or the daemon is gone."""
        if self.handle is None:
            # A Ctrl-C may have arrived after its creation, but before the handle was set.
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
