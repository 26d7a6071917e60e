"""A gate: each claim of a run is judged as no worse on head than on base, whatever its test says."""

from __future__ import annotations

import json
import re
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Mapping

#: The variable that the sides differ in is the level of what is sampled.
HEAD = """
import itertools
import os
import pytest
from pytest_vperf import Quantity
from samplers import around, given

def level(unit="ms", **kind):
    noise = itertools.cycle([1, 1.003, 0.999, 1.002, 0.998])
    return lambda: Quantity(float(os.environ["LEVEL"]) * next(noise), unit, **kind)
"""
SIDES = ("--claims-base=env.LEVEL=100", "--claims-head=env.LEVEL=120")
BETTER = ("--claims-base=env.LEVEL=100", "--claims-head=env.LEVEL=80")


def play(project: pytest.Pytester, test: str, *options: str) -> pytest.RunResult:
    project.makepyfile(HEAD + test)
    return project.runpytest("--claims-json=out.json", "--claims-seed=1", "-rA", *options)


def records(project: pytest.Pytester) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((project.path / "out.json").read_text())["claims"]
    return found


ONE = 'def test_it(claim): claim("{}").holds(level({}))'


@pytest.mark.parametrize(
    ("options", "verdict"),
    [
        (SIDES, "refuted"),
        (BETTER, "holds"),
        (("--claims-base=env.LEVEL=100", "--claims-head=env.LEVEL=103"), "holds"),
    ],
    ids=["slower", "faster", "within-tolerance"],
)
def test_a_claim_that_no_file_names_is_judged_against_base(
    project: pytest.Pytester, options: tuple[str, ...], verdict: str
) -> None:
    result = play(project, ONE.format("mine.own", ""), *options)
    (record,) = records(project)
    assert (record["verdict"], record["name"]) == (verdict, "mine.own")
    assert record["criterion"] == "no worse by more than 5 %"
    assert record["sides"] == {"a": "head", "b": "base"}
    level = float(options[1].rpartition("=")[2])
    assert record["arms"]["a"]["estimate"] == pytest.approx(level, rel=0.01)
    assert record["arms"]["b"]["estimate"] == pytest.approx(100, rel=0.01)
    assert record["arms"]["b"]["unit"] == "ms"
    assert (result.ret == 0) == (verdict == "holds")


@pytest.mark.parametrize(
    ("sample", "better"),
    [
        ("'MB/s'", "higher"),
        ("'count', direction='higher'", "higher"),
        ("'count', direction='lower'", "lower"),
        ("'ms'", "lower"),
    ],
)
def test_the_samples_say_which_direction_is_better(
    project: pytest.Pytester, sample: str, better: str
) -> None:
    for options, verdict in ((SIDES, "lower"), (BETTER, "higher")):
        play(project, ONE.format("mine.own", sample), *options)
        (record,) = records(project)
        assert record["verdict"] == ("refuted" if verdict == better else "holds")


@pytest.mark.parametrize("options", [SIDES, BETTER])
def test_where_nobody_says_which_direction_is_better_each_change_counts(
    project: pytest.Pytester, options: tuple[str, ...]
) -> None:
    play(project, ONE.format("mine.own", "'MiB'"), *options)
    (record,) = records(project)
    assert (record["verdict"], record["criterion"]) == ("refuted", "near 1 ± 5 %")


def test_a_limit_is_judged_on_head_too(project: pytest.Pytester) -> None:
    test = ONE.format("start.quick", "") + "\ndef test_last(): pass"  # at most 400 ms
    play(project, test, "--claims-base=env.LEVEL=390", "--claims-head=env.LEVEL=405")
    compared, limit = records(project)
    assert (compared["verdict"], compared["sides"]) == ("holds", {"a": "head", "b": "base"})
    assert (limit["verdict"], limit["sides"]) == ("refuted", {"a": "head"})
    assert limit["estimate"] == pytest.approx(405, rel=0.01)
    assert compared["source"] == ""
    assert limit["source"]


def test_the_limit_is_judged_where_head_is_worse_than_base(project: pytest.Pytester) -> None:
    result = play(project, ONE.format("start.quick", ""), *SIDES, "--claims-sessions=1")
    assert [each["verdict"] for each in records(project)] == ["refuted", "holds"]
    assert result.ret == pytest.ExitCode.TESTS_FAILED


def test_a_comparison_is_judged_on_head(project: pytest.Pytester) -> None:
    test = """
def test_it(claim): claim("start.alike").compares(level(), to=around(100))  # at most 1.1 of it
"""
    play(project, test, *SIDES)
    (record,) = records(project)
    assert (record["verdict"], record["sides"]) == ("refuted", {"a": "head", "b": "head"})
    play(project, test, "--claims-base=env.LEVEL=120", "--claims-head=env.LEVEL=100")
    (record,) = records(project)
    assert record["verdict"] == "holds"


def test_a_sweep_is_judged_on_head(project: pytest.Pytester) -> None:
    test = """
def test_it(claim):
    noise = itertools.cycle([1, 1.003, 0.999, 1.002, 0.998])
    def at(point):
        return Quantity(min(point, float(os.environ["LEVEL"])) * next(noise), "packet/s")
    claim("copy.plateau").saturates(at, over=[20, 40, 80, 160, 320, 640, 1280])  # near 90
"""
    play(
        project,
        test,
        "--claims-base=env.LEVEL=50",
        "--claims-head=env.LEVEL=90",
        "--claims-sessions=1",
    )
    (record,) = records(project)
    assert (record["verdict"], record["sides"]) == ("holds", {"a": "head"})


def test_heads_are_each_compared_with_base(project: pytest.Pytester) -> None:
    heads = ("--claims-head=a:env.LEVEL=120", "--claims-head=b:env.LEVEL=90")
    play(project, ONE.format("mine.own", ""), "--claims-base=env.LEVEL=100", *heads)
    found = [(each["verdict"], each["sides"]["a"]) for each in records(project)]
    assert found == [("refuted", "a"), ("holds", "b")]


@pytest.mark.parametrize(
    ("options", "marker", "file", "tolerance", "origin"),
    [
        ((), "", "", 0.05, "default"),
        (("--claims-tolerance=30 %",), "", "", 0.3, "--claims-tolerance"),
        (("--claims-tolerance=30 %",), "tolerance=0.1", "", 0.1, "marker"),
        ((), "tolerance=0.1", "25 %", 0.25, "mine.yaml"),
    ],
    ids=["usual", "option", "marker", "file"],
)
def test_the_tolerance_is_said_in_the_usual_places(
    project: pytest.Pytester,
    options: tuple[str, ...],
    marker: str,
    file: str,
    tolerance: float,
    origin: str,
) -> None:
    judge = f"judge: {{tolerance: {file}}}" if file else "summary: it"
    text = f"""
hardware: {{name: mine, summary: this, match: {{logical_cpus: '>= 1'}}}}
claims:
  mine.limit:
    at_most: 1 s
    {judge}
"""
    (project.path / "thresholds" / "mine.yaml").write_text(text)
    mark = f"@pytest.mark.vperf({marker})\n"
    play(project, mark + ONE.format("mine.limit", ""), *SIDES, *options, "--hw=mine")
    plan = records(project)[0]["plan"]
    assert plan["tolerance"] == tolerance
    assert origin in plan["origins"]["tolerance"]
    assert records(project)[0]["verdict"] == ("refuted" if tolerance < 0.2 else "holds")


def test_what_has_no_ratio_is_judged_by_its_limit_alone(project: pytest.Pytester) -> None:
    test = """
def test_it(claim): claim("start.quick").holds(given(0.0, signed=True, discrete=True))
"""
    play(project, test, *SIDES, "--claims-sessions=1", "--hw=here")
    compared, limit = records(project)
    assert compared["verdict"] == "not comparable"
    assert compared["reason"] == "its samples may be 0 or less, as 0 ms: they have no ratio"
    assert limit["verdict"] == "holds"


@pytest.mark.parametrize(
    ("test", "answer"),
    [
        ('claim("start.quick").holds(given(0.0, signed=True, discrete=True))', "gate: 1 not comparable"),
        ('claim("start.alike").compares(around(1), to=around(1))', "gate: nothing was compared with base"),
        ("pytest.skip('no engine')", "gate: nothing was compared with base"),
    ],
)  # fmt: skip
def test_a_gate_that_compared_nothing_is_not_green(
    project: pytest.Pytester, test: str, answer: str
) -> None:
    text = f"def test_it(claim): {test}\ndef test_of_something_else(): pass"
    level = "--claims-level=refuted"
    result = play(project, text, *SIDES, "--claims-sessions=1", "--hw=here", level)
    assert records(project)[-1]["verdict"] == ("not measured" if "skip" in test else "holds")
    assert result.ret == pytest.ExitCode.NO_TESTS_COLLECTED
    result.stdout.fnmatch_lines([answer, "claims: result: nothing measured, exit status 5"])
    text += f"\n{ONE.format('mine.own', '')}".replace("test_it", "test_that")
    assert play(project, text, *BETTER, "--hw=here", level).ret == pytest.ExitCode.OK


def test_a_gate_without_a_claim_is_not_green(project: pytest.Pytester) -> None:
    result = play(project, "def test_it(): pass", *SIDES)
    assert result.ret == pytest.ExitCode.NO_TESTS_COLLECTED
    result.stdout.fnmatch_lines(
        [
            "gate: nothing was compared with base",
            "claims: result: nothing measured, exit status 5",
        ]
    )
    for option in ("--collect-only", "--claims-advisory"):
        assert play(project, "def test_it(): pass", *SIDES, option).ret == pytest.ExitCode.OK


def test_a_gate_whose_budget_took_no_pair_is_not_green(project: pytest.Pytester) -> None:
    test = """
import time

@pytest.mark.vperf(budget="0.2s")
def test_it(claim):
    def slow():
        time.sleep(0.3)
        return level()()
    claim("mine.own").holds(slow)
def test_of_something_else(): pass
"""
    result = play(project, test, *SIDES)
    (record,) = records(project)
    assert (record["verdict"], record["n"]) == ("inconclusive", 0)
    assert result.ret == pytest.ExitCode.NO_TESTS_COLLECTED


def test_what_the_rounds_of_a_benchmark_were_taken_of_is_unknown(project: pytest.Pytester) -> None:
    test = """
def test_it(claim, benchmark):
    benchmark(lambda: None)
    claim("mine.own").holds(benchmark)
"""
    play(project, test, *SIDES, "-p", "no:xdist")
    (record,) = records(project)
    assert record["verdict"] == "not comparable"
    assert record["reason"] == (
        "its benchmark took its rounds before it was compared: sample with rounds(benchmark, …)"
    )


def test_what_is_not_measured_fails_a_gate(project: pytest.Pytester) -> None:
    test = """
from samplers import missing
def test_it(claim): claim("mine.own").holds(missing)
def test_that(claim): claim("mine.other").holds(level())
"""
    result = play(project, test, *BETTER)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert play(project, test, *BETTER, "--claims-level=refuted").ret == pytest.ExitCode.OK


def test_the_header_says_what_the_sides_are(project: pytest.Pytester) -> None:
    result = play(project, ONE.format("mine.own", ""), *BETTER)
    result.stdout.fnmatch_lines(
        [
            "claims: budget 60 s per claim, measured: what is not measured fails",
            "claims: base: env.LEVEL=100",
            "claims: head: env.LEVEL=80",
        ]
    )


# What is refused, before anything is measured.


def refusal(project: pytest.Pytester, *options: str) -> str:
    project.makepyfile("def test_it(claim): raise AssertionError")
    result = project.runpytest(*options)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    (line,) = [each for each in result.errlines if each]
    return line.removeprefix("ERROR: ").replace(str(project.path), "HERE")


@pytest.fixture
def programs(project: pytest.Pytester) -> Mapping[str, str]:
    for name, text in {"old": "exit 0", "new": "exit 1", "copy": "exit 0"}.items():
        path = project.path / name
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)
    (project.path / "text").write_text("no program")
    project.mkdir("folder")
    return {}


KEYS = "the keys are runtime, image, kernel, qemu, firmware, engine, path, env.NAME"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--claims-base=runtime=./old"],
         "--claims-base: there is no head to compare it with: --claims-head KEY=VALUE"),
        (["--claims-head=new"], f"--claims-head: 'new' is not KEY=VALUE, such as runtime=./build/runc; {KEYS}"),
        (["--claims-head=runtme=./new"], "--claims-head: there is no key 'runtme'; did you mean 'runtime'?"),
        (["--claims-head=env.=1"], f"--claims-head: there is no key 'env.'; {KEYS}"),
        (["--claims-head=runtime="], "--claims-head: runtime= has no value"),
        (["--claims-head=runtime=./none"], "--claims-head: runtime: HERE/none does not exist"),
        (["--claims-head=runtime=./folder"], "--claims-head: runtime: HERE/folder is not a file"),
        (["--claims-head=runtime=./text"], "--claims-head: runtime: HERE/text is no program: chmod +x HERE/text"),
        (["--claims-head=runtime='./new"], "--claims-head: runtime: \"'./new\": No closing quotation"),
        (["--claims-head=runtime=nosuch"],
         "--claims-head: runtime: nosuch is not installed, and no file of that name is in HERE"),
        (["--claims-head=path=./text"], "--claims-head: path: HERE/text is not a folder"),
        (["--claims-base=a:runtime=./old", "--claims-head=runtime=./new"],
         "--claims-base: 'a:runtime=./old': only heads have names, and none is called base"),
        (["--claims-head=base:runtime=./old"],
         "--claims-head: 'base:runtime=./old': only heads have names, and none is called base"),
        ([f"--claims-head={'n' * 101}:runtime=./new"],
         f"--claims-head: '{'n' * 40}'…: a head's name has at most 100 characters"),
        (["--claims-head=runtime=./old", "--claims-head=runtime=./new"],
         "--claims-head: runtime is given twice for head"),
        (["--claims-head=runtime=./new", "--container-runtime=runc"],
         "--container-runtime: the sides name the runtime: leave it out beside --claims-head runtime=…"),
        (["--claims-head=env.A=1", "--vperf-on=lab:kvm"],
         "--claims-head: env.A is of this machine, and --vperf-on starts targets on another one: run pytest there"),
        (["--claims-head=kernel=./text"],
         "--claims-head: kernel: guest kernel HERE/text: not a Linux kernel for x86 (no boot header at offset "
         "0x202); give a bzImage, usually named vmlinuz-*"),
        (["--claims-head=image=./none.tar"], "--claims-head: image: HERE/none.tar does not exist"),
        (["--claims-head=qemu=./text"], "--claims-head: qemu: HERE/text is no program: chmod +x HERE/text"),
        (["--claims-head=engine=here"],
         "--claims-head: engine: 'here' is no address such as unix:///run/docker.sock or ssh://HOST"),
    ],
)  # fmt: skip
def test_a_side_that_is_not_understood_is_refused(
    project: pytest.Pytester, programs: object, options: list[str], message: str
) -> None:
    assert refusal(project, *options) == message


def test_two_equal_sides_are_refused(project: pytest.Pytester, programs: object) -> None:
    text = refusal(project, "--claims-base=runtime=./old", "--claims-head=runtime=copy")
    first, _, digest = text.partition(", sha256 ")
    assert first == "both sides are the same bytes: base (runtime=HERE/old"
    assert digest[12:].replace(digest[:12], "SUM") == (
        ") and head (runtime=HERE/copy, sha256 SUM); to compare them all the same: --same-on-purpose"
    )
    assert refusal(project, "--claims-base=env.A=1", "--claims-head=env.A=1") == (
        "both sides are the same bytes: base (env.A=1) and head (env.A=1); to compare them all the same: "
        "--same-on-purpose"
    )


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--claims-head=runtime=sh"], "base (runtime=SH, sha256 SUM) and head (runtime=SH, sha256 SUM)"),
        (["--claims-base=env.A=1", "--claims-head=runtime=sh"],
         "base (env.A=1, runtime=SH, sha256 SUM) and head (env.A=1, runtime=SH, sha256 SUM)"),
        (["--claims-head=env.A=1"], "base (env.A=1) and head (env.A=1)"),
        (["--claims-head=env.NONE=", "--claims-head=env.A=1"], None),
        (["--claims-head=image=app:1", "--container-image=app:1"],
         "base (image=app:1) and head (image=app:1)"),
        (["--claims-head=image=app:1"], None),
        (["--claims-head=engine=unix:///here/docker.sock"],
         "base (engine=unix:///here/docker.sock) and head (engine=unix:///here/docker.sock)"),
    ],
)  # fmt: skip
def test_a_side_that_names_nothing_has_what_is_usual(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, options: list[str], text: str | None
) -> None:
    monkeypatch.setenv("A", "1")
    monkeypatch.setenv("DOCKER_HOST", "unix:///here/docker.sock")
    if text is None:
        project.makepyfile("def test_it(): pass")
        project.runpytest(*options).assert_outcomes(passed=1)
        return
    said = re.sub("sha256 [0-9a-f]{12}", "sha256 SUM", refusal(project, *options))
    said = re.sub(r"runtime=\S*/sh\b", "runtime=SH", said)
    assert (
        said
        == f"both sides are the same bytes: {text}; to compare them all the same: --same-on-purpose"
    )


def test_equal_programs_with_other_arguments_are_two_sides(
    project: pytest.Pytester, programs: object
) -> None:
    project.makepyfile("def test_it(): pass")
    options = ["--claims-base=runtime=./old --quiet", "--claims-head=runtime=./copy --loud"]
    project.runpytest(*options).assert_outcomes(passed=1)
    same = ["--claims-base=env.A=1", "--claims-head=env.A=1", "--same-on-purpose"]
    project.runpytest(*same).assert_outcomes(passed=1)


def test_a_collection_calls_no_program(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = project.path / "runc"
    program.write_text("#!/bin/sh\necho called >> $0.log\necho runc version 1.2\n")
    program.chmod(0o755)
    project.makepyfile("def test_it(claim): pass")
    result = project.runpytest("--claims-head=runtime=./runc", "--collect-only")
    result.stdout.fnmatch_lines([f"*head: runtime={program} (sha256 *)"])
    assert not (project.path / "runc.log").exists()
    result = project.runpytest("--claims-head=runtime=./runc")
    result.stdout.fnmatch_lines([f"*head: runtime={program} (runc version 1.2, sha256 *)"])


def test_sides_of_the_ini_file_are_seen_from_its_folder(
    project: pytest.Pytester, programs: object
) -> None:
    project.makeini("[pytest]\nclaims_base = runtime=./old\nclaims_head = 'runtime=new --loud'\n")
    below = project.mkdir("below")
    (below / "test_it.py").write_text("def test_it(claim): pass")
    result = project.runpytest("below", "--collect-only")
    assert result.ret == 0
    result.stdout.fnmatch_lines([f"*base: runtime={project.path}/old (sha256 *"])
    result.stdout.fnmatch_lines([f"*head: runtime={project.path}/new --loud (sha256 *"])


# What is shown.


def test_the_first_line_of_the_summary_is_the_answer(project: pytest.Pytester) -> None:
    test = """
from samplers import missing
def test_slower(claim): claim("a.slower").holds(level())
def test_same(claim): claim("a.same").holds(around(100))
def test_signed(claim): claim("a.signed").holds(given(0.0, signed=True))
def test_missing(claim): claim("a.missing").holds(missing)
@pytest.mark.vperf(pairs=9)
def test_near(claim):
    noise = itertools.cycle([1, 1.1, 0.9, 1.2, 0.8, 1.05, 0.97])
    claim("a.near").holds(lambda: Quantity(float(os.environ["LEVEL"]) * next(noise), "ms"))
"""
    result = play(project, test, *SIDES)
    lines = result.outlines
    at = next(k for k, line in enumerate(lines) if line.startswith("=") and " claims " in line)
    assert re.fullmatch(
        r"gate: 1 slower, 1 not slower \(within 5 %\), 1 undecided: needs about [1-9]0+ pairs more, "
        "1 not comparable, 1 not measured",
        lines[at + 1],
    )
    rows = [line.split()[:2] for line in lines[at + 2 :] if " a." in line]
    assert ["slower", "a.slower"] in rows


def test_other_metrics_are_worse_and_not_slower(project: pytest.Pytester) -> None:
    result = play(project, ONE.format("mine.own", "'MiB', direction='lower'"), *SIDES)
    result.stdout.fnmatch_lines(
        ["mine.own is worse on head than on base: +19.* %*", "gate: 1 worse", "worse *mine.own *"]
    )


def test_a_worse_head_is_shown_with_both_sides(project: pytest.Pytester) -> None:
    test = """
def test_it(claim):
    noise = itertools.cycle([0, 3, -1, 2, -2, 1])
    def start():
        value = float(os.environ["LEVEL"]) + next(noise) / 10
        return Quantity(value, "ms", (("create", 50), ("start", value - 50)))
    claim("mine.start").holds(start)
"""
    result = play(project, test, *SIDES)
    result.stdout.re_match_lines(
        [
            r"mine\.start is slower on head than on base: \+(19|20)(\.\d+)? % \[.*\]$",
            r"  claim    mine\.start$",
            r"  base     median 100(\.\d+)? ms \[.*\], \d+ samples$",
            r"  head     median 120(\.\d+)? ms \[.*\], \d+ samples$",
            r"  change   \+(19|20)(\.\d+)? % \[.*\] at 9\d(\.\d+)? % confidence; tolerated: 5 %$",
            r"  phases   create \+0 ms, start \+20(\.\d+)? ms$",
            r"  pairs    \d+, in 0 s$",
            r"  base's   99\.8 ├[●•·─]{2}─{38}┤ 120\.3 ms$",
            r"  head's   99\.8 ├─{38}[●•·─]{2}┤ 120\.3 ms$",
            r"  ratios   1\.05 ├┊─+[●•·─]+┤ 1\.2\d*$",
        ],
        consecutive=True,
    )
    result.stdout.re_match_lines(
        [
            r"head +claim +of base +of head +change +pairs +time$",
            r"slower +mine\.start +100(\.\d+)? ms \[.*\] +120(\.\d+)? ms \[.*\] +\+(19|20).* % \[.*\] +\d+ +0 s$",
            r"phases of a start, mean in ms +of +create +start +sum$",
            r"mine\.start +base +50 +50.*",
            r" +head +50 +7\d.*",
            r" +change +\+0 +\+\d.*",
        ]
    )


def test_what_is_judged_on_head_says_so(project: pytest.Pytester) -> None:
    test = ONE.format("start.quick", "") + "\ndef test_last(): pass"
    options = ("--claims-base=env.LEVEL=400", "--claims-head=env.LEVEL=410", "--claims-sessions=1")
    result = play(project, test, *options)
    result.stdout.fnmatch_lines(
        [
            "start.quick (on head) is refuted: measured 410*",
            "gate: 1 not slower (within 5 %)",
            "not slower   start.quick *",
            "refuted   start.quick (on head)   410*",
        ]
    )


def test_claims_that_the_sides_do_not_reach_are_left_out(project: pytest.Pytester) -> None:
    test = """
def test_pod(claim, pods): raise AssertionError
def test_plain(claim): claim("mine.own").holds(around(100))
"""
    result = play(project, test, "--claims-base=runtime=sh", "--claims-head=runtime=true")
    result.assert_outcomes(deselected=1)
    result.stdout.fnmatch_lines(["claims: 1 test left out, whose targets do not depend on runtime"])
    (record,) = records(project)
    assert (record["verdict"], record["reason"]) == (
        "not comparable",
        "nothing that it samples depends on what the sides differ in: runtime",
    )


NO_WORSE = """
hardware: {name: mine, summary: this, match: {logical_cpus: '>= 1'}}
claims:
  mine.build:
    no_worse: higher_is_better
    judge: {tolerance: 30 %}
"""


def test_a_claim_about_builds_is_judged_in_a_gate_alone(project: pytest.Pytester) -> None:
    (project.path / "thresholds" / "mine.yaml").write_text(NO_WORSE)
    test = ONE.format("mine.build", "'count'")
    result = play(project, test, "--hw=mine")
    (record,) = records(project)
    assert result.ret == pytest.ExitCode.NO_TESTS_COLLECTED
    assert (record["verdict"], record["reason"]) == (
        "not measured",
        "it compares two builds, and no head is named (to mend it: --claims-head KEY=VALUE, such as "
        "runtime=./build/runc)",
    )
    for level, verdict in ((120, "holds"), (80, "holds"), (60, "refuted")):
        sides = ("--claims-base=env.LEVEL=100", f"--claims-head=env.LEVEL={level}")
        play(project, test, "--hw=mine", *sides)
        (record,) = records(project)
        assert (record["verdict"], record["criterion"]) == (
            verdict,
            "no worse by more than 30 %",
        )


def test_the_record_has_what_the_sides_are(project: pytest.Pytester, programs: object) -> None:
    options = ("--claims-base=runtime=./old", "--claims-head=runtime=./new --loud")
    play(project, 'def test_it(claim): claim("mine.own").holds(around(100))', *options)
    sides = json.loads((project.path / "out.json").read_text())["sides"]
    assert {name: list(each) for name, each in sides.items()} == {
        "base": ["runtime"],
        "head": ["runtime"],
    }
    assert sides["head"]["runtime"] == {
        "is": f"{project.path}/new --loud",
        "sha256": sha256((project.path / "new").read_bytes()).hexdigest(),
    }


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ("Path('new').write_text('another')", "runtime of side head has changed since the run began: HERE/new"),
        (
            "Path('new').unlink()",
            "runtime of side head is not what it was when the run began: HERE/new does not exist",
        ),
    ],
)  # fmt: skip
def test_a_file_that_changes_meanwhile_breaks_the_run(
    project: pytest.Pytester, programs: object, change: str, text: str
) -> None:
    test = f"""
from pathlib import Path
def test_it(claim):
    {change}
    claim("mine.own").holds(around(100))
"""
    result = play(project, test, "--claims-base=runtime=./old", "--claims-head=runtime=./new")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stdout.fnmatch_lines([f"ERROR: {text.replace('HERE', str(project.path))}"])
