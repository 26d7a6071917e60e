"""Where the plugin keeps its state on pytest's objects; no state is kept in modules."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_vperf.run.session import ClaimsSession
    from pytest_vperf.run.workers import Workers

_SESSION: pytest.StashKey[ClaimsSession] = pytest.StashKey()
#: On a test: whether its body is running. What is reported meanwhile is a subtest.
RUNNING: pytest.StashKey[bool] = pytest.StashKey()
#: Of a pytest-xdist controller: its workers.
WORKERS: pytest.StashKey[Workers] = pytest.StashKey()
#: The folder that pytest-benchmark makes in every run, to save benchmarks in, if it was not there before.
STORAGE: pytest.StashKey[Path] = pytest.StashKey()


def claims_session(config: pytest.Config) -> ClaimsSession:
    """The run's claims session; made at the first call."""
    if _SESSION not in config.stash:
        from pytest_vperf.run.session import ClaimsSession

        config.stash[_SESSION] = ClaimsSession(config)
    return config.stash[_SESSION]


def begun_session(config: pytest.Config) -> ClaimsSession | None:
    """The session, if anything has used it. Most test runs have no claims, and must not pay for one."""
    return config.stash.get(_SESSION, None)
