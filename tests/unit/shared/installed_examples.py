"""The packages of `examples/` as a user has them: installed from their folders, beside the plugin."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
EXAMPLES = sorted(each for each in (ROOT / "examples").iterdir() if each.is_dir())


def run_tests(name: str, tmp_path: Path, *options: str) -> str:
    """Install an example into a folder, run its tests beside it, and return what they printed.

    Raises:
        AssertionError: a test failed.
    """
    folder = ROOT / "examples" / name
    packages, tests = tmp_path / "packages", tmp_path / "tests"
    install = ["-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--no-build-isolation"]
    subprocess.run([sys.executable, *install, f"--target={packages}", str(folder)], check=True)
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
