"""The packages of `examples/`, as a user has them: installed from their folders, beside the plugin."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
#: Those whose tests need no target; the others are in tests/integration.
ALONE = ["csv"]


@pytest.mark.parametrize("name", ALONE)
def test_its_tests_pass_when_it_is_installed(name: str, tmp_path: Path) -> None:
    folder = ROOT / "examples" / name
    packages = tmp_path / "packages"
    install = ["-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--no-build-isolation"]
    subprocess.run([sys.executable, *install, f"--target={packages}", str(folder)], check=True)
    tests = tmp_path / "tests"
    tests.mkdir()
    for each in folder.glob("test_*.py"):
        (tests / each.name).write_bytes(each.read_bytes())
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir=."],
        cwd=tests,
        env={**os.environ, "PYTHONPATH": str(packages), "VPERF_LOCK": str(tmp_path / "lock")},
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    "folder", sorted((ROOT / "examples").iterdir()), ids=lambda each: each.name
)
def test_it_is_short_and_is_its_page(folder: Path) -> None:
    files = sorted(each for each in folder.iterdir() if each.is_file())
    assert sum(each.read_text().count("\n") for each in files) < 150
    (page,) = (
        page.read_text()
        for page in (ROOT / "docs").glob("write-*.md")
        if f"examples/{folder.name}" in page.read_text()
    )
    for each in files:
        language = {".py": "python", ".toml": "toml", ".yaml": "yaml"}[each.suffix]
        assert f"```{language}\n{each.read_text()}```\n" in page, each.name
