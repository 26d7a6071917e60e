"""Files that somebody else wrote, and paths that somebody else chose, end in clear errors within bounds.

The real commands run in separate processes, with memory and time limited from outside.
"""

from __future__ import annotations

import json
import os
import re
import resource
import stat
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from attacks import CONTROL

if TYPE_CHECKING:
    from pathlib import Path

#: Bytes of address space of a command here, and seconds: both far more than it needs for what is right.
SPACE, LONG = 4 << 30, 120

#: To the title of a terminal, its colour, its screen; the end of an XML section, of a cell, of a page's script.
NASTY = "\033]0;owned\007 \033[2J \x9b31m \u202egnp.exe \ud800 ]]> | `x` </td><script>alert(1)</script> \x00 \x08"

PROFILE = """
hardware: {name: here, summary: whatever runs this, match: {logical_cpus: ">= 1"}}
claims:
  start.quick: {at_most: 400 ms, summary: it starts quickly}
"""


def python(*arguments: object, cwd: Path, **more) -> subprocess.CompletedProcess[str]:
    """What a command of this installation does, and prints."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (SPACE, SPACE))

    return subprocess.run(
        [sys.executable, *map(str, arguments)],
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="surrogateescape",
        timeout=LONG,
        preexec_fn=limit,
        **more,
    )


def vperf(*arguments: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    return python(
        "-c", "from pytest_vperf.cli import main; raise SystemExit(main())", *arguments, cwd=cwd
    )


def refused(done: subprocess.CompletedProcess[str], words: str) -> None:
    """It ended with a status of its own and one error that says where; nothing came to the terminal but text."""
    assert done.returncode in (1, 2), done
    assert re.search(words, done.stderr), done.stderr
    assert "Traceback" not in done.stderr
    assert len(done.stderr) < 4000
    assert not CONTROL.search(done.stderr + done.stdout)


@pytest.fixture
def project(tmp_path):
    """A project with one claim."""
    (tmp_path / "thresholds").mkdir()
    (tmp_path / "thresholds" / "here.yaml").write_text(PROFILE)
    return tmp_path


def _sparse(path: Path) -> None:
    path.touch()
    os.truncate(path, 1 << 40)


def _samples(path: Path) -> None:
    """240 MB of numbers."""
    with path.open("w") as stream:
        stream.write('{"schema": 1, "claims": [{"samples": [')
        for _ in range(240):
            stream.write("1.5," * 250_000)
        stream.write("1]}]}")


FILES = {
    "sparse": _sparse,
    "endless": lambda path: path.symlink_to("/dev/zero"),
    "pipe": os.mkfifo,
    "nested": lambda path: path.write_text("[" * 200_000),
    "nested-objects": lambda path: path.write_text('{"claims":' * 200_000),
    "digits": lambda path: path.write_text('{"claims": [' + "9" * 100_000 + "]}"),
    "infinite": lambda path: path.write_text('{"claims": [{"samples": [1e999, NaN, -Infinity]}]}'),
    "no-text": lambda path: path.write_bytes(b"\xff\xfe\0\0\x80" * 100),
    "nasty": lambda path: path.write_text(json.dumps({"claims": [{"claim": NASTY}]})),
}
YAML = {
    "laughs": lambda path: path.write_text(
        "a0: &a0 [x, x]\n"
        + "".join(f"a{n + 1}: &a{n + 1} [{', '.join([f'*a{n}'] * 9)}]\n" for n in range(30))
    ),
    "itself": lambda path: path.write_text("hardware: &a {name: *a}\n"),
    "object": lambda path: path.write_text(
        "hardware: !!python/object/apply:os.system ['touch owned']\n"
    ),
}


def some(attacks, *quick):
    """All attacks, of which the landing gate takes those that are named."""
    return [
        each if each in quick else pytest.param(each, marks=pytest.mark.patient) for each in attacks
    ]


@pytest.mark.parametrize("attack", some([*FILES, "numbers"], "sparse", "nested", "pipe", "nasty"))
def test_a_record_is_read_within_bounds_or_refused(project, attack):
    {**FILES, "numbers": _samples}[attack](project / "record.json")
    refused(vperf("claims", "record.json", cwd=project), "record.json")


@pytest.mark.parametrize("attack", some([*FILES, *YAML], "endless", "digits", *YAML))
def test_a_threshold_file_is_read_within_bounds_or_refused(project, attack):
    {**FILES, **YAML}[attack](project / "thresholds" / "enemy.yaml")
    refused(vperf("claims", cwd=project), "enemy.yaml")
    assert not (project / "owned").exists()


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(["claims", "--json", "--output"], marks=pytest.mark.patient),
        pytest.param(["claims", "--markdown", "--output"], marks=pytest.mark.patient),
        pytest.param(["claims", "--keep"], marks=pytest.mark.patient),
        ["schema", "--output"],
    ],
    ids=["json", "markdown", "keep", "schema"],
)
def test_files_of_others_are_never_replaced(project, arguments):
    """A device like /dev/null, a pipe, a folder; copies, since root would break the real ones for everybody."""
    places = [project / "pipe", project / "folder"]
    os.mkfifo(places[0])
    places[1].mkdir()
    if os.geteuid() == 0:
        places.append(project / "null")
        os.mknod(places[-1], stat.S_IFCHR | 0o666, os.makedev(1, 3))
    for place in places:
        before = place.stat()
        done = vperf(*arguments, place.name, cwd=project)
        after = place.lstat()
        assert (after.st_ino, after.st_mode, after.st_rdev) == (
            before.st_ino,
            before.st_mode,
            before.st_rdev,
        )
        assert "Traceback" not in done.stderr


TESTS = f"""
import pytest
from pytest_vperf.quantity import Quantity
from pytest_vperf.targets.base import CannotStart, TargetError, Unavailable

NASTY = {NASTY!r}

def test_error(claim):
    raise TargetError(NASTY)

def test_unavailable(claim):
    def sample():
        raise Unavailable(NASTY, remedy=NASTY)
    claim("start.quick").holds(sample)

def test_broken(claim):
    def sample():
        raise CannotStart(NASTY)
    claim("start.quick").holds(sample)

def test_giant(claim):
    giants = iter([1e308, -1e308] * 1000)
    claim("start.quick").holds(lambda: Quantity(next(giants), "ms", signed=True))

@pytest.mark.parametrize("name", [NASTY], ids=["named"])
def test_held(claim, name):
    values = iter([350, 351, 352, 349, 348] * 1000)
    claim("start.quick").holds(lambda: Quantity(next(values), "ms"))
"""


@pytest.mark.parametrize("workers", [0, pytest.param(2, marks=pytest.mark.patient)])
def test_foreign_text_is_escaped_on_terminals_and_pages(project, workers):
    (project / "test_nasty.py").write_text(TESTS, encoding="utf-8")
    options = ["-n", workers] if workers else []
    done = python(
        "-m",
        "pytest",
        *options,
        "-q",
        "-rA",
        "--tb=short",
        "--hw=here",
        "--claims-json=out.json",
        "--junitxml=out.xml",
        cwd=project,
        env=os.environ | {"GITHUB_STEP_SUMMARY": str(project / "out.md")},
    )
    assert "INTERNALERROR" not in done.stdout + done.stderr
    assert "1 held" in done.stdout, done.stdout
    assert not CONTROL.search(done.stdout + done.stderr)
    records = json.loads((project / "out.json").read_text(encoding="utf-8"))["claims"]
    assert len(records) == 4, (
        "one for each test that names a claim; what cannot be written is told as an error"
    )
    for path in project.glob("out.*"):
        content = path.read_text(encoding="utf-8")
        assert not CONTROL.search(content), path
        if path.suffix != ".json":
            assert "<script>" not in content, path
    page = vperf("claims", "--markdown", "out.json", cwd=project)
    assert not CONTROL.search(page.stdout + page.stderr)
    assert "<script>" not in page.stdout
