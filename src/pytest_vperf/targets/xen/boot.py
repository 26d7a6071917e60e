"""Starting a machine on Xen: the clock runs until the agent has said, over the console, that it takes orders."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pytest_vperf.targets.agent.wire import Failure, Frame, Type, WireError
from pytest_vperf.targets.base import CannotConnect, CannotStart, TimedOut
from pytest_vperf.targets.domu.domain_xml import domain_xml
from pytest_vperf.targets.virt.domain import Domain
from pytest_vperf.targets.virt.wire_console import ConsoleSpeaker, WireConsole

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_vperf.targets.domu.config import DomuConfig
    from pytest_vperf.targets.virt.connection import Connection


@dataclass
class Booted:
    """A machine whose agent takes orders.

    Attributes:
        domain: the machine.
        speaker: over which it is spoken to.
        began: the request, on time.perf_counter()'s clock.
        marks: the end of each phase so far, on that clock.
        deadline: when it is given up.
    """

    domain: Domain
    speaker: ConsoleSpeaker
    began: float
    marks: dict[str, float]
    deadline: float
    _frames: list[Frame] = field(default_factory=list)

    def await_frame(self, wanted: Type, phase: str) -> None:
        """Wait for a frame, whose coming is the end of a phase.

        Raises:
            CannotStart: the machine ended, or says that it cannot.
            TimedOut: the deadline passed.
        """
        name = self.domain.name
        while True:
            while self._frames:
                frame = self._frames.pop(0)
                if frame.type is wanted:
                    self.marks[phase] = time.perf_counter()
                    return
                if frame.type is Type.FAILED:
                    try:
                        what = f"its agent could not {Failure.of(frame.payload)}"
                    except WireError as error:
                        what = str(error)
                    raise CannotStart(f"{name}: {what}{self.domain.last_words()}", target=name)
            if time.perf_counter() >= self.deadline:
                raise TimedOut(
                    f"{name} was not ready in time: it never left its phase {phase!r}"
                    f"{self.domain.last_words()}",
                    target=name,
                )
            self._frames += self._receive(self.deadline, phase)

    def _receive(self, deadline: float, phase: str) -> list[Frame]:
        name = self.domain.name
        try:
            frames = self.speaker.wait(deadline)
        except CannotConnect as error:
            raise CannotStart(str(error), target=name) from error
        if frames is None:
            raise CannotStart(
                f"{name} ended in the phase {phase!r}: {self.domain.why_gone()}{self.domain.last_words()}",
                target=name,
            )
        return frames

    def frames(self, deadline: float) -> list[Frame]:
        """What came and nobody awaited; what comes until the deadline if there is nothing.

        Raises:
            CannotStart: the machine ended.
        """
        if not self._frames:
            return self._receive(deadline, "container")
        waiting, self._frames = self._frames, []
        return waiting


def boot(
    connection: Connection,
    config: DomuConfig,
    name: str,
    *,
    kernel_line: bytes,
    timeout: float,
    opened: Callable[[], None],
) -> Booted:
    """Start a machine and wait for its agent; nothing is left running when this raises.

    Args:
        connection: to a daemon with Xen's driver.
        config: the machine.
        name: in messages and reports.
        kernel_line: what its first process prints first: the end of the phase ``kernel``.
        timeout: seconds for the whole start.
        opened: called as soon as the machine has opened its files, whether it then starts or not.

    Raises:
        CannotStart: libvirt or Xen refuses, or the machine ended; the message has its last words.
        TimedOut: its agent was not there within ``timeout``.
        CannotConnect: the daemon has gone.
    """
    libvirt = connection.libvirt
    domain = Domain(connection, config.name, name)
    description = domain_xml(config)
    began = time.perf_counter()
    deadline = began + timeout
    try:
        # Made stopped, so that nothing it prints is missed. Xen's driver ends no machine with its client.
        domain.create(description, libvirt.VIR_DOMAIN_START_PAUSED)
        console = domain.console = WireConsole(connection, domain.handle, (kernel_line,))
        domain.resume()
        booted = Booted(
            domain,
            ConsoleSpeaker(name, console, domain.watch),
            began,
            {"process": time.perf_counter()},
            deadline,
        )
        booted.await_frame(Type.READY, "agent")
        printed = console.when(kernel_line)
        if printed is not None:
            booted.marks["kernel"] = printed
        # Its drivers are up, so its disks are open.
        opened()
        return booted
    except BaseException:
        opened()
        domain.destroy()
        raise
