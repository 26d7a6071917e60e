"""What libvirt says when it refuses, as the errors of targets; and the library, or the word that it is missing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_vperf.targets.base import CannotConnect, CannotStart, TargetError, Unavailable

if TYPE_CHECKING:
    from types import ModuleType

#: How a daemon of an ordinary user says that limits of machines need root (libvirt, src/qemu/qemu_validate.c).
_SESSION = "not available in session mode"
_UNSUPPORTED = "unsupported configuration: "
#: How it says that /dev/vhost-net cannot be opened (libvirt, src/qemu/qemu_interface.c).
_NO_VHOST = "vhost-net was requested for an interface, but is unavailable"
#: What an ordinary user does for it.
AS_SYSTEM = "--libvirt-uri=qemu:///system, as root or a member of the group libvirt"
REMEDY = "apt-get install libvirt-dev pkg-config gcc python3-dev, then: pip install 'pytest-vperf[libvirt]'"


def library() -> ModuleType:
    """The module ``libvirt``, told not to print its errors: they are raised.

    Raises:
        Unavailable: libvirt-python is not installed.
    """
    try:
        import libvirt
    except ImportError as error:
        raise Unavailable(f"libvirt-python is not usable: {error}", remedy=REMEDY) from None
    libvirt.registerErrorHandler(_silent, None)
    module: ModuleType = libvirt
    return module


def _silent(_: object, __: object) -> None:
    """Errors are exceptions; printed as well they would end up between pytest's lines."""


def words(error: Any) -> str:
    """An error's own words in one line, without the parts that speak of libvirt's insides."""
    said = " ".join(str(error.get_error_message() or error).split())
    for prefix in ("internal error: ", "operation failed: ", "Requested operation is not valid: "):
        said = said.removeprefix(prefix)
    return said


def is_lost(error: Any) -> bool:
    """Whether an error says that the connection to the daemon is gone."""
    libvirt = library()
    code = error.get_error_code()
    if code in (libvirt.VIR_ERR_NO_CONNECT, libvirt.VIR_ERR_INVALID_CONN):
        return True
    if error.get_error_domain() not in (libvirt.VIR_FROM_RPC, libvirt.VIR_FROM_REMOTE):
        return False
    return code in (
        libvirt.VIR_ERR_RPC,
        libvirt.VIR_ERR_SYSTEM_ERROR,
        libvirt.VIR_ERR_INTERNAL_ERROR,
    )


def failed(error: Any, what: str, target: str) -> TargetError:
    """The error for a call that failed after the connection was made.

    What a daemon of an ordinary user, or its machine's kernel, cannot have is *not measured*, and no failure.

    Args:
        error: libvirt's.
        what: was tried.
        target: for whom.
    """
    if is_lost(error):
        return CannotConnect(
            f"{target}: the connection to libvirt is gone while it was to {what}: {words(error)}",
            target=target,
        )
    said = words(error)
    if _SESSION in said:
        reason = f"{target}: libvirt could not {what}: {said.removeprefix(_UNSUPPORTED)}"
        return Unavailable(reason, remedy=AS_SYSTEM, target=target)
    if _NO_VHOST in said:
        reason = f"{target}: its host's kernel cannot move the packets of its card: {said.removeprefix(_UNSUPPORTED)}"
        return Unavailable(reason, remedy="modprobe vhost_net, as root, there", target=target)
    return CannotStart(f"{target}: libvirt could not {what}: {said}", target=target)
