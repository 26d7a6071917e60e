"""Claims of a test that goes on after one of them: caught errors, subtests, and fixtures that judge at their end."""

from __future__ import annotations

import json
from typing import Any

import pytest


def records(project: pytest.Pytester) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((project.path / "out.json").read_text())["claims"]
    return found


@pytest.mark.parametrize("options", [(), ("--claims-sessions=1",), ("--claims-strict",)])
def test_a_refutation_that_a_test_catches_is_raised_in_every_visit(
    project: pytest.Pytester, options: tuple[str, ...]
) -> None:
    project.makepyfile(
        """
        import pytest
        from samplers import around
        def test_it(claim):
            with pytest.raises(AssertionError, match="start.quick is refuted: measured 45"):
                claim("start.quick").holds(around(450))
            claim("copy.rate").holds(around(12, "MB/s"))
        """
    )
    result = project.runpytest("--claims-json=out.json", *options)
    result.stdout.fnmatch_lines(
        ["start.quick is refuted: measured *", "claims: 1 held, 1 refuted", "* 1 refuted in *"]
    )
    assert [each["verdict"] for each in records(project)] == ["refuted", "holds"]


def test_where_no_verdict_fails_a_test_none_is_raised_in_any_visit(
    project: pytest.Pytester,
) -> None:
    project.makepyfile(
        """
        from samplers import around
        def test_it(claim):
            assert claim("start.quick").holds(around(450))["verdict"] == "refuted"
            claim("copy.rate").holds(around(12, "MB/s"))
        """
    )
    result = project.runpytest("--claims-json=out.json", "--claims-advisory")
    assert result.ret == 0
    assert [each["verdict"] for each in records(project)] == ["refuted", "holds"]


def test_an_error_that_a_test_catches_is_raised_in_every_visit_and_kept_once(
    project: pytest.Pytester,
) -> None:
    project.makepyfile(
        """
        import pytest
        from samplers import around, broken
        def test_it(claim):
            with pytest.raises(RuntimeError, match="no more"):
                claim("start.quick").holds(broken(3, RuntimeError("no more")))
            claim("copy.rate").holds(around(12, "MB/s"))
        """
    )
    result = project.runpytest("--claims-json=out.json")
    result.stdout.fnmatch_lines(["claims: 1 held, 1 inconclusive"])
    first, second = records(project)
    assert (first["name"], first["cause"]) == ("start.quick", "error")
    assert (second["name"], second["verdict"]) == ("copy.rate", "holds")


def test_an_interval_may_have_one_known_end(project: pytest.Pytester) -> None:
    text = "hardware: {name: any, match: {}}\nclaims:\n  start.tail: {at_most: 400 ms, statistic: p95}\n"
    (project.path / "thresholds" / "any.yaml").write_text(text)
    project.makepyfile(
        """
        from samplers import around
        def test_it(claim): claim("start.tail").holds(around(450))
        """
    )
    result = project.runpytest("--claims-json=out.json", "--junitxml=out.xml")
    (record,) = records(project)
    low, high = record["interval"]
    assert 400 < low < record["estimate"]
    assert high is None
    assert record["confidence"] > 0.9
    assert record["statistic"] == "p95"
    result.stdout.re_match_lines(
        [
            r"  measured  p95 45\d\.?\d* ms \[≥ 4\d\d\.?\d*\] at 9\d\.?\d* % confidence",
            "refuted +start.tail .*≥ .*",
        ]
    )
    properties = (project.path / "out.xml").read_text()
    assert "vperf.start.tail.low" in properties
    assert "vperf.start.tail.high" not in properties


def test_a_claim_without_a_figure_is_described_by_its_median(
    project: pytest.Pytester,
) -> None:
    project.makepyfile(
        """
        from samplers import around
        def test_it(claim): claim("copy.graph").holds(around(100))
        """
    )
    project.runpytest("--claims-json=out.json")
    (record,) = records(project)
    assert (record["verdict"], record["statistic"]) == ("not comparable", "median")


SUBTESTS = """
    from samplers import around, missing
    def test_it(claim, subtests):
        for name, centre in {levels}:
            with subtests.test(name=name):
                claim(name).holds(around(centre, "MB/s" if name == "copy.rate" else "ms"))
        with subtests.test("plain"):
            pass
    def test_after(): pass
"""
AT_ONCE = "the 3 sessions ran back to back, which is weaker: "
BY_SUBTESTS = f"{AT_ONCE}subtests would catch what ends a visit"
IN_TEARDOWN = f"{AT_ONCE}a claim that is judged in teardown cannot have the test run again"


@pytest.fixture
def subtests_are_there() -> None:
    if not hasattr(pytest, "Subtests"):
        pytest.skip("this pytest has no subtests")


@pytest.mark.usefixtures("subtests_are_there")
@pytest.mark.parametrize("sessions", [1, 3])
def test_claims_in_subtests_are_judged_at_once(project: pytest.Pytester, sessions: int) -> None:
    levels = [("start.quick", 350), ("copy.rate", 12)]
    project.makepyfile(SUBTESTS.format(levels=levels))
    result = project.runpytest(
        "-v", "--claims-json=out.json", f"--claims-sessions={sessions}", "-rN"
    )
    result.stdout.no_fnmatch_line("*SUBSKIPPED*")
    result.stdout.no_fnmatch_line("*session 1 of 3*")
    assert sum("::test_it HELD" in line for line in result.outlines) == 1
    result.stdout.fnmatch_lines(["claims: 2 held"])
    assert result.ret == 0
    found = records(project)
    assert [each["name"] for each in found] == ["start.quick", "copy.rate"]
    assert [len(each["sessions"]) for each in found] == [sessions, sessions]
    assert all((BY_SUBTESTS in each["warnings"]) == (sessions == 3) for each in found)


@pytest.mark.usefixtures("subtests_are_there")
def test_a_claim_that_is_refuted_in_a_subtest_fails_the_test_too(project: pytest.Pytester) -> None:
    levels = [("start.quick", 450), ("copy.rate", 12)]
    project.makepyfile(SUBTESTS.format(levels=levels))
    result = project.runpytest("-v", "--claims-json=out.json", "-rN")
    result.stdout.fnmatch_lines(["*::test_it SUBFAILED*start.quick*", "*::test_it REFUTED*"])
    assert result.ret == 1
    assert [each["verdict"] for each in records(project)] == ["refuted", "holds"]


@pytest.mark.usefixtures("subtests_are_there")
def test_a_target_that_a_subtest_cannot_have_is_not_measured(project: pytest.Pytester) -> None:
    project.makepyfile(
        """
        from samplers import around, missing
        def test_it(claim, subtests):
            with subtests.test("pod"):
                quick = claim("start.quick")
                missing()
            with subtests.test("copy"):
                claim("copy.rate").holds(around(12, "MB/s"))
        """
    )
    result = project.runpytest("-v", "--claims-json=out.json", "-rN")
    result.stdout.fnmatch_lines(
        ["*::test_it NOT MEASURED*", "claims: 1 held, 1 not measured", "* 1 not measured in *"]
    )
    assert result.ret == 0
    found = [(each["name"], each["verdict"]) for each in records(project)]
    assert found == [("start.quick", "not measured"), ("copy.rate", "holds")]


LATE = """
    import pytest
    from samplers import around
    @pytest.fixture
    def late(claim):
        yield
        claim("copy.rate").holds(around({rate}, "MB/s"))
    def test_it(late): pass
    def test_both(claim, late): claim("start.quick").holds(around(350))
    def test_after(): pass
"""


def test_a_claim_that_a_fixture_judges_at_its_end_is_judged_at_once(
    project: pytest.Pytester,
) -> None:
    project.makepyfile(LATE.format(rate=12))
    result = project.runpytest("--claims-json=out.json", "-v", "-rN")
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(["claims: 3 held"])
    late, both, body = records(project)
    assert [len(each["sessions"]) for each in (late, both, body)] == [3, 3, 3]
    assert IN_TEARDOWN in late["warnings"]
    assert IN_TEARDOWN in both["warnings"]
    assert (body["name"], any(each.startswith(AT_ONCE) for each in body["warnings"])) == (
        "start.quick",
        False,
    )


def test_a_claim_that_is_refuted_at_a_fixture_s_end_is_an_error_of_its_test(
    project: pytest.Pytester,
) -> None:
    project.makepyfile(LATE.format(rate=8).replace("def test_both", "def no_test"))
    result = project.runpytest("--claims-json=out.json")
    result.assert_outcomes(passed=2, errors=1)
    result.stdout.fnmatch_lines(["copy.rate is refuted: measured *", "claims: 1 refuted"])
    assert len(records(project)) == 1


UNDECIDED = """
    import pytest
    from samplers import around
    @pytest.fixture
    def late(claim):
        yield
        claim("copy.graph").holds(around(100))
    def test_it(late): pass
"""


def test_strict_sees_what_a_fixture_could_not_show_at_its_end(project: pytest.Pytester) -> None:
    project.makepyfile(UNDECIDED)
    result = project.runpytest("--claims-strict", "--claims-json=out.json")
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(
        ["copy.graph was not shown to hold: not comparable: *", "claims: 1 not comparable"]
    )
    assert len(records(project)) == 1
    assert project.runpytest().ret == 0


def test_a_name_that_test_and_fixture_judge_is_two_claims(project: pytest.Pytester) -> None:
    project.makepyfile(
        """
        import pytest
        from samplers import around
        @pytest.fixture
        def late(claim):
            yield
            claim("start.quick").holds(around(300))
        def test_it(claim, late):
            claim("start.quick").holds(around(350))
            claim("start.quick").holds(around(360))
        """
    )
    project.runpytest("--claims-json=out.json")
    found = sorted(round(each["estimate"], -1) for each in records(project))
    assert found == [300, 350, 360]
