"""How often a kernel does one small thing in a second: what the programs of system calls and switches print."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_vperf.quantity import Quantity
from pytest_vperf.workloads import own_program

if TYPE_CHECKING:
    from pytest_vperf.workloads.figures import Reader


def rate(reader: Reader, things: str) -> Quantity:
    """The rate in operation/s, higher is better, from the lines ``THINGS``, ``seconds`` and ``THINGS per second``.

    Raises:
        ParseError: a line is not there, is no number, or the three do not go together.
    """
    done = own_program.figure(reader, things)
    seconds = own_program.figure(reader, "seconds")
    found = own_program.figure(reader, f"{things} per second")
    # Printed with one decimal, and seconds with six.
    if abs(done / seconds - found) > 0.06 + found * 1e-6 / seconds:
        raise reader.error(f"{done:g} {things} in {seconds:g} s are not {found:g} a second")
    return Quantity(found, "operation/s", better="higher")
