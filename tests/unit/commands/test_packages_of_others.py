"""What packages with kinds of targets say to the commands outside of pytest."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import installed_packages
import pytest

from pytest_vperf.cli import main
from pytest_vperf.run.doors import GROUP

if TYPE_CHECKING:
    from pathlib import Path

MODULE = """
from pathlib import Path
from pytest_vperf import Leftover, Readiness, TargetKind

LEFT = Path(__file__).with_name("left")

def take_away():
    LEFT.unlink()
    return ""

def find():
    return [Leftover("01234567", "container", "container of youki", take_away)] if LEFT.exists() else []

def check():
    return [Readiness("youki", False, "it is not installed", "cargo install youki")]

def pytest_vperf_target_kinds():
    return [TargetKind("youki", check=check, leftovers=find)]
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The module of an installed package."""
    monkeypatch.setenv("VPERF_RUNS_DIR", str(tmp_path / "runs"))
    monkeypatch.setenv("VPERF_CACHE_DIR", str(tmp_path / "cache"))
    (folder := tmp_path / "packages").mkdir()
    monkeypatch.syspath_prepend(folder)
    monkeypatch.delitem(sys.modules, "vperf_youki_here", raising=False)
    return installed_packages.package(folder, "vperf_youki_here", MODULE, entry="youki")


def test_the_doctor_asks_them(package: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "youki"]) == 1
    assert "cargo install youki" in capsys.readouterr().out


def test_the_doctor_names_a_package_that_cannot_be_imported(
    package: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    package.write_text("raise OSError('no such machine')")
    assert main(["doctor", f"group {GROUP}"]) == 1
    assert "cannot be imported: OSError: no such machine" in " ".join(
        capsys.readouterr().out.split()
    )


def test_what_they_left_is_removed(package: Path, capsys: pytest.CaptureFixture[str]) -> None:
    package.with_name("left").touch()
    main(["clean"])
    assert "of youki" in capsys.readouterr().out
    assert not package.with_name("left").exists()
