"""Looks for inputs that crash what reads them, guided by coverage (atheris, ``pip install atheris``).

    python tests/fuzz/run.py qmp --seconds=60     one target; `all`: each in turn, again and again
    python tests/fuzz/run.py all --keep           takes what was found into tests/fuzz/corpus, minimised

Crashes are written to WORK/crashes/TARGET, one for each place in the code; the table counts what was done in WORK.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import re
import shlex
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path
from typing import Any

#: Bytes of one input; seeds that are longer are cut.
_LONGEST = 8192
#: Bytes and files that a target may have in the kept corpus.
_MOST_BYTES, _MOST_FILES = 40_000, 150
_HERE = Path(__file__).parent


def main() -> int:
    """Fuzz, print the table, and return 1 if there was a crash."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("target")
    parser.add_argument("--seconds", type=int, default=60, help="in all")
    parser.add_argument("--turn", type=int, default=30, help="seconds of one turn of a target")
    parser.add_argument("--work", type=Path, default=Path(tempfile.gettempdir()) / "vperf-fuzz")
    parser.add_argument("--keep", action="store_true", help="no fuzzing: minimise into the corpus")
    parser.add_argument("--inside", choices=("fuzz", "merge"), help=argparse.SUPPRESS)
    asked, rest = parser.parse_known_args()
    if asked.inside:
        _inside(asked.target, asked.seconds, asked.work, asked.inside, rest)
    elif rest:
        parser.error(f"what is {rest[0]}?")
    sys.path.insert(0, str(_HERE))
    from fuzz_targets import CORPUS, TARGETS

    names = list(TARGETS) if asked.target == "all" else [asked.target]
    asked.work.mkdir(mode=0o700, parents=True, exist_ok=True)
    if asked.keep:
        for name in names:
            _keep(name, asked.work, CORPUS / name)
        return 0
    for name in names:
        folder = asked.work / "corpus" / name
        folder.mkdir(parents=True, exist_ok=True)
        for _, data in TARGETS[name].inputs():
            cut = data[:_LONGEST]
            (folder / hashlib.sha1(cut, usedforsecurity=False).hexdigest()).write_bytes(cut)
    end = time.monotonic() + asked.seconds
    while time.monotonic() < end - 1:
        for name in names:
            _turn(name, min(asked.turn, max(1, int(end - time.monotonic()))), asked.work)
            if time.monotonic() >= end:
                break
    return _table(asked.work, names)


def _turn(name: str, seconds: int, work: Path) -> None:
    """Fuzz one target in a process of its own, and note what was done."""
    began = time.monotonic()
    command = [sys.executable, __file__, name, f"--seconds={seconds}", f"--work={work}"]
    log = work / f"{name}.log"
    with log.open("wb") as stream:
        status = subprocess.run(
            [*command, "--inside=fuzz"], stdout=stream, stderr=stream, check=False
        ).returncode
    said = log.read_text("utf-8", "replace")
    runs = max(map(int, re.findall(r"(?:^#|^Done )(\d+)", said, re.MULTILINE)), default=0)
    if status:
        log.rename(work / f"{name}.failed-{time.time_ns()}.log")
    entry = {
        "target": name,
        "runs": runs,
        "seconds": time.monotonic() - began,
        "status": status,
    }
    with (work / "turns.jsonl").open("a") as stream_of_turns:
        stream_of_turns.write(json.dumps(entry) + "\n")


def _table(work: Path, names: list[str]) -> int:
    lines = (work / "turns.jsonl").read_text().splitlines()
    turns: list[dict[str, Any]] = [json.loads(line) for line in lines]
    print(f"{'target':28} {'executions':>12} {'hours':>8} {'crashes':>8}")
    total, hours, crashes = 0, 0.0, 0
    for name in names:
        own = [turn for turn in turns if turn["target"] == name]
        found = len(list((work / "crashes" / name).glob("*.input")))
        found += len(list((work / "crashes" / name).glob("*-*")))  # libFuzzer's own: time, memory
        runs, spent = sum(turn["runs"] for turn in own), sum(turn["seconds"] for turn in own) / 3600
        print(f"{name:28} {runs:12,} {spent:8.3f} {found:8}")
        total, hours, crashes = total + runs, hours + spent, crashes + found
    print(f"{'all':28} {total:12,} {hours:8.3f} {crashes:8}")
    return int(crashes > 0)


def _inside(name: str, seconds: int, work: Path, what: str, inner: list[str]) -> None:
    """The fuzzing itself; libFuzzer ends the process. ``inner`` are its own words to a process that it starts."""
    import atheris

    sys.path.insert(0, str(_HERE))
    with atheris.instrument_imports(include=["pytest_vperf"]):
        from fuzz_targets import MEGABYTES, SECONDS, TARGETS

        target = TARGETS[name]
        for (
            _,
            data,
        ) in target.inputs():  # what is imported only when it is needed is instrumented, too
            with contextlib.suppress(Exception):
                target.feed(data)
    crashes = work / "crashes" / name
    crashes.mkdir(parents=True, exist_ok=True)

    def one(data: bytes) -> None:
        try:
            target.feed(data)
        except Exception as error:
            # One of each place is enough, and the search goes on behind it.
            frames = traceback.extract_tb(error.__traceback__)
            own = [each for each in frames if "pytest_vperf" in each.filename] or list(frames)
            place = f"{Path(own[-1].filename).stem}.{own[-1].lineno}.{type(error).__name__}"
            path = crashes / f"{place}.input"
            if not path.exists() or path.stat().st_size > len(data):
                path.write_bytes(data)
                path.with_suffix(".txt").write_text(traceback.format_exc(), "utf-8", "replace")

    options = [f"-timeout={SECONDS}", f"-rss_limit_mb={MEGABYTES}", f"-max_len={_LONGEST}"]
    options.append(f"-artifact_prefix={crashes}/")
    corpus = str(work / "corpus" / name)
    if what == "merge":
        folders = ["-merge=1", str(work / "merged" / name), corpus]
    else:
        folders = [f"-max_total_time={seconds}", corpus]
    atheris.Setup([str(_again(name, work)), *(inner or [*options, *folders])], one)
    atheris.Fuzz()
    sys.exit(0)


def _again(name: str, work: Path) -> Path:
    """A program that libFuzzer starts for a part of a merge: this one, for the same target."""
    words = [sys.executable, str(Path(__file__).resolve()), name, f"--work={work}"]
    path = work / f"{name}.sh"
    path.write_text(f'#!/bin/sh\nexec {shlex.join(words)} --inside=merge "$@"\n')
    path.chmod(0o700)
    return path


def _keep(name: str, work: Path, kept: Path) -> None:
    """The smallest inputs that have the coverage of all, as many as a target may keep."""
    merged = work / "merged" / name
    merged.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, __file__, name, f"--work={work}", "--inside=merge"]
    with contextlib.suppress(subprocess.TimeoutExpired):
        subprocess.run(command, check=False, capture_output=True, timeout=120)
    kept.mkdir(parents=True, exist_ok=True)
    size = sum(path.stat().st_size for path in kept.iterdir())
    found = sorted(merged.iterdir(), key=lambda path: path.stat().st_size)
    for path in found[:_MOST_FILES]:
        size += path.stat().st_size
        if size > _MOST_BYTES:
            break
        (kept / path.name[:16]).write_bytes(path.read_bytes())


if __name__ == "__main__":
    sys.exit(main())
