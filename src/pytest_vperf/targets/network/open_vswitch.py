"""Open vSwitch on this or another machine: whether it answers, and creating bridges.

A bridge's datapath moves its packets. The kernel's (``system``) needs the module ``openvswitch``; without it,
ovs-vswitchd moves them itself (``netdev``; Open vSwitch, "Open vSwitch without Kernel Support"). Whether the first
works cannot be queried: a bridge is created with it and checked.
"""

from __future__ import annotations

import contextlib
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_vperf.machine import open_vswitch
from pytest_vperf.machine.networks import alias
from pytest_vperf.machine.open_vswitch import ASK
from pytest_vperf.machine.preflight import Readiness
from pytest_vperf.machine.runs import LABEL_FOLDER
from pytest_vperf.targets.base import TargetError, Unavailable
from pytest_vperf.targets.network import commands

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_vperf.targets.network.commands import Run

#: By which ``vperf doctor`` knows it.
NAME = "openvswitch"
SYSTEM, NETDEV = "system", "netdev"
_MOVES = {SYSTEM: "the kernel moves the packets", NETDEV: "ovs-vswitchd moves the packets"}
#: The number of a bridge's own port, set once the bridge works (OpenFlow 1.0, OFPP_LOCAL).
_LOCAL_PORT = "65534"


@dataclass(frozen=True)
class Bridge:
    """An existing bridge.

    Attributes:
        name: its own, and that of its link on the host.
        datapath: ``system`` or ``netdev``.
        version: Open vSwitch's.
    """

    name: str
    datapath: str
    version: str

    @property
    def details(self) -> dict[str, str]:
        """For the record."""
        return {
            "open_vswitch": self.version,
            "open_vswitch_datapath": f"{self.datapath}: {_MOVES[self.datapath]}",
        }


def check() -> Readiness:
    """Whether this machine's Open vSwitch and its database answer."""
    run = commands.here()
    try:
        found = version(run)
        run(*open_vswitch.LIST)
    except Unavailable as error:
        return Readiness(NAME, False, error.reason, error.remedy)
    except TargetError as error:
        return Readiness(NAME, False, str(error))
    return Readiness(NAME, True, f"Open vSwitch {found}: ovs-vswitchd answers")


def version(run: Run) -> str:
    """The version of a machine's running switch.

    Raises:
        Unavailable: Open vSwitch is not installed, is not running, or refuses us; with a remedy.
        TargetError: the answer is not understood.
    """
    said = run("ovs-appctl", "--timeout=10", "version")
    found = re.search(r"\(Open vSwitch\) (\S+)", said)
    if found is None:
        raise TargetError(f"the version of Open vSwitch is not understood: {said[:200]!r}")
    return found[1]


def make(run: Run, name: str, labels: Mapping[str, str]) -> Bridge:
    """Create a bridge; the caller removes it, even if this raises.

    Args:
        run: runs programs on the machine.
        name: the bridge's.
        labels: the run's, by which leftovers are recognised.

    Raises:
        Unavailable: no Open vSwitch answers, or it cannot create any bridge; with a remedy.
        TargetError: it refuses.
    """
    found = version(run)
    _take_away_forgotten(run)
    for datapath in (SYSTEM, NETDEV):
        run(*open_vswitch.make(name, datapath, labels))
        # Even if the bridge cannot be created the command succeeds, since the database has it.
        if run(*ASK, "get", "Interface", name, "ofport").strip() == _LOCAL_PORT:
            if datapath == NETDEV:
                # Its tap outlives a killed switch, and is not in the database.
                mark = alias(Path(labels[LABEL_FOLDER]))
                run("ip", "link", "set", "dev", name, "alias", mark)
            return Bridge(name, datapath, found)
        run(*open_vswitch.delete(name))
    raise Unavailable(
        f"Open vSwitch {found} cannot create a bridge, neither with the kernel's datapath nor with its own",
        remedy="modprobe -a openvswitch tun, as root; otherwise see its log in /var/log/openvswitch",
    )


def remove(run: Run, name: str) -> None:
    """Remove a bridge with its ports and mirrors. Safe to repeat; silent if the machine is gone."""
    with contextlib.suppress(TargetError):
        run(*open_vswitch.delete(name))


def _take_away_forgotten(run: Run) -> None:
    """Remove the bridges that our dead runs left there; a failure to do so does not stop this run."""
    with contextlib.suppress(TargetError, ValueError):
        for bridge in open_vswitch.dead(run(*open_vswitch.LIST)):
            remove(run, bridge)
