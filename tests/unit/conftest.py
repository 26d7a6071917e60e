"""For the unit tests."""

from collections.abc import Generator

import hypothesis
import pint  # noqa: F401  # pytester forgets what is first imported within it, which pint does not survive
import pytest

# Machines are shared and noisy: how long an example takes proves nothing.
hypothesis.settings.register_profile("vperf", deadline=None)
hypothesis.settings.load_profile("vperf")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """What the plugin skips as not measured has no business here: a unit test needs no target."""
    report = yield
    if report.skipped and "Skipped: not measured" in str(report.longrepr):
        report.outcome = "failed"
    return report
