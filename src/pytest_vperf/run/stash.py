"""Where the plugin keeps its state on pytest's objects; no state is kept in modules."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pytest_vperf.run.session import ClaimsSession

_SESSION: pytest.StashKey[ClaimsSession] = pytest.StashKey()
#: On a test: whether its body runs. What is reported meanwhile is a part of it, a subtest.
RUNNING: pytest.StashKey[bool] = pytest.StashKey()


def claims_session(config: pytest.Config) -> ClaimsSession:
    """What the run knows of its claims, made on first use; the same for every caller."""
    if _SESSION not in config.stash:
        from pytest_vperf.run.session import ClaimsSession

        config.stash[_SESSION] = ClaimsSession(config)
    return config.stash[_SESSION]


def begun_session(config: pytest.Config) -> ClaimsSession | None:
    """The session, if anything has used it: most test runs claim nothing, and pay nothing."""
    return config.stash.get(_SESSION, None)
