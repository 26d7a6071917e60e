"""Which claims a calibration makes limits for, and which it leaves alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_vperf.claims.consistency import ANY
from pytest_vperf.claims.criterion import Limit, NearLimit, Saturates, Unknown

if TYPE_CHECKING:
    from pytest_vperf.claims.thresholds import Threshold


def why_left_alone(
    threshold: Threshold | None,
    profile: str,
    *,
    paired: bool,
    swept: bool = False,
    model: Threshold | None = None,
) -> str:
    """Why a claim gets no limit of this machine; empty where it gets one.

    A limit that is published, or that somebody wrote, is a promise: it is not moved to where the machine is. What a
    calibration may set is what no file that judges here has a figure for, and what an earlier calibration has set.

    Args:
        threshold: the claim's, of the profile or of ``any``; ``None`` where neither has one.
        profile: the name of the profile that is calibrated.
        paired: whether the test compares two targets.
        swept: whether it lets a load grow.
        model: the claim's threshold on other hardware, where ``threshold`` is ``None``; says what the claim means.
    """
    meant = threshold or model
    criterion = meant.criterion if meant else None
    if swept or isinstance(criterion, Saturates):
        return "a level where more load brings no more, which has two sides; a limit has one"
    if paired or not (criterion is None or isinstance(criterion, (Limit, NearLimit, Unknown))):
        return "a comparison needs no calibration: it holds on every machine or on none"
    if meant is None:
        return ""
    where, source = meant.location, meant.source
    if isinstance(criterion, NearLimit):
        return f"near a value, which has two sides; a limit has one ({where})"
    if isinstance(criterion, Limit) and criterion.statistic != "median":
        return f"about {criterion.statistic}, and calibrated are medians ({where})"
    if threshold is None:
        return ""
    if source is not None and source.calibration is not None:
        return ""
    if isinstance(criterion, Limit) and threshold.profile == ANY and profile != ANY:
        return f"has a limit for every machine ({where})"
    if threshold.profile == profile and source is not None:
        return f"{'its figure is published' if isinstance(criterion, Limit) else 'is published'} ({where})"
    if threshold.profile == profile and isinstance(criterion, Limit):
        return f"has a limit that is not from a calibration ({where}); without it there the claim is calibrated"
    return ""
