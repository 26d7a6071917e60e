"""A disk capped at 1200 blocks and 19.2 MB a second has just these, by fio's account: row S15's disk, made here."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from known_truth import judge, settings

from pytest_vperf.workloads.fio import Fio

if TYPE_CHECKING:
    from known_truth import Table
    from lab import Lab

    from pytest_vperf.workloads.fio import Transfer

IOPS, RATE = 1200, 19.2

#: Block size, blocks on their way, name of the cap in the facts, what 1 is, the unit, and how fio's figure is read.
SMALL = ("4 KiB", 32, "disk_read_iops", float(IOPS), "operation/s")
LARGE = ("128 KiB", 2, "disk_read_bytes", RATE, "MB/s")


@pytest.mark.parametrize("kind", ["host", "container", "pod"])
@pytest.mark.parametrize(("block", "depth", "cap", "value", "unit"), [SMALL, LARGE])
def test_fio_finds_the_cap(
    lab: Lab,
    table: Table,
    kind: str,
    block: str,
    depth: int,
    cap: str,
    value: float,
    unit: str,
) -> None:
    disk = lab.disks.make("64 MiB", below="memory")
    target = lab.start(
        kind, cpu_shares=1024, disks=[disk.capped(read_iops=IOPS, read_rate=f"{RATE} MB/s")]
    )
    fio = Fio(lab.bench)

    def figure(found: Transfer) -> float:
        return (found.iops if unit == "operation/s" else found.bandwidth.to(unit)).value

    def sample() -> float:
        found = fio.randread(
            target, disk, block_size=block, iodepth=depth, runtime="1 s", ramp_time="500 ms"
        )
        return figure(found) / value

    judge(
        table,
        setting=f"disk cap {value:g} {unit}, {block} randread",
        target=target.name,
        read_back=settings(target, cap),
        measured=sample,
        expected=1.0,
        within=0.02,
        # A disk that is capped leaves the CPU idle most of the time.
        bearable=0.05,
        scale=value,
        unit=unit,
    )
