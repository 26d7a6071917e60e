"""Tools and packages: found by what is really installed."""

from importlib import metadata
from pathlib import Path

import pytest

from pytest_vperf.machine import tools


def test_a_tool_on_the_search_path_is_usable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "fio"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    by_name = {answer.name: answer for answer in tools.check_tools()}
    assert list(by_name) == ["sysbench", "fio", "iperf", "iperf3", "netperf", "stress-ng"]
    assert by_name["fio"].usable
    assert by_name["fio"].why == str(program)
    assert by_name["fio"].remedy == ""


def test_the_packages_the_plugin_needs_are_here_with_their_versions() -> None:
    answer = tools.check_packages()
    assert answer.usable
    assert f"pytest {metadata.version('pytest')}" in answer.why
    assert "hypothesis" not in answer.why  # it belongs to an extra


def test_libvirt_is_reported_whatever_is_here() -> None:
    for answer in tools.check_libvirt():
        assert answer.why
        assert bool(answer.remedy) is not answer.usable
