"""The measuring tools: their fixtures, the packages that the image has for them, and their parsers, in one table.

Plug-ins add theirs by `pytest_vperf.hookspecs.pytest_vperf_tools`.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from pytest_vperf.workloads.base import Workload
    from pytest_vperf.workloads.bench import Bench


@dataclass(frozen=True)
class Tool:
    """A measuring tool, which tests have as a fixture of its name: ``def test_it(claim, container, hackbench)``.

    Attributes:
        name: of the fixture.
        make: makes what the fixture gives, from a `Bench` that runs workloads; or ``module:name`` of it, which is
            imported when a test wants it.
        packages: Debian packages that the image with the tools has for it. Where the machine's package sources lack
            one, the tool is unavailable, and others are not affected.
        summary: for ``pytest --fixtures``.
        workloads: its workloads by the names of golden files, each ``module:name``.
    """

    name: str
    make: Callable[[Bench], Any] | str
    packages: tuple[str, ...] = ()
    summary: str = ""
    workloads: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.name.isidentifier():
            raise ValueError(f"a tool is called {self.name!r}, which cannot be a fixture's name")
        packages: object = self.packages
        if not isinstance(packages, tuple):
            raise ValueError(f"packages of the tool {self.name} is {packages!r}, not a tuple")

    def of(self, bench: Bench) -> Any:
        """What the fixture gives."""
        make = _named(self.make) if isinstance(self.make, str) else self.make
        return make(bench)


def _named(place: str) -> Any:
    module, _, name = place.partition(":")
    return getattr(importlib.import_module(module), name)


def _own(
    name: str, made: str, *packages: str, summary: str, workloads: Mapping[str, str] | None = None
) -> Tool:
    """A tool of this package; modules are relative to it, and workloads are in the tool's."""
    module = f"{__package__}.{made.partition(':')[0]}"
    return Tool(
        name,
        f"{__package__}.{made}",
        packages,
        summary,
        {key: f"{module}:{each}" for key, each in (workloads or {}).items()},
    )


#: Our own, in the order in which their packages are told of.
TOOLS = (
    _own(
        "sysbench",
        "sysbench:Sysbench",
        "sysbench",
        summary="sysbench: ``sysbench.cpu(target, …)`` and ``sysbench.memory(target, …)``.",
        workloads={"sysbench.cpu": "SysbenchCpu", "sysbench.memory": "SysbenchMemory"},
    ),
    _own(
        "fio",
        "fio:Fio",
        "fio",
        summary="fio, on block devices and file systems.",
        workloads={"fio.job": "FioJob"},
    ),
    _own(
        "iperf",
        "iperf:Iperf",
        "iperf",
        summary="iperf 2, for UDP packets per second.",
        workloads={"iperf.udp": "IperfUdp"},
    ),
    _own(
        "iperf3",
        "iperf3:Iperf3",
        "iperf3",
        summary="iperf3, TCP and UDP.",
        workloads={"iperf3.tcp": "Iperf3Tcp", "iperf3.udp": "Iperf3Udp"},
    ),
    _own(
        "netperf",
        "netperf:Netperf",
        "netperf",
        summary="netperf, for transactions per second.",
        workloads={"netperf.tcp_rr": "TcpRr"},
    ),
    _own(
        "cpuhog",
        "cpuhog:CpuHog",
        "stress-ng",
        summary="stress-ng as load in the background.",
        workloads={"cpuhog": "StressCpu"},
    ),
    _own(
        "dhrystone",
        "dhrystone:Dhrystone",
        summary="Weicker's Dhrystone.",
        workloads={"dhrystone": "VperfDhrystone"},
    ),
    _own(
        "whetstone",
        "whetstone:Whetstone",
        summary="Curnow and Wichmann's Whetstone.",
        workloads={"whetstone": "VperfWhetstone"},
    ),
    _own(
        "stream",
        "stream:Stream",
        summary="McCalpin's STREAM.",
        workloads={"stream": "VperfStream"},
    ),
    _own(
        "syscalls",
        "system:Syscalls",
        summary="The rate of system calls, as lmbench defines the null one.",
        workloads={"syscalls": "VperfSyscalls"},
    ),
    _own(
        "switches",
        "system:Switches",
        summary="The rate of context switches between two processes.",
        workloads={"switches": "VperfSwitches"},
    ),
    _own(
        "guestmem",
        "memory:GuestMem",
        summary="The memory of a target, as ``free`` in it says.",
        workloads={"guestmem.free": "Free", "guestmem.meminfo": "Meminfo"},
    ),
    _own("bootmem", "memory:BootMem", summary="The memory that a machine's start takes."),
)

#: Every workload that has a parser, by the name that golden files and reports use: ``module:name``.
WORKLOADS: Mapping[str, str] = {
    **{name: place for tool in TOOLS for name, place in tool.workloads.items()},
    "threadcpu.stat": f"{__package__}.processors:StatFile",  # read from files, by no tool
}


def packages_of(tools: Iterable[Tool]) -> tuple[str, ...]:
    """The packages that an image with these tools has for them, each once."""
    return tuple(dict.fromkeys(package for tool in tools for package in tool.packages))


def workload_class(name: str) -> type[Workload[Any]]:
    """The dataclass of a workload.

    Raises:
        KeyError: there is none of that name; with the known names.
    """
    if name not in WORKLOADS:
        raise KeyError(f"{name!r} is not a workload: {', '.join(sorted(WORKLOADS))}")
    found: type[Workload[Any]] = _named(WORKLOADS[name])
    return found
