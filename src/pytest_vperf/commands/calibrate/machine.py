"""Whether a run was made on the machine of now: limits of two machines are limits of none."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from pytest_vperf.calibration.profile_head import MEMORY_TOLERANCE
from pytest_vperf.quantity import Quantity, QuantityError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_vperf.machine.fingerprint import Fingerprint


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
