"""Network namespaces by name, as ``ip netns`` has them: made, entered, and removed."""

from __future__ import annotations

import contextlib
import ctypes
import os
import threading
from typing import TYPE_CHECKING, TypeVar

from pytest_vperf.machine.networks import NAMESPACES
from pytest_vperf.targets.base import TargetError, Unavailable
from pytest_vperf.targets.network.commands import ip

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    T = TypeVar("T")

_CLONE_NEWNET = 0x40000000  # Linux, include/uapi/linux/sched.h


class Namespace:
    """A network namespace that has a name.

    Attributes:
        name: as ``ip netns`` shows it.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    @classmethod
    def create(cls, name: str) -> Namespace:
        """Make it; its loopback is up.

        Raises:
            Unavailable: this user may not.
            TargetError: the kernel refuses.
        """
        if os.geteuid() != 0:
            raise Unavailable(
                "only root can make network namespaces and links", remedy="run as root"
            )
        made = cls(name)
        if made.exists:
            raise TargetError(f"there is a network namespace {name} already")
        try:
            ip("netns", "add", name)
            ip("link", "set", "lo", "up", namespace=made.path)
        except BaseException:
            with contextlib.suppress(TargetError):
                made.delete()
            with contextlib.suppress(OSError):  # half made, it is a file and no namespace
                made.path.unlink()
            raise
        return made

    @property
    def path(self) -> Path:
        """The file by which it can be entered."""
        return NAMESPACES / self.name

    @property
    def exists(self) -> bool:
        """Whether it is there."""
        return self.path.exists()

    def inside(self, work: Callable[[], T]) -> T:
        """Call a function within it, in a thread that ends with the call; the rest of the process stays outside.

        Raises:
            TargetError: it cannot be entered.
        """
        results: list[T] = []
        errors: list[BaseException] = []

        def call() -> None:
            try:
                _enter(self.path)
                results.append(work())
            except BaseException as error:
                errors.append(error)

        thread = threading.Thread(target=call, name=f"in {self.name}")
        thread.start()
        thread.join()
        if errors:
            raise errors[0]
        return results[0]

    def delete(self) -> None:
        """Take its name away, and with it, once no process is in it, all its links. Safe to repeat.

        Raises:
            TargetError: the kernel refuses.
        """
        if self.exists:
            ip("netns", "delete", self.name)


def _enter(path: Path) -> None:
    """Move the calling thread into a namespace (setns(2); Python has it from 3.12 on)."""
    libc = ctypes.CDLL(None, use_errno=True)
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if libc.setns(descriptor, _CLONE_NEWNET):
            raise TargetError(f"{path} cannot be entered: {os.strerror(ctypes.get_errno())}")
    finally:
        os.close(descriptor)
