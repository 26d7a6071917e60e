"""A network of machines on a bridge of Open vSwitch's: made by commands where they run, which may be far away.

libvirt is told of the bridge with each card (formatdomain.html, ``virtualport``), puts the card's port on it, and
takes it away again. The host's end is the bridge's own port.

What a killed run leaves on this machine is found by the bridge's name and labels
(`pytest_vperf.machine.leftovers`). On another machine a command waits for the end of the connection and takes it
away; should that fail, the next run's network there does.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from pytest_vperf.machine.networks import NAMESPACES, link_name, namespace_name
from pytest_vperf.targets.base import TargetError
from pytest_vperf.targets.network import addresses, commands, open_vswitch
from pytest_vperf.targets.remote.at_end import AtEnd
from pytest_vperf.targets.ssh_host import SshHost
from pytest_vperf.targets.virt.virtual_network import MachineNetwork

if TYPE_CHECKING:
    from pytest_vperf.machine.runs import Run
    from pytest_vperf.targets.base import Target

#: The bridge with its ports, links beside ports, other hosts. Words: the bridge, and how the others' paths begin.
_CLEAN = """
PATH=$PATH:/usr/sbin:/sbin
ovs-vsctl --timeout=10 -- --if-exists del-br "$1"
for link in "$2"*; do ip link delete "${link##*/}"; done
for space in "$3"*; do ip netns delete "${space##*/}"; done
"""


class OvsNetwork(MachineNetwork):
    """The network of one run on the machine of a daemon, a bridge of Open vSwitch's.

    Args:
        host: that machine.
        run: whose network it is.
        uri: the daemon's.
        number: which of the run's it is.

    Attributes:
        bridge: the bridge.

    Raises:
        Unavailable: there is no Open vSwitch that answers; says what mends it.
        TargetError: it, or the machine's kernel, refuses.
        CannotConnect: the machine is gone.
    """

    _monitor = "w"

    def __init__(self, host: Target, run: Run, uri: str, number: int = 0) -> None:
        self._there = commands.on(host)
        self._name = link_name(run.id, f"n{number}")
        self._at_end: AtEnd | None = None
        try:
            subnet = addresses.free_subnet(
                addresses.taken(self._there), start=int(run.id, 16) + number
            )
            if isinstance(host, SshHost):
                self._at_end = AtEnd(host.connection, _cleaning(self._name, run.id))
            self.bridge = open_vswitch.make(self._there, self._name, run.labels)
            # What libvirt's machines send comes as it left them. The kernel's datapath does what they left undone;
            # ovs-vswitchd's own reads and writes whole packets, and does not (Open vSwitch, 3.1).
            super().__init__(
                run.id,
                self._name,
                subnet,
                uri,
                "Open vSwitch's",
                switch="openvswitch",
                offloads=self.bridge.datapath == open_vswitch.SYSTEM,
                more=self.bridge.details,
            )
            self._join_host()
        except BaseException:
            self.close()
            raise

    def _join_host(self) -> None:
        # Else the kernel looks for IPv6 neighbours, which a mirror would count. It may have no IPv6.
        with contextlib.suppress(TargetError):
            self._there("ip", "link", "set", self._name, "addrgenmode", "none")
        self._there("ip", "address", "add", str(self.own), "dev", self._name)
        self._there("ip", "link", "set", self._name, "up")

    def close(self) -> None:
        """Remove it with all its ports and mirrors. Safe to repeat; quiet if the machine is gone."""
        open_vswitch.remove(self._there, self._name)
        if self._at_end is not None:
            self._at_end.close()


def _cleaning(bridge: str, run: str) -> list[str]:
    """The command that takes away what a killed run left on a machine, libvirt's part apart."""
    links = f"/sys/class/net/{link_name(run, 'w')}"
    spaces = str(NAMESPACES / namespace_name(run, "other"))
    return ["sh", "-c", _CLEAN, "sh", bridge, links, spaces]
