"""A test that is skipped, or fails as expected, leaves no claim out of the record."""

from __future__ import annotations

import json

import pytest

HEAD = """
import unittest

import pytest
from samplers import around
"""
#: Ways to leave a test before it has judged its claim: what the record calls the claim, and its reason.
PASSED_OVER = {
    "a mark": (
        """
@pytest.mark.skip("not today")
def test_it(claim): claim("start.alike").compares(around(100), to=around(99))
""",
        "test_it",
        "skipped: not today",
    ),
    "a condition": (
        """
@pytest.mark.skipif(True, reason="no KVM")
def test_it(claim): pass
""",
        "test_it",
        "skipped: no KVM",
    ),
    "before the name": (
        """
def test_it(claim): pytest.skip("no KVM")
""",
        "test_it",
        "skipped: no KVM",
    ),
    "after the name": (
        """
def test_it(claim):
    claim("start.alike")
    pytest.skip("no KVM")
""",
        "start.alike",
        "skipped: no KVM",
    ),
    "a claim that no argument asks for": (
        """
def test_it(request):
    request.getfixturevalue("claim")("start.alike")
    pytest.skip("no KVM")
""",
        "start.alike",
        "skipped: no KVM",
    ),
    "an expected failure of one that no argument asks for": (
        """
@pytest.mark.xfail(reason="no KVM")
def test_it(request):
    request.getfixturevalue("claim")("start.alike")
    assert False
""",
        "start.alike",
        "expected to fail: no KVM",
    ),
    "a fixture": (
        """
@pytest.fixture
def kvm(): pytest.skip("no KVM")
def test_it(kvm, claim): pass
""",
        "test_it",
        "skipped: no KVM",
    ),
    "a fixture with the claim": (
        """
@pytest.fixture
def kvm(claim):
    claim("start.alike")
    pytest.skip("no KVM")
def test_it(kvm): pass
""",
        "start.alike",
        "skipped: no KVM",
    ),
    "a fixture that judges later": (
        """
@pytest.fixture
def late(claim):
    named = claim("start.alike")
    yield
    if not named: named.compares(around(100), to=around(99))
def test_it(late): pytest.skip("no KVM")
""",
        "start.alike",
        "skipped: no KVM",
    ),
    "a missing module": (
        """
def test_it(claim): pytest.importorskip("no_such_module")
""",
        "test_it",
        "skipped: could not import 'no_such_module': No module named 'no_such_module'",
    ),
    "a TestCase": (
        """
class TestIt(unittest.TestCase):
    @pytest.fixture(autouse=True)
    def _claim(self, claim): pass
    def test_it(self): self.skipTest("no KVM")
""",
        "test_it",
        "skipped: no KVM",
    ),
    "a TestCase with a decorator": (
        """
class TestIt(unittest.TestCase):
    @pytest.fixture(autouse=True)
    def _claim(self, claim): pass
    @unittest.skip("no KVM")
    def test_it(self): pass
""",
        "test_it",
        "skipped: no KVM",
    ),
    "an expected failure that is not run": (
        """
@pytest.mark.xfail(run=False, reason="no KVM")
def test_it(claim): pass
""",
        "test_it",
        "expected to fail: [NOTRUN] no KVM",
    ),
    "an expected failure": (
        """
@pytest.mark.xfail(reason="no KVM")
def test_it(claim):
    claim("start.alike")
    assert False
""",
        "start.alike",
        "expected to fail: no KVM",
    ),
    "a declared failure": (
        """
def test_it(claim):
    claim("start.alike")
    pytest.xfail("no KVM")
""",
        "start.alike",
        "expected to fail: no KVM",
    ),
}


@pytest.mark.parametrize("options", [(), ("-n1",)])
@pytest.mark.parametrize("how", PASSED_OVER)
def test_what_is_passed_over_is_not_measured(
    project: pytest.Pytester, how: str, options: tuple[str, ...]
) -> None:
    text, name, reason = PASSED_OVER[how]
    project.makepyfile(HEAD + text)
    result = project.runpytest(*options, "--claims-json=out.json")
    assert result.ret == 5
    (record,) = json.loads((project.path / "out.json").read_text())["claims"]
    assert (record["name"], record["verdict"]) == (name, "not measured")
    assert record["reason"] == reason
    result.stdout.fnmatch_lines(
        ["claims: 1 not measured", "claims: result: nothing measured, exit status 5"]
    )
    assert project.runpytest(*options, "--claims-level=measured").ret == 1
    assert project.runpytest(*options, "--claims-advisory").ret == 0


def test_a_strictly_expected_failure_is_excused(project: pytest.Pytester) -> None:
    project.makepyfile(
        f"""{HEAD}
def test_held(claim): claim("start.alike").compares(around(100), to=around(99))
@pytest.mark.xfail(strict=True, reason="no KVM")
def test_it(claim):
    claim("start.half")
    assert False
"""
    )
    result = project.runpytest("--claims-level=strict")
    assert result.ret == 0
    result.stdout.fnmatch_lines(["claims: 1 held, 1 not measured", "claims: result: ok, exit*"])
