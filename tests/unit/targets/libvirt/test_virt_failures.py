"""libvirt's error messages, and whether the connection is still alive."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from pytest_vperf.targets.base import CannotConnect, CannotStart, Unavailable
from pytest_vperf.targets.libvirt.connection import failed, is_lost, library, words

if TYPE_CHECKING:
    from types import ModuleType


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        ("internal error: process exited:\n  qemu: no   disk\n", "process exited: qemu: no disk"),
        ("operation failed: domain 'x' already exists", "domain 'x' already exists"),
        ("Requested operation is not valid: domain is not running", "domain is not running"),
        ("internal error: operation failed: both", "both"),
        ("Cannot find suitable CPU model", "Cannot find suitable CPU model"),
    ],
)
def test_error_messages_without_libvirts_prefix(libvirt: ModuleType, said: str, kept: str) -> None:
    assert words(libvirt.libvirtError(said)) == kept


def test_an_error_without_a_message_shows_its_call(libvirt: ModuleType) -> None:
    error = libvirt.libvirtError("virDomainCreateXML() failed")
    error.get_error_message = lambda: None
    assert words(error) == "virDomainCreateXML() failed"


@pytest.mark.parametrize(
    ("code", "domain", "lost"),
    [
        ("VIR_ERR_NO_CONNECT", "VIR_FROM_QEMU", True),
        ("VIR_ERR_INVALID_CONN", "VIR_FROM_QEMU", True),
        ("VIR_ERR_RPC", "VIR_FROM_RPC", True),
        ("VIR_ERR_SYSTEM_ERROR", "VIR_FROM_RPC", True),
        ("VIR_ERR_INTERNAL_ERROR", "VIR_FROM_RPC", True),
        ("VIR_ERR_INTERNAL_ERROR", "VIR_FROM_REMOTE", True),
        ("VIR_ERR_SYSTEM_ERROR", "VIR_FROM_QEMU", False),
        ("VIR_ERR_INTERNAL_ERROR", "VIR_FROM_QEMU", False),
        ("VIR_ERR_NO_DOMAIN", "VIR_FROM_QEMU", False),
        ("VIR_ERR_NO_DOMAIN", "VIR_FROM_REMOTE", False),
    ],
)
def test_a_connection_that_is_gone_is_told_from_a_refusal(
    libvirt: ModuleType, numbers: dict[str, int], code: str, domain: str, lost: bool
) -> None:
    error = libvirt.libvirtError("words", numbers[code], numbers[domain])
    assert is_lost(error) is lost
    made = failed(error, "start it", "guest kvm")
    assert made.target == "guest kvm"
    if lost:
        assert isinstance(made, CannotConnect)
        assert str(made) == (
            "guest kvm: the connection to libvirt was lost while it was to start it: words"
        )
    else:
        assert isinstance(made, CannotStart)
        assert str(made) == "guest kvm: libvirt could not start it: words"


def test_missing_libvirt_python_is_reported_with_the_packages(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "libvirt", None)
    with pytest.raises(Unavailable) as caught:
        library()
    assert caught.value.reason.startswith("libvirt-python is not usable: ")
    assert caught.value.remedy == (
        "apt-get install libvirt-dev pkg-config gcc python3-dev, then: pip install 'pytest-vperf[libvirt]'"
    )


def test_the_numbers_of_these_tests_are_those_of_the_library(numbers: dict[str, int]) -> None:
    real = pytest.importorskip("libvirt", reason="libvirt-python is not installed")
    assert {name: getattr(real, name) for name in numbers} == numbers


def test_errors_of_the_real_library(test_driver: object, capfd: pytest.CaptureFixture[str]) -> None:
    """They are parsed, and the library prints nothing itself."""
    libvirt = test_driver.libvirt  # type: ignore[attr-defined]
    with pytest.raises(libvirt.libvirtError) as caught:
        test_driver.handle.lookupByName("nobody")  # type: ignore[attr-defined]
    error = failed(caught.value, "find it", "guest")
    assert isinstance(error, CannotStart)
    assert str(error).startswith("guest: libvirt could not find it: Domain not found")
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("what", ["CPU tuning", "Block I/O tuning", "Memory tuning"])
def test_targets_that_need_root_are_not_measured_in_a_session(
    libvirt: ModuleType, what: str
) -> None:
    said = f"unsupported configuration: {what} is not available in session mode"
    made = failed(libvirt.libvirtError(said), "start it", "guest tcg")
    assert isinstance(made, Unavailable)
    assert made.target == "guest tcg"
    assert str(made) == (
        f"guest tcg: libvirt could not start it: {what} is not available in session mode"
        " (to mend it: --libvirt-uri=qemu:///system, as root or a member of the group libvirt)"
    )


def test_a_host_without_vhost_net_is_not_measured(libvirt: ModuleType) -> None:
    said = "unsupported configuration: vhost-net was requested for an interface, but is unavailable"
    made = failed(libvirt.libvirtError(said), "start it", "guest kvm")
    assert isinstance(made, Unavailable)
    assert str(made) == (
        "guest kvm: its host's kernel cannot move the packets of its card: vhost-net was requested for an interface,"
        " but is unavailable (to mend it: modprobe vhost_net, as root, there)"
    )
