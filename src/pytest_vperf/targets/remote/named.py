"""Virtual machines and containers of any system, known by SSH alone: ``--vperf-machine=esxi=ssh://root@guest``.

Nothing here starts or ends them. What a test needs is brought there and removed with the run, see `ImageHost`. The
first address of a name is the machine that answers or works, further ones are those that load its host; the name
``host`` is the hardware without a system.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pytest_vperf import foreign_text
from pytest_vperf.targets.base import ON, TargetError, Unavailable
from pytest_vperf.targets.remote.ssh import ImageHost
from pytest_vperf.targets.remote.systems import HOST, LOOK, OPTION, Shown, contradiction

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pytest_vperf.machine.runs import Run
    from pytest_vperf.targets.base import Target
    from pytest_vperf.targets.image.rootfs import Rootfs
    from pytest_vperf.targets.remote.machine import RemoteMachine
    from pytest_vperf.targets.scope import Scope


class NamedMachine(ImageHost):
    """A machine that the user named, as a target. Made by `System`."""

    kind = "machine"

    @property
    def scratch(self) -> str:
        """A folder there for the logs of servers, removed with the run."""
        return self.folder

    def check_alike(self, other: NamedMachine) -> None:
        """Make sure that another machine has the same model of processor, so that their systems can be compared.

        Raises:
            Unavailable: it has another one.
        """
        ours, theirs = (each.facts().details[f"{ON}_cpu_model"] for each in (self, other))
        if ours != theirs:
            raise Unavailable(
                f"{self.name} has a processor {ours}, and {other.name} has {theirs}: between them is more than their"
                " systems",
                remedy="name machines on hosts of one kind",
                target=other.name,
            )


class Reached(NamedTuple):
    """A machine that was reached, for all tests of a run.

    Attributes:
        machine: the connection.
        shown: what it shows of its system.
        identity: differs from that of any other machine or container.
        details: further facts for the record, such as the rate of its clock.
    """

    machine: RemoteMachine
    shown: Shown
    identity: str
    details: Mapping[str, str]


def look(machine: RemoteMachine, details: Mapping[str, str]) -> Reached:
    """What a machine shows of its system.

    Args:
        machine: the connection.
        details: what else is known of it, for the record.
    """
    said = machine.ssh.run(["sh", "-c", LOOK], check=False).text.splitlines()
    space, *rest = said or [""]
    container = foreign_text.short(rest[0]).lower() if rest else ""
    shown = Shown(machine.fingerprint.hypervisor, container)
    emulated = {"emulated": "yes"} if machine.fingerprint.emulated else {}
    found = {**emulated, **details, "shows": str(shown)}
    return Reached(machine, shown, f"{machine.boot_id} {space}", found)


class System:
    """The machines that were named for one system, for the fixture ``machine``.

    Args:
        name: the system's.
        named: addresses by the names that the user gave.
        reach: reaches a machine by its address, once in a run.
        run: owns what is brought there.
        scope: owns the targets.
        rootfs: returns the image whose programs they run; ``None`` runs their own.
        client: returns another host that reaches a machine, for the far end of a test.

    Attributes:
        name: the system's.
    """

    def __init__(
        self,
        name: str,
        named: Mapping[str, Sequence[str]],
        reach: Callable[[str], Reached],
        run: Run,
        scope: Scope,
        *,
        rootfs: Callable[[], Rootfs] | None,
        client: Callable[[NamedMachine], Target],
    ) -> None:
        self.name = name
        self._named = named
        self._reach = reach
        self._run = run
        self._scope = scope
        self._rootfs = rootfs
        self._client = client

    def reach(self) -> NamedMachine:
        """The machine that answers or works: the first of that name.

        Raises:
            Unavailable: none was named, or it shows that it is another system's.
            CannotConnect: it cannot be reached.
            CannotStart: another measurement held it for an hour, or it lacks something.
        """
        return self._target(self.name, 0, f"machine {self.name}")

    def loaders(self) -> list[NamedMachine]:
        """The further machines of that name, which load the host.

        Raises:
            Unavailable: none was named, or one shows that it is another system's.
            TargetError: two addresses are those of one machine; or as for `reach`.
        """
        count = len(self._named.get(self.name, ()))
        if count < 2:
            raise Unavailable(
                f"no machine was named to load the host of machine {self.name}",
                remedy=f"{OPTION}={self.name}=ssh://USER@OTHER, again for each of them, after the one that answers",
                target=f"machine {self.name}",
            )
        self._check_apart(self._named[self.name])
        return [
            self._target(self.name, place, f"machine {self.name}, loader {place}")
            for place in range(1, count)
        ]

    def host(self) -> NamedMachine:
        """Their hardware without a hypervisor or container, for what these add.

        Raises:
            Unavailable: none was named ``host``.
            TargetError: it is one of the machines; or as for `reach`.
        """
        host = self._target(HOST, 0, f"host of machine {self.name}")
        found = self._named[HOST][0]
        self._check_apart((found, *self._named.get(self.name, ())))
        return host

    def other_host(self, machine: NamedMachine) -> Target:
        """Another host, for the far end of a test with a machine: the run's own, or that of ``--load-host``."""
        return self._client(machine)

    def _check_apart(self, addresses: Sequence[str]) -> None:
        """Refuse addresses of one machine."""
        seen: dict[str, str] = {}
        for address in addresses:
            identity = self._reach(address).identity
            if identity in seen:
                raise TargetError(
                    f"machine {self.name}: {seen[identity]} and {address} are one machine: name each once",
                    target=f"machine {self.name}",
                )
            seen[identity] = address

    def _target(self, name: str, place: int, shown_as: str) -> NamedMachine:
        addresses = self._named.get(name, ())
        if not addresses:
            raise Unavailable(
                f"no machine of the name {name} is known",
                remedy=f"{OPTION}={name}=ssh://USER@HOST names one",
                target=shown_as,
            )
        found = self._reach(addresses[place])
        if wrong := contradiction(name, found.shown):
            raise Unavailable(
                f"{addresses[place]} is named {name}, and {wrong}",
                remedy=f"{OPTION}=NAME={addresses[place]}, with another name",
                target=shown_as,
            )
        machine = found.machine
        target = NamedMachine(
            machine.address.url,
            self._run,
            rootfs=self._rootfs,
            name=shown_as,
            details={**machine.details, **found.details, "system": name},
            connection=machine.ssh.connection,
            folder=machine.folder,
            brought=machine.brought,
        )
        return self._scope.own(target)
