"""Our fixtures are there for whoever asks for one, and nobody else pays for them."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

import pytest
from installed_packages import package

from pytest_vperf.fixtures import on_demand
from pytest_vperf.workloads.registry import TOOLS

if TYPE_CHECKING:
    from pathlib import Path


def test_all_names_are_known() -> None:
    found = {
        name
        for module in on_demand.MODULES
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


CLAIM = """
    import pytest
    @pytest.fixture
    def claim({}): return {}
    @pytest.fixture
    def vperf_sides(): return "mine"
    @pytest.fixture
    def container(): return "mine"
"""


@pytest.fixture
def packages(project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Packages that are put here are installed."""
    monkeypatch.setenv("PYTHONPATH", str(project.path), prepend=":")
    return project.path


@pytest.mark.parametrize("installed", [True, False], ids=["installed", "named"])
def test_only_a_project_takes_away_what_judges(
    project: pytest.Pytester, packages: Path, installed: bool
) -> None:
    """A package that is installed for other reasons, and has a fixture `claim`, would leave nothing judged."""
    text = CLAIM.format("", "lambda name: pytest.importorskip('unittest.mock').Mock()")
    if installed:
        package(packages, "insurance", text, group="pytest11")
    else:
        project.makepyfile(insurance=text)
        project.makeconftest('pytest_plugins = ["insurance"]')
    project.makepyfile(
        f"""
        from samplers import around
        def test_claim(claim, container, vperf_sides):
            claim("start.quick").holds(around(450))
            assert container == "mine"
            assert (vperf_sides == "mine") is not {installed}
        """
    )
    result = project.runpytest_subprocess("-p", "no:cacheprovider")
    assert result.parseoutcomes() == ({"refuted": 1} if installed else {"passed": 1})


def test_a_package_may_extend_what_judges(project: pytest.Pytester, packages: Path) -> None:
    package(packages, "labels", CLAIM.format("claim", "claim, 'extended'"), group="pytest11")
    project.makepyfile(
        """
        from samplers import around
        def test_claim(claim):
            claim[0]("start.quick").holds(around(450))
            assert claim[1] == "extended"
        """
    )
    assert project.runpytest_subprocess("-v").parseoutcomes() == {"refuted": 1}


def test_claims_of_a_project_that_extends_the_fixture_are_spread_over_the_run(
    project: pytest.Pytester,
) -> None:
    project.makeconftest(
        """
        import pytest
        @pytest.fixture
        def claim(claim): return claim
        """
    )
    project.makepyfile(
        """
        from samplers import around
        def test_a(claim): claim("start.quick").holds(around(450))
        def test_b(claim): claim("start.quick").holds(around(460))
        """
    )
    result = project.runpytest()
    assert result.parseoutcomes() == {"refuted": 2}
    result.stdout.no_fnmatch_line("*cannot be run again*")


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
