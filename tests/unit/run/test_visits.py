"""A claim about a limit is judged in three sessions: its test is run again, and pytest sees it once."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from datetime import datetime
from typing import Any

import pytest

AMID = """
    import pytest
    from samplers import around

    def test_first(claim): claim("start.quick").holds(around(350))
    @pytest.mark.parametrize("number", range(4))
    def test_plain(number): pass
"""


def records(project: pytest.Pytester) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((project.path / "out.json").read_text())["claims"]
    return found


def order(project: pytest.Pytester, result: pytest.RunResult) -> list[str]:
    """The verbose terminal's lines for each run of a test, in order."""
    lines = [line.partition("::")[2].partition(" [")[0] for line in result.outlines]
    return [line.partition(" (")[0].rstrip() for line in lines if line]


def test_the_sessions_are_spread_over_the_run(project: pytest.Pytester) -> None:
    project.makepyfile(AMID)
    result = project.runpytest("-v", "--claims-json=out.json", "-rN")
    assert order(project, result) == [
        "test_first session 1 of 3",
        "test_plain[0] PASSED",
        "test_plain[1] PASSED",
        "test_first session 2 of 3",
        "test_plain[2] PASSED",
        "test_plain[3] PASSED",
        "test_first HELD",
    ]
    result.stdout.re_match_lines([r"=+ 4 passed, 1 held in .*"])
    (record,) = records(project)
    assert [session["n"] for session in record["sessions"]] == [1, 2, 3]


def test_pending_tests_are_visited_in_passes_in_the_users_order(
    project: pytest.Pytester,
) -> None:
    project.makepyfile(
        """
        from samplers import around
        def test_2(claim): claim("start.quick").holds(around(350))
        def test_1(claim): claim("start.quick").holds(around(450))
        def test_3(claim): claim("copy.rate").holds(around(12, "MB/s"))
        """
    )
    result = project.runpytest("-v", "-rN")
    assert order(project, result) == [
        "test_2 session 1 of 3",
        "test_1 session 1 of 3",
        "test_2 session 2 of 3",
        "test_3 session 1 of 3",
        "test_1 session 2 of 3",
        "test_3 session 2 of 3",
        "test_2 HELD",
        "test_1 REFUTED",
        "test_3 HELD",
    ]


def test_in_one_line_per_file_each_test_has_one_letter(project: pytest.Pytester) -> None:
    project.makepyfile(AMID)
    result = project.runpytest("-rN")
    result.stdout.re_match_lines([r".*\.py \.\.\.\.H", r"claims: .* holds: .*", r" +\[100%\]"])
    result.stdout.no_fnmatch_line("*session*of 3*")


@pytest.mark.usefixtures("clock")
def test_the_record_says_when(project: pytest.Pytester) -> None:
    project.makepyfile(
        """
        from samplers import around, pause
        def test_it(claim): claim("start.quick").holds(around(350, sleep=0.01))
        def test_1(): pause(20)
        def test_2(): pause(20)
        """
    )
    result = project.runpytest("--claims-json=out.json")
    (record,) = records(project)
    first, second, third = record["sessions"]
    assert first["began_at_s"] == 0
    assert second["began_at_s"] == pytest.approx(first["duration_s"] + 20)
    assert third["began_at_s"] == pytest.approx(second["began_at_s"] + second["duration_s"] + 20)
    assert first["started_at"] == record["started_at"]
    began = [datetime.fromisoformat(session["started_at"]) for session in record["sessions"]]
    assert [(each - began[0]).seconds for each in began] == [0, 20, 40]
    observations = record["observations"]
    # Sampling, not the time between.
    assert record["duration_s"] == pytest.approx(0.01 * len(observations))
    for session in record["sessions"]:
        own = [each for each in observations if each["session"] == session["n"]]
        assert len(own) == session["samples"] >= 4
        assert session["duration_s"] == pytest.approx(0.01 * len(own))
        assert own[0]["at"] == session["began_at_s"]
    assert [each["order"] for each in observations] == list(range(len(observations)))
    assert len(record["noise"]["sessions"]) == 3
    assert [each["window_s"] for each in record["noise"]["sessions"]] == pytest.approx(
        [session["duration_s"] for session in record["sessions"]]
    )
    assert isinstance(record["noise"]["settings"], dict)
    assert record["plan"]["claims"] == 1
    assert record["plan"]["budget"] == record["budget_s"] == 60
    assert record["plan"]["origins"]["budget"] == "default"
    assert record["cause"] == ""
    note = (
        "sessions less than 60 s apart, which is weaker: 40 s: a longer run, with more tests, "
        "spreads them further"
    )
    assert note in record["warnings"]
    result.stdout.re_match_lines([rf"start\.quick: +{note}"])


def test_junit_has_each_test_once_with_the_time_of_all_visits(project: pytest.Pytester) -> None:
    project.makepyfile(
        """
        import time
        from samplers import around
        def test_it(claim, record_property):
            record_property("mine", "kept")
            time.sleep(0.2)
            claim("start.quick").holds(around(350))
        def test_plain(): pass
        """
    )
    result = project.runpytest("--junitxml=out.xml", "--durations=0", "-vv")
    suite = ET.parse(project.path / "out.xml").getroot()[0]
    assert [case.get("name") for case in suite] == ["test_plain", "test_it"]
    assert suite.get("tests") == "2"
    assert float(suite[1].get("time") or 0) >= 0.6
    names = [each.get("name") for each in suite[1].iter("property")]
    assert names.count("mine") == 1
    assert names.count("vperf.start.quick.verdict") == 1
    values = {each.get("name"): each.get("value") for each in suite[1].iter("property")}
    assert values["vperf.start.quick.sessions"] == "3"
    calls = [line for line in result.outlines if " call " in line and "::test_it" in line]
    assert len(calls) == 1
    assert float(calls[0].partition("s ")[0]) >= 0.6


def test_a_test_with_several_claims(project: pytest.Pytester) -> None:
    """A claim that has its verdict is not sampled again, and each has its three sessions."""
    project.makepyfile(
        """
        from samplers import around
        def test_it(claim):
            names = ["start.quick", "start.alike", "copy.rate", "start.quick"]
            for name in names:
                if name == "start.alike":
                    claim(name).compares(around(100), to=around(100))
                else:
                    claim(name).holds(around(350, "MB/s" if name == "copy.rate" else "ms"))
        """
    )
    result = project.runpytest("--claims-json=out.json", "--junitxml=out.xml")
    result.stdout.fnmatch_lines(["claims: 4 held", "* 1 held in *"])
    found = records(project)
    names = ["start.quick", "start.alike", "copy.rate", "start.quick"]
    assert [record["name"] for record in found] == names
    assert [len(record["sessions"]) for record in found] == [3, 1, 3, 3]
    assert {record["plan"]["claims"] for record in found} == {1}  # tests that claim
    assert [record["plan"]["number"] for record in found] == [1, 2, 3, 4]
    assert [0.01 / record["plan"]["alpha_each"] for record in found] == pytest.approx(
        [1, 6, 12, 20]
    )
    assert result.ret == 0


def test_fixtures_of_the_session_live_on_and_others_are_made_anew(
    project: pytest.Pytester,
) -> None:
    project.makeconftest(
        """
        import pytest

        def fixture(scope):
            def made(request):
                with open("log", "a") as log: log.write(f"+{scope} ")
                yield
                with open("log", "a") as log: log.write(f"-{scope} ")
            return pytest.fixture(scope=scope, name=f"of_{scope}")(made)

        of_session, of_module, of_function = map(fixture, ["session", "module", "function"])
        """
    )
    project.makepyfile(
        test_a="""
        from samplers import around
        def test_it(claim, of_session, of_module, of_function):
            claim("start.quick").holds(around(350))
        def test_same(of_module): pass
        """,
        test_b="""
        def test_1(of_module): pass
        def test_2(of_module): pass
        """,
        test_c="""
        def test_3(of_module): pass
        def test_last(of_module): pass
        """,
    )
    result = project.runpytest("-v", "-rN", "-p", "no:randomly")
    assert order(project, result) == [
        "test_it session 1 of 3",
        "test_same PASSED",
        "test_1 PASSED",
        "test_2 PASSED",
        "test_it session 2 of 3",
        "test_3 PASSED",
        "test_last PASSED",
        "test_it HELD",
    ]
    assert (project.path / "log").read_text().split() == [
        *("+session", "+module", "+function", "-function", "-module"),  # test_a
        *("+module", "-module"),  # test_b, one for both its tests
        *("+module", "+function", "-function", "-module"),
        *("+module", "-module"),  # test_c
        *("+module", "+function", "-function", "-module", "-session"),
    ]


def test_a_class_gives_every_visit_a_new_instance(project: pytest.Pytester) -> None:
    project.makepyfile(
        """
        import pytest
        from samplers import around
        class TestIt:
            runs = 0
            @pytest.fixture(autouse=True)
            def mine(self): self.number = 0
            @pytest.mark.parametrize("centre", [350, 351])
            def test_it(self, claim, centre):
                assert vars(self) == {"number": 0}
                self.number += 1
                type(self).runs += 1
                claim("start.quick").holds(around(centre))
            def test_after(self): assert self.number == 0
            @classmethod
            def teardown_class(cls): assert cls.runs in (4, 6)
        """
    )
    result = project.runpytest("-v")
    result.stdout.fnmatch_lines(
        ["*::test_it[[]350[]] HELD *", "*::test_it[[]351[]] HELD *", "* 1 passed, 2 held in *"]
    )


def test_expected_failures(project: pytest.Pytester) -> None:
    project.makepyfile(
        """
        import pytest
        from samplers import around
        @pytest.mark.xfail(strict=True)
        def test_known(claim): claim("start.quick").holds(around(450))
        """
    )
    result = project.runpytest("-v")
    result.assert_outcomes(xfailed=1)
    assert "test_known session 2 of 3" in order(project, result)


def test_sessions_that_disagree_end_the_claim(project: pytest.Pytester) -> None:
    project.makepyfile(
        """
        from samplers import around
        centres = iter([350, 450])
        def test_it(claim): claim("start.quick").holds(around(next(centres)))
        """
    )
    result = project.runpytest("-v", "--claims-json=out.json", "-rN")
    assert order(project, result) == ["test_it session 1 of 3", "test_it INCONCLUSIVE"]
    (record,) = records(project)
    assert record["cause"] == "sessions disagree"
    assert len(record["sessions"]) == 2


@pytest.mark.parametrize("option", ["-x", "--maxfail=1"])
def test_when_the_run_stops_nothing_measured_is_lost(project: pytest.Pytester, option: str) -> None:
    project.makepyfile(
        """
        import pytest
        from samplers import around
        @pytest.fixture(scope="session")
        def machine():
            yield
            print("the machine is ended")
        def test_it(claim, machine): claim("start.quick").holds(around(350))
        def test_broken(): assert False
        def test_never(): pass
        """
    )
    result = project.runpytest("-s", option, "--claims-json=out.json", "--junitxml=out.xml")
    result.stdout.fnmatch_lines(
        [
            "*the machine is ended*",
            "start.quick:  the run ended before session 2 of 3",
            "claims: 1 inconclusive",
            "*! stopping after 1 failures !*",
        ]
    )
    result.assert_outcomes(failed=1)
    (record,) = records(project)
    assert record["verdict"] == "inconclusive"
    assert record["cause"] == "interrupted"
    assert len(record["observations"]) == record["sessions"][0]["samples"] >= 4


def test_a_failure_in_a_later_visit_stops_the_run_there(project: pytest.Pytester) -> None:
    project.makepyfile(
        """
        from samplers import around
        runs = iter(range(3))
        def test_it(claim):
            assert next(runs) == 0
            claim("start.quick").holds(around(350))
        def test_1(): pass
        def test_2(): pass
        def test_3(): pass
        """
    )
    result = project.runpytest("-x", "-v", "--claims-json=out.json", "-rN")
    assert order(project, result) == [
        "test_it session 1 of 3",
        "test_1 PASSED",
        "test_2 PASSED",
        "test_it FAILED",
    ]
    result.assert_outcomes(failed=1, passed=2)
    (record,) = records(project)
    assert record["reason"] == "the test ended before session 2 of 3"
    assert record["verdict"] == "inconclusive"


@pytest.mark.parametrize("option", ["--lf", "--ff", "--sw", "--nf"])
def test_pytest_knows_the_tests_that_failed_last(project: pytest.Pytester, option: str) -> None:
    project.makepyfile(
        """
        from samplers import around
        def test_1(claim): claim("start.quick").holds(around(350))
        def test_2(claim): claim("start.quick").holds(around(450))
        """
    )
    project.runpytest()
    result = project.runpytest(option, "--claims-json=out.json")
    verdicts = {record["nodeid"][-6:]: record["verdict"] for record in records(project)}
    expected = {"test_2": "refuted"}
    if option != "--lf":
        expected["test_1"] = "holds"
    assert verdicts == expected
    assert " 1 refuted in " in result.outlines[-1].replace(", 1 held", "").replace("1 held, ", "")


def test_a_test_that_the_end_of_the_run_cut_short_is_still_one_that_failed_last(
    project: pytest.Pytester,
) -> None:
    project.makepyfile(
        """
        from samplers import around
        def test_1(claim): claim("start.quick").holds(around(450))
        def test_2(): assert False
        """
    )
    project.runpytest()
    project.runpytest("-x")  # before the claim's second session
    result = project.runpytest("--lf", "--collect-only", "-q")
    result.stdout.fnmatch_lines(["*::test_1", "*::test_2"])


def test_only_what_is_selected_counts(project: pytest.Pytester) -> None:
    project.makepyfile(AMID)
    result = project.runpytest("-v", "-rN", "-k", "first or 1 or 2", "-m", "not slow")
    assert order(project, result) == [
        "test_first session 1 of 3",
        "test_plain[1] PASSED",
        "test_first session 2 of 3",
        "test_plain[2] PASSED",
        "test_first HELD",
    ]


def test_collect_only_shows_each_test_once(project: pytest.Pytester) -> None:
    project.makepyfile(AMID)
    result = project.runpytest("--collect-only", "-q")
    assert sum("::test_first" in line for line in result.outlines) == 1


def test_the_debugger_does_not_open_between_sessions(project: pytest.Pytester) -> None:
    project.makepyfile(AMID)
    result = project.runpytest("--pdb")
    result.stdout.no_fnmatch_line("*PDB*")
    result.stdout.re_match_lines([r"=+ 4 passed, 1 held in .*"])


def test_the_debugger_opens_once_at_a_refuted_claim(project: pytest.Pytester) -> None:
    project.makepyfile(
        """
        from samplers import around
        def test_it(claim): claim("start.quick").holds(around(450))
        """
    )
    pytest.importorskip("pexpect")
    child = project.spawn_pytest("--pdb")
    child.expect("REFUTED|start.quick is refuted")
    child.expect("Pdb")
    child.sendline("continue")
    rest = child.read().decode()
    assert "Pdb" not in rest
    assert "1 refuted" in rest


ONCE = """
    import pytest
    from samplers import around

    {mark}
    def test_first(claim): claim("start.quick").holds(around(350))
    def test_plain(): pass
"""


@pytest.mark.parametrize(
    ("mark", "options", "plugin"),
    [
        ("@pytest.mark.flaky(reruns=2)", (), "the plug-in of the marker flaky"),
        ("", ("--reruns=1",), "pytest-rerunfailures (--reruns)"),
        ("", ("--setup-show",), "pytest (--setup-show)"),
        ("", ("-p", "own_way"), "own_way"),
    ],
)
def test_a_test_run_by_another_plugin_has_its_sessions_at_once(
    project: pytest.Pytester, mark: str, options: tuple[str, ...], plugin: str
) -> None:
    project.makepyfile(
        own_way="""
        import pytest
        from _pytest import runner
        @pytest.hookimpl(tryfirst=True)
        def pytest_runtest_protocol(item, nextitem):
            return runner.pytest_runtest_protocol(item, nextitem)
        """
    )
    project.syspathinsert()
    project.makeconftest(
        """
        def pytest_addoption(parser): parser.addoption("--reruns", type=int)
        def pytest_configure(config): config.addinivalue_line("markers", "flaky: run again")
        """
    )
    project.makepyfile(ONCE.format(mark=mark))
    result = project.runpytest("-v", "--claims-json=out.json", *options)
    result.stdout.fnmatch_lines(["* 1 passed, 1 held in *"])
    result.stdout.no_fnmatch_line("*::test_first*session 1 of 3*")
    (record,) = records(project)
    assert len(record["sessions"]) == 3
    assert (
        "the 3 sessions ran back to back, which is weaker: "
        f"{plugin} runs this test in a way of its own" in record["warnings"]
    )


def test_one_session_is_marked_as_weaker(project: pytest.Pytester) -> None:
    project.makepyfile(AMID)
    result = project.runpytest("-v", "--claims-sessions=1", "--claims-json=out.json", "-rN")
    assert order(project, result)[0] == "test_first HELD"
    (record,) = records(project)
    assert len(record["sessions"]) == 1
    text = "judged in one session, which is weaker: a machine's level moves between sessions"
    assert text in record["warnings"]
    result.stdout.fnmatch_lines([f"start.quick:  {text}"])


def test_a_comparison_needs_no_other_session(project: pytest.Pytester) -> None:
    project.makepyfile(
        """
        from samplers import around
        def test_it(claim): claim("start.alike").compares(around(100), to=around(100))
        def test_plain(): pass
        """
    )
    result = project.runpytest("-v", "-rN", "--claims-json=out.json")
    assert order(project, result) == ["test_it HELD", "test_plain PASSED"]
    (record,) = records(project)
    assert len(record["sessions"]) == 1
    result.stdout.no_fnmatch_line("start.alike:*session*")


def test_a_test_cannot_swallow_the_end_of_a_session(project: pytest.Pytester) -> None:
    project.makepyfile(
        """
        from samplers import around
        def test_it(claim):
            try:
                claim("start.quick").holds(around(450))
            except BaseException:
                pass
        """
    )
    result = project.runpytest("-v", "-rN")
    assert order(project, result)[:2] == ["test_it session 1 of 3", "test_it session 2 of 3"]
    result.stdout.fnmatch_lines(["*::test_it REFUTED*"])


@pytest.mark.parametrize(
    ("then", "word"),
    [
        ("pytest.skip('enough')", "SKIPPED"),
        ("pass", "INCONCLUSIVE"),
        ("assert False", "FAILED"),
    ],
)
def test_a_later_visit_that_does_not_come_to_the_claim(
    project: pytest.Pytester, then: str, word: str
) -> None:
    project.makepyfile(
        f"""
        import pytest
        from samplers import around
        runs = iter(range(3))
        def test_it(claim):
            if next(runs):
                {then}
                return
            claim("start.quick").holds(around(350))
        """
    )
    result = project.runpytest("-v", "-rN", "--claims-json=out.json")
    assert order(project, result)[1] == f"test_it {word}"
    (record,) = records(project)
    assert record["reason"] == "the test ended before session 2 of 3"
    assert record["observations"]


@pytest.mark.parametrize(
    ("before", "after", "outcome"),
    [
        ("assert next(runs) == 0", "", "test_it ERROR"),
        ("if next(runs): missing()", "", "test_it INCONCLUSIVE"),
    ],
)
def test_a_fixture_that_fails_in_a_later_visit(
    project: pytest.Pytester, before: str, after: str, outcome: str
) -> None:
    project.makepyfile(
        f"""
        import pytest
        from samplers import around, missing
        runs = iter(range(3))
        @pytest.fixture
        def machine():
            {before}
        def test_it(claim, machine): claim("start.quick").holds(around(350))
        """
    )
    result = project.runpytest("-v", "-rN", "--claims-json=out.json")
    assert order(project, result)[1] == outcome
    (record,) = records(project)
    assert record["reason"] == "the test ended before session 2 of 3"


def test_a_teardown_that_fails_between_sessions_is_seen(project: pytest.Pytester) -> None:
    project.makepyfile(
        """
        import pytest
        from samplers import around
        @pytest.fixture
        def machine():
            yield
            assert False, "it does not end"
        def test_it(claim, machine): claim("start.quick").holds(around(350))
        """
    )
    result = project.runpytest("-v", "--claims-json=out.json", "--junitxml=out.xml")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(
        ["*::test_it INCONCLUSIVE*", "*::test_it ERROR*", "E *it does not end*"]
    )
    (record,) = records(project)
    assert record["reason"] == "the test ended before session 2 of 3"


def test_an_exit_keeps_the_session_that_was_measured(project: pytest.Pytester) -> None:
    project.makepyfile(
        """
        import pytest
        from samplers import around
        def test_it(claim): claim("start.quick").holds(around(350))
        def test_end(): pytest.exit("enough", returncode=7)
        """
    )
    result = project.runpytest("--claims-json=out.json")
    assert result.ret == 7
    (record,) = records(project)
    assert record["reason"] == "the run ended before session 2 of 3"


def test_strict_fails_what_two_sessions_did_not_agree_on(project: pytest.Pytester) -> None:
    project.makepyfile(
        """
        from samplers import around
        centres = iter([350, 450])
        def test_it(claim): claim("start.quick").holds(around(next(centres)))
        """
    )
    result = project.runpytest("--claims-strict")
    assert result.ret == 1
    result.stdout.fnmatch_lines(
        ["start.quick was not shown to hold: inconclusive: *", "claims: 1 inconclusive"]
    )


SHARED = """
    import pytest
    from samplers import around
    @pytest.mark.parametrize("number", range(4))
    def test_plain(number): pass
    @pytest.mark.parametrize("number", range(3))
    def test_claim(claim, number): claim("start.quick").holds(around(350 + number))
    def test_both(claim):
        claim("start.quick").holds(around(350))
        claim("copy.rate").holds(around(12, "MB/s"))
    def test_refuted(claim): claim("start.quick").holds(around(450))
"""


@pytest.mark.parametrize("how", ["load", "loadfile", "worksteal"])
def test_sessions_are_shared_among_workers(project: pytest.Pytester, how: str) -> None:
    project.makepyfile(SHARED)
    options = ("-n2", f"--dist={how}", "--claims-json=out.json", "--junitxml=out.xml")
    result = project.runpytest_subprocess(*options)
    result.stdout.fnmatch_lines(["claims: 5 held, 1 refuted"])
    result.stdout.re_match_lines([r"=+ 4 passed, 4 held, 1 refuted in .*"])
    suite = ET.parse(project.path / "out.xml").getroot()[0]
    names = [case.get("name") for case in suite]
    assert len(names) == len(set(names)) == 9
    found = records(project)
    assert len(found) == 6
    assert {len(record["sessions"]) for record in found} == {3}
    assert {record["plan"]["claims"] for record in found} == {5}


def test_a_worker_that_is_told_to_stop_hands_over_what_it_measured(
    project: pytest.Pytester,
) -> None:
    project.makepyfile(
        """
        from samplers import around
        def test_it(claim): claim("start.quick").holds(around(350))
        def test_end(request): request.session.shouldstop = "enough"
        """
    )
    project.runpytest_subprocess("-n1", "--claims-json=out.json")
    (record,) = records(project)
    assert record["reason"] == "the run ended before session 2 of 3"
    assert record["observations"]
