"""What is private to pytest, or to pytest-xdist, and has no public way: used here alone, each with a test of its own.

A version of pytest that has changed one of these fails that test, and is mended here. Where a run can do without, it
does, and the docstring says so.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from _pytest import terminal
from _pytest.outcomes import (  # pytest.fail.Exception and so on, as classes to inherit from
    Failed,
    Skipped,
)
from _pytest.runner import call_and_report, runtestprotocol
from _pytest.skipping import xfailed_key
from _pytest.terminal import TerminalReporter
from _pytest.unittest import TestCaseFunction

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import TextIO

__all__ = [
    "Failed",
    "Skipped",
    "TerminalReporter",
    "call_and_report",
    "runtestprotocol",
]

# The command line and the ini file.


def given_settings(config: pytest.Config) -> set[str]:
    """The names of all settings of the ini file and of ``-o``, whoever declares them.

    pytest has no public list of them; before pytest 9 it is `inicfg`, without what ``-o`` says.
    """
    given = {text.partition("=")[0] for text in config.known_args_namespace.override_ini or ()}
    given.update(vars(config).get("_inicfg") or vars(config).get("inicfg", ()))
    return given


# A test and its fixtures.


def fixture_definitions(item: pytest.Item) -> Mapping[str, Sequence[Any]]:
    """The definitions of all fixtures that a test uses, by name; the last one of a name is the one it gets."""
    info = getattr(item, "_fixtureinfo", None)
    found: Mapping[str, Sequence[Any]] = getattr(info, "name2fixturedefs", {})
    return found


def before_lookup(
    session: pytest.Session,
    wanted: Callable[[str, bool], bool],
    call: Callable[[], object],
    *,
    now: bool,
) -> None:
    """Call a function once, before the first lookup of a fixture's name that is wanted.

    Where a version of pytest has no such method to wrap, it is called at once.

    Args:
        session: which has begun.
        wanted: whether a name is, and whether a fixture of that name is known.
        call: the function.
        now: whether to call it at once.
    """
    manager: Any = getattr(session, "_fixturemanager", None)
    find: Any = getattr(manager, "getfixturedefs", None)
    if now or find is None:
        call()
        return

    due = True

    def getfixturedefs(name: str, *place: Any, **more: Any) -> Any:
        nonlocal due
        found = find(name, *place, **more)
        if due and wanted(name, bool(found)):
            due = False
            call()
            found = find(name, *place, **more)
        return found

    manager.getfixturedefs = getfixturedefs


def rank_fixtures(session: pytest.Session, rank: Callable[[str, str, bool], int]) -> None:
    """Decide which fixture wins where plug-ins have several of one name; those of files and folders win over all.

    Args:
        session: which has begun.
        rank: of a fixture: by its name, the module of its function, and whether it asks for the fixture of its name
            that it hides. The highest wins, and of equals the last registered.
    """

    def ranked(name: str, found: Any) -> tuple[bool, int]:
        module = str(getattr(found.func, "__module__", ""))
        # pytest 9.1 keeps those of the root folder's conftest.py together with those of plug-ins.
        return module.rpartition(".")[2] == "conftest", rank(name, module, name in found.argnames)

    manager: Any = getattr(session, "_fixturemanager", None)
    known = vars(manager)
    for name, each in known.get("_arg2fixturedefs", {}).items():  # the last one wins
        # Those of files and folders are behind the others already.
        own = [found for found in each if not found.has_location]
        own.sort(key=partial(ranked, name))
        each[: len(own)] = own
    for name, by_node in known.get("_arg2node2fixturedefs", {}).items():  # pytest 9.1: the first
        by_node.get(session, []).sort(key=partial(ranked, name), reverse=True)


def has_request(item: pytest.Item) -> bool:
    """Whether a test keeps the request by which it gets its fixtures, as functions do."""
    return hasattr(item, "_request")


def forget_fixtures(item: pytest.Item) -> None:
    """Drop what a test that has run got from its fixtures."""
    if has_request(item):
        known: Any = item
        known._request = False
        known.funcargs = None


def make_anew(item: pytest.Item) -> None:
    """Reset a test whose fixtures were forgotten: a new request, and a fresh instance of its class."""
    known: Any = item
    if getattr(known, "_request", None) is False:
        known._initrequest()
    if isinstance(item.parent, pytest.Class) and hasattr(known, "_getobj"):
        vars(item).pop("_instance", None)
        known.obj = known._getobj()


def tear_down_others(item: pytest.Item) -> None:
    """End the fixtures of modules, folders and classes that a test is not in; pytest does so only after a test."""
    item.session._setupstate.teardown_exact(item)


def take_unittest_error(item: pytest.Item) -> pytest.ExceptionInfo[BaseException] | None:
    """Take the error that a ``unittest.TestCase`` has noted for a phase, as pytest's plug-in does after us; ``None``
    if there is none."""
    errors = getattr(item, "_excinfo", None)
    found: pytest.ExceptionInfo[BaseException] | None = (
        errors.pop(0) if isinstance(item, TestCaseFunction) and errors else None
    )
    return found


def is_strict_xfail(item: pytest.Item) -> bool:
    """Whether a test is expected to fail, strictly, as pytest found before it ran."""
    mark = item.stash.get(xfailed_key, None)
    return mark is not None and bool(mark.strict)


# A worker of pytest-xdist.


class WorkerIndex:
    """Which test a worker of pytest-xdist reports; elsewhere, nothing.

    Args:
        config: of the run.
    """

    def __init__(self, config: pytest.Config) -> None:
        # By its name: a worker gets its module as a text to execute.
        self._worker: Any = next(
            (
                each
                for each in config.pluginmanager.get_plugins()
                if type(each).__name__ == "WorkerInteractor"
            ),
            None,
        )
        self._index = getattr(self._worker, "item_index", None)

    def set(self, index: int) -> None:
        """Report the test of this number among the collected ones."""
        if self._worker is not None:
            self._worker.item_index = index

    def restore(self) -> None:
        """Report the test that was reported before."""
        if self._worker is not None:
            self._worker.item_index = self._index


# The terminal.


def terminal_stream(reporter: object) -> TextIO | None:
    """The stream that the terminal reporter writes to, whatever is captured; ``None`` if it is not to be had."""
    found: TextIO | None = getattr(getattr(reporter, "_tw", None), "_file", None)
    return found


def write_through(reporter: TerminalReporter, change: Callable[[str], str]) -> None:
    """Change each text before it is written to the terminal; once, whatever is asked for later."""
    writer: Any = reporter._tw
    write: Any = getattr(writer, "write", None)
    if write is None or "write" in vars(writer):
        return

    def changed(msg: str, **how: Any) -> None:
        write(change(msg), **how)

    writer.write = changed


def terminal_width(reporter: TerminalReporter) -> int:
    """Columns of the terminal."""
    return reporter._tw.fullwidth


def terminal_column(reporter: TerminalReporter) -> int:
    """How many columns of the current line are written."""
    return reporter._tw.width_of_current_line


def end_line(reporter: TerminalReporter) -> None:
    """End a line that another plug-in has begun, such as pytest-xdist's progress letters."""
    if terminal_column(reporter):
        reporter._tw.line()


Part = tuple[str, dict[str, bool]]


def colour_last_line(
    reporter: TerminalReporter,
    main: Callable[[Callable[[bool], str], frozenset[str]], str],
    part: Callable[[Part, str], Part],
) -> None:
    """Decide how the last line of a run is coloured; where a version of pytest lacks the methods, it stays pytest's.

    Args:
        reporter: whose methods are wrapped.
        main: the line's colour, given pytest's own decision, which takes whether a category is unknown, and the
            categories that pytest knows.
        part: a part of the line, given pytest's and the line's colour.
    """
    decide: Any = getattr(reporter, "_determine_main_color", None)
    parts: Any = getattr(reporter, "build_summary_stats_line", None)
    known: Any = getattr(terminal, "KNOWN_TYPES", None)
    if decide is None or parts is None or known is None:
        return

    def determine_main_color(unknown_type_seen: bool) -> str:
        return main(decide, frozenset(known))

    def build_summary_stats_line() -> tuple[list[Part], str]:
        line, colour = parts()
        return [part(each, colour) for each in line], colour

    reporter._determine_main_color = determine_main_color  # type: ignore[method-assign]
    reporter.build_summary_stats_line = build_summary_stats_line  # type: ignore[method-assign]


def fields_of_representation(value: object) -> Iterator[tuple[str, Any]]:
    """The fields of an object that the representation of an error consists of; none of another object."""
    if type(value).__module__.startswith("_pytest._code"):
        with suppress(TypeError):
            yield from list(vars(value).items())


def show_no_files(config: pytest.Config) -> None:
    """Have the terminal not begin a line for each file: tests of several files end in turn, as under pytest-xdist."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None and hasattr(reporter, "showfspath"):
        reporter.showfspath = False


def count_apart(config: pytest.Config, report: pytest.TestReport, machine: str) -> None:
    """Have the terminal's progress count a test that was reported once for each machine, and not by its name."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    seen: Any = getattr(reporter, "_progress_nodeids_reported", None)
    if isinstance(seen, set):
        seen.discard(getattr(report, "id", report.nodeid))  # from pytest 9.2 on it is no text
        seen.add((report.nodeid, machine))


def keep_failed(config: pytest.Config, failed: Iterable[str]) -> None:
    """Have ``--last-failed`` know tests that failed anywhere: of two reports of one test, pytest keeps the later."""
    plugin: Any = config.pluginmanager.get_plugin("lfplugin")
    known = getattr(plugin, "lastfailed", None)
    if isinstance(known, dict):
        known.update((test, True) for test in failed)
