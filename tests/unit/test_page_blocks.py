"""What README and the pages show is done by a reader: commands are typed, tests and threshold files written.

Blocks whose tests start targets are collected here, and run in tests/integration/test_page_blocks.py.
"""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import page_blocks
import pytest
from page_blocks import PAGES, ROOT, Reader, blocks

if TYPE_CHECKING:
    from pathlib import Path

#: So that it takes seconds.
QUICKLY = ("--claims-budget=1s", "--claims-sessions=1")
#: The reader's own tests and limits, before the first page.
TESTS = """
import subprocess
import time

import pytest

from pytest_vperf import Quantity


def start():
    began = time.perf_counter()
    subprocess.run(["sh", "-c", ":"], check=True)
    return Quantity((time.perf_counter() - began) * 1000, "ms", direction="lower")


@pytest.mark.startup
@pytest.mark.parametrize("name", ["mine.start", "startup.pod.kvm.qboot"])
def test_start(claim, name):
    claim(name).holds(start)
"""
LIMITS = """
hardware: {name: mine, match: {logical_cpus: '>= 1'}}
claims:
  mine.start: {at_most: 1 s}
  startup.pod.kvm.qboot: {at_most: 1 s}
"""


@pytest.fixture(scope="session")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with a test, limits, and runs that were kept."""
    folder = tmp_path_factory.mktemp("reader")
    (folder / "thresholds").mkdir()
    (folder / "thresholds" / "mine.yaml").write_text(LIMITS)
    (folder / "pytest.ini").write_text("[pytest]\nclaims_json = run.json\n")
    (folder / "test_mine.py").write_text(TESTS)
    reader = Reader(folder, QUICKLY)
    for number, name in enumerate(("main", "main", "main", "pr")):
        reader.run(f"pytest --hw=mine --claims-save={name} --claims-benchmark-json={number}.json")
    for number, name in enumerate(("before", "after")):
        (folder / f"{number}.json").rename(folder / f"{name}.json")
    (folder / "runs").mkdir()
    shutil.copy(folder / "run.json", folder / "runs" / "run.json")
    return folder


@pytest.mark.timeout(300)
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_blocks_of_a_page(page: Path, project: Path, tmp_path: Path) -> None:
    wanted = [each for each in blocks(page) if not each.not_run]
    if not wanted:
        return
    folder = tmp_path / "project"
    if page.stem == "tutorial":  # in an empty folder
        folder.mkdir()
    else:
        shutil.copytree(project, folder)
    reader = Reader(folder, QUICKLY)
    for block in wanted:
        reader.follow(block, targets=False)


def test_what_is_not_run_says_why_and_names_what_is_there() -> None:
    every = [each for page in PAGES for each in blocks(page)]
    assert len(every) > 90
    for block in every:
        for name in page_blocks.named(block.not_run):
            assert (ROOT / name).exists(), f"{block.place}: {name}"
