"""The image that tests with tools use: the distribution's tools, and our own programs where they can be compiled."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_vperf.targets.image import Rootfs


def make(say: Callable[[str], None] | None = None) -> Rootfs:
    """The image; built where it is not in the cache.

    Args:
        say: is told when something that takes long begins.

    Raises:
        Unavailable: it cannot be built here; says what is missing and what mends it.
    """
    from pytest_vperf.targets import debian_image
    from pytest_vperf.targets.base import Unavailable
    from pytest_vperf.workloads import programs

    try:
        ours = programs.build()
    except Unavailable as error:
        # Without a compiler there are still the tools of the distribution.
        lacking = dict.fromkeys(programs.PROGRAMS, str(error))
        return debian_image.tools_rootfs(without=lacking, say=say)
    return debian_image.tools_rootfs(ours, say=say)
