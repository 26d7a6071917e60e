"""The doctor of a fleet: each machine is a process of this one."""

from __future__ import annotations

import json
import re
import sys
from typing import TYPE_CHECKING, Any

import fleets
import installed_packages
import pytest

import pytest_vperf
from pytest_vperf.cli import main
from pytest_vperf.fleet import survey

if TYPE_CHECKING:
    from pathlib import Path

pytest.importorskip("pytest_reportlog")


@pytest.fixture
def fleet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of three machines, whose engine is of an installed package."""
    (folder := tmp_path / "packages").mkdir()
    monkeypatch.syspath_prepend(folder)
    monkeypatch.delitem(sys.modules, "vperf_engine_here", raising=False)
    installed_packages.package(folder, "vperf_engine_here", fleets.ENGINE, entry="here")
    monkeypatch.setenv("VPERF_CACHE_DIR", str(tmp_path / "cache"))
    path = tmp_path / "fleet.yaml"
    path.write_text(fleets.FILE.format(python=sys.executable).lstrip())
    return path


def test_every_machine_is_asked(fleet: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--fleet", str(fleet), "host", "openvswitch"]) == 1
    out = capsys.readouterr().out
    head, _, *rows = out.splitlines()
    assert head.split() == ["machine", "type", "Python", "vperf", "host", "openvswitch"]
    python = ".".join(map(str, sys.version_info[:3]))
    for row, (name, type_) in zip(
        rows, (("h1", "type-a"), ("h2", "type-a"), ("h3", "type-b")), strict=False
    ):
        assert row.split() == [name, type_, python, pytest_vperf.__version__, "ready", "yes", "no"]
    assert re.search(r"^h3: openvswitch: .+; to mend it: ", out, re.M)


def document(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_a_script_reads_it(fleet: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--fleet", str(fleet), "--json", "host"]) == 0
    found = document(capsys)
    assert found["usable"] is True
    machine = found["machines"][2]
    assert (machine["name"], machine["type"], machine["wrong"]) == ("h3", "type-b", [])
    assert [each["name"] for each in machine["checks"]] == ["host"]
    assert machine["facts"]["kernel"]


def test_a_machine_that_cannot_run_tests_is_named(
    fleet: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fleet.write_text(
        fleet.read_text().replace("h3: type-b}", "h3: type-b}\nwords: {h1: /bin/false}")
    )
    assert main(["doctor", "--fleet", str(fleet), "host"]) == 1
    out = capsys.readouterr().out
    assert re.search(r"^h1 +type-a +\? +\? +wrong +\?$", out, re.M)
    assert re.search(r"^h2 +type-a +\S+ +\S+ +ready +yes$", out, re.M)
    assert (
        f"h1: {fleet}:2:9: python: h1: {sys.executable} has no pytest-vperf that works there: "
        in out
    )


def test_another_version_is_named(
    fleet: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(survey, "__version__", "0.0.7")
    assert main(["doctor", "--fleet", str(fleet), "--json", "host"]) == 1
    wrong = [each["wrong"] for each in document(capsys)["machines"]]
    assert all(re.fullmatch(r"pytest-vperf \S+ there, 0\.0\.7 here", each[0]) for each in wrong)


def test_mistakes(fleet: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--fleet", str(fleet), "kvmm"]) == 2
    assert "unknown name 'kvmm'. Did you mean 'kvm'?" in capsys.readouterr().err
    fleet.write_text("engine: her")
    assert main(["doctor", "--fleet", str(fleet)]) == 2
    message = f"vperf doctor: {fleet}:1:9: engine: there is no engine 'her'; did you mean 'here'?\n"
    assert capsys.readouterr().err == message
    assert main(["doctor", "--fleet", str(fleet.with_name("gone.yaml"))]) == 2
    assert "there is no such file" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["doctor", "--fleet", str(fleet), "--guest-kernel", "x"])
    assert "--guest-kernel is a file of this machine" in capsys.readouterr().err
