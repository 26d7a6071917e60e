"""What is wrong with a fleet is named before anything is measured."""

from __future__ import annotations

import pytest
from fleets import FILE, run

from pytest_vperf.fleet import survey

pytest.importorskip("pytest_reportlog")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "*fleet.yaml: the file is empty"),
        (
            "engine: shh\nhosts: {h1: a}",
            "*fleet.yaml:1:9: engine: there is no engine 'shh'; did you mean 'ssh'?",
        ),
        ("engine: ssh\nhost: {h1: a}", "*fleet.yaml:2:1: host: unknown key; did you mean 'hosts'?"),
        (
            "engine: ssh",
            "*fleet.yaml:1:1: hosts: hosts is a mapping of hosts with their types, such as {h1: type1}",
        ),
        (
            "engine: ssh\nhosts: {'-oProxyCommand=x': a}",
            "*fleet.yaml:2:*: hosts.'-oProxyCommand=x': '-oProxyCommand=x' is not *",
        ),
        (
            "engine: ssh\nhosts: {h1: 'a b'}",
            "*fleet.yaml:2:13: hosts.h1: 'a b' is no hardware type, such as type1",
        ),
        (
            "engine: ssh\npython: --version\nhosts: {h1: a}",
            "*fleet.yaml:2:9: python: '--version' is no path of an interpreter",
        ),
        (
            "engine: ssh\nhosts: {h1: a}\nssh_config: gone",
            "*fleet.yaml:3:13: ssh_config: 'gone' is not a file",
        ),
        ("- h1", "*fleet.yaml:1:1: the file of a fleet is a mapping such as engine: ssh, *"),
        (
            "hosts: {h1: a}",
            "*fleet.yaml:1:1: the key engine is missing; there are the engines ssh, slurm, runners",
        ),
    ],
)
def test_mistakes_in_the_file(project: pytest.Pytester, text: str, message: str) -> None:
    (project.path / "fleet.yaml").write_text(text)
    project.makepyfile("def test_it(): pass")
    result = project.runpytest("--claims-fleet=fleet.yaml")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: --claims-fleet: {message}"])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["--claims-fleet-hw=type-c"],
            "--claims-fleet-hw: no machine is a 'type-c'; did you mean 'type-*'?",
        ),
        (["--claims-fleet-run=all"], "--claims-fleet-run: 'all' is neither spread nor each"),
        (["--pdb"], "--claims-fleet: tests run on other machines: leave out --pdb"),
        (["-n2"], "--claims-fleet: tests run on other machines: leave out -n"),
        (["--baseline=main"], "--baseline: *.vperf has no run 'main', and there is no such file"),
        (
            ["--vperf-on=ssh://h9"],
            "--claims-fleet: tests run on other machines: leave out --vperf-on",
        ),
    ],
)
def test_mistakes_in_options(fleet: pytest.Pytester, words: list[str], message: str) -> None:
    result = run(fleet, *words)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: {message}"])


@pytest.mark.parametrize(
    ("python", "message"),
    [
        (
            "/no/such/python",
            "*fleet.yaml:2:9: python: h1: /no/such/python cannot be started there: *No such file*",
        ),
        (
            "/usr/bin/false",
            "*fleet.yaml:2:9: python: h1: /usr/bin/false has no pytest-vperf that works there: *",
        ),
    ],
)
def test_machines_that_cannot_run_it_are_named_before_anything_is_measured(
    fleet: pytest.Pytester, python: str, message: str
) -> None:
    (fleet.path / "fleet.yaml").write_text(FILE.format(python=python).lstrip())
    result = run(fleet)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines_random([f"ERROR: --claims-fleet: {message}"])


def test_another_version_there(fleet: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(survey, "__version__", "0.0.7")
    result = run(fleet)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines_random(
        ["ERROR: *fleet.yaml:4:*: hosts.h1: h1: pytest-vperf * there, 0.0.7 here"]
    )


def test_nothing_is_started_where_tests_are_only_collected(fleet: pytest.Pytester) -> None:
    (fleet.path / "fleet.yaml").write_text(FILE.format(python="/no/such/python").lstrip())
    assert run(fleet, "--collect-only").ret == 0
