"""The kernel's share of a machine's start."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_vperf.quantity import Quantity
from pytest_vperf.targets.base import Unavailable

if TYPE_CHECKING:
    from pytest_vperf.targets.base import Started


def kernel_phase(machine: Started) -> Quantity:
    """The kernel's share of a machine's start: from its first output until the first program of its root runs.

    Raises:
        Unavailable: this kernel prints nothing when it starts, so that the moment is unknown.
    """
    time = machine.startup_time
    found = dict(time.breakdown).get("kernel")
    if found is None:
        raise Unavailable(
            f"the kernel of {machine.name} prints nothing when it starts, so its share of the start is unknown",
            remedy="a kernel with CONFIG_SERIAL_8250_CONSOLE",
            target=machine.name,
        )
    return Quantity(found, time.unit, direction="lower")
