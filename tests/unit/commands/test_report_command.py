"""``vperf report``: the page of runs that are over, from their records."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest
from fillings import filling
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from reported_runs import claim, compared, everything, limited

from pytest_vperf.cli import main
from pytest_vperf.results.run import RunRecord

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_vperf.results.record import ClaimRecord

MACHINE = {"cpu_model": "One", "logical_cpus": "2", "memory": "24 GiB"}


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def record(
    path: Path, *claims: ClaimRecord, day: int = 1, finished: bool = True, **more: Any
) -> Path:
    values: dict[str, Any] = {
        "profile": {
            "asked": "auto",
            "named": "",
            "names": ["any"],
            "matches": True,
            "mismatches": [],
        },
        "fingerprint": MACHINE,
        "asked": {"command": "pytest -m startup", "options": ["--hw=any"]},
        "result": {"word": "refuted", "exit_status": 1, "level": "refuted"} if finished else None,
        **more,
    }
    run = RunRecord(path, started=f"2026-01-{day:02}T10:00:00.000+00:00", **values)
    run.extend(claims)
    run.fillings_changed()
    if finished:
        run.finish()
    return path


def report(*words: object) -> int:
    try:
        return main(["report", *map(str, words)])
    except SystemExit as ended:
        return int(ended.code or 0)


def data(page: str, name: str) -> dict[str, Any]:
    place = re.search(rf'id="claim-{re.escape(name)}"[^>]* data-of="(\d+)"', page)
    assert place is not None
    block = re.search(rf'id="data-{place[1]}">(.*?)</script>', page)
    assert block is not None
    found: dict[str, Any] = json.loads(block[1])
    return found


def test_a_record_becomes_a_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    filled = filling()
    path = record(
        tmp_path / "r.json",
        limited("startup.a", "refuted", 520, 400),
        claim("cpu.b"),
        fillings=[filled],
    )
    assert report(path, "-o", "out.html") == 0
    assert capsys.readouterr().out == "report: claims: 1 held, 1 refuted: out.html\n"
    page = (tmp_path / "out.html").read_text()
    assert "<code>pytest -m startup</code>" in page
    assert "ended: refuted, exit status 1" in page
    found = data(page, "startup.a")
    assert len(found["samples"]) == 30
    assert found["again"].endswith(" --hw=any")
    assert '"name": "pod tcg qboot"' in page.partition('id="shared"')[2]


def test_a_gate_has_its_answer(tmp_path: Path) -> None:
    path = record(
        tmp_path / "r.json", compared("start.a", "refuted", 1.2), compared("start.b", "holds", 1.0)
    )
    assert report(path, "-o", "out.html") == 0
    assert (
        "<title>gate: 1 slower, 1 not slower (within 5 %)</title>"
        in (tmp_path / "out.html").read_text()
    )


def test_several_records_are_one_page_with_a_history(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def level(day: int) -> float:
        return (300 if day < 13 else 345) + day % 3

    paths = [
        record(
            tmp_path / f"r{day}.json",
            limited("startup.a", "holds", level(day), 400),
            day=day,
        )
        for day in range(2, 25)
    ]
    paths.append(
        record(
            tmp_path / "r1.json",
            limited("startup.a", "holds", level(1), 400),
            claim("cpu.only"),
            day=1,
        )
    )
    other = record(
        tmp_path / "other.json",
        claim("disk.x"),
        day=28,
        fingerprint={**MACHINE, "cpu_model": "Two"},
    )
    assert report(*paths, "-o", "out.html") == 0
    page = (tmp_path / "out.html").read_text()
    assert "claims: 2 held" in page  # that of the newest, and one that only the oldest has
    past = data(page, "startup.a")["past"]
    assert [value for _, _, value in past["runs"]] == [level(day) for day in range(1, 25)]
    assert past["changes"] == [{"first": 12, "word": "changed"}]
    assert "2026-01-23 10:00" in page
    assert report(other, paths[0], "-o", "out.html") == 0
    assert (
        "vperf report: left out: 1 of the records, which are of other machines"
        in capsys.readouterr().err
    )


def test_a_run_that_did_not_finish_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = record(
        tmp_path / "r.json",
        limited("startup.a", "holds", 300, 400),
        finished=False,
        fillings=[filling()],
    )
    assert report(path, "-o", "out.html") == 0
    page = (tmp_path / "out.html").read_text()
    assert "<title>claims: 1 held; the run did not finish</title>" in page
    assert '"count": 27' in page
    assert "the run did not finish: its journal has 1 claim" in capsys.readouterr().err


def test_a_record_of_an_earlier_version_is_read(tmp_path: Path) -> None:
    path = record(tmp_path / "r.json", limited("startup.a", "holds", 300, 400))
    document = json.loads(path.read_text())
    del document["asked"], document["fillings"]
    for key in ("forecast", "baseline", "better", "arms", "sides"):
        del document["claims"][0][key]
    path.write_text(json.dumps(document))
    assert report(path, "-o", "out.html") == 0


@pytest.mark.parametrize(
    ("key", "value", "told"),
    [
        ("verdict", "fine", "claims.0: is without a name or a verdict"),
        ("samples", ["a"], "claims.0.samples.0: Input should be a valid number"),
        ("observations", [{"order": 1}], "claims.0.observations.0.session: Field required"),
        ("noise", 3, "claims.0.noise: Input should be an object"),
    ],
)
def test_a_damaged_record_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], key: str, value: object, told: str
) -> None:
    path = record(tmp_path / "r.json", limited("startup.a", "holds", 300, 400))
    document = json.loads(path.read_text())
    document["claims"][0][key] = value
    path.write_text(json.dumps(document))
    assert report(path, "-o", "out.html") == 2
    assert f"vperf report: {path}: {told}" in capsys.readouterr().err
    assert not (tmp_path / "out.html").exists()


def test_what_is_no_record_and_what_cannot_be_written_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert report("none.json", "-o", "out.html") == 2
    assert (
        "vperf report: none.json: cannot be read: there is no such file" in capsys.readouterr().err
    )
    assert report("-o", "out.html") == 2
    assert "name a RECORD: the project has no ini setting claims_json" in capsys.readouterr().err
    path = record(tmp_path / "r.json", claim("a.b"))
    assert report(path, "-o", "there/out.html") == 1
    assert "vperf report: there/out.html: No such file or directory" in capsys.readouterr().err


def test_the_projects_own_record_is_the_usual_one(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\nclaims_json = r.json\n")
    record(tmp_path / "r.json", claim("a.b"))
    assert report("-o", "out.html") == 0


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=9),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=6,
)


def places(value: Any, so_far: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Where something is in a document, at any depth."""
    inner = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    return [so_far, *(place for key, own in inner for place in places(own, (*so_far, key)))]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(chosen=st.data())
def test_no_damage_ends_in_a_traceback(tmp_path: Path, chosen: st.DataObject) -> None:
    run = everything()
    few = [
        {**each, "observations": each["observations"][:4], "targets": []} for each in run.claims[:8]
    ]
    path = record(tmp_path / "r.json", *few, fillings=list(run.fillings), sides=run.sides)  # type: ignore[arg-type]
    document = json.loads(path.read_text())
    place = chosen.draw(st.sampled_from(places(document)[1:]))
    part = document
    for key in place[:-1]:
        part = part[key]
    part[place[-1]] = chosen.draw(ANYTHING)
    path.write_text(json.dumps(document))
    assert report(path, "-o", "out.html") in (0, 2)
