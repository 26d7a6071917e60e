"""What keeping a run's record costs, and whether a kill at any moment loses a claim of it.

Times whole pytest runs of many claims, with `--claims-json` and without it, as processes on the host's monotonic
clock. Each pair runs in a random order, so that a drift of the machine falls on both. The ratio is the median of the
ratios within the pairs, with the interval of order statistics for it (exact binomial, at least 95 %; of fewer than
six pairs their whole range). Beside it stands that of the processor time of both, which other work on the machine
disturbs less; waiting for the disk is not in it.

    python benchmarks/records.py --claims 1000 --pairs 8
    python benchmarks/records.py --claims 5000 --pairs 2
    python benchmarks/records.py --kills 1000

With `--kills` a process measures nothing and keeps the records of claims as fast as it can, run after run, and tells
of each one that was kept; it is killed (SIGKILL) at a random moment, and what is then in the files is compared with
what it had told of.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import signal
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from alone import interruptible
from interval import median_interval

from pytest_vperf.results import journal, reading
from pytest_vperf.results.record import Observation, unmeasured
from pytest_vperf.results.run import RunRecord

if TYPE_CHECKING:
    from pytest_vperf.results.record import ClaimRecord

LIMIT = 1.2
#: Enough for a kill in each stage of a run of so many claims.
MOST_CLAIMS, SAMPLES, LONGEST = 12, 60, 0.06

THRESHOLDS = """
hardware: {name: any, match: {}}
claims: {start.*: {at_most: 400 ms}}
"""
TESTS = """
import itertools, pytest
from pytest_vperf.quantity import Quantity
noise = itertools.cycle([0, 3, -1, 2, -2, 1])
def sample():
    value = 350 + next(noise) / 3
    return Quantity(value, "ms", (("firmware", value / 4), ("kernel", value * 3 / 4)))
@pytest.mark.parametrize("number", range(%d))
def test_it(claim, number):
    claim(f"start.n{number}").holds(sample)
"""


def main() -> int:
    """Measure, print, and return 1 if the ratio is surely more than `--limit`, or a claim was lost."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--claims", type=int, default=1000, help="of each run (default: 1000)")
    parser.add_argument("--pairs", type=int, default=8, help="pairs to time (default: 8)")
    parser.add_argument("--limit", type=float, default=LIMIT, help="allowed ratio (default: 1.2)")
    parser.add_argument("--kills", type=int, metavar="N", help="kill N times instead")
    parser.add_argument("--folder", type=Path, help="where records go (default: a temporary one)")
    parser.add_argument("--seed", type=int, default=None, help="of the random order and moments")
    arguments = parser.parse_args()
    seed = arguments.seed if arguments.seed is not None else random.randrange(2**32)
    order = random.Random(seed)
    with tempfile.TemporaryDirectory(dir=arguments.folder) as name:
        if arguments.kills:
            return _kills(Path(name), arguments.kills, order, seed)
        return _cost(Path(name), arguments, order, seed)


def _cost(folder: Path, arguments: argparse.Namespace, order: random.Random, seed: int) -> int:
    (folder / "pytest.ini").write_text("[pytest]\n")
    (folder / "thresholds").mkdir()
    (folder / "thresholds" / "any.yaml").write_text(THRESHOLDS)
    (folder / "test_claims.py").write_text(TESTS % arguments.claims)
    times: dict[bool, list[tuple[float, float]]] = {True: [], False: []}
    for _ in range(arguments.pairs):
        for kept in order.sample([True, False], k=2):
            times[kept].append(_time(folder, arguments.claims, kept=kept))
    size = (folder / "out.json").stat().st_size
    print(f"{arguments.claims} claims, {arguments.pairs} pairs, seed {seed}")
    level = "at 95 %" if arguments.pairs >= 6 else "of all pairs"
    verdicts = []
    for number, what in enumerate(("time", "processor time")):
        with_record, without = ([each[number] for each in times[kept]] for kept in (True, False))
        low, ratio, high = median_interval(
            [a / b for a, b in zip(with_record, without, strict=True)]
        )
        limit = arguments.limit
        verdicts.append("held" if high <= limit else "refuted" if low > limit else "open")
        print(f"  {what}: median {statistics.median(without):.2f} s without a record,")
        print(f"    {statistics.median(with_record):.2f} s with --claims-json, {size >> 10} KiB;")
        print(f"    ratio {ratio:.3f} [{low:.3f}, {high:.3f}] {level}; ≤ {limit:g}: {verdicts[-1]}")
    return 1 if "refuted" in verdicts else 0


def _time(folder: Path, claims: int, *, kept: bool) -> tuple[float, float]:
    """Seconds of a run, and seconds of a processor that it used."""
    words = ["-q", "-p", "no:cacheprovider", "--claims-seed=1"]
    words += ["--claims-json=out.json"] if kept else []
    command = [sys.executable, "-m", "pytest", *words]
    unusual = ("PYTEST_ADDOPTS", "PYTHONDONTWRITEBYTECODE", "PYTEST_DISABLE_PLUGIN_AUTOLOAD")
    environment = {name: value for name, value in os.environ.items() if name not in unusual}
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    took, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode != 0 or f"claims: {claims} held" not in done.stdout:
        raise SystemExit(
            f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout[-2000:]}"
        )
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return took, used


@dataclass
class Told:
    """What the killed process had told: of its last run, how many claims, and whether the record was finished."""

    run: int = 0
    claims: int = 0
    finished: bool = False


@dataclass
class Tally:
    """What came of the kills; ``moments`` says in which state of a run they fell."""

    claims: int = 0
    lost: list[str] = field(default_factory=list)
    moments: Counter[str] = field(default_factory=Counter)


def _kills(folder: Path, count: int, order: random.Random, seed: int) -> int:
    tally, began = Tally(), time.monotonic()
    for _ in range(count):
        told = _killed(folder / "out.json", order)
        _compare(folder, told, tally)
    took = time.monotonic() - began
    moments = ", ".join(f"{number} {name}" for name, number in sorted(tally.moments.items()))
    print(f"{count} kills in {took:.0f} s, seed {seed}: {moments}")
    print(f"{tally.claims} claims were told of as kept, {len(tally.lost)} times one was lost")
    for line in tally.lost[:20]:
        print(f"  {line}")
    return 1 if tally.lost else 0


def _killed(path: Path, order: random.Random) -> Told:
    """Have a process keep records, kill it, and return what it had told."""
    reads, writes = os.pipe()
    seed, moment = order.randrange(2**32), order.uniform(0, LONGEST)
    child = os.fork()
    if child == 0:
        try:
            os.close(reads)
            _keep(path, writes, random.Random(seed))
        finally:
            os._exit(1)
    os.close(writes)
    time.sleep(moment)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    told = Told()
    with open(reads, "rb") as stream:  # noqa: PTH123 - a descriptor
        while len(line := stream.read(9)) == 9:
            run, claims, finished = struct.unpack("<II?", line)
            told = Told(run, claims, finished)
    return told


def _keep(path: Path, writes: int, order: random.Random) -> None:
    """Keep records, run after run, until the kill."""
    run = 0
    while True:
        run += 1
        record = RunRecord(path, started=str(run))
        # From here on the file is this run's, as a user has it who names a file that is there.
        os.write(writes, struct.pack("<II?", run, 0, False))
        record.begin()
        for number in range(1, order.randint(1, MOST_CLAIMS) + 1):
            record.add(_claim(f"run.{run}.{number}", order))
            os.write(writes, struct.pack("<II?", run, number, False))
        record.finish()
        assert not record.trouble, record.trouble
        os.write(writes, struct.pack("<II?", run, number, True))


def _claim(name: str, order: random.Random) -> ClaimRecord:
    claim = unmeasured(name, "ä\x1b\udce9", target="", nodeid="", started_at="", budget=1.0, seed=0)
    for number in range(order.randint(0, SAMPLES)):
        value = order.random()
        claim["samples"].append(value)
        claim["observations"].append(
            Observation(
                order=number, session=1, at=0.0, arm="a", value=value, unit="ms",
                warm_up=False, parts={"kernel": value}, beside={},
            )
        )  # fmt: skip
    return claim


def _compare(folder: Path, told: Told, tally: Tally) -> None:
    """Hold what is in the files against what was told, and remove the journals."""
    path = folder / "out.json"
    journals = [each for each in folder.iterdir() if journal.is_journal_of(each.name, path.name)]
    known: dict[str, list[str]] = {}
    unread = []
    for each in [*journals, *([path] if path.exists() else [])]:
        try:
            found = reading.read(each, lambda head: None, lambda _, text: json.loads(text)["name"])
        except reading.RecordProblem as problem:
            unread.append(f"{each.name} {problem}")
            continue
        names, run = found.claims or [], found.head.get("started", "")
        known[run] = max(known.get(run, []), names, key=len)
    expected = [f"run.{told.run}.{number}" for number in range(1, told.claims + 1)]
    kept = known.get(str(told.run), [])
    tally.claims += told.claims
    if kept[: len(expected)] != expected:
        tally.lost.append(f"told of {expected}, found {kept}, {unread}")
    if told.finished and expected and known.get(str(told.run), []) != expected:
        tally.lost.append(f"finished {expected}, found {kept}")
    state = "before a run" if not told.run else "after its end" if told.finished else "in a run"
    tally.moments[state] += 1
    tally.moments["with a journal left"] += bool(journals)
    for each in journals:
        each.unlink()
    path.unlink(missing_ok=True)


if __name__ == "__main__":
    raise SystemExit(interruptible("records", main))
