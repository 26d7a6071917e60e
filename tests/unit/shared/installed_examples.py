"""The packages of `examples/` as a user has them: installed from their folders, beside the plugin."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
EXAMPLES = sorted(each for each in (ROOT / "examples").iterdir() if each.is_dir())


def install(name: str, tmp_path: Path) -> Path:
    """Install an example into a folder, and return that."""
    packages = tmp_path / "packages"
    words = ["-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--no-build-isolation"]
    words += [f"--target={packages}", str(ROOT / "examples" / name)]
    subprocess.run([sys.executable, *words], check=True)
    return packages


def run_tests(name: str, tmp_path: Path, *options: str) -> str:
    """Install an example into a folder, run its tests beside it, and return what they printed.

    Raises:
        AssertionError: a test failed.
    """
    folder = ROOT / "examples" / name
    packages, tests = install(name, tmp_path), tmp_path / "tests"
    tests.mkdir()
    for each in folder.glob("test_*.py"):
        (tests / each.name).write_bytes(each.read_bytes())
    words = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--rootdir=.", *options]
    done = subprocess.run(
        words,
        cwd=tests,
        env={**os.environ, "PYTHONPATH": str(packages)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
