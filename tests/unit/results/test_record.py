"""The record of a claim and of a run."""

from __future__ import annotations

import json
import os
import stat
from typing import TYPE_CHECKING, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_vperf.foreign_text import to_json
from pytest_vperf.results.record import (
    ClaimRecord,
    Observation,
    Session,
    from_wire,
    lines_from_wire,
    mean_phases,
    once,
    pair_ratios,
    to_wire,
    unmeasured,
)
from pytest_vperf.results.run import RunRecord, properties

if TYPE_CHECKING:
    from pathlib import Path


def observation(
    value: float,
    arm: Literal["a", "b"] = "a",
    unit: str = "ms",
    warm_up: bool = False,
    **parts: float,
) -> Observation:
    return Observation(
        order=0,
        session=1,
        at=0.0,
        arm=arm,
        value=value,
        unit=unit,
        warm_up=warm_up,
        parts=parts,
        beside={},
    )


def record(name: str = "a.b", **changes: object) -> ClaimRecord:
    base = unmeasured(
        name, "no pod", target="pod kvm", nodeid="t.py::t", started_at="now", budget=60, seed=1
    )
    base.update(changes)  # type: ignore[typeddict-item]
    return base


def test_pair_ratios_leave_out_warm_up_and_the_arm_without_its_twin() -> None:
    observations = [
        observation(100, "a", warm_up=True),
        observation(1, "b", warm_up=True),
        observation(6, "b"),
        observation(3, "a"),
        observation(8, "a"),
        observation(2, "b"),
        observation(5, "a"),
    ]
    assert pair_ratios(observations) == [0.5, 4.0]


def test_phases_are_the_mean_in_milliseconds_of_the_first_arm() -> None:
    observations = [
        observation(9, unit="s", warm_up=True, kernel=9),
        observation(3, unit="s", firmware=1, kernel=2),
        observation(5, unit="s", firmware=1, kernel=4),
        observation(5, "b", unit="s", kernel=5),
    ]
    assert mean_phases(observations) == {"firmware": 1000, "kernel": 3000}


def test_parts_other_than_times_are_not_phases() -> None:
    assert mean_phases([observation(3, unit="MB", read=1, write=2)]) == {}


@given(st.lists(st.floats(1, 1e6), min_size=1, max_size=20))
def test_phases_add_up_to_the_mean(values: list[float]) -> None:
    observations = [observation(value, one=value / 4, two=value * 3 / 4) for value in values]
    assert sum(mean_phases(observations).values()) == pytest.approx(sum(values) / len(values))


def test_junit_properties_leave_out_what_is_not_known() -> None:
    assert dict(properties(record())) == {
        "vperf.a.b.verdict": "not measured",
        "vperf.a.b.reason": "no pod",
        "vperf.a.b.criterion": "none",
        "vperf.a.b.samples": 0,
        "vperf.a.b.target": "pod kvm",
    }


def test_junit_properties_name_the_cause_and_count_the_sessions() -> None:
    session = Session(n=1, started_at="now", began_at_s=0.0, duration_s=0.5, samples=9)
    found = dict(properties(record(cause="budget", sessions=[session, session])))
    assert found["vperf.a.b.cause"] == "budget"
    assert found["vperf.a.b.sessions"] == 2


@pytest.mark.parametrize(
    ("interval", "ends"),
    [
        ([0.98, 1.02], {"low": 0.98, "high": 1.02}),
        ([None, 1.02], {"high": 1.02}),
        ([0.98, None], {"low": 0.98}),
        (None, {}),
    ],
)
def test_junit_properties_have_the_ends_of_the_interval_that_are_known(
    interval: list[float | None] | None, ends: dict[str, float]
) -> None:
    found = dict(properties(record(interval=interval)))
    known = {end: found.get(f"vperf.a.b.{end}") for end in ("low", "high")}
    assert {end: value for end, value in known.items() if value is not None} == ends


def test_every_claim_is_in_the_journal_at_once_and_in_the_file_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "out.json"
    run = RunRecord(path)
    for count in (1, 2):
        run.add(record(f"claim.{count}"))
        unfinished = json.loads(path.read_text())
        assert (unfinished["format"], unfinished["claims"]) == (1, [])
        journal = tmp_path / unfinished["unfinished"]
        kept = [json.loads(line) for line in journal.read_text().splitlines()]
        names = [each["claim"]["name"] for each in kept if "claim" in each]
        assert names == ["claim.1", "claim.2"][:count]
        assert stat.S_IMODE(journal.stat().st_mode) == 0o600
    run.finish()
    document = json.loads(path.read_text())
    assert document["unfinished"] == ""
    assert [each["name"] for each in document["claims"]] == ["claim.1", "claim.2"]
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("changes", "says", "verdict", "samples"),
    [
        ({"samples": [1.0, float("nan")]}, "samples.1 is nan", "inconclusive", [1.0]),
        ({"gap_percent": float("inf")}, "gap_percent is inf", "inconclusive", []),
        (
            {"plan": {"tolerance": {1, 2}}},
            "plan.tolerance: Object of type set is not JSON serializable",
            "inconclusive",
            [],
        ),
        ({"gap": float("inf"), "verdict": "refuted"}, "gap is inf", "refuted", []),
        ({"gap": float("inf"), "verdict": "not measured"}, "gap is inf", "not measured", []),
    ],
)
def test_a_record_that_json_refuses_becomes_an_error_record_and_the_rest_goes_on(
    tmp_path: Path, changes: dict[str, object], says: str, verdict: str, samples: list[float]
) -> None:
    path = tmp_path / "out.json"
    run = RunRecord(path)
    kept = run.add(record("claim.bad", **{"verdict": "holds", "reason": "why", **changes}))
    run.add(record("claim.good"))
    run.finish()
    bad, good = json.loads(path.read_text())["claims"]
    assert (bad, good["name"]) == (kept, "claim.good")
    assert (bad["name"], bad["verdict"], bad["samples"]) == ("claim.bad", verdict, samples)
    error = f"error: the record cannot be written whole: {says}"
    assert bad["reason"] == (f"why; {error}" if verdict == "refuted" else error)
    assert bad["warnings"] == [error.removeprefix("error: ")]


def test_a_value_that_contains_itself_is_refused(tmp_path: Path) -> None:
    plan: dict[str, object] = {}
    plan["plan"] = plan
    kept = RunRecord(tmp_path / "out.json").add(record(plan=plan))
    assert kept["plan"] == {}
    assert "Circular reference detected" in kept["reason"]


def test_a_link_stays_a_link_and_keeps_the_mode(tmp_path: Path) -> None:
    real = tmp_path / "real.json"
    real.write_text("")
    real.chmod(0o640)
    link = tmp_path / "link.json"
    link.symlink_to(real)
    run = RunRecord(link)
    run.begin()
    run.finish()
    assert link.is_symlink()
    assert json.loads(real.read_text())["claims"] == []
    assert stat.S_IMODE(real.stat().st_mode) == 0o640


def test_a_new_file_has_the_mode_of_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        run = RunRecord(tmp_path / "out.json")
        run.begin()
        run.finish()
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "out.json").stat().st_mode) == 0o640


def test_half_a_surrogate_pair_does_not_keep_the_file_from_being_written(tmp_path: Path) -> None:
    run = RunRecord(tmp_path / "out.json")
    run.add(record(reason="no file caf\udce9"))
    run.add(record(reason="größer"))
    run.finish()
    first, second = json.loads(run.path.read_bytes())["claims"]  # type: ignore[union-attr]
    assert (first["reason"], second["reason"]) == ("no file caf\udce9", "größer")


JSON = st.recursive(
    st.none() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=2), inner),
    max_leaves=20,
)
OBJECTS = st.dictionaries(st.sampled_from(["a", "b", "c"]), JSON)


@given(OBJECTS, OBJECTS)
def test_what_is_held_once_is_what_it_was(
    value: dict[str, object], last: dict[str, object]
) -> None:
    text = json.dumps(value)
    found = once(value, last)
    assert found == value
    assert json.dumps(found) == text
    for key in found.keys() & last.keys():
        if found[key] == last[key] and isinstance(found[key], (dict, list)):
            assert found[key] is last[key]


def test_records_of_a_machine_share_what_they_say_alike(tmp_path: Path) -> None:
    run = RunRecord(tmp_path / "out.json", machines={"h1": {"type": "a"}, "h2": {"type": "a"}})
    for number in range(6):
        own = unmeasured(
            f"claim.{number}",
            "no pod here",
            target="",
            nodeid="t.py::t",
            started_at="now",
            budget=60,
            seed=1,
            machine={"name": f"h{1 + number % 2}", "cpu_model": "One"},
        )
        run.add(json.loads(json.dumps(own)))
    run.finish()
    claims = run.claims
    assert claims[2]["machine"] is claims[0]["machine"]
    assert claims[3]["machine"] is claims[1]["machine"]
    assert claims[5]["hardware"] is claims[1]["hardware"]
    assert json.loads((tmp_path / "out.json").read_text())["claims"] == claims
    assert [each["name"] for each in claims] == [f"claim.{number}" for number in range(6)]
    of_h2 = run.of_machines()[1].claims
    assert [each["name"] for each in of_h2] == ["claim.1", "claim.3", "claim.5"]


_TEXTS = st.text(st.characters(exclude_categories=()), max_size=3)
_FLOATS = st.floats(allow_nan=False, allow_infinity=False)


@given(st.lists(st.dictionaries(_TEXTS, JSON | _TEXTS | _FLOATS, max_size=3), max_size=3))
def test_records_arrive_as_they_were_with_their_lines(sent: list[dict[str, Any]]) -> None:
    wire = to_wire(sent)
    wire.encode()  # pytest-xdist sends UTF-8
    assert from_wire(wire) == sent
    assert lines_from_wire(wire) == [(each, to_json(each)) for each in sent]


@pytest.mark.parametrize(
    "text",
    [
        '[{"reason": NaN}]',
        '[{"reason": -Infinity}, {"name": "b"}]',
        '[{"reason":\n"it"}]',
        '[\n{"reason": "it"},\n{"name": "b"}\n]',
        '[{"name": "a\x7f"}]',
        json.dumps([{"name": "a"}, {"name": ["b", {}]}], indent=2),
        '[{}, {"name": [{},\n{}]}]',
        "[]",
        " [ ] ",
    ],
)
def test_a_text_that_is_not_ours_has_no_lines(text: str) -> None:
    found = lines_from_wire(text)
    assert str([each for each, _ in found]) == str(json.loads(text))
    assert not any(line for _, line in found)


def test_a_record_in_pieces_does_not_break_the_file(tmp_path: Path) -> None:
    path = tmp_path / "out.json"
    run = RunRecord(path)
    run.begin()
    run.take(json.dumps([record(), record("c.d")], indent=1))
    run.take(to_wire([record("e.f")]))
    journal = run.journal_path
    lines = (tmp_path / journal).read_text().splitlines()
    assert len([json.loads(each) for each in lines]) == 4
    run.finish()
    found = json.loads(path.read_text())["claims"]
    assert [each["name"] for each in found] == ["a.b", "c.d", "e.f"]
