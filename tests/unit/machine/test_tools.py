"""Tools and packages that are really installed."""

from __future__ import annotations

import os
import pwd
from importlib import metadata
from typing import TYPE_CHECKING

import pytest

from pytest_vperf.machine import checks, preflight
from pytest_vperf.targets.image import debian
from pytest_vperf.workloads.registry import TOOLS, packages_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

PACKAGES = packages_of(TOOLS)


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VPERF_CACHE_DIR", str(tmp_path / "cache"))


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
    """Puts a program with this text on an otherwise empty search path."""
    monkeypatch.setattr(preflight, "_ADMINISTRATOR", "")
    monkeypatch.setenv("PATH", str(tmp_path))

    def put(name: str, text: str) -> None:
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)

    return put


def test_without_apt_the_image_and_every_tool_are_unavailable(
    path: Callable[[str, str], None],
) -> None:
    path("fio", "echo fio-9")
    answers = {answer.name: answer for answer in debian.check(PACKAGES)}
    assert list(answers) == [
        *("tools image", "sysbench", "fio", "iperf", "iperf3", "netperf", "stress-ng")
    ]
    assert not any(answer.usable for answer in answers.values())
    assert answers["tools image"].why == "this is not Debian or Ubuntu: there is no apt-get"
    assert answers["iperf"].why == "the tools image is not usable"
    assert answers["fio"].why.startswith(
        "the tools image is not usable; with --vperf-host-tools, the host runs /"
    )


def test_the_image_needs_package_lists(path: Callable[[str, str], None]) -> None:
    path("apt-get", "echo http://nobody/ x Nobody x amd64 /no/such")
    image = debian.check()[0]
    assert (image.usable, image.why, image.remedy) == (
        False,
        "apt has no package lists of Debian or Ubuntu",
        "apt-get update, as root",
    )


def test_the_image_is_reported_missing_then_buildable_then_planned(
    path: Callable[[str, str], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lists = tmp_path / "lists"
    lists.mkdir()
    (lists / "nobody_dists_trixie_InRelease").write_text("Suite: trixie")
    packages = lists / "nobody_dists_trixie_main_binary-amd64_Packages"
    path("apt-get", f"echo http://nobody/ trixie Debian trixie amd64 {packages}")
    image = debian.check()[0]
    assert image.why == "it is not built, and mmdebstrap is not installed"
    assert image.remedy == "apt-get install mmdebstrap"
    monkeypatch.setattr("os.geteuid", lambda: 0)
    path("mmdebstrap", "exit 9")
    answers = {answer.name: answer for answer in debian.check(PACKAGES)}
    assert all(answer.usable for answer in answers.values())
    assert answers["tools image"].why == (
        "the first test that uses a tool builds it, which takes some minutes"
    )
    assert answers["fio"].why == "comes with the tools image, where a package source has it"


def test_requirements_of_ordinary_users_only(
    path: Callable[[str, str], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path("mmdebstrap", "exit 9")
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    assert debian.can_build().remedy == "apt-get install uidmap, or build it once as root"
    path("newuidmap", "")
    monkeypatch.setattr(debian, "_SUBORDINATE", (tmp_path / "subuid", tmp_path / "subgid"))
    answer = debian.can_build()
    assert answer.why == (
        "this user has no subordinate user and group IDs, which building an image needs"
    )
    assert "--add-subuids" in answer.remedy
    for name in ("subuid", "subgid"):
        (tmp_path / name).write_text(f"{pwd.getpwuid(os.getuid()).pw_name}:100000:65536\n")
    assert "subordinate" not in debian.can_build().why


def test_the_packages_the_plugin_needs_are_here_with_their_versions() -> None:
    answer = checks.check_packages()
    assert answer.usable
    assert f"pytest {metadata.version('pytest')}" in answer.why
    assert "hypothesis" not in answer.why  # it belongs to an extra


def test_libvirt_is_always_reported() -> None:
    for answer in checks.check_libvirt():
        assert answer.why
        assert bool(answer.remedy) is not answer.usable
