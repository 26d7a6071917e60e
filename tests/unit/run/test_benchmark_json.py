"""The times of claims in pytest-benchmark's format, read by its own command."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from pytest_vperf.results import benchmark_json

if TYPE_CHECKING:
    from pathlib import Path

HEAD = """
import pytest
from pytest_vperf import Quantity
from samplers import around, given
"""
HELD = 'def test_it(claim): claim("start.quick").holds(around(350))\n'
OPTIONS = ("--claims-json=out.json", "--claims-benchmark-json=bench.json")


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """pytest-benchmark takes no rounds in a worker of pytest-xdist, which this process may be."""
    monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)


def play(project: pytest.Pytester, test: str, *options: str) -> pytest.RunResult:
    project.makepyfile(HEAD + test)
    return project.runpytest(*(options or OPTIONS))


def benchmarks(folder: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((folder / "bench.json").read_text())["benchmarks"]
    return found


def test_each_sample_is_a_round(project: pytest.Pytester) -> None:
    play(project, HELD)
    (record,) = json.loads((project.path / "out.json").read_text())["claims"]
    (found,) = benchmarks(project.path)
    assert record["unit"] == "ms"
    assert found["stats"]["data"] == pytest.approx([each / 1000 for each in record["samples"]])
    assert found["stats"]["rounds"] == record["n"] == len(record["samples"])
    assert found["stats"]["median"] == pytest.approx(record["estimate"] / 1000)
    assert found["name"] == found["group"] == "start.quick"
    assert found["fullname"] == "test_each_sample_is_a_round.py::test_it::start.quick"
    assert found["extra_info"] == {
        "verdict": "holds",
        "criterion": "≤ 400 ms",
        "target": "",
        "sessions": 3,
    }


def test_the_arms_of_a_comparison_are_two_benchmarks(project: pytest.Pytester) -> None:
    play(
        project,
        'def test_it(claim): claim("start.alike").compares(around(350), to=around(700))\n',
    )
    found = benchmarks(project.path)
    assert [(each["name"], each["group"]) for each in found] == [
        ("start.alike [a]", "start.alike"),
        ("start.alike [b]", "start.alike"),
    ]
    assert [round(each["stats"]["median"], 2) for each in found] == [0.35, 0.7]


def test_its_compare_reads_two_files(project: pytest.Pytester) -> None:
    play(project, HELD, "--claims-benchmark-json=before.json")
    play(project, HELD.replace("350", "355"), "--claims-benchmark-json=after.json")
    compare = [sys.executable, "-m", "pytest_benchmark", "compare"]
    printed = subprocess.run(
        [*compare, "before.json", "after.json", "--csv=table.csv"],
        cwd=project.path,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert "benchmark 'start.quick': 2 tests" in printed
    rows = [each for each in printed.splitlines() if each.startswith("start.quick")]
    assert len(rows) == 2
    header, *table = (project.path / "table.csv").read_text().splitlines()
    column = header.split(",").index("median")
    assert sorted(round(float(each.split(",")[column]), 3) for each in table) == [0.35, 0.355]


def test_what_is_no_time_is_left_out_and_named(project: pytest.Pytester) -> None:
    result = play(
        project,
        HELD + 'def test_rate(claim): claim("copy.rate").holds(around(20, "MB/s"))\n'
        "def test_none(claim):\n    from samplers import missing\n"
        '    claim("start.quick").holds(missing)\n',
    )
    assert [each["name"] for each in benchmarks(project.path)] == ["start.quick"]
    assert (
        "claims: bench.json has times alone, and not copy.rate, which was measured in another unit"
        in result.outlines
    )


def test_all_that_is_left_out_fits_a_line(project: pytest.Pytester) -> None:
    test = """
@pytest.mark.parametrize("number", range(3))
@pytest.mark.parametrize("name", ["copy.rate", "copy.level"])
def test_rate(claim, number, name): claim(name).holds(around(70, "MB/s"))
"""
    result = play(project, test)
    assert (
        "claims: bench.json has times alone, and not copy.rate and 1 more, which were measured in other units"
        in result.outlines
    )


def test_workers_send_their_times(project: pytest.Pytester) -> None:
    play(project, HELD, *OPTIONS, "-n", "1")
    assert [each["name"] for each in benchmarks(project.path)] == ["start.quick"]


def test_attempts_are_told_apart(project: pytest.Pytester) -> None:
    records: list[dict[str, Any]] = []
    play(project, HELD)
    (record,) = json.loads((project.path / "out.json").read_text())["claims"]
    records = [record, {**record, "attempt": 2}]
    config = project.parseconfigure()
    benchmark_json.write(project.path / "bench.json", config, records, None)  # type: ignore[arg-type]
    assert [each["name"] for each in benchmarks(project.path)] == [
        "start.quick",
        "start.quick (attempt 2)",
    ]


def test_another_machine_is_the_machine(project: pytest.Pytester) -> None:
    fingerprint = {
        "on": "ssh://tester@example.org",
        "architecture": "aarch64",
        "kernel": "6.1.0",
        "cpu_model": "Neoverse-N1",
        "logical_cpus": "4",
    }
    benchmark_json.write(project.path / "bench.json", project.parseconfigure(), [], fingerprint)
    machine = json.loads((project.path / "bench.json").read_text())["machine_info"]
    assert machine == {
        "node": "ssh://tester@example.org",
        "machine": "aarch64",
        "release": "6.1.0",
        "system": "Linux",
        "cpu": {"brand_raw": "Neoverse-N1", "count": "4"},
    }


def test_an_older_file_is_not_taken_for_this_runs(project: pytest.Pytester) -> None:
    play(project, HELD)
    assert benchmarks(project.path)
    test = """
def test_it():
    import json
    with open("bench.json") as stream:
        assert json.load(stream)["benchmarks"] == []
"""
    play(project, test).assert_outcomes(passed=1)
    assert benchmarks(project.path) == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--claims-benchmark-json="], "--claims-benchmark-json: the file's name is empty"),
        (
            ["--claims-benchmark-json=thresholds"],
            "--claims-benchmark-json: {}/thresholds is not a file",
        ),
        (["--claims-benchmark-json=/dev/null"], "--claims-benchmark-json: /dev/null is not a file"),
        (
            ["--claims-benchmark-json=no/bench.json"],
            "--claims-benchmark-json: {}/no/bench.json cannot be written: No such file or directory",
        ),
        (
            ["--claims-benchmark-json=out.json", "--claims-json=./out.json"],
            "--claims-benchmark-json: {}/out.json is already the file of --claims-json",
        ),
        (
            ["--claims-benchmark-json=bench.json", "--benchmark-json=./bench.json"],
            "--claims-benchmark-json: {}/bench.json is already the file of --benchmark-json",
        ),
        (
            ["--claims-benchmark-json=bench.json", "-p", "no:benchmark"],
            "--claims-benchmark-json: pytest-benchmark, which writes the file, is switched off: leave out "
            "-p no:benchmark",
        ),
    ],
)
def test_a_file_that_cannot_be_is_refused_before_anything_is_measured(
    project: pytest.Pytester, options: list[str], message: str
) -> None:
    result = play(project, HELD, *options)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert f"ERROR: {message.format(project.path)}" in result.errlines + result.outlines


def test_times_that_could_not_be_written_are_said(project: pytest.Pytester) -> None:
    test = """
def test_it(claim):
    import os
    claim("start.quick").holds(around(350))
    os.remove("bench.json")
    os.mkdir("bench.json")
"""
    result = play(project, test)
    assert result.ret == 74
    assert any(
        each.endswith(f"{project.path}/bench.json cannot be written: Is a directory")
        for each in result.outlines
    )


def test_an_empty_folder_of_benchmarks_is_not_left_behind(project: pytest.Pytester) -> None:
    folder = project.path / ".benchmarks"
    play(project, "def test_it(): pass\n", "-q")
    assert not folder.exists()
    play(project, "def test_it(benchmark): benchmark(int)\n", "--benchmark-autosave")
    assert len(list(folder.rglob("*.json"))) == 1
    play(project, "def test_it(): pass\n", "-q")
    assert len(list(folder.rglob("*.json"))) == 1


def test_a_folder_of_benchmarks_that_was_there_stays(project: pytest.Pytester) -> None:
    project.mkdir(".benchmarks")
    play(project, "def test_it(): pass\n", "-q")
    assert (project.path / ".benchmarks").is_dir()


def test_a_hook_of_the_project_that_fails_loses_nothing(project: pytest.Pytester) -> None:
    project.makeconftest(
        "def pytest_benchmark_update_json(output_json):\n    output_json['benchmarks'][1]\n"
    )
    result = play(project, HELD)
    assert result.ret == 74
    assert any(
        each.endswith(
            f"{project.path}/bench.json cannot be written: IndexError: list index out of range"
        )
        for each in result.outlines
    )
    assert "claims: 1 held" in result.outlines
    (record,) = json.loads((project.path / "out.json").read_text())["claims"]
    assert record["verdict"] == "holds"


def test_the_ini_file_names_it_from_the_root(project: pytest.Pytester) -> None:
    project.syspathinsert()
    project.makeini("[pytest]\nclaims_benchmark_json = bench.json\n")
    project.mkdir("below").joinpath("test_it.py").write_text(HEAD + HELD)
    project.runpytest("below")
    assert [each["name"] for each in benchmarks(project.path)] == ["start.quick"]


# A gate: a file for each side.

GATE = """
import itertools
import os

def level(unit="ms"):
    noise = itertools.cycle([1, 1.003, 0.999, 1.002, 0.998])
    return lambda: Quantity(float(os.environ["LEVEL"]) * next(noise), unit)

def test_it(claim): claim("start.quick").holds(level())
def test_size(claim): claim("mine.size").holds(level("MiB"))
"""
SIDES = ("--claims-base=env.LEVEL=100", "--claims-head=env.LEVEL=120", "--claims-sessions=1")


def of(folder: Path, name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / name).read_text())
    return found


def test_of_a_gate_each_side_is_a_run_and_compare_sets_them_side_by_side(
    project: pytest.Pytester,
) -> None:
    result = play(project, GATE, *SIDES, "--claims-benchmark-json=times.json")
    head, base = of(project.path, "times.json"), of(project.path, "times-base.json")
    for document, seconds in ((head, 0.12), (base, 0.1)):
        (found,) = document["benchmarks"]
        assert found["name"] == "start.quick"
        assert found["stats"]["median"] == pytest.approx(seconds, rel=0.01)
    assert head["benchmarks"][0]["fullname"] == base["benchmarks"][0]["fullname"]
    assert base["commit_info"]["id"] == "unversioned"
    result.stdout.fnmatch_lines(["claims: times.json has times alone, and not mine.size, *"])
    compare = [sys.executable, "-m", "pytest_benchmark", "compare", "times-base.json", "times.json"]
    printed = subprocess.run(
        compare, cwd=project.path, capture_output=True, text=True, check=True
    ).stdout
    assert "benchmark 'start.quick': 2 tests" in printed
    assert [each.split()[1] for each in printed.splitlines() if each.startswith("start.quick")] == [
        "(times-base)",
        "(times)",
    ] or printed.count("start.quick (") == 2


def test_each_head_has_a_file(project: pytest.Pytester) -> None:
    heads = ("--claims-head=one:env.LEVEL=120", "--claims-head=two:env.LEVEL=140")
    options = ("--claims-base=env.LEVEL=100", *heads, "--claims-sessions=1")
    play(project, GATE, *options, "--claims-benchmark-json=times.json")
    medians = [
        of(project.path, name)["benchmarks"][0]["stats"]["median"]
        for name in ("times-base.json", "times.json", "times-two.json")
    ]
    assert medians == pytest.approx([0.1, 0.12, 0.14], rel=0.01)


def test_what_others_read_is_there(project: pytest.Pytester) -> None:
    """github-action-benchmark's ``tool: pytest`` (src/extract.ts, extractPytestResult) and Bencher's adapter
    ``python_pytest`` (lib/bencher_adapter/src/adapters/python/pytest.rs) take these keys, all of them numbers."""
    play(project, GATE, *SIDES, "--claims-benchmark-json=times.json")
    document = of(project.path, "times.json")
    assert isinstance(document["machine_info"], dict)
    assert isinstance(document["commit_info"], dict)
    for each in document["benchmarks"]:
        assert isinstance(each["fullname"], str)
        for key in ("ops", "stddev", "mean", "rounds", "median", "iqr"):
            assert isinstance(each["stats"][key], int | float), key
        assert each["stats"]["ops"] == pytest.approx(1 / each["stats"]["mean"])


def test_junit_has_the_figures_of_both_sides(project: pytest.Pytester) -> None:
    play(project, GATE, *SIDES, "--junit-xml=out.xml")
    text = (project.path / "out.xml").read_text()
    for side, value in (("base", 100), ("head", 120)):
        found = re.search(rf'name="vperf.start.quick.{side}.median" value="([^"]*)"', text)
        assert found
        assert float(found[1]) == pytest.approx(value, rel=0.01)
        assert f'name="vperf.start.quick.{side}.unit" value="ms"' in text
        assert f'name="vperf.start.quick.{side}.low"' in text
