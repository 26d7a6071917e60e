"""Another host on a machines' network, for the far end of a test: a network namespace on the host of the machines.

It is made by commands on that host, which may be remote. There it ends with this target; on this machine the
leftovers of a killed run are found by their names.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pytest_vperf.machine.networks import NAMESPACES, link_name, namespace_name
from pytest_vperf.targets.base import (
    MOST_FILE,
    Facts,
    RunsCommands,
    TargetError,
    Unavailable,
)

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_vperf.targets.base import Command, Completed, Program, Target, Usage
    from pytest_vperf.targets.libvirt.network import Plug

#: Arguments: namespace, the link's two ends, MAC address, bridge, and address with prefix length.
_MAKE = """
set -e
PATH=$PATH:/usr/sbin:/sbin
ip netns add "$1"
ip link add "$2" type veth peer name "$3"
ip link set "$3" address "$4"
ip link set "$2" master "$5" up
ip link set "$3" netns "$1" name eth0
ip -n "$1" address add "$6" dev eth0
ip -n "$1" link set lo up
ip -n "$1" link set eth0 up
"""
#: Deleting one end of a link deletes both.
_END = """
PATH=$PATH:/usr/sbin:/sbin
ip link delete "$2" 2>/dev/null
ip netns delete "$1" 2>/dev/null
true
"""
#: The same on Open vSwitch, through an internal port (ovs-vswitchd.conf.db(5)), which leaves no checksum undone that
#: the switch would not complete. It keeps its name, by which the switch knows it.
_MAKE_PORT = """
set -e
PATH=$PATH:/usr/sbin:/sbin
ip netns add "$1"
ovs-vsctl --timeout=10 -- add-port "$5" "$2" -- set Interface "$2" type=internal
ip link set "$2" netns "$1"
ip -n "$1" link set "$2" address "$4"
ip -n "$1" address add "$6" dev "$2"
ip -n "$1" link set lo up
ip -n "$1" link set "$2" up
"""
_END_PORT = """
PATH=$PATH:/usr/sbin:/sbin
ovs-vsctl --timeout=10 -- --if-exists del-port "$2" 2>/dev/null
ip netns delete "$1" 2>/dev/null
true
"""


class Neighbour(RunsCommands):
    """A network namespace of a host as a target, with the host's programs and processors.

    Args:
        host: the machines' host.
        plug: a place on their network.
        run: the run's ID.
        number: its number within the run.
        mark: suffix of its name.

    Attributes:
        link: its link to the network.

    Raises:
        Unavailable: it cannot be created there.
    """

    def __init__(self, host: Target, plug: Plug, run: str, number: int, mark: str = "") -> None:
        self.name = f"other host (embedded){mark}"
        self.link = plug.link
        self._host = host
        self._namespace = namespace_name(run, f"other{number}")
        self._port = link_name(run, f"o{number}")
        words = (plug.mac, plug.bridge, plug.address)
        draft = link_name(run, f"q{number}")
        script, self._end = (_MAKE_PORT, _END_PORT) if plug.switch else (_MAKE, _END)
        make = ["sh", "-c", script, "sh", self._namespace, self._port, draft, *words]
        try:
            done = host.run(make, timeout=60.0, check=False)
        except BaseException:
            self.close()  # undo a partial creation
            raise
        if done.returncode:
            self.close()
            said = " ".join(done.stderr.decode("utf-8", "replace").split())[-300:]
            raise Unavailable(
                f"no other host can be made on {host.name}: {said}",
                remedy="iproute2 and root, there",
                target=self.name,
            )

    def _run(self, command: Command) -> Completed:
        # Not `ip netns exec`, which also changes the command's mounts.
        entering = ("nsenter", f"--net={NAMESPACES / self._namespace}", "--")
        done = self._host.run(
            [*entering, *command.argv],
            input=command.input,
            env=command.env,
            cwd=command.cwd,
            timeout=command.timeout,
            check=False,
            max_output=command.max_output,
        )
        return replace(done, argv=command.argv)

    def program(self, name: str) -> Program:
        """A program of the host; see `pytest_vperf.targets.base.Target.program`."""
        return self._host.program(name)

    def put(self, source: Path, destination: str) -> None:
        """Copy a file to the host."""
        self._host.put(source, destination)

    def get(self, source: str, destination: Path, *, limit: int = MOST_FILE) -> None:
        """Copy a file from the host."""
        self._host.get(source, destination, limit=limit)

    def facts(self) -> Facts:
        """The host's facts, with the link, and a placement that says it is no separate machine."""
        placement = {"placement": f"network namespace on the {self._host.name}"}
        found = {**self._host.facts().details, **self.link.details(), **placement}
        return Facts("host", self.name, found)

    def usage(self) -> Usage:
        """The host's usage."""
        return self._host.usage()

    def close(self) -> None:
        """Remove link and namespace. Safe to repeat; silent if the host is gone."""
        try:
            self._host.run(
                ["sh", "-c", self._end, "sh", self._namespace, self._port],
                timeout=60.0,
                check=False,
            )
        except TargetError:
            pass
        finally:
            self.link.close()
