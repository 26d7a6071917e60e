"""The image of a test's targets: the small one, or the one with the tools where a test uses a tool."""

from __future__ import annotations

import tarfile

import pytest

CONFTEST = """
from pathlib import Path

import pytest

from pytest_vperf.targets.image import debian as debian_image, rootfs as image
from pytest_vperf.targets.base import Unavailable
from pytest_vperf.targets.image.rootfs import Rootfs
from pytest_vperf.workloads import programs

MADE = []

@pytest.fixture(autouse=True, scope="session")
def no_builds():
    def tools(packages, extra=None, *, without=None, say=None):
        MADE.append("tools")
        say("building the image, says the test")
        if Path("broken").exists():
            raise Unavailable("no mmdebstrap here", remedy="get it")
        return Rootfs(Path("t.tar"), "t" * 64, f"tools {sorted(extra)}")
    def small():
        MADE.append("small")
        return Rootfs(Path("s.tar"), "s" * 64, "small")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(debian_image, "tools_rootfs", tools)
        patch.setattr(image, "default_rootfs", small)
        patch.setattr(programs, "build", lambda: {"/usr/local/bin/ours": Path("x")})
        yield

@pytest.fixture
def made():
    return MADE
"""
TESTS = """
def test_without_a_tool(rootfs, native, made):
    assert made == []
    assert (rootfs().name, made) == ("small", ["small"])

def test_with_a_tool(sysbench, rootfs, made):
    assert made == ["small", "tools"]  # before the test begins
    assert rootfs().name == "tools ['/usr/local/bin/ours']"

def test_with_another_tool(fio, native, rootfs, made):
    assert (rootfs().name[:5], made) == ("tools", ["small", "tools"])

def test_without_a_tool_again(pods, rootfs):
    assert rootfs().name == "small"
"""


@pytest.fixture
def project(pytester: pytest.Pytester) -> pytest.Pytester:
    pytester.makeconftest(CONFTEST)
    return pytester


def test_the_image_is_chosen_by_the_tests_fixtures(project: pytest.Pytester) -> None:
    project.makepyfile(TESTS)
    result = project.runpytest_subprocess("-p", "no:randomly")
    result.assert_outcomes(passed=4)
    result.stdout.fnmatch_lines(["claims: building the image, says the test"])


def test_a_named_image_is_used_by_every_test(project: pytest.Pytester) -> None:
    with tarfile.open(project.path / "mine.tar", "w") as archive:
        archive.addfile(tarfile.TarInfo("bin"))
    project.makepyfile(
        """
        def test_small(rootfs, made):
            assert rootfs().name.endswith("mine.tar")

        def test_tools(sysbench, rootfs, made):
            assert rootfs().name.endswith("mine.tar")
            assert made == []
        """
    )
    project.runpytest_subprocess("--container-image=mine.tar").assert_outcomes(passed=2)


def test_an_image_that_cannot_be_built_is_a_claim_not_measured(project: pytest.Pytester) -> None:
    (project.path / "broken").touch()
    project.makepyfile(
        """
        def test_it(sysbench, native, claim):
            claim("some.claim").holds(lambda: sysbench.cpu(native).total_time)
        """
    )
    (project.path / "thresholds").mkdir()
    (project.path / "thresholds/any.yaml").write_text(
        "hardware: {name: any, match: {}}\nclaims:\n  some.claim: {at_most: 1 s}\n"
    )
    result = project.runpytest_subprocess("-rs")
    result.stdout.fnmatch_lines(
        ["some.claim:  no mmdebstrap here (to mend it: get it)", "*= 1 not measured in *"]
    )


@pytest.mark.parametrize("how", ["option", "ini"])
def test_the_hosts_own_tools_need_no_image(project: pytest.Pytester, how: str) -> None:
    project.makepyfile(
        """
        def test_it(sysbench, native, made):
            assert native.program("sh").origin == "host"
            assert made == []
        """
    )
    if how == "ini":
        project.makeini("[pytest]\nvperf_host_tools = true\n")
    project.runpytest_subprocess(
        *(["--vperf-host-tools"] if how == "option" else [])
    ).assert_outcomes(passed=1)
