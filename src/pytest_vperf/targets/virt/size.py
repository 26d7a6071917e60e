"""The size of a machine, as a test asks for it."""

from __future__ import annotations

from pytest_vperf.quantity import amount
from pytest_vperf.targets.base import CannotStart


def vcpus_of(value: object) -> int:
    """A number of virtual CPUs.

    Raises:
        CannotStart: it is no whole number of at least 1.
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise CannotStart(f"vcpus is {value!r}, not a whole number of at least 1")
    return value


def memory_mib_of(value: object) -> int:
    """A machine's memory in MiB, of a text such as ``512 MiB``.

    Raises:
        QuantityError: it is no size.
        CannotStart: it is less than 1 MiB.
    """
    found = round(amount("memory", value, "MiB", such_as="512 MiB"))
    if found < 1:
        raise CannotStart(f"memory is {value!r}, less than 1 MiB")
    return found
