"""Shared by the tests with a lab: one host of each kind for all of them, in a separate folder."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from pytest_vperf.lab import labs
from pytest_vperf.lab.kinds import KINDS
from pytest_vperf.targets.scope import Scope

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pytest_vperf.lab.state import LabHost
    from pytest_vperf.targets.libvirt.daemon import Daemon

#: Seconds for a build and for a start, both slowed down by other tests.
BUILD, START = 900, 400


class SharedLabs:
    """Hosts that are up for the whole session; `get` starts what is not.

    A start takes up to a minute, and each host up to 6 GiB: who only uses one takes it from here. To the product they
    are a user's own labs, of whoever has ``VPERF_RUNS_DIR`` name their folder (`as_user`).

    Args:
        folder: empty, and of nobody else.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._environment = {**os.environ, "VPERF_RUNS_DIR": str(folder)}
        self.said: dict[str, subprocess.CompletedProcess[str]] = {}

    def get(self, kind: str) -> LabHost:
        """The host of a kind."""
        with self.as_user():
            found = labs.running(kind)
            if found is None:
                self.vperf("lab", "build", kind, timeout=BUILD)
                self.said[kind] = self.vperf("lab", "up", kind, timeout=START)
                found = labs.running(kind)
        assert found is not None
        return found

    def vperf(
        self, *words: str, timeout: float = 60, check: bool = True
    ) -> subprocess.CompletedProcess[str]:
        """Call the command as the user whose labs they are."""
        return vperf(*words, timeout=timeout, check=check, environment=self._environment)

    @contextlib.contextmanager
    def as_user(self) -> Iterator[None]:
        """In this block they are the user's own labs."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("VPERF_RUNS_DIR", str(self.folder))
            yield

    def end(self) -> None:
        """End all that are up or starting, even where one fails to end."""
        with self.as_user(), contextlib.ExitStack() as each:
            for kind in KINDS:
                each.callback(labs.down, kind)


@contextlib.contextmanager
def leaving_nothing(daemon: Daemon) -> Iterator[Scope]:
    """The owner of a test's machines; checks at its end that the machines and their disks are gone."""
    before, scope = left(daemon), Scope()
    try:
        yield scope
    finally:
        scope.close_since()
    assert left(daemon) == before


def left(daemon: Daemon) -> tuple[list[str], list[str]]:
    """The running machines, and the disks made for machines."""
    running = [each.name() for each in daemon.connection.handle.listAllDomains() if each.ID() > 0]
    return sorted(running), sorted(
        name for name in daemon.storage.names() if name.endswith(".qcow2")
    )


def vperf(
    *words: str,
    timeout: float = 60,
    check: bool = True,
    environment: dict[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    """Call the command; one that fails is to say why, which `subprocess.run` would keep for itself."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest_vperf", *words],
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
        env=environment,
    )
    assert not (check and done.returncode), f"{' '.join(words)}: {done.stderr}"
    return done
