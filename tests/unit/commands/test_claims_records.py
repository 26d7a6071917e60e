"""``vperf claims`` with records that are broken, foreign, old, or malicious."""

from __future__ import annotations

import json
import os
import re
from html import unescape
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from pytest_vperf.commands.claims.lines import Line, lines
from pytest_vperf.commands.claims.measured import measured
from pytest_vperf.commands.claims.output import kept, print_lines
from pytest_vperf.commands.claims.page import WIDEST, markdown_page
from pytest_vperf.commands.claims.records import NoRecord, RecordError, read, read_all
from pytest_vperf.commands.claims.tests import NamingTest
from pytest_vperf.foreign_text import line, markdown, markdown_code
from pytest_vperf.thresholds.profile import load_profile

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


def claim(name: str = "start.pod", verdict: str = "holds", **more: Any) -> dict[str, Any]:
    hardware = {"profile": "box", "location": "", "matches": True, "mismatches": []}
    return {
        "name": name, "verdict": verdict, "reason": "because", "criterion": "≤ 400 ms",
        "statistic": "median", "unit": "ms", "estimate": 300.0, "interval": [290.0, None], "n": 9,
        "samples": [300.0, 301.0], "target": "pod", "targets": [], "hardware": hardware,
        "nodeid": "test_it.py::test_it[kvm]", "started_at": "2026-11-20T10:00:00+00:00",
        "noise": "not read", **more,
    }  # fmt: skip


def run(*claims: dict[str, Any], **more: Any) -> dict[str, Any]:
    machine = {"cpu_model": "A", "logical_cpus": "2", "memory": "7.9 GiB", "emulated": "no"}
    return {
        "format": 1, "vperf": "0.1.0", "started": "2026-11-20T10:00:00+00:00",
        "profile": {"names": ["box", "any"]}, "fingerprint": machine, "claims": list(claims),
        **more,
    }  # fmt: skip


@pytest.fixture
def of(tmp_path: Path) -> Any:
    """The lines of a profile with two claims, from runs as they are given."""
    thresholds = tmp_path / "box.yaml"
    thresholds.write_text(
        'hardware: {name: box, match: {cpu_model: "A"}}\n'
        "claims: {start.pod: {at_most: 400 ms}, start.other: {at_most: 9 s}}\n"
    )

    def made(*runs: dict[str, Any], tests: Sequence[NamingTest] = ()) -> list[Line]:
        records = []
        for number, each in enumerate(runs):
            path = tmp_path / f"{number}.json"
            path.write_text(json.dumps(each))
            records += [one for found in read(path).runs for one in measured(found)]
        return lines({"box": load_profile(thresholds)}, records, tests)

    return made


def test_the_latest_by_date_counts_and_not_the_last_named(of: Any) -> None:
    new = claim(estimate=200.0, started_at="2026-11-21T23:30:00-03:00")
    old = claim(estimate=100.0, started_at="2026-11-22T01:00:00+00:00")
    first, _ = of(run(new), run(old))
    assert first.last.measured.figures == "200 ms [≥ 290]"


def test_another_machine_and_an_emulated_one_have_verdicts_of_their_own(of: Any) -> None:
    lab = [{"kind": "guest", "name": "guest", "details": {"lab": "kvm", "emulated": "yes"}}]
    other = {"cpu_model": "B", "logical_cpus": "2", "memory": "7.9 GiB", "emulated": "no"}
    kernel = {**run()["fingerprint"], "kernel": "6.18"}
    found = of(
        run(claim()),
        run(claim(targets=lab, verdict="refuted", started_at="2026-11-21T10:00:00+00:00")),
        run(claim(started_at="2026-11-19T10:00:00+00:00"), fingerprint=other),
        run(claim(started_at="2026-11-18T10:00:00+00:00"), fingerprint=kernel),
    )
    told = [(line.last.measured.on, line.last.measured.machine.name) for line in found if line.last]
    assert told == [
        ("pod, lab kvm, emulated", "A, 2 CPUs, 7.9 GiB"),
        ("pod", "A, 2 CPUs, 7.9 GiB"),
        ("pod", "B, 2 CPUs, 7.9 GiB"),
    ]


@pytest.mark.parametrize("verdict", ["holds", "refuted", "inconclusive"])
def test_a_verdict_on_hardware_that_the_figure_is_not_of_is_not_comparable(
    of: Any, verdict: str
) -> None:
    lab = [{"kind": "guest", "name": "guest", "details": {"lab": "kvm", "emulated": "yes"}}]
    differs = {"profile": "box", "matches": False, "mismatches": ["cpu_model is 'B', not 'A'"]}
    own, _ = of(run(claim(verdict=verdict)))
    emulated, _ = of(run(claim(verdict=verdict, targets=lab)))
    foreign, _ = of(run(claim(verdict=verdict, hardware=differs)))
    assert (own.verdict, own.is_judged) == (verdict, True)
    for found, why in (
        (emulated, "an emulated machine's speed says nothing about hardware"),
        (foreign, "the machine is not box"),
    ):
        assert (found.verdict, found.is_judged) == ("not comparable", False)
        assert why in found.why.split("; ")


def test_what_does_not_depend_on_speed_is_judged_on_an_emulated_machine(
    of: Any, tmp_path: Path
) -> None:
    lab = [{"kind": "guest", "name": "guest", "details": {"lab": "kvm", "emulated": "yes"}}]
    box = tmp_path / "box.yaml"
    box.write_text(box.read_text().replace("400 ms}", "400 ms, emulated: it is counted}"))
    line, _ = of(run(claim(targets=lab)))
    assert (line.verdict, line.why) == ("holds", "")


def test_what_could_not_be_measured_stays_so_on_any_hardware(of: Any) -> None:
    lab = [{"kind": "guest", "name": "guest", "details": {"lab": "kvm", "emulated": "yes"}}]
    line, _ = of(run(claim(verdict="not measured", targets=lab)))
    assert (line.verdict, line.why) == ("not measured", "because")


def test_what_a_gate_found_is_about_builds_and_not_about_the_claim(of: Any) -> None:
    first, _ = of(
        run(claim(estimate=300.0)),
        run(claim(estimate=1.2, verdict="refuted", sides={"a": "head", "b": "base"})),
        run(claim(estimate=500.0, verdict="refuted", sides={"a": "head"})),
    )
    assert first.last.measured.claim.verdict == "holds"


def test_a_run_that_could_not_measure_takes_no_verdict_away(of: Any) -> None:
    gone = claim(
        verdict="not measured", reason="no KVM", estimate=None, interval=None, n=0, samples=[],
        hardware={"profile": "", "matches": True, "mismatches": []},
        started_at="2026-11-21T10:00:00+00:00",
    )  # fmt: skip
    first, _ = of(run(gone), run(claim()))
    assert first.last.measured.claim.verdict == "holds"
    assert first.why == "not measured on 2026-11-21: no KVM"
    (first, _) = of(run(gone))
    assert first.why == "no KVM"


def parametrisation(name: str, verdict: str, at: str, **more: Any) -> dict[str, Any]:
    nodeid = f"test_it.py::test_it[{name}]"
    return claim(verdict=verdict, nodeid=nodeid, started_at=f"2026-11-{at}:00:00+00:00", **more)


@pytest.mark.parametrize(
    ("verdicts", "worst"),
    [
        (("refuted", "inconclusive", "holds"), "refuted"),
        (("holds", "inconclusive", "holds"), "inconclusive"),
        (("holds", "holds", "not comparable"), "not comparable"),
    ],
)
def test_of_the_parametrisations_of_a_test_the_worst_counts(
    of: Any, verdicts: tuple[str, str, str], worst: str
) -> None:
    made = [parametrisation(f"p{at}", each, f"20T1{at}") for at, each in enumerate(verdicts)]
    together, _ = of(run(*made))
    apart, _ = of(*(run(each) for each in made))
    assert together.last.measured.claim.verdict == apart.last.measured.claim.verdict == worst
    assert apart.last.note == ""


def test_a_later_run_of_the_same_parametrisation_replaces_its_verdict(
    of: Any, tmp_path: Path
) -> None:
    runs = (
        run(parametrisation("kvm", "refuted", "20T10"), parametrisation("tcg", "holds", "20T11")),
        run(parametrisation("kvm", "holds", "21T10")),
    )
    first, other = of(*runs)
    assert first.last.measured.claim.verdict == "holds"
    # What is kept has both, so that a third run finds them.
    (tmp_path / "kept.json").write_text(kept([first, other]))
    records = [each for found in read(tmp_path / "kept.json").runs for each in measured(found)]
    assert {each.claim.nodeid[-5:] for each in records} == {"[kvm]", "[tcg]"}


def test_a_test_that_the_newest_run_does_not_have_does_not_count(of: Any) -> None:
    renamed = claim(verdict="refuted", nodeid="test_it.py::test_old[kvm]")
    first, _ = of(run(renamed), run(parametrisation("kvm", "holds", "21T10")))
    assert first.last.measured.claim.verdict == "holds"


def test_a_parametrisation_that_could_not_be_measured_is_named_beside_those_that_hold(
    of: Any,
) -> None:
    nothing: dict[str, Any] = {"estimate": None, "interval": None, "n": 0, "reason": "no Xen"}
    first, _ = of(
        run(
            parametrisation("xen", "not measured", "20T10", **nothing),
            parametrisation("kvm", "holds", "20T11"),
        )
    )
    assert first.last.measured.claim.verdict == "holds"
    assert first.why == "not measured on 2026-11-20: no Xen"


def test_a_verdict_without_a_figure_is_not_counted_as_judged(of: Any) -> None:
    ended = claim(verdict="inconclusive", estimate=None, interval=None, n=0, samples=[])
    first, _ = of(run(ended))
    assert (first.verdict, first.is_judged) == ("inconclusive", False)


def test_what_is_too_wide_for_a_cell_is_a_footnote(of: Any, tmp_path: Path) -> None:
    box = tmp_path / "box.yaml"
    box.write_text(
        box.read_text().replace(
            "{at_most: 9 s}",
            f"{{at_most: 9 s, source: {{document: {'d' * 150}, deviations: by us}}}}",
        )
    )
    many = [
        NamingTest(f"test_it.py::test_{number}{'x' * 40}", "start.other") for number in range(4)
    ]
    page = markdown_page(of(tests=many), [], {}, "vperf claims")
    (row,) = (line for line in page.splitlines() if "`start.other`" in line)
    cells = row.strip("| ").split(" | ")
    assert max(map(len, cells)) <= WIDEST
    assert len([cell for cell in cells if cell.startswith("[^")]) == 3
    assert "d" * 150 in page
    assert "test_3xxxx" in page
    assert ": the test differs: by us\n" in page


def test_a_limit_that_has_changed_since_and_a_claim_that_no_file_has_are_said(of: Any) -> None:
    nowhere = claim("gone.claim", hardware={"profile": "old", "matches": True, "mismatches": []})
    first, _, last = of(run(claim(criterion="≤ 500 ms"), nowhere))
    assert first.why == "the limit was ≤ 500 ms then"
    assert (last.profile, last.name, last.limit, last.threshold) == (
        "old", "gone.claim", "≤ 400 ms", None,
    )  # fmt: skip


BAD = {
    "cut off": (json.dumps(run(claim()))[:-200], RecordError, "is not JSON: "),
    "empty": ("", RecordError, "is not JSON: "),
    "digits": ('{"vperf": 1' + "0" * 9000 + "}", RecordError, "is not JSON: "),
    "deep": ("[" * 100_000, NoRecord, "is nested too deeply"),
    "list": ("[]", NoRecord, "is not a record of `pytest --claims-json`"),
    "package": ('{"name": "x", "format": 1}', NoRecord, "is not a record of"),
    "self-check": ('{"format": 1, "vperf": "0.1.0", "metrics": []}', NoRecord, "is not a record"),
    "format": (json.dumps(run(format=2)), RecordError, "has format 2, and this vperf reads 1"),
    "format true": (json.dumps(run(format=True)), RecordError, "has format True"),
    "NaN": (json.dumps(run(claim(estimate=float("nan")))), RecordError, "claims.0.estimate: "),
    "infinite": (
        json.dumps(run(claim(estimate=7))).replace("7,", "1e999,", 1), RecordError, "estimate: ",
    ),
    "great": (
        json.dumps(run(claim(estimate=7))).replace(": 7,", f": 1{'0' * 400},", 1),
        RecordError, "estimate: ",
    ),
    "many": (json.dumps(run(claim(n=10**30))), RecordError, "claims.0.n: "),
    "text": (json.dumps(run(claim(estimate="300"))), RecordError, "claims.0.estimate: "),
    "verdict": (json.dumps(run(claim(verdict="great"))), RecordError, "claims.0.verdict: "),
    "time": (json.dumps(run(claim(started_at="today"))), RecordError, "claims.0.started_at: "),
    "zone": (
        json.dumps(run(claim(started_at="2026-11-20T10:00:00"))), RecordError, "without a time zone",
    ),
    "no name": (json.dumps(run(claim(""))), RecordError, "claims.0.name: "),
    "claims": (json.dumps(run(claims="x")), RecordError, "claims: "),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_unreadable_records_are_named_with_the_reason(tmp_path: Path, name: str) -> None:
    text, kind, says = BAD[name]
    path = tmp_path / "bad.json"
    path.write_text(text)
    with pytest.raises(kind) as error:
        read(path)
    assert str(error.value).startswith(f"{path}: ")
    assert says in str(error.value)
    assert len(str(error.value)) < 1000


TARGET = {"kind": "pod", "name": "pod", "details": {}}
TOO_MANY = {
    "in a claim": (run(claim(targets=[TARGET] * 2001)), "targets: List should have at most 2000"),
    "in all": (run(*[claim(targets=[TARGET] * 2000)] * 101), "more than 200000 targets"),
}


@pytest.mark.parametrize("name", TOO_MANY)
def test_more_targets_than_any_record_has_are_refused(tmp_path: Path, name: str) -> None:
    document, says = TOO_MANY[name]
    head = json.dumps({**document, "claims": []}).removesuffix("]}")
    path = tmp_path / "many.json"
    path.write_text(f"{head}\n" + ",\n".join(map(json.dumps, document["claims"])) + "\n]}\n")
    with pytest.raises(RecordError, match=says):
        read(path)


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.json")
    with pytest.raises(RecordError, match="it is not a regular file"):
        read(tmp_path / "pipe.json")


def test_of_a_folder_the_sound_ones_are_read_and_the_rest_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(json.dumps(run(claim())))
    (tmp_path / "b.json").write_text("{")
    (tmp_path / "c.json").write_text('{"name": "x"}')
    (tmp_path / "d.txt").write_text("no business of ours")
    found = read_all([tmp_path])
    assert len(found.runs) == 1
    assert not found.wrong
    assert [line.partition(": ")[0] for line in (*found.damaged, *found.left_out)] == [
        str(tmp_path / "b.json"),
        str(tmp_path / "c.json"),
    ]
    assert len(read_all([tmp_path / "c.json"]).wrong) == 1


HOSTILE = "a|b`c``<script>alert(1)</script>*x*[y](http://z.example)![i](u)\x1b[31m\n| - |\u202e\\|@all$1$~~~"


@pytest.fixture
def hostile(of: Any) -> list[Line]:
    ours = claim(verdict="refuted", target=HOSTILE, reason=HOSTILE, nodeid=HOSTILE, unit="|<b>`")
    foreign = {"profile": HOSTILE, "matches": True, "mismatches": []}
    theirs = claim(HOSTILE, hardware=foreign, criterion=HOSTILE, reason="\ud800")
    machine = {"cpu_model": HOSTILE, "on": HOSTILE}
    result: list[Line] = of(run(ours, theirs, fingerprint=machine))
    return result


def test_texts_of_records_stay_texts_in_markdown(hostile: list[Line]) -> None:
    text = markdown_page(hostile, [], {}, HOSTILE)
    html = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"]).render(text)
    rows = [row for row in html.split("<tr>") if "<td>" in row]
    assert len(rows) == 3
    # What was judged has its profile beside it.
    assert sorted(row.count("<td>") for row in rows) == [10, 11, 11]
    assert "<script" not in html
    assert "<em>x" not in html
    assert "<a " not in html
    assert "<img" not in html
    assert "<s>" not in html
    assert "alert(1)" in html
    assert html.count("<h2>") == 2
    assert "\x1b" not in text
    assert "\u202e" not in text
    text.encode()


def test_texts_of_records_do_not_reach_the_terminal_as_commands(
    hostile: list[Line], capsys: pytest.CaptureFixture[str]
) -> None:
    print_lines(hostile)
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert "\\x1b[31m" in out.replace("\n", "")
    assert "\u202e" not in out
    out.encode()


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ([], "test_it.py::test_it"),
        ([("test_it.py::test_it", "start.{}")], "test_it.py::test_it"),
        ([("test_new.py::test_it", "start.{}")], "test_new.py::test_it"),
        ([("test_new.py::test_it", "stop.{}")], "test_it.py::test_it"),
    ],
)
def test_a_test_that_was_renamed_since_is_not_the_one_to_look_for(
    of: Any, written: list[tuple[str, str]], shown: str
) -> None:
    first, _ = of(run(claim()), tests=[NamingTest(*each) for each in written])
    assert first.tests == (shown,)


@given(st.text(max_size=40) | st.text(alphabet="`*_[](){}<>|&~$#!\\\\@:/.-+=1a w", max_size=30))
def test_any_text_shows_as_it_is_written(text: str) -> None:
    """A rendered cell has the same text, both plain and in a fixed font."""
    shown = line(text)
    table = f"| a | b |\n| --- | --- |\n| x{markdown(shown)}x | {markdown_code(f'x{shown}x')} |\n"
    html = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"]).render(table)
    cells = re.findall(r"<td>(.*?)</td>", html.replace("<span>", "").replace("</span>", ""))
    first, second = (unescape(cell) for cell in cells)
    assert first == f"x{shown}x"
    assert second == f"<code>x{shown}x</code>"
