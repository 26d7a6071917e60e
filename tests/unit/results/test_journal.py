"""The journal of a run, read after a kill at any point, and records too large to read."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_vperf.results import journal, reading
from pytest_vperf.results.record import ClaimRecord, unmeasured
from pytest_vperf.results.run import RunRecord

ROOT = Path(__file__).parents[3]


def claim(name: str, reason: str = "why") -> ClaimRecord:
    return unmeasured(
        name, reason, target="", nodeid="", started_at="2026-01-01", budget=1.0, seed=0
    )


def names(path: Path) -> tuple[list[str], str]:
    """The names of the claims in a file, and the message about it."""
    found = reading.read(path, lambda head: None, lambda _, text: json.loads(text)["name"])
    assert found.claims is not None
    return found.claims, found.note


def unfinished(path: Path, *claims: str) -> RunRecord:
    """A run with these claims that is still running."""
    run = RunRecord(path)
    run.begin()
    run.extend(claim(name) for name in claims)
    return run


def journal_of(path: Path) -> Path:
    return path.with_name(json.loads(path.read_text())["unfinished"])


def killed(run: RunRecord) -> None:
    """As after a kill: the files stay, and the lock is released."""
    assert run._journal is not None
    run._journal.close()
    run._journal = None


def test_an_unfinished_record_is_read_from_its_journal(tmp_path: Path) -> None:
    path = tmp_path / "out.json"
    run = unfinished(path, "a.b", "a.c")
    for each in (path, journal_of(path)):
        assert names(each) == (
            ["a.b", "a.c"],
            "the run did not finish: its journal has 2 claims",
        )
    (tmp_path / "link").symlink_to(path)
    assert names(tmp_path / "link")[0] == ["a.b", "a.c"]
    run.finish()
    assert names(path) == (["a.b", "a.c"], "")


@given(st.integers(0, 2_000))
def test_a_journal_that_is_cut_off_anywhere_has_all_whole_lines(
    tmp_path_factory: pytest.TempPathFactory, cut: int
) -> None:
    path = tmp_path_factory.mktemp("cut") / "out.json"
    run = unfinished(path, "a.b", "a.c", "a.d")
    whole = journal_of(path).read_bytes()
    killed(run)
    left = whole[: len(whole) - min(cut, len(whole))]
    journal_of(path).write_bytes(left)
    if b"\n" not in left:
        with pytest.raises(reading.RecordProblem):
            names(path)
        return
    found, note = names(path)
    lines = left.splitlines(keepends=True)
    assert len(found) == sum(each.endswith(b"\n") for each in lines[1:])
    assert found == ["a.b", "a.c", "a.d"][: len(found)]
    assert ("its last line is cut off" in note) == (not left.endswith(b"\n"))


@given(st.lists(st.tuples(st.sampled_from("abc"), st.booleans()), max_size=12), st.integers(0, 900))
def test_of_a_claim_that_is_not_over_the_last_whole_line_counts(
    tmp_path_factory: pytest.TempPathFactory, told: list[tuple[str, bool]], cut: int
) -> None:
    """Each of three claims is told of as often as chance has it, and may end in between, and begin again."""
    path = tmp_path_factory.mktemp("begun") / "out.json"
    run = unfinished(path)
    head = journal_of(path).stat().st_size
    for number, (name, over) in enumerate(told):
        (run.add if over else run.begun)(claim(f"a.{name}", f"line {number}"))
    whole = journal_of(path).read_bytes()
    left = whole[: max(head, len(whole) - cut)]
    killed(run)
    ended: list[str] = []
    under_way: dict[str, str] = {}
    for number, (name, ends) in enumerate(told[: left.count(b"\n") - 1]):
        under_way.pop(name, None)
        if ends:
            ended.append(f"line {number}")
        else:
            under_way[name] = f"line {number}"
    journal_of(path).write_bytes(left)
    found = reading.read(path, lambda head: None, lambda _, text: json.loads(text)["reason"])
    assert found.claims is not None
    assert found.claims[: len(ended)] == ended
    assert sorted(found.claims[len(ended) :]) == sorted(under_way.values())
    assert found.note.count(" of them unfinished") == bool(under_way)
    said: list[str] = []
    again = RunRecord(path, tell=said.append)
    again.begin()
    count = len(ended) + len(under_way)
    assert [text.split(" in ")[0] for text in said] == [
        f"a run that was killed left {count} claim{'s' if count > 1 else ''}"
    ] * bool(count)
    killed(again)


def test_lines_that_later_ones_replace_make_no_journal_too_large(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "out.json"
    run = unfinished(path, "a.b")
    monkeypatch.setattr(reading, "MAX_BYTES", 2 * journal_of(path).stat().st_size)
    for number in range(50):
        run.begun(claim("a.c", f"line {number}"))
    found = reading.read(path, lambda head: None, lambda _, text: json.loads(text)["reason"])
    assert found.claims == ["why", "line 49"]
    for name in "defgh":
        run.begun(claim(f"a.{name}"))
    with pytest.raises(reading.RecordProblem, match="is larger than"):
        names(path)
    killed(run)


def test_a_missing_journal_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "out.json"
    killed(unfinished(path, "a.b"))
    beside = journal_of(path)
    beside.unlink()
    with pytest.raises(reading.RecordProblem) as error:
        names(path)
    assert str(error.value) == (
        f"its run did not finish, and its journal {beside} cannot be read: there is no such file"
    )


def test_no_other_file_is_read_as_a_journal(tmp_path: Path) -> None:
    path = tmp_path / "out.json"
    killed(unfinished(path, "a.b"))
    head = json.loads(path.read_text())
    for name in ("../out.json.journal-aaaaaaaaaaaa", "/etc/passwd", "x", 7, "out.json.journal-"):
        path.write_text(json.dumps({**head, "unfinished": name}))
        with pytest.raises(reading.RecordProblem, match="something other than its journal"):
            names(path)


def test_the_next_run_tells_of_what_a_killed_one_left(tmp_path: Path) -> None:
    path = tmp_path / "out.json"
    killed(unfinished(path, "a.b"))
    left, told = journal_of(path), list[str]()
    for _ in range(2):
        run = RunRecord(path, tell=told.append)
        run.begin()
        run.finish()
    assert (
        told
        == [
            f"a run that was killed left 1 claim in {left}: `vperf claims` reads it, and it stays until you remove it"
        ]
        * 2
    )
    assert names(left)[0] == ["a.b"]


def test_nothing_is_told_of_runs_that_live_or_had_nothing_and_their_rests_go(
    tmp_path: Path,
) -> None:
    path, told = tmp_path / "out.json", list[str]()
    killed(unfinished(path))
    empty = journal_of(path)
    draft = tmp_path / journal.draft_name("out.json", empty.name.rpartition("-")[2])
    draft.write_text("half")
    alive = unfinished(path, "a.b")
    lives = journal_of(path)
    RunRecord(path, tell=told.append).begin()
    assert not told
    assert lives.exists()
    assert not empty.exists()
    assert not draft.exists()
    alive.finish()
    assert names(path) == (["a.b"], "")


def test_a_kill_after_the_record_was_written_leaves_nothing_to_tell(tmp_path: Path) -> None:
    path, told = tmp_path / "out.json", list[str]()
    run = unfinished(path, "a.b")
    left = journal_of(path)
    kept = left.read_bytes()
    run.finish()
    left.write_bytes(kept)  # as if it had not been removed any more
    RunRecord(path, tell=told.append).begin()
    assert not told
    assert not left.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to another user")
def test_a_journal_of_somebody_else_is_neither_told_of_nor_removed(tmp_path: Path) -> None:
    path, told = tmp_path / "out.json", list[str]()
    foreign = tmp_path / "out.json.journal-aaaaaaaaaaaa"
    foreign.write_text('{"journal": {}}\n{"claim": {}}\n')
    os.chown(foreign, 65534, 65534)
    os.mkfifo(tmp_path / "out.json.journal-bbbbbbbbbbbb")
    (tmp_path / "out.json.journal-cccccccccccc").symlink_to("/dev/zero")
    RunRecord(path, tell=told.append).begin()
    assert not told
    assert foreign.exists()


def test_one_claim_on_each_line(tmp_path: Path) -> None:
    """A reader needs memory for one claim at a time; line breaks in a text do not split its line."""
    path = tmp_path / "out.json"
    run = unfinished(path, "a.b")
    run.add(claim("a.c", "one\ntwo\u2028three\r"))
    run.finish()
    text = path.read_text()
    assert text.count("\n") == 4
    assert json.loads(text)["claims"][1]["reason"] == "one\ntwo\u2028three\r"


HUGE = {
    "one line": (f"[{'[],' * (15 << 20)}[]]", "has a claim of that size"),
    "many values": (f"[{'1,' * 2_000_001}1]", "more than 2000000 values"),
    "many claims": (
        '{"claims": [\n' + '{"name": ""},\n' * 100_001 + '{"name": ""}\n]}\n',
        "more than 100000 claims",
    ),
    "deep": ('{"vperf": ' + "[" * 100_000, "nested too deeply"),
    "a claim of 33 MiB": (
        '{"claims": [\n{"name": "' + "x" * (33 << 20) + '"}\n]}\n',
        "line too long",
    ),
    "a claim with many values": (
        '{"claims": [\n{"name": "", "x": [' + "1," * 2_000_001 + "1]}\n]}\n",
        "more than 2000000 values",
    ),
}


@pytest.mark.parametrize("name", HUGE)
def test_files_that_are_not_records_are_refused_before_they_fill_the_memory(
    tmp_path: Path, name: str
) -> None:
    text, says = HUGE[name]
    path = tmp_path / "huge.json"
    path.write_text(text)
    assert says in _reading(path, more_memory=300 << 20)


def test_a_record_of_240_mb_is_read_in_little_memory(tmp_path: Path) -> None:
    path = tmp_path / "large.json"
    line = json.dumps({"name": "a.b", "observations": [{"value": 1.5, "parts": {}}] * 20_000})
    count = (240 << 20) // len(line)
    with path.open("w") as stream:
        stream.write('{"format": 1, "claims": [\n')
        for number in range(count):
            stream.write(f"{line}{',' if number < count - 1 else ''}\n")
        stream.write('], "fillings": []}\n')
    assert _reading(path, more_memory=300 << 20) == f"{count} claims"
    with path.open("a") as stream:
        stream.write(" " * (20 << 20))
    assert "is larger than 256 MiB; no record is" in _reading(path, more_memory=300 << 20)


def test_a_hostile_record_of_240_mb_is_refused_in_little_memory(tmp_path: Path) -> None:
    path = tmp_path / "hostile.json"
    with path.open("w") as stream:
        stream.write('{"format": 1, "vperf": "0", "claims": [' + "[]," * 1000)
        for _ in range(80):
            stream.write("[]," * (1 << 20))
    assert "has a claim of that size" in _reading(path, more_memory=300 << 20)


def _reading(path: Path, more_memory: int) -> str:
    """The result of reading a file in a process with this much memory beyond what it has at its start."""
    program = f"""
import pathlib, resource
from pytest_vperf.commands.claims.records import ClaimPart
from pytest_vperf.results import reading
used = int(pathlib.Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + {more_memory}, used + {more_memory}))
try:
    found = reading.read(pathlib.Path({str(path)!r}), lambda head: None, lambda number, text: number)
except reading.RecordProblem as problem:
    print(problem)
else:
    print(f"{{len(found.claims)}} claims")
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_no_kill_loses_a_claim() -> None:
    """The benchmark kills more often; this is as often as a test has time for."""
    command = [sys.executable, str(ROOT / "benchmarks" / "records.py"), "--kills", "60"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    first, last = done.stdout.splitlines()
    assert first.startswith("60 kills in ")
    assert last.endswith(" claims were told of as kept, 0 times one was lost")
    assert int(last.split()[0]) > 0
