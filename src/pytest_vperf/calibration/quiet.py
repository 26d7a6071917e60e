"""Whether this machine is quiet enough for a limit of its own to be measured on it.

A comparison shares the noise between its arms; a limit has no other side. One that is measured beside other load is
wide, or holds only while that load is there.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from pytest_vperf.machine import noise, noise_settings, noise_warnings

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

#: Seconds of sampling below which the kernel's ticks of 10 ms say too little of a share of 1 %.
_LEAST_WINDOW = 5.0


def before() -> list[str]:
    """What makes this machine noisy before anything was measured: what the header of a run would name."""
    return [warning.short for warning in noise_warnings.look()]


def pause(seconds: float) -> list[str]:
    """Wait between two runs; what others did with this machine meanwhile.

    Its load does not count: that is an average over a minute, in which the run before is.
    """
    then = noise.snapshot()
    time.sleep(seconds)
    seen = noise.evidence(then, noise.snapshot())
    if seen["window_s"] < _LEAST_WINDOW:
        return []
    seen.pop("load", None)
    # Only what was seen: the settings were looked at before the first run.
    known = {warning.short for warning in noise_warnings.warnings(noise_settings.settings())}
    found = noise_warnings.warnings(noise_settings.settings(), seen)
    return [each.short for each in found if each.short not in known]


def during(document: Mapping[str, Any]) -> list[str]:
    """What disturbed a run from outside.

    Only what the run cannot have done itself: its own programs make load, and wait for processors and disks.

    Args:
        document: the record of the run.
    """
    sessions = [each for claim in document["claims"] for each in claim["noise"]["sessions"]]
    return list(_disturbances(sessions))


def _disturbances(sessions: list[dict[str, Any]]) -> Iterator[str]:
    known = [each for each in sessions if "steal" in each]
    window = sum(each["window_s"] for each in known)
    if window >= _LEAST_WINDOW:
        steal = sum(each["steal"] * each["window_s"] for each in known) / window
        if steal > noise_warnings.STEAL:
            yield f"steal {100 * steal:.2g} % of CPU time while it was measured"
    slowed = sum(sum(each.get("throttled", {}).values()) for each in sessions)
    if slowed:
        yield f"thermal throttling {slowed} times while it was measured"
