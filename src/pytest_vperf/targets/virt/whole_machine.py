"""What a whole machine has as a target, whatever it is spoken to by: a network, disks of the run, and its end."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from typing_extensions import Self

    from pytest_vperf.targets.base import Link, Target
    from pytest_vperf.targets.disks import Disk
    from pytest_vperf.targets.virt.domain import Domain


class WholeMachine:
    """A part of a target that is a machine of libvirt's.

    Attributes:
        link: how it is on a network, if it is.
        disks: of the run, that it was started with.
        on_close: gives them back.
    """

    link: Link | None = None
    disks: tuple[Disk, ...] = ()
    on_close: Callable[[], None] = staticmethod(lambda: None)
    _domain: Domain

    def join(self: _Joins, link: Link, address: str) -> None:
        """Take an address on a network; the machine is ended where that fails.

        Raises:
            Unavailable: its image has no program for that.
            TargetError: it refuses; with its words.
        """
        from pytest_vperf.targets.network.card import configure

        self.link = link
        try:
            configure(self, address)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End the machine; it has nothing to save."""
        self._domain.destroy()
        self.on_close()
        if self.link is not None:
            self.link.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


if TYPE_CHECKING:
    from typing import Protocol

    class _Joins(Target, Protocol):
        link: Link | None
