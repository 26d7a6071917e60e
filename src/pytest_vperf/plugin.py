"""The pytest plugin: options and hooks, wiring only.

Every test run loads this module, even without claims, so it imports only what pytest has already imported and a few
small modules of ours; the rest is imported when the first claim needs it.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

from pytest_vperf import hookspecs
from pytest_vperf.fixtures import on_demand
from pytest_vperf.run import options
from pytest_vperf.run.reports import REPORTS, Reports
from pytest_vperf.run.stash import RUNNING, STORAGE, WORKERS, begun_session, claims_session

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable

    from pytest_vperf.fleet.engines import FleetEngine
    from pytest_vperf.pytest_internals import TerminalReporter
    from pytest_vperf.reporting.ended import ExportFormat
    from pytest_vperf.run.session import ClaimsSession
    from pytest_vperf.run.sides import SideKey
    from pytest_vperf.targets.kinds import TargetKind
    from pytest_vperf.workloads.registry import Tool


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    """Declare the hooks that others may implement."""
    pluginmanager.add_hookspecs(hookspecs)


@pytest.hookimpl(tryfirst=True)
def pytest_vperf_export_formats() -> Iterable[ExportFormat]:
    """Register our own."""
    from pytest_vperf.reporting.formats import FORMATS

    return FORMATS


@pytest.hookimpl(tryfirst=True)
def pytest_vperf_tools() -> Iterable[Tool]:
    """Register our own."""
    from pytest_vperf.workloads.registry import TOOLS

    return TOOLS


@pytest.hookimpl(tryfirst=True)
def pytest_vperf_target_kinds() -> Iterable[TargetKind]:
    """Register our own."""
    from pytest_vperf.targets.kinds import KINDS

    return KINDS


@pytest.hookimpl(tryfirst=True)
def pytest_vperf_fleet_engines() -> Iterable[FleetEngine]:
    """Register our own."""
    from pytest_vperf.fleet.engines import KINDS

    return KINDS


@pytest.hookimpl(tryfirst=True)
def pytest_vperf_side_keys() -> Iterable[SideKey]:
    """Register our own."""
    from pytest_vperf.run.sides import KEYS

    return KEYS


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the options and ini settings."""
    options.add_options(parser)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_load_initial_conftests(
    early_config: pytest.Config, parser: pytest.Parser, args: list[str]
) -> Generator[None, object, object]:
    """Refuse renamed options, once the conftest files have declared their own."""
    result = yield
    options.refuse_old_names(early_config, parser, args)
    options.refuse_settings(early_config)
    return result


def pytest_configure(config: pytest.Config) -> None:
    """Register markers, and check the command line, the ini file and the environment."""
    for name, meaning in options.MARKERS:
        config.addinivalue_line("markers", f"{name}: {meaning}")
    folder = config.invocation_params.dir / ".benchmarks"
    if not folder.exists():
        config.stash[STORAGE] = folder
    config.stash[REPORTS] = reports = Reports()
    config.pluginmanager.register(reports, "vperf-reports")
    if options.given_on_command_line(config) or options.given_in_ini(config):
        settings = claims_session(config).settings
        if settings.fleet is not None:
            from pytest_vperf.fleet import controller

            controller.begin(config)
    if os.environ.get("VPERF_REQUIRE"):
        from pytest_vperf.run import required

        required.check(config)


@pytest.hookimpl(trylast=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    """Check a named profile and the place of the JSON file before collection."""
    on_demand.watch(session)
    if options.given_on_command_line(session.config):
        claims_session(session.config).check_start()


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makeitem(collector: pytest.Module | pytest.Class, obj: object) -> None:
    """Load the entry points of packages that are no pytest plug-ins before the first test that claims is made."""
    code = getattr(obj, "__code__", None)
    if (
        code is not None
        and "claim" in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    ):
        from pytest_vperf.run import doors

        doors.load(collector.config)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """In a gate, leave out the claims that its sides make no difference to."""
    session = begun_session(config)
    if session is not None and session.settings.sides:
        left_out = session.leave_out(_claiming(config, items))
        if left_out:
            config.hook.pytest_deselected(items=left_out)
            items[:] = [item for item in items if item not in left_out]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_finish(session: pytest.Session) -> None:
    """If any test claims: read the threshold files and choose the profile, before any target starts."""
    claiming = _claiming(session.config, session.items)
    if claiming:
        claims_session(session.config).prepare(session, claiming)


def _claiming(config: pytest.Config, items: Iterable[pytest.Item]) -> list[pytest.Item]:
    if not on_demand.loaded(config):
        return []
    from pytest_vperf.fixtures.core import asks_for_claim

    return [item for item in items if asks_for_claim(item)]


def pytest_report_collectionfinish(config: pytest.Config) -> list[str]:
    """Print header lines about the profile and the machine."""
    session = begun_session(config)
    return session.header() if session is not None else []


def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """Run a claiming test, and run it again if a claim is judged in several sessions."""
    claims = begun_session(item.config)
    if claims is None:
        return None
    if item in claims.claiming:
        claims.notes.add("begun", item.nodeid)
    return claims.visits.run(item, nextitem) if claims.visits is not None else None


@pytest.hookimpl(hookwrapper=True, tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, None]:
    """Note that a test's body is running: a report made meanwhile is a subtest's."""
    item.stash[RUNNING] = True
    yield
    item.stash[RUNNING] = False


@pytest.hookimpl(hookwrapper=True, tryfirst=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, Any, None]:
    """Turn verdicts into the outcome of the phase that reached them, and attach the records to its report."""
    # Without a claim or a target there is no verdict, so nothing of ours is imported.
    session = begun_session(item.config)
    claims = session is not None and session.claiming
    if not claims and "pytest_vperf.targets.base" not in sys.modules:
        yield
        return
    from pytest_vperf.reporting.terminal import clean_report
    from pytest_vperf.run import phases

    if item.stash.get(RUNNING, False):
        phases.decide_subtest(item, call)
        result = yield
        clean_report(result.get_result())
        return
    phases.decide(item, call)
    result = yield
    clean_report(result.get_result())
    phases.attach(item, result.get_result())


@pytest.hookimpl(hookwrapper=True, tryfirst=True)
def pytest_report_to_serializable(config: pytest.Config) -> Generator[None, Any, None]:
    """Make reports safe to send: a single text that a pytest-xdist worker cannot send would end its whole run."""
    result = yield
    if begun_session(config) is not None and hasattr(config, "workerinput"):
        from pytest_vperf.reporting.terminal import sendable

        data = result.get_result()
        if data is not None:
            result.force_result(sendable(data))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Collect the records of a pytest-xdist worker; those of this process are already stored.

    Runs before the terminal reports the test, so that whatever was reported has been stored.
    """
    carried = vars(report)
    if "node" in carried and not carried.keys().isdisjoint(("vperf_claims", "vperf_usage_error")):
        claims_session(carried["node"].config).take_over(report)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tell a pytest-xdist worker on this machine where to keep its notes, and its part of the record."""
    from pytest_vperf.run.workers import Workers

    config = node.config
    if WORKERS not in config.stash:
        config.stash[WORKERS] = Workers()
        config.pluginmanager.register(config.stash[WORKERS], "vperf-workers")
    node.workerinput["vperf_each"] = config.getoption("dist") == "each"
    if not getattr(node.gateway.spec, "popen", False):
        return
    config.stash[WORKERS].begin(node)
    if options.given_on_command_line(config) or options.given_in_ini(config):
        node.workerinput["vperf_part"] = claims_session(config).part_for_worker()


@pytest.hookimpl(optionalhook=True)
def pytest_testnodeready(node: Any) -> None:
    """Arrange for an orderly end of a pytest-xdist worker whose tests may make claims."""
    config: pytest.Config = node.config
    if begun_session(config) is not None or (config.rootpath / "thresholds").is_dir():
        claims_session(config).worker_ready(node)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Collect what a pytest-xdist worker measured of claims that it could not finish."""
    node.config.stash[WORKERS].ended(node)
    if begun_session(node.config) is not None or hasattr(node, "workeroutput"):
        claims_session(node.config).worker_ended(node)


@pytest.hookimpl(tryfirst=True)
def pytest_report_teststatus(report: pytest.TestReport) -> tuple[str, str, str] | None:
    """Show a test's verdict as its status."""
    if not hasattr(report, "vperf_verdict"):
        return None
    from pytest_vperf.run import outcomes

    return outcomes.status(report)


@pytest.hookimpl(hookwrapper=True, trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> Generator[None, Any, None]:
    """Finish the record, and add the run's result to the exit status.

    As the innermost wrapper it writes the record after session fixtures have ended, since these may judge claims, and
    before the terminal's summary, which mentions it.
    """
    config = session.config
    claims = begun_session(config)
    if claims is not None:
        claims.begin_end()
        claims.cut_short(session)
        if session.exitstatus == pytest.ExitCode.INTERRUPTED:
            claims.end_workers()
    workers = config.stash.get(WORKERS, None)
    if workers is not None and workers.claiming_died:
        claims = claims_session(config)
        claims.reports.worker_died = True
        stopped = session.exitstatus == pytest.ExitCode.INTERRUPTED
        for lost in workers.lost(stopped=stopped or bool(session.shouldfail)):
            claims.take_lost(lost)
    outcome = yield
    claims = begun_session(session.config)
    if claims is None and os.environ.get("VPERF_REQUIRE"):
        claims = claims_session(session.config)  # a gate that no test claims for measures nothing
    if claims is not None:
        claims.hand_over(session)
        claims.conclude(session)
        error = outcome.excinfo[1] if outcome.excinfo else None
        if isinstance(error, pytest.exit.Exception) and session.exitstatus != pytest.ExitCode.OK:
            # pytest takes the status of an exit at the end of the run for the run's.
            error.returncode = error.returncode or session.exitstatus


@pytest.hookimpl(hookwrapper=True, tryfirst=True)
def pytest_terminal_summary(
    terminalreporter: TerminalReporter, config: pytest.Config
) -> Generator[None, Any, None]:
    """Print the claims of the run; refuted ones also appear in pytest's own sections."""
    session = begun_session(config)
    if session is None or not (
        session.has_claims
        or session.compares
        or session.fillings
        or session.record_lost
        or session.unmet
    ):
        yield
        return
    from pytest_vperf.reporting import summary

    with summary.failures_shown(terminalreporter):
        yield
    summary.write_fillings(terminalreporter, session.fillings)
    if session.has_claims or session.compares:
        summary.write_summary(
            terminalreporter,
            session.run.claims,
            # A pytest-xdist controller does not collect tests, so it printed no header.
            header=session.header() if session.reports_of_workers else (),
            usage_error=session.usage_error,
            answer=session.answer,
        )
    if (left_out := session.left_out_of_benchmarks) and (path := session.settings.benchmark_json):
        summary.write_left_out(terminalreporter, path.name, left_out)
    summary.write_annotations(terminalreporter, session.annotations)
    if (kept := session.kept) is not None:
        summary.write_kept(terminalreporter, *kept)
    if (result := session.result) is not None:
        summary.write_result(
            terminalreporter,
            result.word,
            result.status,
            swallowed=result.swallowed,
            unmet=session.unmet,
            lost=session.record_lost,
            further=_further(session),
        )


def _further(session: ClaimsSession) -> str:
    """The last line of a run that judged claims; a run with an error of its own has other work for the user."""
    from pytest_vperf.reporting import summary

    claims = session.run.claims
    if not claims or session.usage_error or session.record_lost:
        return ""
    settings = session.settings
    return summary.next_step(claims, kept=str(settings.json or ""), time=settings.time)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Restore the signal handlers, free what was kept for workers, and remove a folder that nothing was saved in."""
    if (folder := config.stash.get(STORAGE, None)) is not None:
        with suppress(OSError):  # it is not empty, or not there
            folder.rmdir()
    if (workers := config.stash.get(WORKERS, None)) is not None:
        workers.close()
    session = begun_session(config)
    if session is not None:
        session.close()
