"""How long `vperf history` of one claim takes with many runs in PostgreSQL, which two writers put there at once.

Without --store a server of its own is started: Debian's, in a folder for temporary files. Each run has 30 claims and
a record of about 100 kB, as one of the startup claims has.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import time
from contextlib import contextmanager, nullcontext
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from pytest_vperf.results.levels import Level
from pytest_vperf.results.store.model import StoredRun
from pytest_vperf.results.store.opening import open_store

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "integration" / "machines"))

CLAIMS = 30
SAMPLES = 200
MACHINE = {"cpu_model": "One", "logical_cpus": "2", "memory": "23.54 GiB", "kernel": "6.1"}
PROGRAM = [sys.executable, "-m", "pytest_vperf"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--times", type=int, default=7, help="how often history is called")
    parser.add_argument("--store", help="a database that is there, and empty")
    parser.add_argument("--write", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.write:
        first, last = map(int, arguments.write.split("-"))
        write(arguments.store, first, last)
        return
    with of(arguments.store) as url:
        began = time.perf_counter()
        half = arguments.runs // 2
        parts = [f"0-{half}", f"{half}-{arguments.runs}"]
        own = [sys.executable, __file__, f"--store={url}"]
        writers = [subprocess.Popen([*own, f"--write={part}"]) for part in parts]
        ends = [writer.wait() for writer in writers]
        if any(ends):
            raise SystemExit("a writer failed")
        took = time.perf_counter() - began
        each = 1000 * took / arguments.runs
        print(f"two writers: {arguments.runs} runs in {took:.0f} s, {each:.1f} ms each")
        seconds = [history(url, show=not number) for number in range(arguments.times)]
    print(
        f"vperf history of one claim of {CLAIMS}, the whole command: median {median(seconds):.2f} s"
        f" ({min(seconds):.2f} to {max(seconds):.2f}), {len(seconds)} times"
    )


def of(url: str | None) -> AbstractContextManager[str]:
    return nullcontext(url) if url is not None else own()


@contextmanager
def own() -> Iterator[str]:
    from postgresql_here import postgresql

    with postgresql() as url:
        yield url % "postgres"


def write(url: str, first: int, last: int) -> None:
    """Keep runs, one each quarter of an hour; after two thirds of all a claim is 1 % slower."""
    store = open_store(url)
    store.check()
    for number in range(first, last):
        source = random.Random(number)
        levels, lines = [], []
        for claim in range(CLAIMS):
            name = f"start.of.a.claim.{claim}"
            level = 100 * (1.01 if claim == 7 and number > 6666 else 1)
            samples = [level * source.lognormvariate(0, 0.02) for _ in range(SAMPLES)]
            levels.append(Level(name, "", median(samples), "ms", "lower", SAMPLES))
            lines.append(json.dumps({"name": name, "samples": samples}))
        when = time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime(1.7e9 + 900 * number))
        run = StoredRun(
            f"{number:012x}", when, "main", f"{number:040x}", False, "main", MACHINE, tuple(levels)
        )
        head = {"format": 1, "run": run.mark, "started": when, "stored": run.as_key(), "claims": []}
        start = f"{json.dumps(head)[:-2]}\n"
        text = ",\n".join(lines)
        store.save(run, [start.encode(), text.encode(), b'\n], "result": null}\n'])


def history(url: str, *, show: bool) -> float:
    began = time.perf_counter()
    words = [*PROGRAM, "history", "start.of.a.claim.7", f"--store={url}"]
    done = subprocess.run(words, check=True, capture_output=True, text=True)
    took = time.perf_counter() - began
    if show:
        print(done.stdout)
    return took


if __name__ == "__main__":
    main()
