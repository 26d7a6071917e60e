"""Every workload that has a parser, by the name that golden files and reports use."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_vperf.workloads.base import Workload

#: Name → module of this package and the dataclass in it. Imported on demand.
WORKLOADS: Mapping[str, str] = {
    "sysbench.cpu": "sysbench:SysbenchCpu",
    "sysbench.memory": "sysbench:SysbenchMemory",
    "guestmem.free": "memory:Free",
    "guestmem.meminfo": "memory:Meminfo",
    "threadcpu.stat": "processors:StatFile",
    "cpuhog": "cpuhog:StressCpu",
    "dhrystone": "dhrystone:VperfDhrystone",
    "whetstone": "whetstone:VperfWhetstone",
    "syscalls": "system:VperfSyscalls",
    "switches": "system:VperfSwitches",
    "stream": "stream:VperfStream",
    "fio.job": "fio:FioJob",
    "iperf3.tcp": "iperf3:Iperf3Tcp",
    "iperf3.udp": "iperf3:Iperf3Udp",
    "iperf.udp": "iperf:IperfUdp",
    "netperf.tcp_rr": "netperf:TcpRr",
}


def workload_class(name: str) -> type[Workload[Any]]:
    """The dataclass of a workload.

    Raises:
        KeyError: there is none of that name; with the known names.
    """
    if name not in WORKLOADS:
        raise KeyError(f"{name!r} is not a workload: {', '.join(sorted(WORKLOADS))}")
    module, _, attribute = WORKLOADS[name].partition(":")
    found: type[Workload[Any]] = getattr(
        importlib.import_module(f"pytest_vperf.workloads.{module}"), attribute
    )
    return found
