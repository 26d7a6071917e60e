"""The project goes to the machines with the run: none needs a checkout."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from fleets import FILE, run, wheel

from pytest_vperf.fleet import cargo
from pytest_vperf.fleet.links import Links

if TYPE_CHECKING:
    from pytest_vperf.fleet.links import Link

pytest.importorskip("pytest_reportlog")

TESTS = """
import os, pathlib
import helper

def test_it(request):
    here = pathlib.Path(__file__).parent
    assert str(here) != os.environ["PROJECT"]
    assert pathlib.Path.cwd() == here == request.config.rootpath
    assert request.config.inipath == here / "pytest.ini"
    assert (here / "build" / "runtime").read_text() == "built"
    assert os.access(here / "build" / "runtime", os.X_OK)
    assert not (here / "written").exists()
    (here / "written").touch()
    print("in", here)
"""


def write(fleet: pytest.Pytester, more: str) -> None:
    own = FILE.format(python=sys.executable).lstrip()
    (fleet.path / "fleet.yaml").write_text(f"{own}{more}\n")


@pytest.fixture
def built(fleet: pytest.Pytester) -> pytest.Pytester:
    """A project with a build that Git ignores, and a helper."""
    fleet.makepyfile(test_it=TESTS, helper="")
    fleet.makeini("[pytest]")
    (fleet.path / "pytest.ini").write_text("[pytest]\n")
    (fleet.path / "tox.ini").unlink()
    (fleet.path / ".gitignore").write_text("/build/\n")
    (fleet.path / "build").mkdir()
    (fleet.path / "build" / "runtime").write_text("built")
    (fleet.path / "build" / "runtime").chmod(0o755)
    subprocess.run(["git", "init", "-q", str(fleet.path)], check=True)
    return fleet


def test_files_are_sent_once(built: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    sent = []
    send = Links.send

    def counted(links: Links, link: Link, data: bytes) -> None:
        sent.extend([link.machine.name] if data.startswith(b'{"cargo"') else [])
        send(links, link, data)

    monkeypatch.setattr(Links, "send", counted)
    write(built, "files: [test_it.py, conftest.py, helper.py, pytest.ini, build]")
    words = ("--claims-fleet-run=each", "-rA", str(built.path / "test_it.py"))
    for _ in range(2):
        result = run(built, *words)
        result.assert_outcomes(passed=3)
        assert sorted(sent) == ["h1", "h2", "h3"]
    assert not (built.path / "written").exists()


def test_what_an_option_names_is_sent_whatever_git_says(built: pytest.Pytester) -> None:
    options = ("--guest-kernel=build/runtime", "--claims-fleet-hw=type-b")
    run(built, *options).assert_outcomes(passed=1)


def test_the_code_under_test_comes_as_a_wheel(built: pytest.Pytester) -> None:
    wheel(built.path / "build", "def main(): print('the build of this run')\n")
    write(built, "wheels: [build/*.whl]")
    built.makepyfile(
        test_it="""
import subprocess
from importlib.metadata import version

def test_it():
    import a_runtime
    assert version("a-runtime") == "1.0"
    assert subprocess.check_output(["a-runtime"], text=True) == "the build of this run\\n"
"""
    )
    run(built, "--claims-fleet-run=each").assert_outcomes(passed=3)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ("project: here", "fleet.yaml:4:10: project: 'here' is neither sent nor there"),
        ("files: tests", "fleet.yaml:4:8: files: files is a list of paths or patterns such as *"),
        ("wheels: [/dist]", "fleet.yaml:4:9: wheels: wheels is a list of paths or *"),
        (
            "project: there\nfiles: [a]",
            "fleet.yaml:5:8: files: nothing is sent, as the project is there",
        ),
        ("files: [gone/*]", "fleet.yaml:4:8: files: there is no file 'gone/?' in *"),
        ("wheels: [dist/*.whl]", "fleet.yaml:4:9: wheels: there is no file 'dist/?.whl' in *"),
        (
            "files: [helper.py]",
            "fleet.yaml:4:8: files: test_it.py has tests, and is not sent: files: does not name it",
        ),
    ],
)
def test_mistakes(built: pytest.Pytester, more: str, message: str) -> None:
    write(built, more)
    result = run(built)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: --claims-fleet: *{message}"])


def test_a_test_that_git_ignores_is_named(built: pytest.Pytester) -> None:
    (built.path / ".gitignore").write_text("test_it.py\n")
    result = run(built)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        ["ERROR: *fleet.yaml:2:9: engine: test_it.py has tests, and is not sent: Git ignores it"]
    )


def test_too_much_is_said_before_anything_is_measured(
    built: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cargo, "MOST", 1000)
    result = run(built)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: *MiB of files; files: names those that tests need"])


def test_the_project_may_be_there(built: pytest.Pytester) -> None:
    write(built, "project: there")
    built.makepyfile(
        test_it="""
import os, pathlib
def test_it(): assert str(pathlib.Path(__file__).parent) == os.environ["PROJECT"] == os.getcwd()
"""
    )
    run(built, "--claims-fleet-hw=type-b").assert_outcomes(passed=1)
