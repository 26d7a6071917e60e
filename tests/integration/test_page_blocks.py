"""The blocks of README and the pages that start targets: each test is run, and each claim of it is measured."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from engine_here import require
from page_blocks import PAGES, Reader, blocks

from pytest_vperf.machine.preflight import program

if TYPE_CHECKING:
    from pathlib import Path

    from page_blocks import Block

if TYPE_CHECKING:
    from pathlib import Path

#: Little of everything, on any machine.
QUICKLY = (
    "--claims-sessions=1",
    "--claims-advisory",
    "--scale-count=2",
    "--density-memory=600 MiB",
    "--start-timeout=60s",
)
#: For a comparison of pods, whose machines are emulated here.
BUDGETS = {"writing": "12s"}
#: What a page takes to be there: of a runtime's checkout, a build and a test.
THERE = {
    "gate": """
mkdir build && cp /usr/sbin/runc build && echo >> build/runc  # the same bytes are no comparison
echo '
import pytest
@pytest.mark.startup
def test_it(claim, containers): claim("mine.start").holds(lambda: containers.start().startup_time)
' > test_start.py
"""
}
#: Of claims that the pages give no limit, and the shipped files neither.
LIMITS = """
hardware: {name: mine, match: {logical_cpus: ">= 1"}}
claims:
  cpu.quota: {near: {value: 0.5, tolerance: 5 %}}
  cpu.sysbench: {unknown: none is published, unit: ms}
  crun.before.runc: {ratio: {at_most: 1}}
  mine.platform: {no_worse: lower_is_better}
  mine.syscalls: {unknown: none is published, unit: operation/s}
  network.throughput.container: {unknown: none is published, unit: Gbit/s}
  priority.weights: {ratio: {at_most: 1}}
  response.*.container.runc: {unknown: none is published, unit: operation/s}
  saturation.packets.container: {unknown: none is published, unit: packet/s}
"""


def wanted(page: Path, language: str = "python") -> list[Block]:
    """The blocks in a language that start targets."""
    found = [each for each in blocks(page) if each.starts_targets and not each.not_run]
    return [each for each in found if each.language == language]


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "page", [each for each in PAGES if wanted(each)], ids=lambda page: page.stem
)
def test_the_blocks_with_targets_of_a_page(page: Path, tmp_path: Path) -> None:
    require("container", program("dockerd", "docker.io"))
    (tmp_path / "thresholds").mkdir()
    (tmp_path / "thresholds" / "mine.yaml").write_text(LIMITS)
    (tmp_path / "pytest.ini").write_text("[pytest]\nclaims_json = run.json\n")
    reader = Reader(tmp_path, (*QUICKLY, f"--claims-budget={BUDGETS.get(page.stem, '2s')}"))
    files = [each.file for each in wanted(page)]
    if page.stem in THERE:
        reader.run(THERE[page.stem])
    for block in blocks(page):
        if not block.not_run and (block.language == "yaml" or block.file in files):
            reader.follow(block, targets=True)
    # What the page types, and each file if it types none of them.
    typed = [command for block in wanted(page, "console") for command in block.commands]
    if not typed or page.stem in THERE:
        typed.append(f"pytest {' '.join(files)}")
    said = "".join(map(reader.run, typed))
    record = json.loads((tmp_path / "run.json").read_text())
    assert len(record["claims"]) >= len(files), said
    # How many fit is known where the machine is full, and not the memory that they may take.
    filled = [each["count"] for each in record["fillings"]]
    left = [each["name"] for each in record["claims"] if not each["n"]]
    assert left == ["density.count.pod.kvm"] * len(filled), said
    assert all(filled), said
