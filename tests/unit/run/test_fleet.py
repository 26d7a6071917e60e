"""A run over many machines, which here are processes of this one."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest
from fleets import cases, places, record, run

pytest.importorskip("pytest_reportlog")

SPREAD = [
    *(("test_quick[0]", "h1"), ("test_quick[0]", "h3"), ("test_quick[1]", "h1")),
    *(("test_quick[1]", "h3"), ("test_quick[2]", "h2"), ("test_quick[2]", "h3")),
    *(("test_quick[3]", "h2"), ("test_quick[3]", "h3")),
]


def test_each_type_runs_every_test_once(fleet: pytest.Pytester) -> None:
    result = run(fleet, "-v", "--junitxml=out.xml")
    assert result.ret == 0
    result.stdout.fnmatch_lines(
        [
            "fleet: here, type-a: h1, h2; type-b: h3; every test on one machine of a type",
            "claims: 8 held",
        ]
    )
    result.stdout.fnmatch_lines_random(
        ["?h1? ?*%? HELD test_it.py::test_quick?0?*", "?h3? ?*%? PASSED test_it.py::test_plain*"]
    )
    result.stdout.fnmatch_lines_random(["holds*start.quick (on h2)*"])
    percents = [
        int(each) for each in re.findall(r"^\[h\d\] \[ *(\d+)%\]", result.stdout.str(), re.M)
    ]
    assert percents == [10 * number for number in range(1, 11)]
    assert places(fleet) == [(*each, "holds") for each in SPREAD]
    plain = [("test_plain", "h2"), ("test_plain", "h3")]
    assert cases(fleet.path / "out.xml") == sorted([*SPREAD, *plain])
    found = record(fleet)
    assert list(found["machines"]) == ["h1", "h2", "h3"]
    assert [each["type"] for each in found["machines"].values()] == ["type-a", "type-a", "type-b"]
    for each in found["claims"]:
        own = dict(each["machine"])
        assert own.items() <= {"name": own["name"], **found["machines"][own["name"]]}.items()
    # The run errs with alpha, and not each machine with it.
    assert {each["plan"]["claims"] for each in found["claims"]} == {8}


def test_each_machine_runs_every_test(fleet: pytest.Pytester) -> None:
    result = run(fleet, "--claims-fleet-run=each", "-k", "quick")
    assert result.ret == 0
    result.stdout.fnmatch_lines(["fleet: here, *; every test on every machine"])
    found = [(f"test_quick[{n}]", host, "holds") for n in range(4) for host in ("h1", "h2", "h3")]
    assert places(fleet) == found
    assert {each["plan"]["claims"] for each in record(fleet)["claims"]} == {12}


def test_one_type_alone(fleet: pytest.Pytester) -> None:
    result = run(fleet, "--claims-fleet-hw=type-b")
    assert result.ret == 0
    assert {place for _, place, _ in places(fleet)} == {"h3"}


def test_a_failure_anywhere_fails_the_run_and_is_known_to_last_failed(
    fleet: pytest.Pytester,
) -> None:
    fleet.makepyfile(
        test_it="""
import os
def test_on_one(): assert os.environ["HOST"] != "h1", "as it is h1"
def test_other(): pass
"""
    )
    result = run(fleet, "--claims-fleet-run=each", "-p", "cacheprovider")
    result.assert_outcomes(failed=1, passed=5)
    result.stdout.fnmatch_lines(["?h1? linux -- Python *", "*as it is h1*"])
    again = run(fleet, "--claims-fleet-run=each", "--lf", "--collect-only", "-q")
    again.stdout.fnmatch_lines(["test_it.py::test_on_one"])
    again.stdout.no_fnmatch_line("test_it.py::test_other")


def test_the_first_failure_ends_the_run_where_asked(fleet: pytest.Pytester) -> None:
    fleet.makepyfile(
        test_it="""
import os, time, pytest
@pytest.mark.parametrize("number", range(20))
def test_it(number):
    if os.environ["HOST"] == "h3":
        assert number == 0, "the first one"
    else:
        time.sleep(0.5)
"""
    )
    result = run(fleet, "-x")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["*stopping after 1 failures*"])
    result.stdout.no_fnmatch_line("*was lost*")


def test_a_machine_that_holds_hides_nothing_of_its_equal(fleet: pytest.Pytester) -> None:
    fleet.makepyfile(
        test_it="""
import os
from samplers import around
def test_it(claim): claim("start.quick").holds(around(900 if os.environ["HOST"] == "h1" else 350))
"""
    )
    result = run(fleet, "--claims-fleet-run=each", "--claims-fleet-hw=type-a")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    found = subprocess.run(
        [sys.executable, "-m", "pytest_vperf", "claims", "out.json", "--json", "-k", "start.quick"],
        cwd=fleet.path,
        capture_output=True,
        text=True,
        check=True,
    )
    table = json.loads(found.stdout)["table"]
    assert sorted(
        (each["last"]["machine"].split(",")[0], each["last"]["verdict"]) for each in table
    ) == [
        ("h1", "refuted"),
        ("h2", "holds"),
    ]


def test_what_is_not_the_same_on_machines_of_a_type_is_said(fleet: pytest.Pytester) -> None:
    (programs := fleet.path / "programs").mkdir()
    (programs / "runc").write_text("#!/bin/sh\necho runc version 9.9.1\n")
    (programs / "runc").chmod(0o755)
    with (fleet.path / "fleet.yaml").open("a") as file:
        file.write(f"words: {{h2: 'env PATH={programs}:/usr/bin:/bin'}}\n")
    result = run(fleet, "-k", "quick and 0")
    assert result.ret == 0
    result.stdout.fnmatch_lines(["fleet: type-a: runc * on h1; 9.9.1 on h2"])
    assert record(fleet)["machines"]["h2"]["runc"] == "9.9.1"
    claims = [sys.executable, "-m", "pytest_vperf", "claims", "out.json"]
    for words, told in (([], "machines differ: type-a: runc"), (["--json"], '"type-a: runc ')):
        found = subprocess.run(
            [*claims, *words], cwd=fleet.path, capture_output=True, text=True, check=True
        )
        assert re.search(rf"{told} *\S+ on h1; 9\.9\.1 on h2", found.stdout)


def test_properties_of_tests_arrive_as_they_are(fleet: pytest.Pytester) -> None:
    fleet.makepyfile(
        test_it="""
def test_it(record_property, request):
    for value in (1, True, 1.0, "1", None, [1]):
        record_property("value", value)
    request.node.user_properties.append(("odd", "one", "out"))
"""
    )
    fleet.makeconftest(
        (fleet.path / "conftest.py").read_text()
        + """
def pytest_runtest_logreport(report):
    if report.when == "teardown":
        print("properties:", [tuple(each) for each in report.user_properties])
"""
    )
    result = run(fleet, "--claims-fleet-hw=type-b", "-s")
    assert result.ret == 0
    pairs = ", ".join(f"('value', {value})" for value in (1, True, 1.0, "'1'", None, [1]))
    told = f"properties: [{pairs}, ('odd', 'one', 'out'), ('vperf.machine', 'h3')]"
    assert told in result.stdout.str()
