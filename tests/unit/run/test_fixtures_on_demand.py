"""Our fixtures are there for whoever asks for one, and nobody else pays for them."""

from __future__ import annotations

from importlib import import_module

import pytest

from pytest_vperf.fixtures import on_demand
from pytest_vperf.workloads.registry import TOOLS


def test_all_names_are_known() -> None:
    found = {
        name
        for module in on_demand._MODULES
        for name, each in vars(import_module(f"pytest_vperf.fixtures.{module}")).items()
        if hasattr(each, "_fixture_function_marker") or hasattr(each, "_pytestfixturefunction")
    }
    assert {name for name in found if not name.startswith("_")} == on_demand.NAMES
    assert on_demand.NAMES.isdisjoint(tool.name for tool in TOOLS)


WAYS = {
    "argument": "def test_it(vperf_sides): assert not vperf_sides",
    "tool": "def test_it(sysbench): assert sysbench",
    "dynamic": "def test_it(request): assert request.getfixturevalue('sysbench')",
    "mark": "import pytest\n@pytest.mark.usefixtures('vperf_run')\ndef test_it(): pass",
    "fixture": "import pytest\n@pytest.fixture\ndef mine(vperf_sides): return 1\ndef test_it(mine): assert mine",
    "class": "class TestIt:\n    def test_it(self, vperf_scope): pass",
    "unittest": """
        import pytest, unittest
        class TestIt(unittest.TestCase):
            @pytest.fixture(autouse=True)
            def sides(self, vperf_sides): self.sides = vperf_sides
            def test_it(self): assert not self.sides
    """,
    "override": """
        import pytest
        @pytest.fixture
        def native(native): return (native, 1)
        def test_it(native): assert native[0].name == "host"
    """,
}


@pytest.mark.parametrize("way", WAYS)
def test_a_fixture_is_there_however_it_is_asked_for(project: pytest.Pytester, way: str) -> None:
    project.makepyfile(WAYS[way])
    project.runpytest("--vperf-host-tools").assert_outcomes(passed=1)


def test_tests_that_ask_for_runtimes_run_once_for_each(project: pytest.Pytester) -> None:
    project.makepyfile(
        "def test_it(container_runtime): assert container_runtime in ('runc', 'runsc')"
    )
    project.runpytest("--container-runtime=runc,runsc").assert_outcomes(passed=2)


@pytest.mark.parametrize("option", ["--fixtures", "--fixtures-per-test"])
def test_all_are_listed(project: pytest.Pytester, option: str) -> None:
    project.makepyfile("def test_it(bench, sysbench): pass")
    result = project.runpytest(option)
    result.stdout.fnmatch_lines_random(["bench -- *", "sysbench -- *"])


@pytest.mark.parametrize("when", ["before", "after"])
def test_fixtures_of_another_plugin_stay_its_own(project: pytest.Pytester, when: str) -> None:
    """Those that a project keeps in a module, and names in ``pytest_plugins``, are a plug-in's."""
    project.makepyfile(
        mine="""
        import pytest
        @pytest.fixture
        def container(): return "my container"
        @pytest.fixture
        def procmem(): return "my procmem"
        """
    )
    project.makeconftest('pytest_plugins = ["mine"]')
    project.makepyfile(
        **{f"test_{'a' if when == 'before' else 'c'}": "def test_ours(vperf_sides, pods): pass"},
        test_b="def test_mine(container, procmem): assert (container, procmem) == ('my container', 'my procmem')",
    )
    result = project.runpytest("-k", "mine or vperf_sides", "--vperf-host-tools")
    result.assert_outcomes(passed=1, deselected=1)
