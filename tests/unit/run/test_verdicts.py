"""Each verdict as a test's outcome, in the table, and as text."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pathlib import Path

ALL = """
    from samplers import around, missing
    def test_held(claim): claim("start.quick").holds(around(350))
    def test_refuted(claim): claim("start.quick").holds(around(450))
    def test_undecided(claim): claim("start.quick").holds(around(400))
    def test_elsewhere(claim): claim("start.elsewhere").holds(around(50))
    def test_graph(claim): claim("copy.graph").holds(around(50))
    def test_missing(claim): claim("start.quick").holds(missing)
    def test_alike(claim): claim("start.alike").compares(around(100), to=around(99, "us"))
    def test_rate(claim): claim("copy.rate").holds(around(12, "MB/s"))
    def test_plain(): pass
"""


def claims(path: Path) -> dict[str, Any]:
    found = json.loads(path.read_text())["claims"]
    return {record["nodeid"].partition("::")[2]: record for record in found}


def test_every_verdict_has_its_word_and_is_counted(project: pytest.Pytester) -> None:
    project.makepyfile(ALL)
    result = project.runpytest("-v", "--claims-json=out.json")
    result.stdout.fnmatch_lines_random(
        [
            "*::test_held HELD *",
            "*::test_refuted REFUTED *",
            "*::test_undecided INCONCLUSIVE (inconclusive: *",
            "*::test_elsewhere NOT COMPARABLE (not comparable: no thr*",
            "*::test_graph NOT COMPARABLE *",
            "*::test_missing NOT MEASURED (not measured: no such m*",
            "*::test_alike REFUTED *",
            "*::test_rate HELD *",
            "*::test_plain PASSED *",
            "claims: 2 held, 2 refuted, 1 inconclusive, 2 not comparable, 1 not measured",
        ]
    )
    result.stdout.re_match_lines([r"=+ 1 passed, .*2 held.* in .*"])
    last = result.outlines[-1]
    for part in (
        "1 passed",
        "2 held",
        "2 refuted",
        "1 inconclusive",
        "2 not comparable",
        "1 not measured",
    ):
        assert part in last
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    found = claims(project.path / "out.json")
    assert {name: record["verdict"] for name, record in found.items()} == {
        "test_held": "holds",
        "test_refuted": "refuted",
        "test_undecided": "inconclusive",
        "test_elsewhere": "not comparable",
        "test_graph": "not comparable",
        "test_missing": "not measured",
        "test_alike": "refuted",
        "test_rate": "holds",
    }
    assert found["test_elsewhere"]["reason"].startswith(
        "no threshold for start.elsewhere on this hardware "
    )
    assert found["test_elsewhere"]["reason"].endswith("; lab has one")
    assert len(found["test_elsewhere"]["samples"]) >= 5
    assert (
        found["test_graph"]["reason"]
        == "no published figure: the document has a graph without numbers"
    )
    assert found["test_missing"]["reason"] == "no such machine here (to mend it: buy one)"
    assert found["test_missing"]["target"] == "pod kvm qboot"
    assert found["test_alike"]["unit"] == ""
    assert found["test_alike"]["samples"][0] == pytest.approx(1000 / 0.99, rel=0.01)
    assert found["test_held"]["phases"].keys() == {"firmware", "kernel"}
    samples = found["test_held"]["samples"]
    assert sum(found["test_held"]["phases"].values()) == pytest.approx(sum(samples) / len(samples))


def test_each_verdict_has_its_letter(project: pytest.Pytester) -> None:
    project.makepyfile(ALL)
    result = project.runpytest()
    # Below each is the claim's line, see test_log.py.
    letters = re.findall(r"^\S+\.py ([A-Z.]+)(?: |$)", result.stdout.str(), re.MULTILINE)
    assert "".join(letters) == "ICCNR.HRH"


def test_the_text_of_a_refuted_claim_is_complete(project: pytest.Pytester) -> None:
    project.makepyfile(
        """
        from samplers import around
        def test_refuted(claim): claim("start.quick").holds(around(450))
        """
    )
    result = project.runpytest()
    result.stdout.fnmatch_lines(
        [
            "* FAILURES *",
            "*_ test_refuted _*",
            "start.quick is refuted: measured 450* ms, claimed ≤ 400 ms",
            "  claim     start.quick: it starts quickly",
            "  measured  median 450* ms [[]*, *[]] at * % confidence",
            "  limit     median ≤ 400 ms",
            "  gap       +50* ms (+12.* %)",
            "  samples   *: 4*, 4*, * ms",
            "  why       *",
            "  source    *000.txt*1.1*: in words",
            "  profile   here (thresholds/here.yaml:*)",
            "  machine   *CPUs, *GiB, kernel *",
            "* short test summary info *",
            "REFUTED *::test_refuted - ClaimRefuted: start.quick is refuted: *",
            "* claims *",
        ]
    )
    result.stdout.no_fnmatch_line("*__tracebackhide__*")
    result.stdout.no_fnmatch_line("*claim.py:*")


@pytest.mark.parametrize(
    ("test", "code"),
    [("held", 0), ("undecided", 0), ("elsewhere", 0), ("missing", 5), ("refuted", 1)],
)
def test_the_exit_status_follows_the_verdict(
    project: pytest.Pytester, test: str, code: int
) -> None:
    project.makepyfile(ALL)
    assert project.runpytest("-k", f"test_{test}").ret == code


@pytest.mark.parametrize("test", ["undecided", "elsewhere", "graph", "missing"])
def test_strict_fails_what_was_not_proven(project: pytest.Pytester, test: str) -> None:
    project.makepyfile(ALL)
    result = project.runpytest("-k", f"test_{test}", "--claims-strict")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(
        ["claims: budget 60 s per claim, strict: *", "* FAILURES *", "* was not shown to hold: *"]
    )


def test_strict_in_the_ini_file(project: pytest.Pytester) -> None:
    project.makeini("[pytest]\nclaims_strict = true\n")
    project.makepyfile(ALL)
    assert project.runpytest("-k", "test_missing").ret == pytest.ExitCode.TESTS_FAILED


def test_advisory_never_fails(project: pytest.Pytester) -> None:
    project.makepyfile(ALL)
    result = project.runpytest("--claims-advisory", "-v")
    assert result.ret == pytest.ExitCode.OK
    result.stdout.fnmatch_lines(
        [
            "*::test_refuted REFUTED (refuted (advisory): *",
            "claims: 2 held, 2 refuted, 1 inconclusive, *",
        ]
    )
    result.stdout.no_fnmatch_line("*FAILURES*")


def test_all_claims_of_a_test_are_measured(project: pytest.Pytester) -> None:
    project.makepyfile(
        """
        from samplers import around, missing
        def test_several(claim):
            claim("start.quick").holds(missing)
            claim("start.elsewhere").holds(around(50))
            claim("copy.rate").holds(around(20, "MB/s"))
        """
    )
    result = project.runpytest("-v", "--claims-json=out.json")
    result.stdout.fnmatch_lines(
        ["*::test_several NOT MEASURED *", "claims: 1 held, 1 not comparable, 1 not measured"]
    )
    found = json.loads((project.path / "out.json").read_text())["claims"]
    assert [record["name"] for record in found] == ["start.quick", "start.elsewhere", "copy.rate"]


@pytest.mark.parametrize(
    ("body", "verdict"),
    [
        ('claim("start.half").near(around(50), to=around(100))', "holds"),
        ('claim("start.half").near(around(60), to=around(100))', "refuted"),
        ('claim("start.half").near(around(40), to=around(100))', "refuted"),
        ('claim("start.no_worse").compares(around(100), to=around(110))', "holds"),
        ('claim("start.no_worse").compares(around(110), to=around(100))', "refuted"),
        ('claim("copy.level").holds(around(71, "MB/s"))', "holds"),
        ('claim("copy.level").holds(around(60, "MB/s"))', "refuted"),
        ('claim("copy.level").holds(around(90, "MB/s"))', "refuted"),
    ],
)
def test_near_and_no_worse_are_judged(project: pytest.Pytester, body: str, verdict: str) -> None:
    project.makepyfile(f"from samplers import around\ndef test_it(claim): {body}\n")
    project.runpytest("--claims-json=out.json")
    (record,) = json.loads((project.path / "out.json").read_text())["claims"]
    assert record["verdict"] == verdict
    assert record["criterion"] in (
        "near 0.5 ± 5 %",
        "no worse by more than 2 %",
        "near 70 MB/s ± 10 %",
    )
    assert record["threshold"] in (0.5, 1.02, 70)
    assert record["gap"] == pytest.approx(record["estimate"] - record["threshold"])


def test_a_refuted_claim_ends_its_test(project: pytest.Pytester) -> None:
    project.makepyfile(
        """
        from samplers import around, missing
        def test_several(claim):
            claim("start.quick").holds(missing)
            claim("start.quick").holds(around(500))
            raise AssertionError("not reached")
        """
    )
    result = project.runpytest()
    result.stdout.fnmatch_lines(["claims: 1 refuted, 1 not measured", "* 1 refuted in *"])


def test_the_record_is_returned(project: pytest.Pytester) -> None:
    project.makepyfile(
        """
        from samplers import around
        def test_it(claim):
            record = claim("start.quick").holds(around(350))
            assert record["verdict"] == "holds"
            assert record["n"] >= 4
        """
    )
    project.runpytest().assert_outcomes()
    assert project.runpytest().ret == 0


def test_better_than_claimed_is_reported_and_holds(project: pytest.Pytester) -> None:
    project.makepyfile(
        """
        from samplers import around
        def test_it(claim): claim("start.quick").holds(around(100))
        """
    )
    result = project.runpytest("--claims-json=out.json")
    assert result.ret == 0
    (record,) = json.loads((project.path / "out.json").read_text())["claims"]
    _, warning = record["warnings"]
    assert warning == (
        f"better than claimed by more than 25%: {record['hardware']['location']}: tighten the limit in "
        "here.yaml, or delete it there and run `vperf calibrate --hw=here`"
    )


CONSTANT = (
    ": is something cached or constant? Measure anew for each sample; if equal ones are possible, as "
    "for a size in whole pages, return Quantity(…, discrete=True)"
)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ('claim("start.quick").holds(given(390))', r"all \d+ samples are exactly 390 ms"),
        ('claim("start.quick").holds(given(900))', r"all \d+ samples are exactly 900 ms"),
        (
            'claim("copy.level").holds(given(70, unit="MB/s"))',
            r"all \d+ samples are exactly 70 MB/s",
        ),
        (
            'claim("start.alike").compares(around(50), to=given(100))',
            r"all \d+ samples of arm b are exactly 100 ms",
        ),
        (
            'claim("start.half").near(given(50, discrete=True), to=given(100))',
            r"all \d+ samples of arm b are exactly 100 ms",
        ),
        (
            'claim("start.alike").compares(given(900), to=given(100, discrete=True))',
            r"all \d+ samples of arm a are exactly 900 ms",
        ),
        (
            'claim("copy.plateau").saturates(lambda n: Quantity(90, "packet/s"), over=[1, 2, 4, 8])',
            r"at each load all samples are equal",
        ),
        (
            'claim("copy.plateau").saturates(lambda n: Quantity(min(n, 90), "packet/s"), '
            "over=[45, 90, 180, 360])",
            r"at each load all samples are equal",
        ),
    ],
)
def test_no_variance_is_no_verdict(project: pytest.Pytester, body: str, said: str) -> None:
    project.makepyfile(f"from samplers import *\ndef test_it(claim): {body}\n")
    result = project.runpytest("--claims-json=out.json")
    assert result.ret == 0
    (record,) = json.loads((project.path / "out.json").read_text())["claims"]
    assert (record["verdict"], record["cause"]) == ("inconclusive", "no variance")
    assert re.fullmatch(said + re.escape(CONSTANT), record["reason"])
    assert not any("exactly" in warning for warning in record["warnings"])


def test_few_equal_samples_are_not_suspicious(project: pytest.Pytester) -> None:
    project.makepyfile(
        """
        from samplers import *
        def test_it(claim):
            sample = given(390, sleep=0.3)
            claim("start.quick").holds(sample)
        """
    )
    project.runpytest("--claims-json=out.json", "--claims-budget=0.5 s", "--claims-sessions=1")
    (record,) = json.loads((project.path / "out.json").read_text())["claims"]
    assert (record["n"], record["cause"]) == (2, "budget")


@pytest.mark.parametrize(
    ("body", "verdict"),
    [
        ('claim("start.quick").holds(given(390, discrete=True))', "holds"),
        ('claim("start.quick").holds(given(900, discrete=True))', "refuted"),
        (
            'claim("start.half").near(given(50, discrete=True), to=given(100, discrete=True))',
            "holds",
        ),
    ],
)
def test_equal_samples_of_what_is_discrete_are_judged(
    project: pytest.Pytester, body: str, verdict: str
) -> None:
    project.makepyfile(f"from samplers import *\ndef test_it(claim): {body}\n")
    project.runpytest("--claims-json=out.json")
    (record,) = json.loads((project.path / "out.json").read_text())["claims"]
    assert record["verdict"] == verdict
    assert "identical" not in record["reason"]
    assert not any("exactly" in warning for warning in record["warnings"])


def test_the_warm_up_alone_is_no_variance(project: pytest.Pytester) -> None:
    project.makepyfile(
        """
        from samplers import *
        values = iter([410.0] + [390.0] * 100)
        def test_it(claim): claim("start.quick").holds(lambda: Quantity(next(values), "ms"))
        """
    )
    project.runpytest("--claims-json=out.json")
    (record,) = json.loads((project.path / "out.json").read_text())["claims"]
    assert record["observations"][0]["warm_up"]
    assert (record["verdict"], record["cause"]) == ("inconclusive", "no variance")


def test_no_variance_is_only_a_remark_where_nothing_is_judged(project: pytest.Pytester) -> None:
    project.makepyfile(
        """
        from samplers import given
        def test_it(claim): claim("copy.graph").holds(given(390))
        """
    )
    project.runpytest("--claims-json=out.json")
    (record,) = json.loads((project.path / "out.json").read_text())["claims"]
    assert (record["verdict"], record["cause"]) == ("not comparable", "")
    (warning,) = record["warnings"]
    assert warning.endswith(
        "samples are exactly 390 ms: no variance at all is suspicious: is something cached or constant?"
    )


def test_unavailable_outside_a_sampler_is_not_measured(project: pytest.Pytester) -> None:
    project.makepyfile(
        """
        import pytest
        from samplers import missing

        @pytest.fixture
        def machine(): missing()

        def test_in_a_fixture(claim, machine): pass
        def test_in_the_body(claim):
            claim("start.quick")
            missing()
        def test_without_a_claim(): missing()
        """
    )
    result = project.runpytest("-v", "-rs", "--claims-json=out.json")
    assert result.ret == pytest.ExitCode.NO_TESTS_COLLECTED
    result.stdout.fnmatch_lines(
        [
            "*::test_in_a_fixture NOT MEASURED (not measured: no such m*",
            "*::test_in_the_body NOT MEASURED (*",
            "*::test_without_a_claim SKIPPED (*",
            "SKIPPED [[]1[]] *.py:*: not measured: no such machine here (to mend it: buy one)",
            "claims: 2 not measured",
        ]
    )
    found = claims(project.path / "out.json")
    assert {name: record["name"] for name, record in found.items()} == {
        "test_in_a_fixture": "test_in_a_fixture",
        "test_in_the_body": "start.quick",
    }
    strict = project.runpytest("--claims-strict")
    assert strict.ret == 1
    assert "2 not measured" in strict.outlines[-1]
    assert "1 failed" in strict.outlines[-1]


def test_a_test_that_is_run_again_starts_without_claims(project: pytest.Pytester) -> None:
    """As with pytest-rerunfailures: the same item runs once more."""
    project.makeconftest(
        """
        from _pytest.runner import runtestprotocol

        def pytest_runtest_protocol(item, nextitem):
            runtestprotocol(item, nextitem=nextitem, log=False)
            item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
            runtestprotocol(item, nextitem=nextitem)
            return True
        """
    )
    project.makepyfile(
        """
        from samplers import around
        centres = iter([450, 350])
        def test_it(claim, record_property):
            record_property("mine", "kept")
            claim("start.quick").holds(around(next(centres)))
        """
    )
    result = project.runpytest("-v", "--junit-xml=out.xml", "--claims-json=out.json")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(
        [
            "*::test_it HELD *",
            "claims: 1 held, 1 refuted",
            "claims: start.quick is refuted in attempt 1 of its test, and holds in attempt 2: to run "
            "a test again does not undo a refutation: *::test_it",
            "claims: result: refuted, exit status 1",
            "* 1 held in *",
        ]
    )
    text = (project.path / "out.xml").read_text()
    assert text.count('name="vperf.start.quick.verdict"') == 1
    assert "refuted" not in text
    found = json.loads((project.path / "out.json").read_text())["claims"]
    assert [(record["verdict"], record["attempt"]) for record in found] == [
        ("refuted", 1),
        ("holds", 2),
    ]


SWALLOWS = """
    from contextlib import suppress
    import pytest
    from samplers import around
    def test_it(claim):
        with suppress(AssertionError):
            claim("start.quick").holds(around(450))
"""


@pytest.mark.parametrize("then", ["pass", 'pytest.skip("enough")'])
def test_a_refuted_claim_cannot_be_swallowed(project: pytest.Pytester, then: str) -> None:
    project.makepyfile(SWALLOWS + f"        {then}\n")
    result = project.runpytest("-v")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(
        [
            "*::test_it REFUTED *",
            "start.quick is refuted: measured 450* ms, claimed ≤ 400 ms",
            "REFUTED *::test_it - ClaimRefuted: start.quick is refuted: *",
            "* 1 refuted in *",
        ]
    )
    assert project.runpytest("--claims-advisory").ret == 0


@pytest.mark.parametrize("options", [(), ("--claims-strict",), ("--claims-advisory",)])
@pytest.mark.parametrize("body", ['claim("copy.rate")', 'claim("copy.rate").holds'])
def test_a_claim_that_is_only_named_fails(
    project: pytest.Pytester, body: str, options: tuple[str, ...]
) -> None:
    project.makepyfile(
        f"""
        from samplers import around
        def test_it(claim):
            claim("start.quick").holds(around(350))
            {body}
        """
    )
    result = project.runpytest(*options)
    result.assert_outcomes(failed=1)
    text = (
        "claim 'copy.rate' was named but never judged: call .holds(…), .compares(…), .near(…) or "
        ".saturates(…)"
    )
    result.stdout.fnmatch_lines([text, f"FAILED *::test_it - ClaimUnjudged: {text[:60]}*"])


@pytest.mark.parametrize(
    ("sampler", "verdict", "code"),
    [("missing", "not measured", 5), ("around(400)", "inconclusive", 0)],
)
def test_a_skip_does_not_hide_what_was_not_proven_from_strict(
    project: pytest.Pytester, sampler: str, verdict: str, code: int
) -> None:
    project.makepyfile(
        f"""
        import pytest
        from samplers import around, missing
        def test_it(claim):
            claim("start.quick").holds({sampler})
            pytest.skip("enough")
        """
    )
    result = project.runpytest("--claims-strict")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines([f"start.quick was not shown to hold: {verdict}: *"])
    result = project.runpytest("-rs")
    assert result.ret == code
    result.stdout.fnmatch_lines(["SKIPPED * enough"])
