"""The engines that start a process on a machine of a fleet. One is a small class: it knows the machines, starts a
command on one, ends that, and says which machines are gone. All else is the same for all of them.
"""

from __future__ import annotations

import hashlib
import json
import re
import secrets
import shlex
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from pytest_vperf import foreign_text
from pytest_vperf.fleet.lines import ORDER, REPORTS
from pytest_vperf.run import doors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

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

    def waits(self, said: str) -> bool:
        """Whether a start waits until its machine is free, however long that takes.

        Args:
            said: what it has said on its standard error.
        """
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

    def failed(self, status: int, said: str) -> bool:
        """Whether the engine itself failed to start a command, or lost it: then it does not say what the command is.

        Args:
            status: with which it ended, above 0.
            said: what it said on its standard error.
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
        ahead: whether its machines had their orders before the run: then what each was to run does not depend on
            which of them are there.
    """

    name: str
    make: Callable[[FleetFile], Engine]
    keys: tuple[str, ...] = ()
    ahead: bool = False


def engine_kinds(config: pytest.Config) -> Mapping[str, FleetEngine]:
    """The engines, by name.

    Raises:
        pytest.UsageError: two have one name, or a hook gives something else.
    """
    return doors.by_name(config, "pytest_vperf_fleet_engines", FleetEngine, "engine of a fleet")


def installed_engines() -> Mapping[str, FleetEngine]:
    """The same for commands outside of pytest: ours, and those of packages that are no pytest plug-ins.

    Raises:
        Exception: whatever a package raises when it is imported.
    """
    found = {each.name: each for each in KINDS}
    for hook in doors.installed_hooks("pytest_vperf_fleet_engines"):
        found.update((each.name, each) for each in hook())
    return found


def piped(words: Sequence[str], **options: Any) -> subprocess.Popen[bytes]:
    """Start a command here whose three streams are pipes, and which Ctrl-C does not reach."""
    pipe = subprocess.PIPE
    return subprocess.Popen(
        words, bufsize=0, stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True, **options
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

    def waits(self, said: str) -> bool:
        """Never: a shard that finds another one there says so itself."""
        return False

    def failed(self, status: int, said: str) -> bool:
        """Whether the status is that of ssh (ssh(1), "EXIT STATUS"); any other one is the command's."""
        return status == 255

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

    found = {}
    for name, type_ in _typed_hosts(file).items():
        try:
            words = parse_url(f"ssh://{name}")
        except ValueError:
            raise file.wrong(f"{name!r} is not [user@]host[:port]", "hosts", name) from None
        found[name] = (type_, words)
    return found


def _typed_hosts(file: FleetFile) -> dict[str, str]:
    """The type of each host.

    Raises:
        ThresholdError: the file has none, or one without a type.
    """
    given = file.settings.get("hosts")
    if not isinstance(given, dict) or not given:
        raise file.wrong(
            "hosts is a mapping of hosts with their types, such as {h1: type1}", "hosts"
        )
    for name, type_ in given.items():
        if not isinstance(type_, str) or not re.fullmatch(TYPE, type_):
            raise file.wrong(f"{type_!r} is no hardware type, such as type1", "hosts", name)
    return {str(name): type_ for name, type_ in given.items()}


class Slurm:
    """The nodes of a cluster: Slurm starts a shard when a node is free, and gives it the whole node.

    Args:
        file: may have ``types``, the features of nodes that are types of hardware, the ``partition``, and
            ``options``, further words for srun(1).
    """

    def __init__(self, file: FleetFile) -> None:
        self._file = file
        self._types = _texts(file, "types")
        own = [f"--partition={part}"] if (part := file.settings.get("partition")) else []
        self._words = [*own, *_texts(file, "options")]
        self._nodes = own
        self._names: dict[int, str] = {}

    def machines(self) -> Sequence[FleetMachine]:
        """The nodes that have one of the types, or all; whoever has no feature is of the type ``any``."""
        found = []
        for name, features, *_ in self._asked():
            own = [each for each in features.split(",") if each != "(null)"]
            if self._types:
                own = [each for each in own if each in self._types][:1]
            if own or not self._types:
                found.append(FleetMachine(name, ",".join(own) or "any", ("engine",)))
        if not found:
            message = f"Slurm has no node with a feature of {', '.join(self._types) or 'any kind'}"
            raise self._file.wrong(message, "types" if self._types else "engine")
        return found

    def start(self, machine: FleetMachine, command: Sequence[str]) -> subprocess.Popen[bytes]:
        """Submit a job of one step; it has all of its node, and its streams are those of ``srun``."""
        name = f"vperf-{secrets.token_hex(4)}"
        words = [
            "--nodes=1",
            "--ntasks=1",
            "--exclusive",
            "--mem=0",
            "--cpu-bind=none",
            "--chdir=/",
        ]
        words += [f"--nodelist={machine.name}", f"--job-name={name}", "--unbuffered"]
        process = piped(["srun", *words, *self._words, *command])
        self._names[process.pid] = name
        return process

    def waits(self, said: str) -> bool:
        """Whether the job is queued, as ``srun`` says once it is and once it is not."""
        return "queued and waiting" in said and "has been allocated" not in said

    def failed(self, status: int, said: str) -> bool:
        """Whether ``srun`` does not say that the command has ended with a status of its own."""
        return "Exited with exit code" not in said

    def end(self, process: subprocess.Popen[bytes]) -> None:
        """Cancel the job: an ``srun`` that is killed leaves it."""
        name = self._names.pop(process.pid)
        if process.poll() is None:
            words = ["scancel", "--quiet", f"--name={name}"]
            subprocess.run(words, capture_output=True, timeout=10, check=False)
            kill(process)

    def gone(self) -> Mapping[str, str]:
        """The nodes that are down, drained or not responding, as ``sinfo`` has it."""
        return {
            name: f"Slurm says {state}" + (f" ({why})" if why != "none" else "")
            for name, _, state, why in self._asked()
            if re.match(r"down|drain|fail|error|unknown|.*\*", state)
        }

    def _asked(self) -> list[list[str]]:
        """Name, features, state and reason of each node, once.

        Raises:
            ThresholdError: Slurm does not answer.
        """
        words = ["sinfo", "--Node", "--noheader", "--format=%N|%f|%T|%E", *self._nodes]
        try:
            told = subprocess.run(words, capture_output=True, text=True, timeout=30, check=False)
            said, failed = told.stderr.strip(), told.returncode != 0
        except (OSError, subprocess.TimeoutExpired) as error:
            said, failed = str(error), True
        if failed:
            raise self._file.wrong(f"Slurm does not answer: {foreign_text.short(said)}", "engine")
        lines = dict.fromkeys(line for line in told.stdout.splitlines() if line.count("|") >= 3)
        return list({line.split("|")[0]: line.split("|", 3) for line in lines}.values())


class Runners:
    """Machines that nothing reaches from here, such as the runners of a CI system: each has had its order as a file,
    and has left its reports in one.

    Args:
        file: has ``hosts``, the type of each machine by its name, and two folders, seen from the file's: ``orders``,
            with the file ``NAME.order`` of each, and ``reports``, with its ``NAME.reports``.
    """

    def __init__(self, file: FleetFile) -> None:
        self._machines = []
        for name, type_ in _typed_hosts(file).items():
            if not re.fullmatch(TYPE, name):
                raise file.wrong(f"{name!r} is no name of a file", "hosts", name)
            self._machines.append(FleetMachine(name, type_, ("hosts", name)))
        folders = {key: file.settings.get(key, key) for key in ("orders", "reports")}
        for key, folder in folders.items():
            if not isinstance(folder, str):
                raise file.wrong(f"{folder!r} is no folder", key)
        self._orders, self._reports = (file.path.parent / str(each) for each in folders.values())
        self._read: set[str] = set()
        self._wrong: dict[str, str] = {}

    def machines(self) -> Sequence[FleetMachine]:
        """Those of the file."""
        return self._machines

    def start(self, machine: FleetMachine, command: Sequence[str]) -> subprocess.Popen[bytes]:
        """Give what it has left: its first line, and once it is told what to run, the others."""
        self._read.add(machine.name)
        words = (
            'head -n 1 "$1"; order=; '
            'while [ -z "$order" ] && read -r order; do :; done; '  # an empty line is a sign of life
            'tail -n +2 "$1"'
        )
        return piped(["sh", "-c", words, "sh", str(self._left_by(machine.name))])

    def waits(self, said: str) -> bool:
        """Never: all has been run."""
        return False

    def failed(self, status: int, said: str) -> bool:
        """Always: what ends is the reading of a file."""
        return True

    def end(self, process: subprocess.Popen[bytes]) -> None:
        """Read no further."""
        kill(process)

    def gone(self) -> Mapping[str, str]:
        """Those that have left nothing, or what an earlier order asked for, or whose reports have been read: nothing
        more will come."""
        found = {}
        for name in (machine.name for machine in self._machines):
            if name in self._read:
                found[name] = f"{self._left_by(name)} has no more"
                continue
            if name not in self._wrong:
                try:
                    self._wrong[name] = self._why_not(name)
                except OSError as error:
                    self._wrong[name] = f"{error.filename}: {error.strerror}"
            if self._wrong[name]:
                found[name] = self._wrong[name]
        return found

    def _left_by(self, name: str) -> Path:
        return self._reports / f"{name}{REPORTS}"

    def _why_not(self, name: str) -> str:
        """Why what a machine has left is not what its order asks for; empty if it is.

        Raises:
            OSError: a file cannot be read.
        """
        path = self._orders / f"{name}{ORDER}"
        for each in (path, self._left_by(name)):
            if not each.is_file():  # to open a pipe would wait for whoever writes to it
                return f"there is no file {each}"
        with path.open("rb") as order:
            digest = hashlib.sha256(order.readline().rstrip(b"\n")).hexdigest()
        with self._left_by(name).open("rb") as reports:
            for text in reports:
                try:
                    said = json.loads(text)
                except (ValueError, RecursionError):
                    break
                if isinstance(said, dict) and said.get("vperf") == "begins":
                    if said.get("order") == digest:
                        return ""
                    return f"{self._left_by(name)} is not what {order.name} asks for"
        return f"{self._left_by(name)} ends before a test has run"


def _texts(file: FleetFile, key: str) -> list[str]:
    """A list of texts in the file; empty without one.

    Raises:
        ThresholdError: it is something else.
    """
    given = file.settings.get(key, [])
    if not isinstance(given, list) or not all(isinstance(each, str) for each in given):
        raise file.wrong(f"{key} is a list of texts", key)
    return given


#: A type of hardware.
TYPE = r"[A-Za-z0-9][A-Za-z0-9_.+-]*"
#: Those that we have.
KINDS: Iterable[FleetEngine] = (
    FleetEngine("ssh", Ssh, keys=("hosts", "ssh_config")),
    FleetEngine("slurm", Slurm, keys=("types", "partition", "options")),
    FleetEngine("runners", Runners, keys=("hosts", "orders", "reports"), ahead=True),
)
