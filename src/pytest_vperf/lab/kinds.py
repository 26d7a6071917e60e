"""The kinds of hosts a lab has, as data: what is installed on them, and what their machine is like."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

#: On every host of a lab: libvirt, SSH, what is needed to boot and be measured. ``nc`` is what libvirt calls there.
_COMMON = (
    *("systemd-sysv", "udev", "dbus", "kmod", "iproute2"),
    *("openssh-server", "netcat-openbsd"),
    # libvirt's storage and networks: disk images; name service and rules of a network.
    *("libvirt-daemon-system", "libvirt-clients", "qemu-utils", "dnsmasq-base", "iptables"),
    # A host of a lab is measured like any other host.
    *("procps", "util-linux", "mount", "e2fsprogs"),
)


@dataclass(frozen=True)
class Kind:
    """One kind of host.

    Attributes:
        name: ``kvm`` or ``xen``.
        title: for people.
        packages: Debian packages, the kernel apart.
        scheme: of its libvirt URI.
        cpu: QEMU's CPU model, by the lab's accelerator.
        machine: QEMU's machine type.
        modules: kernel modules that it loads.
        memory: MiB.
        vcpus: virtual CPUs.
        hypervisor: what boots before the kernel, as a pattern in the tree; empty: nothing.
        hypervisor_line: its command line.
    """

    name: str
    title: str
    packages: tuple[str, ...]
    scheme: str
    cpu: Mapping[str, str]
    machine: str = "q35"
    modules: tuple[str, ...] = ()
    memory: int = 6144
    vcpus: int = 2
    hypervisor: str = ""
    hypervisor_line: str = ""


KVM = Kind(
    "kvm",
    "KVM host",
    (
        *_COMMON,
        *("libvirt-daemon-driver-qemu", "qemu-system-x86", "qemu-system-data", "seabios"),
        # For guests on a bridge of its.
        "openvswitch-switch",
    ),
    scheme="qemu",
    # TCG emulates AMD's virtualisation (SVM) with its "max" CPU.
    cpu={"tcg": "max", "kvm": "host"},
    # KVM is AMD's or Intel's: only one of the two loads. Guests' networks are quicker with vhost-net.
    modules=("kvm_amd", "kvm_intel", "vhost_net", "tun", "bridge", "openvswitch"),
)
XEN = Kind(
    "xen",
    "Xen host",
    (
        *_COMMON,
        *("xen-system-amd64", "libvirt-daemon-driver-xen", "qemu-system-xen"),
        # For pods of dom0's own, without Xen: what those on Xen are compared with.
        *("qemu-system-x86", "qemu-system-data", "seabios"),
    ),
    scheme="xen",
    # With SMAP dom0 crashes when it is emulated; with an AMD CPU libvirt finds no CPU model, because Xen hides SEP.
    cpu={"tcg": "Nehalem", "kvm": "host"},
    modules=("xen_netback", "xen_blkback", "xen_gntdev", "tun", "bridge", "loop"),
    hypervisor="boot/xen-[0-9]*-amd64.gz",
    # The rest of the memory is for domUs. It is zero already: clearing it would make the machine have it all in use.
    hypervisor_line="dom0_mem=1536M,max:1536M bootscrub=0 console=com1 com1=115200 loglvl=warning",
)
KINDS: Mapping[str, Kind] = {kind.name: kind for kind in (KVM, XEN)}
