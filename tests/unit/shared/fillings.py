"""A record of a filling."""

from __future__ import annotations

from pytest_vperf.results.record import Cost, FillingRecord, Reading, Spread


def filling() -> FillingRecord:
    """Of 27 pods, with which the memory of their group was full."""
    return FillingRecord(
        name="pod tcg qboot",
        nodeid="test_density.py::test_it",
        started_at="2026-01-01T00:00:00+00:00",
        duration_s=61.5,
        teardown_s=0.42,
        count=27,
        stop="oom",
        why="the control group of all, with 6 GiB, had no memory left for one more: the kernel ended 1 process",
        most=None,
        memory=6 << 30,
        memory_asked=True,
        floor=512 << 20,
        floor_asked=False,
        at_once=2,
        held=True,
        outside=False,
        watched="",
        options={},
        curve=[Reading(n=0, at_s=0.0, available=20 << 30, group_used=0)],
        process={
            "rss": Spread(min=210.0, mean=220.5, max=231.0),
            "pss": Spread(min=180.0, mean=190.0, max=200.0),
            "size": Spread(min=1200.0, mean=1200.0, max=1200.0),
        },
        inside={
            "total": Spread(min=470.0, mean=470.0, max=470.0),
            "used": Spread(min=40.0, mean=41.0, max=42.0),
            "free": Spread(min=428.0, mean=429.0, max=430.0),
        },
        cost=Cost(estimate=218.0, low=210.0, high=225.5, confidence=0.95),
        cost_in_group=Cost(estimate=217.0, low=None, high=None, confidence=0.95),
        targets=[],
    )
