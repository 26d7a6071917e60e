"""A probe boots only while nothing is measured."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from pytest_vperf.machine import lock
from pytest_vperf.machine.preflight import Readiness
from pytest_vperf.targets.pod import probe
from pytest_vperf.targets.pod.place import HERE

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_a_probe_holds_the_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VPERF_LOCK", str(tmp_path / "lock"))
    monkeypatch.setenv("VPERF_CACHE_DIR", str(tmp_path / "cache"))
    holders: list[str] = []

    def boot(*_: object) -> tuple[Readiness, bool]:
        holders.append((tmp_path / "lock").read_text())
        return Readiness("accelerator tcg", True, "booted"), True

    monkeypatch.setattr(probe, "_boot", boot)
    folder = tmp_path / "folder" / "file"
    assets: Any = SimpleNamespace(
        qemu_version="7.2",
        kernel=SimpleNamespace(sha256="0"),
        initramfs=folder,
        disk=folder,
        place=HERE,
    )
    run: Any = None
    assert probe.probe("tcg", lambda: assets, run).why == "booted"
    assert probe.probe("tcg", lambda: assets, run).why == "booted"
    (holder,) = holders
    assert holder.startswith("process ")
    with lock.measuring(limit=0):
        pass
