"""What a pipe or a log has of a run while it goes on: a line for each claim, and on GitHub a group for each file."""

from __future__ import annotations

import re
import textwrap
from typing import Any

import pytest
from reported_runs import claim, compared, limited

from pytest_vperf.reporting.log import judged

TWO = """
    from samplers import around, missing
    def test_held(claim): claim("start.quick").holds(around(350))
    def test_plain(): pass
    def test_missing(claim): claim("start.quick").holds(missing)
    def test_refuted(claim): claim("start.alike").compares(around(120), to=around(100))
"""
HELD = r"claims: start\.quick holds: 350(\.\d)? ms \[.*\], ≤ 400 ms, \d+ samples in 0 s"
MISSING = r"claims: start\.quick is not measured: no such machine here \(to mend it: buy one\)"
REFUTED = r"claims: start\.alike is refuted: 1\.2 \[.*\], ratio ≤ 1\.1, \d+ pairs in 0 s"


def lines(result: pytest.RunResult) -> list[str]:
    """What is told before the sections at the end."""
    told = result.stdout.str().partition(" FAILURES ")[0].splitlines()
    return [line for line in told if line and not line.startswith("====")]


def test_each_claim_has_a_line_when_its_test_is_over(project: pytest.Pytester) -> None:
    project.makepyfile(test_two=TWO)
    result = project.runpytest("-v", "--claims-sessions=1")
    told = lines(result)
    for test, line in (
        ("test_held HELD", rf"{HELD} \(1 of 3\)"),
        ("test_missing NOT MEASURED", rf"{MISSING} \(2 of 3\)"),
        ("test_refuted REFUTED", rf"{REFUTED} \(3 of 3\)"),
    ):
        (at,) = [k for k, each in enumerate(told) if f"::{test}" in each]
        assert re.fullmatch(line, told[at + 1]), told[at + 1]


def test_in_one_line_per_file_the_letters_are_still_there(project: pytest.Pytester) -> None:
    project.makepyfile(test_two=TWO)
    told = "\n".join(lines(project.runpytest()))
    assert re.search(rf"test_two\.py [.N]+\n{MISSING} \(1 of 3\)\n", told)
    assert "".join(re.findall(r"^test_two\.py ([A-Z.]+)", told, re.MULTILINE)).count("H") == 1


@pytest.mark.parametrize("quiet", ["-q", "-qq"])
def test_a_quiet_run_has_none(project: pytest.Pytester, quiet: str) -> None:
    project.makepyfile(test_two=TWO)
    result = project.runpytest(quiet)
    assert not [line for line in result.outlines if re.match(f"{HELD}|{MISSING}|{REFUTED}", line)]


def test_workers_have_them_too(project: pytest.Pytester) -> None:
    pytest.importorskip("xdist")
    project.makepyfile(test_two=TWO)
    result = project.runpytest_subprocess("-n2", "-p", "no:cacheprovider")
    for line in (HELD, MISSING, REFUTED):
        assert re.search(f"^{line}$", result.stdout.str(), re.MULTILINE)


def test_github_has_a_group_for_each_file(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    project.makepyfile(test_one=TWO, test_two="def test_it(): pass", test_three=TWO)
    result = project.runpytest("-v", "--claims-sessions=1")
    marks = [line for line in lines(result) if line.startswith(("::group", "::end", "test_"))]
    # A command counts at the beginning of a line alone.
    assert [re.sub("(py)::.*", r"\1", line) for line in marks] == [
        *("::group::test_one.py", *["test_one.py"] * 4, "::endgroup::"),
        *("::group::test_three.py", *["test_three.py"] * 4, "::endgroup::"),
        *("::group::test_two.py", "test_two.py", "::endgroup::"),
    ]


def test_a_files_name_gives_github_no_command(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    name = "test_a\n::stop-commands::x\x1b[2J%0A::error::y.py"
    (project.path / name).write_text(textwrap.dedent(TWO), encoding="utf-8")
    result = project.runpytest("-v", "--claims-sessions=1")
    (group,) = [line for line in lines(result) if line.startswith("::group")]
    assert group == r"::group::test_a ::stop-commands::x\x1b[2J%250A::error::y.py"


def test_there_are_no_groups_elsewhere_nor_without_a_claim(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)
    project.makepyfile(test_one=TWO)
    project.runpytest("--claims-sessions=1").stdout.no_fnmatch_line("::group*")
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    project.makepyfile(test_one="def test_it(): pass")
    project.runpytest().stdout.no_fnmatch_line("::group*")


BASELINE: Any = {"word": "main", "unit": "ms", "runs": 5, "visible": None, "missing": 2}


@pytest.mark.parametrize(
    ("record", "line"),
    [
        (
            limited("a.b", "holds", 352.0, 400.0),
            "a.b holds: 352 ms [345, 359], ≤ 400 ms, 28 samples in 61 s",
        ),
        (
            compared("gate.one", "refuted", 1.2),
            "gate.one is slower: +20 % [+18, +22], no worse by more than 5 %, 16 pairs in 0 s",
        ),
        (
            compared("gate.one", "holds", 1.0),
            "gate.one is not slower: +0 % [-2, +2], no worse by more than 5 %, 16 pairs in 0 s",
        ),
        (
            {**limited("a.b", "holds", 352.0, 400.0), "sides": {"a": "head"}},
            "a.b (on head) holds: 352 ms [345, 359], ≤ 400 ms, 28 samples in 61 s",
        ),
        (
            {**compared("a.b", "inconclusive", 1.04, sides=False), "baseline": BASELINE, "reason": "2 more\nof it"},
            "a.b is inconclusive: +4 % [+2, +6], no worse by more than 5 %, 16 runs in 0 s: 2 more",
        ),
        (
            {**compared("a.b", "refuted", 1.2, sides=False), "baseline": BASELINE},
            "a.b is slower than the runs of main: +20 % [+18, +22], no worse by more than 5 %, 16 runs in 0 s",
        ),
        (
            claim("a.b", "not measured", reason=f"no {'x' * 400}"),
            f"a.b is not measured: no {'x' * 196}…",
        ),
    ],
)  # fmt: skip
def test_the_line_of_a_claim(record: Any, line: str) -> None:
    assert judged(record) == line
