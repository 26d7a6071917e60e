"""The names of systems, and what a machine shows of the one that it runs on.

A name is a claim, too: figures that are published of ESXi are held against what is named ``esxi``. So a name that is
a system's is taken only where the machine itself shows that system: in the CPU's flags and clocks, the firmware's
tables, or the container's own files.
"""

from __future__ import annotations

import re
from typing import NamedTuple

#: Systems whose response times 003_4ad515ced36f0f28.txt compares.
SYSTEMS = ("esxi", "xenserver", "hyperv", "openvz")
#: The hardware of a system, without it.
HOST = "host"
#: A word of a claim's name.
NAME = re.compile(r"[a-z][a-z0-9_]*")
OPTION = "--vperf-machine"


class Shown(NamedTuple):
    """What a machine shows of the system that it runs on.

    Attributes:
        hypervisor: as in the fingerprint; ``none`` on bare metal, ``unknown`` where it has no name.
        container: the container manager's name, in lower case; empty outside a container.
    """

    hypervisor: str
    container: str

    def __str__(self) -> str:
        under = "no hypervisor" if self.hypervisor == "none" else f"hypervisor {self.hypervisor}"
        return f"container {self.container}, {under}" if self.container else under


#: What a system's machines show: containers by their manager, virtual machines by their hypervisor.
_CONTAINERS = ("openvz", "lxc", "docker", "podman")
_HYPERVISORS = {
    "esxi": "vmware",
    "vmware": "vmware",
    "xenserver": "xen",
    "xen": "xen",
    "hyperv": "hyperv",
    "kvm": "kvm",
    "virtualbox": "virtualbox",
    "parallels": "parallels",
}
#: The name of the container manager, if any. OpenVZ has /proc/bc on its host alone (systemd tests the same, in
#: src/basic/virt.c). Others say it in the environment of the first process (systemd.io, "The Container Interface"),
#: which systemd copies to a file that everybody may read. The first line tells two containers of one kernel apart: by
#: the namespace, and by the root folder where the kernel shows no namespaces (before 3.8, such as OpenVZ's 2.6.32).
LOOK = """
echo "$(readlink /proc/self/ns/pid) $(stat -c %d:%i /)"
if [ -e /proc/vz ] && [ ! -e /proc/bc ]; then echo openvz
elif [ -s /run/systemd/container ]; then head -c 100 /run/systemd/container
elif [ -e /.dockerenv ]; then echo docker
elif [ -e /run/.containerenv ]; then echo podman
elif [ -r /proc/1/environ ]; then tr '\\0' '\\n' </proc/1/environ | sed -n 's/^container=//p' | head -c 100
fi
"""


def contradiction(name: str, shown: Shown) -> str:
    """Why a machine cannot have a system's name, in words; empty if it can.

    Args:
        name: that the user gave it; ``host`` contradicts nothing, since hosts are nested, and what the machine shows
            is in the record.
        shown: by the machine.
    """
    if name in _CONTAINERS:
        return "" if shown.container == name else f"it shows no container of {name}, but {shown}"
    wanted = _HYPERVISORS.get(name)
    if wanted is None:
        return ""
    if shown.container:
        return f"it is a container, by what it shows: {shown}"
    if shown.hypervisor == wanted:
        return ""
    return f"it shows no hypervisor of that name ({wanted}), but {shown}"
