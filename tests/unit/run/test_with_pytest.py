"""A verdict is an outcome like any other to pytest and its plug-ins."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET

import pytest

THREE = """
    from samplers import around, missing
    def test_1(claim): claim("start.quick").holds(around(450))
    def test_2(claim): claim("start.quick").holds(around(460))
    def test_3(claim): claim("start.quick").holds(around(350))
"""


def test_junit_has_the_failure_and_the_figures(project: pytest.Pytester) -> None:
    project.makepyfile(THREE + '    def test_4(claim): claim("start.quick").holds(missing)\n')
    project.runpytest("--junitxml=out.xml")
    suite = ET.parse(project.path / "out.xml").getroot()[0]
    assert {key: suite.get(key) for key in ("tests", "failures", "skipped", "errors")} == {
        "tests": "4",
        "failures": "2",
        "skipped": "1",
        "errors": "0",
    }
    first = next(case for case in suite if case.get("name") == "test_1")
    failure = first.find("failure")
    assert failure is not None
    assert failure.get("message", "").startswith(
        "ClaimRefuted: start.quick is refuted: measured 450"
    )
    properties = {each.get("name"): each.get("value") for each in first.iter("property")}
    assert properties["vperf.start.quick.verdict"] == "refuted"
    assert properties["vperf.start.quick.unit"] == "ms"
    assert float(properties["vperf.start.quick.estimate"] or "nan") == pytest.approx(450, abs=1)
    assert int(properties["vperf.start.quick.samples"] or 0) >= 4
    assert properties["vperf.start.quick.sessions"] == "3"
    last = next(case for case in suite if case.get("name") == "test_4")
    skipped = last.find("skipped")
    assert skipped is not None
    assert skipped.get("message") == "not measured: no such machine here (to mend it: buy one)"
    assert "vperf.start.quick.estimate" not in {each.get("name") for each in last.iter("property")}


@pytest.mark.parametrize(("option", "refuted"), [("-x", 1), ("--maxfail=2", 2)])
def test_exitfirst_stops_at_a_refuted_claim(
    project: pytest.Pytester, option: str, refuted: int
) -> None:
    project.makepyfile(THREE)
    result = project.runpytest(option)
    result.stdout.fnmatch_lines(
        [
            f"claims: {refuted} refuted, {3 - refuted} inconclusive",
            f"*! stopping after {refuted} failures !*",
            f"* {refuted} refuted in *",
        ]
    )


def test_last_failed_selects_refuted_claims(project: pytest.Pytester) -> None:
    project.makepyfile(THREE)
    project.runpytest()
    result = project.runpytest("--lf")
    result.stdout.fnmatch_lines(["claims: 2 refuted"])


def test_xfail_expects_a_refuted_claim(project: pytest.Pytester) -> None:
    project.makepyfile(
        """
        import pytest
        from samplers import around

        @pytest.mark.xfail(reason="known to be slow")
        def test_known(claim): claim("start.quick").holds(around(450))

        @pytest.mark.xfail(strict=True)
        def test_mended(claim): claim("start.quick").holds(around(350))

        @pytest.mark.xfail
        def test_loosely_mended(claim): claim("start.quick").holds(around(350))
        """
    )
    result = project.runpytest("-v")
    result.stdout.fnmatch_lines(
        [
            "*::test_known XFAIL (known to be slow) *",
            "*::test_mended FAILED *",
            "*::test_loosely_mended XPASS *",
            "claims: 2 held, 1 refuted",
        ]
    )
    result.assert_outcomes(failed=1, xfailed=1, xpassed=1)


def test_a_test_that_fails_otherwise_is_failed(project: pytest.Pytester) -> None:
    project.makepyfile(
        """
        from samplers import around
        def test_it(claim):
            claim("start.quick").holds(around(350))
            assert 1 == 2
        """
    )
    result = project.runpytest()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["claims: 1 held"])


def test_a_run_that_does_not_count_is_not_called_by_its_verdict(project: pytest.Pytester) -> None:
    """As with pytest-rerunfailures: a test that is run again gets its own outcome."""
    project.makeconftest(
        """
        import pytest

        @pytest.hookimpl(hookwrapper=True)
        def pytest_runtest_makereport(item):
            outcome = yield
            if outcome.get_result().failed: outcome.get_result().outcome = "rerun"

        def pytest_report_teststatus(report):
            if report.outcome == "rerun": return "rerun", "r", "RERUN"
        """
    )
    project.makepyfile(THREE)
    result = project.runpytest("-k", "test_1")
    assert "1 rerun" in result.outlines[-1]
    assert "refuted" not in result.outlines[-1]


@pytest.mark.parametrize(
    ("options", "text", "line"),
    [
        ((), True, True),
        (("--tb=no",), False, True),
        (("-rN",), True, False),
        (("-rs",), True, False),
        (("-ra",), True, True),
    ],
)
def test_pytests_own_options_are_obeyed(
    project: pytest.Pytester,
    options: tuple[str, ...],
    text: bool,
    line: bool,
) -> None:
    project.makepyfile(THREE)
    result = project.runpytest(*options, "-k", "test_1")
    out = result.stdout.str()
    assert ("gap       +50" in out) is text
    assert ("REFUTED test_pytests_own_options_are_obeyed.py::test_1 - " in out) is line


def test_captured_output_is_shown_with_a_refuted_claim(project: pytest.Pytester) -> None:
    project.makepyfile(
        """
        from samplers import around
        def test_it(claim):
            print("what it printed")
            claim("start.quick").holds(around(450))
        """
    )
    result = project.runpytest()
    result.stdout.fnmatch_lines(["*Captured stdout call*", "what it printed"])


def test_collect_only_reads_the_thresholds_and_measures_nothing(project: pytest.Pytester) -> None:
    project.makepyfile(THREE)
    result = project.runpytest("--collect-only", "--claims-json=out.json")
    result.stdout.fnmatch_lines(["*3 tests collected*"])
    assert result.ret == 0
    assert not (project.path / "out.json").exists()


def test_a_run_without_a_terminal_reporter_is_recorded(project: pytest.Pytester) -> None:
    project.makepyfile(THREE)
    result = project.runpytest_subprocess("-p", "no:terminal", "--claims-json=out.json")
    assert result.ret == 1
    assert len(json.loads((project.path / "out.json").read_text())["claims"]) == 3


@pytest.mark.parametrize(
    ("options", "table"), [(("-q",), True), (("-qq",), False), (("--no-summary",), True)]
)
def test_the_counts_are_always_shown(
    project: pytest.Pytester, options: tuple[str, ...], table: bool
) -> None:
    project.makepyfile(THREE)
    result = project.runpytest(*options)
    if options != ("--no-summary",):  # older versions of pytest leave out all summaries
        result.stdout.fnmatch_lines(["claims: 1 held, 2 refuted"])
        assert any(line.startswith("verdict ") for line in result.outlines) is table


def test_a_run_without_claims_shows_nothing(project: pytest.Pytester) -> None:
    project.makepyfile("def test_it(): pass")
    result = project.runpytest()
    result.assert_outcomes(passed=1)
    result.stdout.no_fnmatch_line("*claims:*")


def test_a_users_own_claim_fixture_is_left_alone(project: pytest.Pytester) -> None:
    (project.path / "thresholds" / "any.yaml").write_text("not a threshold file")
    project.makepyfile(
        """
        import pytest
        @pytest.fixture
        def claim(): return "insurance"
        def test_it(claim): assert claim == "insurance"
        """
    )
    project.runpytest().assert_outcomes(passed=1)


def test_the_plugin_can_be_turned_off(project: pytest.Pytester) -> None:
    project.makepyfile("def test_it(claim): pass")
    result = project.runpytest_subprocess("-p", "no:vperf")
    result.assert_outcomes(errors=1)


def test_workers_of_xdist_measure_and_the_controller_keeps(project: pytest.Pytester) -> None:
    project.makepyfile(THREE)
    result = project.runpytest_subprocess("-n2", "--claims-json=out.json", "--junitxml=out.xml")
    result.stdout.fnmatch_lines(
        [
            "start.quick is refuted: *",
            "REFUTED *::test_* - ClaimRefuted: start.quick is refuted: *",
            "* claims *",
            "claims: hardware *",
            "claims: 1 held, 2 refuted",
        ]
    )
    assert result.ret == 1
    document = json.loads((project.path / "out.json").read_text())
    assert sorted(record["verdict"] for record in document["claims"]) == [
        "holds",
        "refuted",
        "refuted",
    ]
    assert document["fingerprint"]
    assert document["profile"]["asked"] == "auto"


def test_the_chance_of_an_error_is_that_of_all_workers(project: pytest.Pytester) -> None:
    project.makepyfile(
        """
        from samplers import around
        def test_one(claim): claim("start.quick").holds(around(350))
        def test_two(claim): claim("start.quick").holds(around(350))
        """
    )
    for words, claims in ((["-n2"], 2), (["-n2", "--dist=each"], 4)):
        assert project.runpytest("--claims-json=out.json", *words).ret == 0
        found = json.loads((project.path / "out.json").read_text())["claims"]
        assert len(found) == claims
        assert [each["plan"]["claims"] for each in found] == [claims] * claims


def test_a_wrong_threshold_file_ends_xdist_as_a_usage_error(project: pytest.Pytester) -> None:
    (project.path / "thresholds" / "any.yaml").write_text("hardware: [")
    project.makepyfile(THREE)
    result = project.runpytest_subprocess("-n2")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stdout.fnmatch_lines(["*claims cannot be judged: *any.yaml*"])


def test_fixtures_of_pytest_testinfra_stay_its_own(project: pytest.Pytester) -> None:
    project.makepyfile(
        """
        from pytest_vperf.targets.host import Host
        from samplers import around
        def test_infrastructure(host): assert host.run("echo hello").stdout == "hello\\n"
        def test_claim(claim, host):
            claim("start.quick").holds(around(350))
            assert host.file("/").is_directory
        def test_native(native): assert isinstance(native, Host)
        """
    )
    result = project.runpytest("--hosts=local://", "--vperf-host-tools")
    result.assert_outcomes(passed=2)
    assert result.parseoutcomes()["held"] == 1


def test_fixtures_of_a_project_stay_its_own_and_ours_do_without_them(
    project: pytest.Pytester,
) -> None:
    names = ("bench", "native", "rootfs", "lab", "network", "procmem", "cpuhog", "guestmem")
    split = ("pods", "guests", "container_runtime")  # ours run a test once for each of several
    project.makeconftest(
        "import pytest\n"
        + "".join(
            f"@pytest.fixture\ndef {name}(): return 'my {name}'\n" for name in (*names, *split)
        )
    )
    project.makepyfile(
        f"""
        def test_mine({", ".join((*names, *split))}):
            assert (bench, pods) == ("my bench", "my pods")
        def test_ours(sysbench, density, crowds, loaded, limited_host, vperf_bench):
            assert sysbench._bench is vperf_bench
        """
    )
    result = project.runpytest_subprocess(
        "--vperf-host-tools", "--vperf-accelerator=kvm,tcg", "--container-runtime=runc,runsc"
    )
    result.assert_outcomes(passed=2)
