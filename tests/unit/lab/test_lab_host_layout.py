"""The contents of a host's disk, which must have no keys and no identity."""

from __future__ import annotations

import re

import pytest

from pytest_vperf.lab.image import layout
from pytest_vperf.lab.kinds import KINDS, KVM, XEN


@pytest.mark.parametrize("kind", KINDS.values(), ids=list(KINDS))
@pytest.mark.parametrize(
    "path",
    [
        "etc/ssh/ssh_host_rsa_key",
        "etc/ssh/ssh_host_ed25519_key.pub",
        "var/lib/dbus/machine-id",
        "usr/share/doc/libvirt-daemon/README",
        "usr/lib/python3/dist-packages/x.py",
        "var/cache/apt/archives/x.deb",
    ],
)
def test_keys_and_identities_are_left_out(kind: object, path: str) -> None:
    assert layout(kind).left_out.match(path)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "path",
    [
        "etc/ssh/sshd_config",
        "boot/vmlinuz-6.1.0-1-amd64",
        "var/cache/libvirt",
        "var/lib/libvirt/images",
        "usr/share/qemu/bios-256k.bin",
        "usr/share/dbus-1/system.conf",
        "devices",
    ],
)
def test_other_files_are_kept(path: str) -> None:
    assert not layout(KVM).left_out.match(path)


def test_every_start_has_an_identity_of_its_own() -> None:
    assert layout(KVM).files["etc/machine-id"] == b""


def test_wanted_units_exist_and_are_not_masked() -> None:
    for kind in (KVM, XEN):
        files = layout(kind).files
        masked = {
            path for path, content in files.items() if path.endswith(".service") and not content
        }
        target = files["etc/systemd/system/vperf-lab.target"].decode()
        for unit in re.findall(r"vperf-\w+\.service", target):
            assert files[f"etc/systemd/system/{unit}"]
        assert not {name for name in masked if name.endswith(("ssh.service", "libvirtd.service"))}
        assert files["etc/systemd/system/timers.target"] == b""


def test_only_a_xen_host_waits_for_xen() -> None:
    path = "etc/systemd/system/libvirtd.service.d/xen.conf"
    assert b"After=xen.service" in layout(XEN).files[path]
    assert path not in layout(KVM).files


def test_only_a_kvm_host_has_open_vswitch_before_it_is_ready() -> None:
    kvm, xen = layout(KVM).files, layout(XEN).files
    assert "openvswitch-switch" in KVM.packages
    assert "openvswitch" in KVM.modules
    units = "etc/systemd/system"
    assert b"Wants=vperf-openvswitch.service" in kvm[f"{units}/vperf-lab.target.d/kvm.conf"]
    assert b"After=vperf-openvswitch.service" in kvm[f"{units}/vperf-ready.service.d/kvm.conf"]
    assert b"/usr/lib/vperf/openvswitch" in kvm[f"{units}/vperf-openvswitch.service"]
    assert b"ovs-vswitchd" in kvm["usr/lib/vperf/openvswitch"]
    assert not [path for path in xen if "openvswitch" in path]


def test_root_logs_in_by_key_alone() -> None:
    lines = layout(KVM).files["etc/ssh/sshd_config.d/lab.conf"].decode().splitlines()
    assert {"PermitRootLogin prohibit-password", "PasswordAuthentication no"} <= set(lines)
