"""The engines that start a process on a machine of a fleet. One is a small class: it knows the machines, starts a
command on one, ends that, and says which machines are gone. All else is the same for all of them.
"""

from __future__ import annotations

import re
import shlex
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from pytest_vperf.run import doors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    import pytest

    from pytest_vperf.fleet.file import FleetFile


@dataclass(frozen=True)
class FleetMachine:
    """A machine of a fleet.

    Attributes:
        name: by which the engine knows it.
        type: of its hardware: machines of one type are taken for equal.
        keys: that lead to it in the file, for messages.
    """

    name: str
    type: str
    keys: tuple[str, ...] = ()


class Engine(Protocol):
    """Starts processes on machines."""

    @property
    def queues(self) -> bool:
        """Whether a start may wait until a machine is free, however long."""
        ...

    def machines(self) -> Sequence[FleetMachine]:
        """The machines that there are, in order.

        Raises:
            ThresholdError: the file has none, or is wrong about them.
        """
        ...

    def start(self, machine: FleetMachine, command: Sequence[str]) -> subprocess.Popen[bytes]:
        """Start a command there, alone on its machine if the engine can see to that.

        Args:
            machine: on which.
            command: the words of it.

        Returns:
            a process here whose three streams are pipes, and those of the command. When its input is closed, or the
            process is killed, the command sees the end of its input.
        """
        ...

    def end(self, process: subprocess.Popen[bytes]) -> None:
        """End what `start` returned, if it has not ended."""
        ...

    def gone(self) -> Mapping[str, str]:
        """The machines that cannot run anything now, by name, each with the reason; none if nobody knows."""
        ...


@dataclass(frozen=True)
class FleetEngine:
    """An engine that the file of a fleet may name.

    Attributes:
        name: in the file.
        make: makes it; raises `FleetFile.wrong` if the file is wrong.
        keys: of the file that are this engine's.
    """

    name: str
    make: Callable[[FleetFile], Engine]
    keys: tuple[str, ...] = ()


def engine_kinds(config: pytest.Config) -> Mapping[str, FleetEngine]:
    """The engines, by name.

    Raises:
        pytest.UsageError: two have one name, or a hook gives something else.
    """
    return doors.by_name(config, "pytest_vperf_fleet_engines", FleetEngine, "engine of a fleet")


def piped(words: Sequence[str], **options: Any) -> subprocess.Popen[bytes]:
    """Start a command here whose three streams are pipes, and which Ctrl-C does not reach."""
    pipe = subprocess.PIPE
    return subprocess.Popen(
        words, stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True, **options
    )


def kill(process: subprocess.Popen[bytes]) -> None:
    """Kill a process that has not ended, and wait for it."""
    process.kill()
    process.wait()


class Ssh:
    """Machines that are reached by ssh, whoever's they are: nobody schedules them.

    Args:
        file: has ``hosts``, the type of each machine by its name, ``[user@]host[:port]``, and perhaps ``ssh_config``,
            a file for ``ssh -F``, seen from the file's folder.
    """

    queues = False

    def __init__(self, file: FleetFile) -> None:
        from pytest_vperf.targets.remote.connection import KEEPS_TO_ITSELF

        self._hosts = _hosts(file)
        config = file.settings.get("ssh_config")
        if config is not None and not (file.path.parent / str(config)).is_file():
            raise file.wrong(f"{config!r} is not a file", "ssh_config")
        own = [] if config is None else ["-F", str(file.path.parent / config)]
        asked = (
            "BatchMode=yes",
            "ConnectTimeout=10",
            "ServerAliveInterval=15",
            "RemoteCommand=none",
        )
        self._ssh = ["ssh", "-T", *own, *(word for each in asked for word in ("-o", each))]
        self._ssh += KEEPS_TO_ITSELF

    def machines(self) -> Sequence[FleetMachine]:
        """Those of the file."""
        return [
            FleetMachine(name, type_, ("hosts", name)) for name, (type_, _) in self._hosts.items()
        ]

    def start(self, machine: FleetMachine, command: Sequence[str]) -> subprocess.Popen[bytes]:
        """Log in and start it."""
        return piped([*self._ssh, *self._hosts[machine.name][1], "--", shlex.join(command)])

    def end(self, process: subprocess.Popen[bytes]) -> None:
        """Close the connection, and with it the command's input."""
        kill(process)

    def gone(self) -> Mapping[str, str]:
        """None: nobody watches them."""
        return {}


def _hosts(file: FleetFile) -> dict[str, tuple[str, list[str]]]:
    """The type of each host, and the words that name it for ssh.

    Raises:
        ThresholdError: the file has none, or what is no host.
    """
    from pytest_vperf.targets.remote.connection import parse_url

    given = file.settings.get("hosts")
    if not isinstance(given, dict) or not given:
        raise file.wrong(
            "hosts is a mapping of hosts with their types, such as {h1: type1}", "hosts"
        )
    found = {}
    for name, type_ in given.items():
        try:
            words = parse_url(f"ssh://{name}")
        except ValueError:
            raise file.wrong(f"{name!r} is not [user@]host[:port]", "hosts", name) from None
        if not isinstance(type_, str) or not re.fullmatch(TYPE, type_):
            raise file.wrong(f"{type_!r} is no hardware type, such as type1", "hosts", name)
        found[name] = (type_, words)
    return found


#: A type of hardware.
TYPE = r"[A-Za-z0-9][A-Za-z0-9_.+-]*"
#: Those that we have.
KINDS: Iterable[FleetEngine] = (FleetEngine("ssh", Ssh, keys=("hosts", "ssh_config")),)
