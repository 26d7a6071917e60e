"""The first root of a pod's machine: the agent as /init, and the modules it loads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_vperf.machine import cache
from pytest_vperf.targets.agent.build import build_agent
from pytest_vperf.targets.kernel import modules
from pytest_vperf.targets.kernel.cpio import Archive

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_vperf.targets.kernel.guest_kernel import GuestKernel


def build_initramfs(
    kernel: GuestKernel, more: tuple[str, ...] = (), *, needed: tuple[str, ...] = modules.NEEDED
) -> Path:
    """The initramfs for one kernel, not compressed: unpacking costs more than reading, most of all emulated.

    Args:
        kernel: the guest kernel.
        more: modules besides those that every pod needs.
        needed: those.

    Raises:
        CannotStart: a module is missing or the agent does not compile.
        Unavailable: there is no C compiler.
    """
    agent = build_agent().read_bytes()
    drivers = modules.collect(kernel.modules, needed + more) if kernel.modules else []
    content = _archive(agent, drivers)

    def build(folder: Path) -> None:
        (folder / "initramfs").write_bytes(content)

    return cache.entry("initramfs", cache.content_key([content]), build) / "initramfs"


def _archive(agent: bytes, drivers: list[tuple[str, bytes]]) -> bytes:
    archive = Archive()
    archive.folder("dev")
    # The kernel opens it as the first process's standard streams, before /dev is mounted.
    archive.device("dev/console", 5, 1)
    archive.file("init", agent, 0o755)
    if drivers:
        archive.folder("modules")
        archive.file("modules/order", "".join(f"{name}\n" for name, _ in drivers).encode())
        for name, content in drivers:
            archive.file(f"modules/{name}", content)
    return archive.bytes()
