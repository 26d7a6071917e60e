"""What is wrong with a machine of a fleet, by what it says of itself or by how it cannot be reached."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_vperf import __version__
from pytest_vperf.thresholds.text_file import Problem

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from pytest_vperf.fleet.engines import Engine
    from pytest_vperf.fleet.links import Link

#: Seconds that machines have to say what they are, from the last of them that did: of a large fleet, not all can at
#: once.
LIMIT = 30.0
#: The module that runs on a machine.
AGENT = "pytest_vperf.fleet.shard"
#: The status of a shell that does not find a command, or may not execute it (POSIX, "Exit Status for Commands").
_NO_COMMAND = (126, 127)
#: What ssh says of a machine that is not there under its name, or lets us not in; it is wrong in the file, not lost.
_WRONG_HOST = ("Could not resolve hostname", "Permission denied", "Host key verification failed")


def unfit(hello: Mapping[str, Any]) -> list[str]:
    """Why a machine cannot run tests of this run; empty if it can.

    Args:
        hello: what it says of itself; another version's may be another.
    """
    found = []
    for what, theirs, ours in (
        ("pytest-vperf", hello.get("version"), __version__),
        ("pytest", hello.get("pytest"), pytest.__version__),
    ):
        if theirs != ours:
            found.append(f"{what} {theirs} there, {ours} here")
    if not hello.get("reportlog"):
        found.append("pytest-reportlog is missing there: pip install 'pytest-vperf[fleet]'")
    return found


def mistake(engine: Engine, python: str, link: Link, why: str) -> Problem | None:
    """What is wrong in the file, if a connection that ended before a word of the machine shows that; else the machine
    is not there now.

    Args:
        engine: that made the connection.
        python: the interpreter there.
        link: the connection.
        why: it ended, in words.
    """
    machine, status = link.machine, link.process.returncode or 0
    if status > 0 and not engine.failed(status, link.said.decode("utf-8", "replace")):
        no_command = status in _NO_COMMAND
        what = "cannot be started" if no_command else "has no pytest-vperf that works"
        return Problem(("python",), f"{machine.name}: {python} {what} there: {why}")
    if any(text in why for text in _WRONG_HOST):
        return Problem(machine.keys, why)
    return None
