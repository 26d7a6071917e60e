"""What is said below the table of claims: once for each reason and each kind of note, and in lines that fit."""

from __future__ import annotations

import json
import re

import pytest
from terminals import on_a_terminal

MISSING = """
    import pytest
    from samplers import around, missing

    @pytest.mark.parametrize("name", [f"start.pod_{letter}" for letter in "abcde"])
    def test_missing(claim, name): claim(name).holds(missing)

    @pytest.mark.parametrize("name", ["start.one", "start.two"])
    def test_unknown(claim, name): claim(name).holds(around(50))
"""
NOTED = """
    import pytest
    from samplers import around

    @pytest.mark.parametrize("centre", [100, 110, 120])
    def test_better(claim, centre): claim("start.quick").holds(around(centre))
"""
LONG = "start.pod_with_a_long_name.on_a_machine.with_a_kernel.version_6_1.firmware_qboot"
REASON = "no such machine here (to mend it: buy one)"
APART = "a longer run, with more tests, spreads them further"
BETTER = "better than claimed by more than 25%: "
RENEW = "tighten the limit in here.yaml, or delete it there and run `vperf calibrate --hw=here`"


@pytest.fixture
def project(project: pytest.Pytester) -> pytest.Pytester:
    """The project, with more claims."""
    limit = "    at_most: 400 ms\n"
    for file, names in (
        ("here.yaml", [*(f"start.pod_{letter}" for letter in "abcde"), LONG]),
        ("lab.yaml", ["start.one", "start.two"]),
    ):
        with (project.path / "thresholds" / file).open("a") as stream:
            stream.writelines(f"  {name}:\n{limit}" for name in names)
    return project


def said(result: pytest.RunResult) -> list[str]:
    """The lines below the table of claims, up to the next blank line, without alignment."""
    text = result.stdout.str().partition("= claims =")[2]
    return [re.sub("  +", "  ", line) for line in text.split("\n\n")[1].splitlines()]


def test_a_reason_is_said_once_for_all_its_claims(project: pytest.Pytester) -> None:
    project.makepyfile(MISSING)
    assert said(project.runpytest()) == [
        "not comparable (2 claims):  no threshold for NAME on this hardware (profiles: here, any); "
        "lab has one: start.one, start.two",
        f"not measured (5 claims):  {REASON}: start.pod_a, start.pod_b, start.pod_c, and 2 more",
    ]


def test_verbose_names_all_the_claims(project: pytest.Pytester) -> None:
    project.makepyfile(MISSING)
    every = ", ".join(f"start.pod_{letter}" for letter in "abcde")
    assert said(project.runpytest("-v"))[-1] == f"not measured (5 claims):  {REASON}: {every}"


def test_a_reason_of_one_claim_has_its_name(project: pytest.Pytester) -> None:
    project.makepyfile(MISSING)
    assert said(project.runpytest("-k", "pod_a or two")) == [
        "start.two:  no threshold for start.two on this hardware (profiles: here, any); lab has one",
        f"start.pod_a:  {REASON}",
    ]


def test_a_kind_of_note_is_said_once(project: pytest.Pytester) -> None:
    project.makepyfile(NOTED)
    assert said(project.runpytest("--claims-json=out.json")) == [
        f"3 claims:  sessions less than 60 s apart, which is weaker: {APART}; `-v` names them",
        f"3 claims:  {BETTER}{RENEW}; `-v` names them",
    ]
    assert said(project.runpytest("-v"))[1] == f"3 claims:  {BETTER}{RENEW}: start.quick"
    # The record has the whole text for each claim.
    for record in json.loads((project.path / "out.json").read_text())["claims"]:
        apart, better = record["warnings"]
        assert re.fullmatch(
            rf"sessions less than 60 s apart, which is weaker: [\d.]+ m?s: {APART}", apart
        )
        assert better == f"{BETTER}{record['hardware']['location']}: {RENEW}"


CALIBRATED = """
hardware: {name: here, match: {logical_cpus: ">= 1"}}
claims:
  start.calibrated:
    at_most: 400 ms
    source:
      calibrated:
        date: "2026-11-22"
        figures: [380 ms, 381 ms, 382 ms]
        samples: [24, 24, 24]
        spread: 0.9 %
        margin: 5 %
        confidence: 99 %
        next_runs: 20
        vperf: "0.1.0"
        machine: {cpu_model: x}
"""


def test_a_calibrated_limit_is_renewed_by_a_calibration(project: pytest.Pytester) -> None:
    claims = project.path / "thresholds"
    (claims / "here.calibrated.yaml").write_text(CALIBRATED)
    project.makepyfile(
        """
        from samplers import around
        def test_it(claim): claim("start.calibrated").holds(around(100))
        """
    )
    project.runpytest("--claims-json=out.json")
    (record,) = json.loads((project.path / "out.json").read_text())["claims"]
    assert record["warnings"][-1].endswith(
        "/here.calibrated.yaml:4: renew it with `vperf calibrate --hw=here`"
    )


SUITE = f"""
    from samplers import around, missing
    def test_refuted(claim): claim("start.quick").holds(around(450))
    def test_missing(claim): claim("{LONG}").holds(missing)
"""


def test_a_pipe_has_each_row_on_one_line(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    project.makepyfile(SUITE)
    result = project.runpytest()
    row = rf"not measured   {re.escape(LONG)} +- +≤ 400 ms +0   pod kvm qboot"
    result.stdout.re_match_lines([row, rf"{re.escape(LONG)}: +{re.escape(REASON)}"])
    assert any(len(line) > 120 for line in result.outlines)


def on_a_plain_terminal(
    project: pytest.Pytester, columns: int, *options: str, **environment: str
) -> list[str]:
    """The lines on a terminal without colours, from the text of the refuted claim on."""
    text = on_a_terminal(project, options, columns, NO_COLOR="1", **environment)
    lines = text.replace("\r", "").splitlines()
    return [*lines[next(k for k, line in enumerate(lines) if "is refuted: " in line) :]]


@pytest.mark.parametrize(("columns", "wanted"), [(80, ""), (200, "80")])
def test_a_terminal_has_lines_of_its_width(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, columns: int, wanted: str
) -> None:
    monkeypatch.delenv("COLUMNS")
    project.makepyfile(SUITE)
    lines = on_a_plain_terminal(project, columns, **({"COLUMNS": wanted} if wanted else {}))
    ours = [line for line in lines if not line.startswith(("REFUTED", "="))]
    assert max(map(len, ours)) <= 80
    text = "\n".join(ours)
    # The rows of a refuted claim, the table, and what is said below it keep their indent.
    for part in (
        r"  why       in each of 3 sessions, after \d+ samples in all, the median is shown\n"
        r"            above the threshold\n",
        r"verdict        claim                           measured +limit\n",
        r"not measured   start\.pod_with_a_long_name\.     - +≤ 400 ms\n"
        r"                 on_a_machine\.with_a_kernel\.\n"
        r"                 version_6_1\.firmware_qboot\n"
        r"refuted        start\.quick                     450 ms \[\S+ \S+\]   ≤ 400 ms\n"
        r"no room here for target, n: in the record \(--claims-json=FILE\), and in the text\n"
        r"  of a refuted claim\n",
        r"start\.quick:  in each of 3 sessions, after \d+ samples in all, the median is\n"
        r"              shown above the threshold\n",
    ):
        assert re.search(part, text)


@pytest.mark.parametrize("options", [("-q",), ("-v",), ("-qq",)])
def test_a_narrow_terminal_breaks_no_figure(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...]
) -> None:
    monkeypatch.delenv("COLUMNS")
    project.makepyfile(SUITE)
    lines = on_a_plain_terminal(project, 40, *options)
    shown = [line.strip() for line in lines]
    assert "claims: 1 refuted, 1 not measured" in shown
    if options != ("-qq",):
        for part in ("start.quick", "verdict   refuted", "limit     ≤ 400 ms"):
            assert part in shown
