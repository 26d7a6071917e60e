"""The beginning of a new threshold file: which machine it is for."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from pytest_vperf.machine.fingerprint import UNKNOWN
from pytest_vperf.quantity import format_number

if TYPE_CHECKING:
    from pytest_vperf.machine.fingerprint import Fingerprint

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
