"""The soak test that kills runs: which rounds it plays, and what counts as left over or lost."""

from __future__ import annotations

import itertools
import math
import os
import subprocess
import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from survives import rounds
from survives.command_line import go_on, table, wrong
from survives.kinds import KINDS, Kind
from survives.machine_state import Machine
from survives.rounds import SIGNALS, Round, left, lost, order

if TYPE_CHECKING:
    from pathlib import Path


class Looked:
    """A machine with given objects."""

    def __init__(self, *lines: str) -> None:
        self.lines = lines

    def look(self) -> frozenset[str]:
        return frozenset(self.lines)


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rounds, "SETTLES", -1.0)


def found(before: set[str], *after: str, runs: tuple[str, ...] = ("01234567",)) -> list[str]:
    machine: Any = Looked(*after)
    return left(frozenset(before), machine, runs)


def test_every_kind_comes_once_before_one_comes_again_and_every_pair_likewise() -> None:
    kinds = ("pod", "disk", "guest")
    played = list(itertools.islice(order(kinds, SIGNALS, 5), 24))
    for start in range(0, 24, 3):
        assert {kind for kind, _ in played[start : start + 3]} == set(kinds)
    pairs = {(kind, each) for kind in kinds for each in SIGNALS}
    assert set(played[:12]) == set(played[12:]) == pairs


def test_a_record_goes_on_with_the_rounds_that_were_not_played() -> None:
    first, again = (list(itertools.islice(order(tuple(KINDS), SIGNALS, 5), 30)) for _ in "12")
    assert first == again


def test_each_kind_is_played_whole_before_it_is_killed_in_new_namespaces(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """What a kind's first run makes for good, such as the folders of a daemon, is gone with the old ones."""
    played = []

    class Playing:
        def whole(self, name: str, kind: Kind) -> tuple[float, str]:
            played.append(f"{name} whole")
            return 7.0, ""

        def play(self, number: int, name: str, kind: Kind, *how: Any) -> Round:
            played.append(f"{number} {name} {how[1]:g}")
            return Round(name, how[0], number, "process", 1.0)

    soak: Any = Playing()
    options = SimpleNamespace(kinds=["pod"], signals=["KILL"], seed=5, rounds=2)
    lines: list[dict[str, Any]] = []
    for _ in "12":
        for each in go_on(soak, options, lines, lines.append, math.inf):
            lines.append(each.record())
    assert played == ["pod whole", "1 pod 7", "2 pod 7", "pod whole", "3 pod 7", "4 pod 7"]
    assert [each["what"] for each in lines] == ["typical", *["round"] * 4]


def test_new_objects_are_left_and_vanished_ones_reported() -> None:
    assert found({"link lo", "mount /a"}, "link lo", "link vp0") == ["link vp0", "gone: mount /a"]


def test_of_what_is_the_machines_only_that_of_the_killed_runs_counts() -> None:
    ours = [
        "cgroup /sys/fs/cgroup/cpu/vperf-01234567",
        "loop loop0 of /var/tmp/r/run-01234567/disk0",
    ]
    others = [
        "cgroup /sys/fs/cgroup/cpu/machine/qemu-1-vperf-89abcdef-1.libvirt-qemu",
        "loop loop1 of /r/run-89abcdef/disk0",
        "loop loop2 of /var/lib/snap.img",
    ]
    assert found(set(), *ours, *others) == ours
    assert found(set(others)) == []
    assert found(set(ours)) == [f"gone: {each}" for each in ours]


def test_files_processes_and_drafts_are_seen_and_whole_entries_are_not(tmp_path: Path) -> None:
    watched, cache = tmp_path / "watched", tmp_path / "cache"
    (cache / "disk").mkdir(parents=True)
    watched.mkdir()
    # Other processes run here, too: only the test's own are compared.
    machine = Machine([watched], cache=cache)
    (cache / "disk/whole").mkdir()
    (cache / "disk/.draft").mkdir()
    (watched / "file").touch()
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        looked = machine.look()
        assert f"file {watched}/file" in looked
        assert f"draft {cache}/disk/.draft" in looked
        assert not any("whole" in line for line in looked)
        assert any(line.startswith(f"process {process.pid} ") for line in looked)
        process.communicate(b"\n")
    assert not any(line.startswith(f"process {process.pid} ") for line in machine.look())


def test_a_held_lock_is_seen(tmp_path: Path) -> None:
    import fcntl

    path = tmp_path / "lock"
    machine = Machine([], cache=tmp_path, locks=[path])
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        assert f"lock {path}" in machine.look()
    finally:
        os.close(descriptor)
    assert f"lock {path}" not in machine.look()


@pytest.mark.parametrize("how", SIGNALS)
def test_an_acknowledged_claim_without_a_record_is_lost(tmp_path: Path, how: str) -> None:
    (tmp_path / "acknowledged").write_text("test_a\ntest_b\n")
    (tmp_path / "out.json").write_text('{"nodeid": "test_it.py::test_a"}')
    played = Round("pod", how, 1, "process", 1.0)
    assert lost(tmp_path, KINDS["pod"], played) == ["claim of test_b"]


@pytest.mark.parametrize(("how", "expected"), [("KILL", []), ("TERM", ["3 samples of test_b"])])
def test_after_a_signal_samples_count_but_for_the_one_in_flight(
    tmp_path: Path, how: str, expected: list[str]
) -> None:
    (tmp_path / "samples").write_text("test_a\n" + "test_b\n" * 3)
    assert lost(tmp_path, KINDS["pod"], Round("pod", how, 1, "process", 1.0)) == expected


def test_a_round_that_came_too_late_is_counted_apart_and_what_was_found_is_wrong() -> None:
    fine = Round("pod", "INT", 1, "process", 1.0, too_late=True)
    leaky = Round(
        "pod",
        "INT",
        2,
        "process",
        1.0,
        samples=7,
        next=["link vp0", "mount /a"],
        clean=["mount /a"],
    )
    assert (wrong(fine), wrong(leaky)) == (False, True)
    head, row, everything = table([fine, leaky])
    assert row.split() == ["pod", "INT", "2", "1", "7", "2", "1", "0", "0", "0.0", "s"]
    assert everything.split() == ["all", "2", "1", "7", "2", "1", "0", "0", "0.0", "s"]
    assert head.split("  ")[0] == "kind"


class Quick:
    """A kind whose first run ends at once."""

    fresh = ()
    command = ("true",)

    def __init__(self) -> None:
        self.commands = iter((["true"], ["sleep", "60"]))

    def lay_out(self, folder: Path) -> None:
        folder.mkdir()

    def words(self, uri: str) -> list[str]:
        return next(self.commands)

    def next_words(self, uri: str) -> list[str]:
        return ["true"]


def test_a_run_that_has_ended_before_is_killed_in_another_try(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    quick: Any = Quick()
    soak = rounds.Soak(tmp_path, tmp_path / "r", [])
    monkeypatch.setattr(soak, "_machine", lambda cache: Looked("link lo"))
    monkeypatch.setattr(soak, "_clean", lambda project, environment: [])
    played = soak.play(1, "quick", quick, "KILL", 20.0, 1)
    assert (played.too_late, played.ended) == (False, -9)
    assert (played.next, played.clean, played.trouble) == ([], [], [])
    assert list(quick.commands) == []


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ("test_one test_two[runc] test_two[runc]", ""),
        ("test_two[runc]", "test_one took no sample: "),
        ("", "test_one took no sample: "),
    ],
)
def test_a_run_without_samples_is_not_played(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, names: str, expected: str
) -> None:
    monkeypatch.setattr(
        Kind, "words", lambda self, uri: ["sh", "-c", f"printf '%s\\n' {names} >samples"]
    )
    monkeypatch.setattr(Kind, "next_words", lambda self, uri: ["true"])
    soak = rounds.Soak(tmp_path, tmp_path / "r", [])
    monkeypatch.setattr(soak, "_clean", lambda project, environment: [])
    kind = Kind("def test_one(judged): ...\n\ndef test_two(judged): ...\n")
    assert soak.whole("pod", kind)[1] == expected


def test_the_claims_of_each_kind_may_take_the_samples_that_a_verdict_needs(
    tmp_path: Path,
) -> None:
    """Without a chance of a verdict a claim takes none, and nothing would be killed while it measures."""
    kind = Kind(
        "import itertools\n"
        "values = itertools.cycle([2.0, 2.1, 1.9, 2.2])\n"
        "def test_it(judged, seconds): judged(lambda: seconds(next(values)))\n"
    )
    project = tmp_path / "project"
    kind.lay_out(project)
    environment = {**os.environ, "VPERF_LOCK": str(tmp_path / "lock")}
    done = subprocess.run(
        kind.words(""), cwd=project, env=environment, capture_output=True, check=False
    )
    assert b"claims: 1 held" in done.stdout, done.stdout.decode()
    assert len((project / "samples").read_text().splitlines()) >= 8
