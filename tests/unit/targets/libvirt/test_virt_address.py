"""libvirt URIs: those that can start machines are accepted, others refused with an example."""

from __future__ import annotations

import pytest

from pytest_vperf.targets.base import Unavailable
from pytest_vperf.targets.libvirt import address


@pytest.mark.parametrize(
    ("uri", "driver", "remote", "session"),
    [
        ("qemu:///system", "qemu", False, False),
        ("qemu:///session", "qemu", False, True),
        ("qemu:///system?socket=/run/x", "qemu", False, False),
        ("qemu+unix:///system", "qemu", False, False),
        ("qemu+ssh://root@host/system", "qemu", True, False),
        ("qemu+libssh2://root@[::1]:22/system?keyfile=/k", "qemu", True, False),
        ("qemu+tcp://host:16509/system", "qemu", True, False),
        ("xen:///system", "xen", False, False),
        ("xen:///", "xen", False, False),
        ("xen+ssh://root@host/", "xen", True, False),
        ("xen+ssh://root@host", "xen", True, False),
    ],
)
def test_drivers_that_can_start_machines_are_accepted(
    uri: str, driver: str, remote: bool, session: bool
) -> None:
    assert address.check(uri) == uri
    assert address.driver(uri) == driver
    assert address.is_remote(uri) is remote
    assert address.is_session(uri) is session


EXAMPLE = "give qemu:///system, qemu+ssh://root@HOST/system or xen:///system"


@pytest.mark.parametrize(
    ("uri", "why"),
    [
        ("", f"'' names no driver of libvirt that starts machines here: {EXAMPLE}"),
        ("host", f"'host' names no driver of libvirt that starts machines here: {EXAMPLE}"),
        (
            "lxc:///system",
            f"'lxc:///system' names no driver of libvirt that starts machines here: {EXAMPLE}",
        ),
        (
            "test:///default",
            f"'test:///default' names no driver of libvirt that starts machines here: {EXAMPLE}",
        ),
        (
            "qemu+telnet://host/system",
            "'qemu+telnet://host/system': 'telnet' is not a transport of libvirt; there are unix, ssh, libssh,"
            " libssh2, tls, tcp, ext",
        ),
        (
            "qemu+ssh://host",
            f"'qemu+ssh://host': the path is not /system: {EXAMPLE}",
        ),
        ("qemu:///sytem", f"'qemu:///sytem': the path is not /system: {EXAMPLE}"),
        ("xen:///session", f"'xen:///session': the path is not /system: {EXAMPLE}"),
        ("qemu+ssh://root@/system", f"'qemu+ssh://root@/system' names no host: {EXAMPLE}"),
        (
            "qemu+ssh://root@:22/system",
            f"'qemu+ssh://root@:22/system' names no host: {EXAMPLE}",
        ),
        ("qemu+ssh://[::1/system", f"'qemu+ssh://[::1/system' is not an address: {EXAMPLE}"),
        (
            "qemu+ssh://host:ssh/system",
            f"'qemu+ssh://host:ssh/system' is not an address: {EXAMPLE}",
        ),
        (
            "qemu+ssh://host:70000/system",
            f"'qemu+ssh://host:70000/system' is not an address: {EXAMPLE}",
        ),
    ],
)
def test_unusable_addresses_are_refused(uri: str, why: str) -> None:
    with pytest.raises(ValueError) as caught:
        address.check(uri)
    assert str(caught.value) == why


def test_parameters_are_not_shown() -> None:
    """They name key files and commands to run."""
    assert address.shown("xen+ssh://h/?keyfile=/secret&no_verify=1") == "xen+ssh://h/"
    assert address.shown("qemu:///system") == "qemu:///system"


@pytest.mark.parametrize(
    ("uri", "url"),
    [
        ("qemu+ssh://root@host:2222/system?keyfile=/k", "ssh://root@host:2222"),
        ("xen+libssh2://host/", "ssh://host"),
    ],
)
def test_the_host_of_a_daemon_over_ssh(uri: str, url: str) -> None:
    assert address.ssh_url(uri) == url


def test_commands_on_the_host_of_a_daemon_need_ssh() -> None:
    with pytest.raises(Unavailable) as caught:
        address.ssh_url("qemu+tls://host/system?pkipath=/k")
    assert caught.value.reason == (
        "commands on the machine of qemu+tls://host/system need SSH, and libvirt is reached there without"
    )
    assert caught.value.remedy == "name it with +ssh, e.g. qemu+ssh://root@HOST/system"
