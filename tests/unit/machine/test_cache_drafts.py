"""Unfinished cache entries of a killed builder are found, and removed by the next build or run."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_vperf.machine import cache, leftovers

BUILDER = """
import time
from pytest_vperf.machine import cache

def build(draft):
    (draft / "half").mkdir()
    (draft / "half" / "file").write_text("begun")
    print(draft, flush=True)
    time.sleep(600)

cache.entry("kind", "0123456789abcdef", build)
"""


@pytest.fixture(autouse=True)
def places(tmp_path, monkeypatch):
    for name in ("cache", "runs"):
        (tmp_path / name).mkdir(mode=0o700)
        monkeypatch.setenv(f"VPERF_{name.upper()}_DIR", str(tmp_path / name))


@pytest.fixture
def builder():
    """A process that builds an entry, and its draft."""
    process = subprocess.Popen([sys.executable, "-c", BUILDER], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    yield process, Path(process.stdout.readline().strip())
    process.kill()
    process.communicate()


def killed(builder):
    process, draft = builder
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert (draft / "half").is_dir()
    return draft


def test_a_killed_builder_s_draft_goes_with_the_next_run(builder):
    draft = killed(builder)
    (found,) = leftovers.find()
    assert str(found) == f"draft {draft}"
    assert (found.run, found.kind) == ("cache", "draft")
    assert leftovers.sweep() == [found]
    assert not draft.exists()


def test_a_killed_builder_s_draft_goes_with_the_next_build(builder):
    draft = killed(builder)
    entry = cache.entry("kind", "0123456789abcdef", lambda draft: (draft / "file").touch())
    assert [path.name for path in entry.parent.glob("[!0]*")] == []
    assert [path.name for path in entry.parent.glob(".*")] == []
    assert not draft.exists()


def test_entries_being_built_are_left_alone(builder):
    _, draft = builder
    assert leftovers.find() == []
    assert cache.discard(draft) == "it is being built"
    assert (draft / "half").is_dir()


def test_work_for_several_entries_has_the_lock_of_its_kind(tmp_path):
    from filelock import FileLock

    work = tmp_path / "cache" / "lab" / "work"
    work.mkdir(parents=True)
    with FileLock(work.parent / "lock"):
        assert leftovers.find() == []
    assert [leftover.what for leftover in leftovers.sweep()] == [f"draft {work}"]
    assert not work.exists()


def test_only_drafts_are_removed(tmp_path):
    kept = [
        tmp_path / "cache" / "kind" / name
        for name in (".notes", "working", "0123456789abcdef", ".0123456789abcdef-x", ".a-ABCDEFGH")
    ]
    for folder in kept:
        folder.mkdir(parents=True)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (tmp_path / "cache" / "kind" / ".0123456789abcdef-abcdefgh").symlink_to(elsewhere)
    assert leftovers.sweep() == []
    assert all(folder.is_dir() for folder in [*kept, elsewhere])
