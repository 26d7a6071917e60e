"""For the unit tests."""

import signal
from collections.abc import Generator

import hypothesis
import pint  # noqa: F401  # pytester forgets what is first imported within it, which pint does not survive
import pytest

# Machines are shared and noisy: how long an example takes to draw or to try proves nothing. Each profile says all
# that hypothesis decides by the variable CI otherwise.
_USUAL = hypothesis.settings.get_profile("default")
# The same examples in every run: what fails is what was changed.
hypothesis.settings.register_profile(
    "gate",
    _USUAL,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
# Other examples in every run, and more of them, for who has the time: --hypothesis-profile=patient.
hypothesis.settings.register_profile(
    "patient",
    _USUAL,
    deadline=None,
    derandomize=False,
    max_examples=10 * _USUAL.max_examples,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)


@pytest.hookimpl(tryfirst=True)  # then hypothesis applies its options to it
def pytest_configure(config: pytest.Config) -> None:
    """Draw examples as the gate does, where the command line names no profile; and let interrupts arrive.

    A shell without job control has background jobs ignore SIGINT, and what ignores it hands that on (signal(7)).
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if not config.getoption("--hypothesis-profile", default=None):
        hypothesis.settings.load_profile("gate")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """What the plugin skips as not measured has no business here: a unit test needs no target."""
    report = yield
    if report.skipped and "Skipped: not measured" in str(report.longrepr):
        report.outcome = "failed"
    return report


@pytest.fixture(autouse=True)
def at_a_desk(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """pytest within a test prints as at a desk: in CI, its short summary has whole messages and nothing is cut."""
    if "pytester" in request.fixturenames:
        for variable in ("CI", "BUILD_NUMBER"):
            monkeypatch.delenv(variable, raising=False)
