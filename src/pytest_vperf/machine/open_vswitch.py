"""Open vSwitch bridges of runs: how they are marked, and how those of killed runs are removed.

A bridge is named as the run's other links are (`pytest_vperf.machine.networks`), and carries the run's labels as
external IDs (ovs-vswitchd.conf.db(5), table Bridge). Open vSwitch keeps it in a database on disk, so it survives the
run and a reboot, and comes back with Open vSwitch even if its link was removed.
"""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING

from pytest_vperf.machine.networks import link_name
from pytest_vperf.machine.preflight import find_program
from pytest_vperf.machine.runs import dead_run

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

#: Without a timeout it would wait for a switch that does not answer.
ASK = ("ovs-vsctl", "--timeout=10")
#: Its output is parsed by `labels_of`.
LIST = (*ASK, "--format=json", "--columns=name,external_ids", "list", "Bridge")
#: Longer than the call's own timeout.
_TIMEOUT = 15.0


def make(bridge: str, datapath: str, labels: Mapping[str, str]) -> tuple[str, ...]:
    """The command that makes a bridge, marked from the start.

    Args:
        bridge: its name.
        datapath: ``system`` (the kernel's) or ``netdev`` (the switch's own; ovs-vswitchd.conf.db(5)).
        labels: the run's.
    """
    # A string of the database in quotes is one of JSON's (ovs-vsctl(8), "Database Values").
    marks = (f"external_ids:{name}={json.dumps(value)}" for name, value in labels.items())
    settings = (f"datapath_type={datapath}", *marks)
    return (*ASK, "add-br", bridge, "--", "set", "Bridge", bridge, *settings)


def delete(bridge: str) -> tuple[str, ...]:
    """The command that removes a bridge with all its ports and mirrors; a missing one is no error."""
    return (*ASK, "--if-exists", "del-br", bridge)


def labels_of(printed: str) -> dict[str, dict[str, str]]:
    """The bridges and their external IDs in the output of `LIST`.

    Raises:
        ValueError: it is not understood.
    """
    try:
        rows = json.loads(printed)["data"]
        # A map is ["map", [[key, value], …]] (RFC 7047, section 5.1).
        return {str(name): {str(key): str(value) for key, value in ids[1]} for name, ids in rows}
    except (ValueError, LookupError, TypeError):
        raise ValueError(f"what ovs-vsctl says is not understood: {printed[:200]}") from None


def dead(printed: str) -> dict[str, str]:
    """The bridges of dead runs of this machine and user in the output of `LIST` → the run.

    Raises:
        ValueError: it is not understood.
        PermissionError: the folder of the runs belongs to somebody else.
    """
    found = {name: dead_run(labels) for name, labels in labels_of(printed).items()}
    return {name: run for name, run in found.items() if run}


def bridges_of(run: str) -> list[str]:
    """The names of a run's bridges on this machine."""
    return [name for name in labels_of(_list()) if name.startswith(link_name(run, ""))]


def forgotten() -> dict[str, str]:
    """The bridges of dead runs on this machine → the run; the run's folder may be gone.

    Raises:
        PermissionError: the folder of the runs belongs to somebody else.
    """
    return dead(_list())


def remove(bridge: str) -> str:
    """Remove a bridge; return Open vSwitch's error, otherwise empty."""
    _, said = _run(delete(bridge))
    return said if bridge in labels_of(_list()) else ""


def _list() -> str:
    """The output of `LIST`; empty rows if Open vSwitch does not answer, as nothing could then be done anyway."""
    printed, _ = _run(LIST)
    try:
        labels_of(printed)
    except ValueError:
        return '{"data": []}'
    return printed


def _run(words: Sequence[str]) -> tuple[str, str]:
    """A command's output if it succeeds, and its error if it fails."""
    program = find_program(words[0])
    if program is None:
        return "", f"{words[0]} is not installed"
    try:
        done = subprocess.run(
            [program, *words[1:]], capture_output=True, text=True, timeout=_TIMEOUT, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return "", str(error)
    if done.returncode:
        return "", " ".join(done.stderr.split()) or f"status {done.returncode}"
    return done.stdout, ""
