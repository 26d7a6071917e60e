"""A host filled with guests: their QEMUs are in the shared group, wherever libvirt would have put them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from fillings_here import filled, groups_of_fillings

from pytest_vperf.machine import cgroups

if TYPE_CHECKING:
    from guests_here import Place

pytestmark = [
    pytest.mark.patient,
    pytest.mark.skipif(
        os.geteuid() != 0,
        reason="to hold many targets to a memory needs root (to mend it: run as root)",
    ),
]


def test_guests_share_a_group(guest_place: Place) -> None:
    filling = filled(guest_place.guests(), guest_place.run, most=2, of_each={"init": "small"})
    try:
        record = filling.record
        assert (record["count"], record["stop"]) == (2, "most")
        assert [reading["n"] for reading in record["curve"]] in ([0, 2], [0, 1, 2])
        pids = [filling.another().process for _ in range(2)]
        assert len(set(pids)) == 2
        for pid in pids:
            assert "qemu" in Path(f"/proc/{pid}/cmdline").read_text().split("\0")[0]
            assert Path(f"/proc/{pid}/oom_score_adj").read_text() == "500\n"
        if record["held"]:
            groups = [cgroups.paths_of(pid) for pid in pids]
            shared = f"/{guest_place.run.cgroup}.density"
            assert all((found.get("memory") or found[""]).startswith(shared) for found in groups)
            used = record["curve"][-1]["group_used"]
            assert used is not None
            assert used > 100 << 20
        assert record["process"]["rss"]["min"] > 100
        assert 400 < record["inside"]["total"]["mean"] < 512
    finally:
        filling.close()
    assert guest_place.traces() == []
    assert groups_of_fillings(guest_place.run) == []


def test_guests_until_their_memory_is_full(guest_place: Place) -> None:
    """libvirt removes the group of a guest that the kernel killed, and with it the kernel's count of kills."""
    filling = filled(
        guest_place.guests(), guest_place.run, memory=400 << 20, of_each={"init": "small"}
    )
    try:
        record = filling.record
        # Each has some 150 to 300 MiB of its 512.
        assert filling.count <= 3
        if record["held"]:
            assert record["stop"] == "oom"
            assert "the control group of all, with 400 MiB, had no memory left" in record["why"]
        else:
            assert record["stop"] == "budget"
        pids = [filling.another().process for _ in range(filling.count)]
        assert all("qemu" in Path(f"/proc/{pid}/cmdline").read_text() for pid in pids)
        assert len(guest_place.machines()) == filling.count
    finally:
        filling.close()
    assert guest_place.traces() == []
    assert groups_of_fillings(guest_place.run) == []
