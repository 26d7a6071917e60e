"""Open vSwitch on a machine, here or elsewhere: whether it answers, and making a bridge of its.

The packets of a bridge are moved by its datapath. The kernel's (``system``) needs the module ``openvswitch``; where a
kernel has none, ovs-vswitchd moves them by itself (``netdev``; Open vSwitch, "Open vSwitch without Kernel Support").
Whether the first works cannot be asked for: a bridge is made with it, and looked at.
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
#: The number of a bridge's own port, which it has once the bridge is there (OpenFlow 1.0, OFPP_LOCAL).
_LOCAL_PORT = "65534"


@dataclass(frozen=True)
class Bridge:
    """A bridge that is there.

    Attributes:
        name: also of its link on the host.
        datapath: ``system`` or ``netdev``.
        version: of Open vSwitch.
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
    """Whether this machine's Open vSwitch answers, with its database."""
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
    """The version of the switch that answers on a machine.

    Raises:
        Unavailable: Open vSwitch is not installed, does not run, or does not let us in; says what mends it.
        TargetError: the answer is not understood.
    """
    said = run("ovs-appctl", "--timeout=10", "version")
    found = re.search(r"\(Open vSwitch\) (\S+)", said)
    if found is None:
        raise TargetError(f"the version of Open vSwitch is not understood: {said[:200]!r}")
    return found[1]


def make(run: Run, name: str, labels: Mapping[str, str]) -> Bridge:
    """Make a bridge; the caller removes it, also where this raises.

    Args:
        run: runs programs on the machine.
        name: of the bridge.
        labels: of the run, by which it is found where it was left.

    Raises:
        Unavailable: there is no Open vSwitch that answers, or it makes no bridge at all; says what mends it.
        TargetError: it refuses.
    """
    found = version(run)
    _take_away_forgotten(run)
    for datapath in (SYSTEM, NETDEV):
        run(*open_vswitch.make(name, datapath, labels))
        # Where it cannot be made the command succeeds nevertheless: the database has it.
        if run(*ASK, "get", "Interface", name, "ofport").strip() == _LOCAL_PORT:
            if datapath == NETDEV:
                # Its tap outlives a switch that was killed, and the database does not know it.
                mark = alias(Path(labels[LABEL_FOLDER]))
                run("ip", "link", "set", "dev", name, "alias", mark)
            return Bridge(name, datapath, found)
        run(*open_vswitch.delete(name))
    raise Unavailable(
        f"Open vSwitch {found} makes no bridge, neither with the kernel's datapath nor with its own",
        remedy="modprobe -a openvswitch tun, as root; else its log says why (/var/log/openvswitch)",
    )


def remove(run: Run, name: str) -> None:
    """Remove a bridge with its ports and mirrors. Safe to repeat; quiet if the machine is gone."""
    with contextlib.suppress(TargetError):
        run(*open_vswitch.delete(name))


def _take_away_forgotten(run: Run) -> None:
    """Remove the bridges of our dead runs there; what cannot be removed is no reason not to run."""
    with contextlib.suppress(TargetError, ValueError):
        for bridge in open_vswitch.dead(run(*open_vswitch.LIST)):
            remove(run, bridge)
