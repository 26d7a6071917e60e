"""Performance claims about containers and virtual machines, as pytest assertions.

The names in `__all__` are public; the modules below are private, whatever they are called, and change without notice.
Importing the package costs next to nothing, since every test run loads a pytest plugin, even one without claims: each
name is imported on first use (PEP 562).
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pytest_vperf import stats
    from pytest_vperf.claims.claim import Claim
    from pytest_vperf.claims.rounds import rounds
    from pytest_vperf.fleet.engines import FleetEngine, FleetMachine, piped
    from pytest_vperf.machine.leftovers import Leftover
    from pytest_vperf.machine.preflight import Readiness
    from pytest_vperf.quantity import Quantity, QuantityError
    from pytest_vperf.reporting.ended import EndedRun, ExportFormat
    from pytest_vperf.results.record import ClaimRecord
    from pytest_vperf.run.outcomes import ClaimRefuted
    from pytest_vperf.run.sides import SideKey, SideValue, program_of_side, program_version
    from pytest_vperf.targets.base import (
        CannotConnect,
        CannotStart,
        Command,
        CommandFailed,
        Completed,
        Facts,
        Program,
        Started,
        Target,
        TargetError,
        TimedOut,
        TooMuchOutput,
        Unavailable,
        Usage,
        end_marked,
    )
    from pytest_vperf.targets.by_commands import CommandTarget
    from pytest_vperf.targets.container.containers import Containers
    from pytest_vperf.targets.guest.guests import Guests
    from pytest_vperf.targets.host import Host
    from pytest_vperf.targets.image.programs import image_folder
    from pytest_vperf.targets.kernel.phase import kernel_phase
    from pytest_vperf.targets.kinds import TargetKind
    from pytest_vperf.targets.many import memory_each
    from pytest_vperf.targets.network.link import on_loopback
    from pytest_vperf.targets.network.mirror import mirrored
    from pytest_vperf.targets.pod.pods import Pods
    from pytest_vperf.targets.scope import Starter, Starting
    from pytest_vperf.targets.xen.domus import Domus
    from pytest_vperf.workloads import processors
    from pytest_vperf.workloads.at_once import Race
    from pytest_vperf.workloads.base import (
        Output,
        ParseError,
        Reader,
        Unsupported,
        Workload,
        check_whole,
    )
    from pytest_vperf.workloads.bench import Bench
    from pytest_vperf.workloads.fio import FioJob
    from pytest_vperf.workloads.iperf3 import Iperf3Tcp
    from pytest_vperf.workloads.loaded import CONDITIONS, MOST_LOADERS
    from pytest_vperf.workloads.registry import Tool
    from pytest_vperf.workloads.sysbench import SysbenchCpu, SysbenchMemory

__version__ = "0.1.0"

__all__ = [
    "CONDITIONS",
    "MOST_LOADERS",
    "Bench",
    "CannotConnect",
    "CannotStart",
    "Claim",
    "ClaimRecord",
    "ClaimRefuted",
    "Command",
    "CommandFailed",
    "CommandTarget",
    "Completed",
    "Containers",
    "Domus",
    "EndedRun",
    "ExportFormat",
    "Facts",
    "FioJob",
    "FleetEngine",
    "FleetMachine",
    "Guests",
    "Host",
    "Iperf3Tcp",
    "Leftover",
    "Output",
    "ParseError",
    "Pods",
    "Program",
    "Quantity",
    "QuantityError",
    "Race",
    "Reader",
    "Readiness",
    "SideKey",
    "SideValue",
    "Started",
    "Starter",
    "Starting",
    "SysbenchCpu",
    "SysbenchMemory",
    "Target",
    "TargetError",
    "TargetKind",
    "TimedOut",
    "TooMuchOutput",
    "Tool",
    "Unavailable",
    "Unsupported",
    "Usage",
    "Workload",
    "check_whole",
    "end_marked",
    "image_folder",
    "kernel_phase",
    "memory_each",
    "mirrored",
    "on_loopback",
    "piped",
    "processors",
    "program_of_side",
    "program_version",
    "rounds",
    "stats",
]

#: The module that defines each name, relative to this package; `stats` is a subpackage.
_DEFINED_IN = {
    "FleetEngine": "fleet.engines",
    "FleetMachine": "fleet.engines",
    "piped": "fleet.engines",
    "Leftover": "machine.leftovers",
    "Readiness": "machine.preflight",
    "program_version": "run.sides",
    "CannotConnect": "targets.base",
    "CannotStart": "targets.base",
    "Command": "targets.base",
    "Facts": "targets.base",
    "Program": "targets.base",
    "TooMuchOutput": "targets.base",
    "Usage": "targets.base",
    "end_marked": "targets.base",
    "CommandTarget": "targets.by_commands",
    "Host": "targets.host",
    "image_folder": "targets.image.programs",
    "TargetKind": "targets.kinds",
    "Starter": "targets.scope",
    "Starting": "targets.scope",
    "Claim": "claims.claim",
    "rounds": "claims.rounds",
    "Quantity": "quantity",
    "QuantityError": "quantity",
    "EndedRun": "reporting.ended",
    "ExportFormat": "reporting.ended",
    "ClaimRecord": "results.record",
    "ClaimRefuted": "run.outcomes",
    "SideKey": "run.sides",
    "SideValue": "run.sides",
    "program_of_side": "run.sides",
    "CommandFailed": "targets.base",
    "Completed": "targets.base",
    "Started": "targets.base",
    "Target": "targets.base",
    "TargetError": "targets.base",
    "TimedOut": "targets.base",
    "Unavailable": "targets.base",
    "Containers": "targets.container.containers",
    "Guests": "targets.guest.guests",
    "kernel_phase": "targets.kernel.phase",
    "memory_each": "targets.many",
    "on_loopback": "targets.network.link",
    "mirrored": "targets.network.mirror",
    "Pods": "targets.pod.pods",
    "Domus": "targets.xen.domus",
    "Race": "workloads.at_once",
    "Output": "workloads.base",
    "ParseError": "workloads.base",
    "Reader": "workloads.base",
    "Unsupported": "workloads.base",
    "check_whole": "workloads.base",
    "Workload": "workloads.base",
    "Bench": "workloads.bench",
    "FioJob": "workloads.fio",
    "Iperf3Tcp": "workloads.iperf3",
    "CONDITIONS": "workloads.loaded",
    "MOST_LOADERS": "workloads.loaded",
    "Tool": "workloads.registry",
    "SysbenchCpu": "workloads.sysbench",
    "SysbenchMemory": "workloads.sysbench",
    "processors": "workloads",
}


def __getattr__(name: str) -> Any:
    if name not in _DEFINED_IN:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = f"{__name__}.{_DEFINED_IN[name]}"
    if name == "processors":
        return import_module(f"{module}.{name}")
    return getattr(import_module(module), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
