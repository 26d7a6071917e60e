"""Each thing that is private to pytest is there, and does what we use it for; and nothing else of it is used."""

from __future__ import annotations

import ast
import io
import sys
from pathlib import Path
from typing import Any

import pytest

import pytest_vperf
from pytest_vperf import pytest_internals
from pytest_vperf.pytest_internals import (
    WorkerIndex,
    before_lookup,
    colour_last_line,
    end_line,
    fields_of_representation,
    fixture_definitions,
    forget_fixtures,
    given_settings,
    has_request,
    is_strict_xfail,
    make_anew,
    rank_fixtures,
    take_unittest_error,
    terminal_column,
    terminal_stream,
    terminal_width,
)


def item(pytester: pytest.Pytester, text: str, name: str = "test_it") -> pytest.Item:
    found = pytester.getitem(text, name)
    assert isinstance(found, pytest.Item)
    return found


def test_settings_are_known_by_name(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\nsome_setting = 1\n")
    config = pytester.parseconfig("-o", "other_setting=2")
    assert {"some_setting", "other_setting"} <= given_settings(config)


def test_the_fixtures_of_a_test_are_known(pytester: pytest.Pytester) -> None:
    made = item(pytester, "def test_it(tmp_path): pass")
    (found,) = fixture_definitions(made)["tmp_path"]
    assert found.func.__name__ == "tmp_path"
    assert "request" in found.argnames


def test_something_is_called_before_a_name_is_looked_up(pytester: pytest.Pytester) -> None:
    called: list[str] = []

    class Plugin:
        @pytest.hookimpl(trylast=True)
        def pytest_sessionstart(self, session: pytest.Session) -> None:
            def call() -> None:
                called.append("late")
                session.config.pluginmanager.register(Late())

            before_lookup(session, lambda name, _: name == "late", call, now=False)

    class Late:
        @pytest.fixture
        def late(self) -> int:
            return 3

    pytester.makepyfile(
        test_a="def test_before(tmp_path): pass",
        test_b="def test_it(late): assert late == 3\ndef test_more(late): assert late == 3",
    )
    pytester.inline_run("test_a.py", plugins=[Plugin()]).assertoutcome(passed=1)
    assert called == []
    pytester.inline_run(plugins=[Plugin()]).assertoutcome(passed=3)
    assert called == ["late"]


def test_which_of_several_fixtures_wins_is_a_matter_of_rank(pytester: pytest.Pytester) -> None:
    class Late:
        @pytest.hookimpl(trylast=True)
        def pytest_sessionstart(self, session: pytest.Session) -> None:
            session.config.pluginmanager.register(Fixtures())
            rank_fixtures(session, rank)

    class Fixtures:
        @pytest.fixture
        def mine(self) -> str:
            return "late"

    highest = ""
    seen = set()

    def rank(name: str, module: str, extends: bool) -> int:
        if name == "mine":
            seen.add((module, extends))
        return int(module == highest)

    fixture = "import pytest\n@pytest.fixture\ndef mine({}): return {}\n"
    pytester.makepyfile(
        early=fixture.format("", "'early'"), test_it="def test_it(mine): assert mine == 'early'"
    )
    pytester.makeconftest('pytest_plugins = ["early"]')
    pytester.inline_run(plugins=[Late()]).assertoutcome(failed=1)
    highest = "early"
    pytester.inline_run(plugins=[Late()]).assertoutcome(passed=1)
    assert {("early", False), (__name__, False)} <= seen
    pytester.makeconftest(fixture.format("mine", "mine + ', mine'"))
    pytester.makepyfile(test_it="def test_it(mine): assert mine == 'late, mine'")
    pytester.inline_run(plugins=[Late()]).assertoutcome(passed=1)


def test_a_test_runs_again_with_new_fixtures_and_a_new_instance(pytester: pytest.Pytester) -> None:
    made: Any = item(
        pytester,
        """
        class TestIt:
            def test_it(self, tmp_path): pass
        """,
    )
    assert has_request(made)
    request, instance = made._request, made.instance
    forget_fixtures(made)
    assert made.funcargs is None
    make_anew(made)
    assert made._request is not request
    assert made.instance is not instance


def test_the_fixtures_of_other_modules_are_ended(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(
        """
        import pytest
        from pytest_vperf.pytest_internals import tear_down_others

        @pytest.hookimpl(tryfirst=True)
        def pytest_runtest_setup(item):
            if item.name == "test_b":
                tear_down_others(item)
                print("set up b")

        def pytest_runtest_protocol(item, nextitem):
            from _pytest.runner import runtestprotocol
            runtestprotocol(item, nextitem=item)  # as if the next test was in the same module
            return True
        """
    )
    pytester.makepyfile(
        test_a="""
        import pytest

        @pytest.fixture(scope="module")
        def a():
            yield
            print("ended a")

        def test_a(a): pass
        """,
        test_b="def test_b(): pass",
    )
    result = pytester.runpytest("-s", "-p", "no:vperf")
    result.stdout.fnmatch_lines(["*ended a*", "*set up b*"])


def test_the_error_of_a_unittest_is_taken_once(pytester: pytest.Pytester) -> None:
    made: Any = item(
        pytester,
        """
        import unittest

        class TestIt(unittest.TestCase):
            def test_it(self): pass
        """,
    )
    try:
        raise ValueError("x")
    except ValueError:
        made.addError(made, sys.exc_info())
    taken = take_unittest_error(made)
    assert taken is not None
    assert str(taken.value) == "x"
    assert take_unittest_error(made) is None


@pytest.mark.parametrize("strict", [True, False])
def test_a_strict_expectation_is_known_before_the_test_runs(
    pytester: pytest.Pytester, strict: bool
) -> None:
    pytester.makeconftest(
        """
        from pytest_vperf.pytest_internals import is_strict_xfail

        def pytest_runtest_teardown(item):
            print("strict:", is_strict_xfail(item))
        """
    )
    pytester.makepyfile(
        f"import pytest\n@pytest.mark.xfail(strict={strict})\ndef test_it(): assert 0"
    )
    result = pytester.runpytest("-s")
    result.stdout.fnmatch_lines([f"*strict: {strict}*"])
    assert not is_strict_xfail(item(pytester, "def test_it(): pass"))


def test_a_worker_of_xdist_reports_another_test(pytester: pytest.Pytester) -> None:
    pytest.importorskip("xdist")
    pytester.makeconftest(
        """
        from pytest_vperf.pytest_internals import WorkerIndex

        def pytest_runtest_protocol(item, nextitem):
            found = [each for each in item.config.pluginmanager.get_plugins() if hasattr(each, "item_index")]
            if not found:
                return
            before, index = found[0].item_index, WorkerIndex(item.config)
            index.set(77)
            assert found[0].item_index == 77
            index.restore()
            assert found[0].item_index == before
            (item.config.rootpath / "seen").touch()
        """
    )
    pytester.makepyfile("def test_it(): pass")
    pytester.runpytest("-n1", "-p", "xdist").assert_outcomes(passed=1)
    assert (pytester.path / "seen").exists()
    elsewhere = WorkerIndex(pytester.parseconfig())
    elsewhere.set(77)
    elsewhere.restore()


@pytest.fixture
def reporter(pytester: pytest.Pytester) -> Any:
    config = pytester.parseconfigure()
    return pytest_internals.TerminalReporter(config, io.StringIO())


def test_the_terminals_stream_width_and_column_are_known(reporter: Any) -> None:
    stream = terminal_stream(reporter)
    assert isinstance(stream, io.StringIO)
    assert terminal_width(reporter) >= 40
    reporter.write("four")
    assert terminal_column(reporter) == 4
    end_line(reporter)
    end_line(reporter)
    assert (terminal_column(reporter), stream.getvalue()) == (0, "four\n")
    assert terminal_stream(object()) is None


def test_the_last_line_is_coloured(reporter: Any) -> None:
    asked: list[frozenset[str]] = []

    def main(usual: Any, known: frozenset[str]) -> str:
        asked.append(known)
        return "blue" if usual(True) == "yellow" else "none"

    colour_last_line(reporter, main, lambda part, colour: (part[0], {colour: True}))
    reporter.stats["held"] = [object()]
    parts, colour = reporter.build_summary_stats_line()
    assert colour == "blue"
    assert parts == [("1 held", {"blue": True})]
    assert "passed" in asked[0]


def test_a_representation_of_an_error_has_fields() -> None:
    with pytest.raises(ValueError) as caught:
        raise ValueError("with a text")
    fields = dict(fields_of_representation(caught.getrepr()))
    assert "reprcrash" in fields
    assert "with a text" in dict(fields_of_representation(fields["reprcrash"]))["message"]
    assert list(fields_of_representation(ValueError("x"))) == []


#: What this project uses of pytest that begins with an underscore; others' own names may be the same.
PRIVATE = {
    *("_request", "_initrequest", "_getobj", "_setupstate", "_fixtureinfo", "_excinfo", "_tw"),
    *("_determine_main_color", "_inicfg", "_fixturemanager", "_arg2fixturedefs", "item_index"),
}


def test_nothing_else_is_used_elsewhere() -> None:
    root = Path(pytest_vperf.__file__).parent
    found = []
    for path in root.rglob("*.py"):
        if path.name == "pytest_internals.py":
            continue
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            modules = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            modules += [each.name for each in node.names] if isinstance(node, ast.Import) else []
            names = [each for each in modules if each.partition(".")[0] == "_pytest"]
            if isinstance(node, ast.Attribute) and node.attr in PRIVATE:
                owner = node.value
                names += [] if isinstance(owner, ast.Name) and owner.id == "self" else [node.attr]
            if isinstance(node, ast.Constant) and node.value in PRIVATE:
                names.append(str(node.value))
            found += [
                f"{path.relative_to(root)}:{getattr(node, 'lineno', 0)}: {name}" for name in names
            ]
    assert found == []
