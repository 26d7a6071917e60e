"""Whether a run was made on the machine of now: limits of two machines are limits of none."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

from pytest_vperf.machine.fingerprint import UNKNOWN
from pytest_vperf.quantity import Quantity, QuantityError, format_number

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_vperf.machine.fingerprint import Fingerprint


# The beginning of a new threshold file: which machine it is for.

#: The kernel's memory is a little more or less with each kernel.
MEMORY_TOLERANCE = 0.05


def head(name: str, machine: Fingerprint) -> list[str]:
    """The lines above the claims: name and match of a machine.

    The kernel is left out, as limits are to be held against new kernels.
    """
    match: list[str] = []
    if machine.cpu_model != UNKNOWN:
        match.append(f"cpu_model: {json.dumps(machine.cpu_model, ensure_ascii=False)}")
    if machine.logical_cpus is not None:
        match.append(f"logical_cpus: {machine.logical_cpus}")
    if machine.memory is not None:
        low, high = (
            format_number(round(machine.memory.value * factor, 1))
            for factor in (1 - MEMORY_TOLERANCE, 1 + MEMORY_TOLERANCE)
        )
        match.append(f"memory: {low} GiB .. {high} GiB")
    for key in ("hypervisor", "architecture"):
        value: str = getattr(machine, key)
        if value != UNKNOWN:
            match.append(f"{key}: {json.dumps(value)}")
    return [
        "# Limits of one machine. `vperf calibrate` sets those with `calibrated`, and leaves all others alone.",
        "hardware:",
        f"  name: {name}",
        "  match:",
        *(f"    {line}" for line in match),
    ]


def differences(document: Mapping[str, Any], machine: Fingerprint) -> str:
    """What of the machine is not as it was in the record of a run; empty where it is the same."""
    then = document["fingerprint"] or {}
    now = machine.as_dict()
    return "; ".join(
        f"{key} was {then.get(key)!r}, and is {value!r}"
        for key, value in now.items()
        if then.get(key) != value
        and not (key == "memory" and _is_that_memory(then.get(key, ""), machine))
    )


def _is_that_memory(then: str, machine: Fingerprint) -> bool:
    """Whether it is the memory of now but for what a kernel takes of it at one start and not at another."""
    try:
        before = Quantity.parse(then).to("GiB").value
    except QuantityError:
        return False
    return machine.memory is not None and math.isclose(
        before, machine.memory.value, rel_tol=MEMORY_TOLERANCE
    )
