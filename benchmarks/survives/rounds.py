"""One round: a run is started, killed at a random moment, and followed by the next run and by ``vperf clean``."""

from __future__ import annotations

import contextlib
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from survives.kinds import own_cache
from survives.machine_state import Machine

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from survives.kinds import Kind
    from survives.machine_state import State

#: The folder of the cache that all runs share, in that of the soak.
CACHE = "cache"
SIGNALS = ("KILL", "TERM", "HUP", "INT")
#: Seconds that an ending may take, and the next run, on a machine that has other things to do.
LIMIT = 240.0
#: Seconds for a run that nobody kills: an emulated Xen machine takes minutes.
WHOLE = 900.0
#: How often a round is played whose run ends before it is killed.
TRIES = 3
#: Seconds in which what the kernel and daemons end must be gone.
SETTLES = 15.0
_NODE = re.compile(rb'"nodeid": ?"[^"]*::([^"]+)"')


@dataclass
class Round:
    """What one round found.

    Attributes:
        kind: of run.
        signal: that it was sent, without ``SIG``.
        number: of the round.
        to: ``process``, or ``group`` as a terminal has it.
        at: seconds after its start.
        again: seconds until the signal was sent once more; negative where it was not.
        ended: its exit status, -N for signal N; ``None`` where it did not end in time.
        too_late: it had ended by itself before.
        took: seconds until it had ended.
        samples: that had been taken.
        runs: the IDs of the runs that it ended.
        next: what was left after the next run.
        clean: what was left after ``vperf clean``.
        lost: samples and claims of which there is no record.
        trouble: what else was not as it should be, such as a next run that failed.
    """

    kind: str
    signal: str
    number: int
    to: str
    at: float
    again: float = -1.0
    ended: int | None = None
    too_late: bool = False
    took: float = 0.0
    samples: int = 0
    runs: list[str] = field(default_factory=list)
    next: list[str] = field(default_factory=list)
    clean: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    trouble: list[str] = field(default_factory=list)

    def line(self) -> str:
        """For people."""
        how = "too late" if self.too_late else f"ended with {self.ended} {self.took:.1f} s later"
        found = [
            *(f"    left after the next run: {each}" for each in self.next),
            *(f"    left after vperf clean: {each}" for each in self.clean),
            *(f"    lost: {each}" for each in self.lost),
            *(f"    {each}" for each in self.trouble),
        ]
        first = (
            f"round {self.number}: {self.kind} {self.signal} to the {self.to} after {self.at:.2f} s"
            f"{f' and {self.again:.1f} s later' if self.again >= 0 else ''}: {how}, {self.samples} samples"
        )
        return "\n".join([first, *found])

    def record(self) -> dict[str, Any]:
        """For a file."""
        return {"what": "round", **asdict(self)}


class Soak:
    """Plays rounds in a folder.

    Args:
        folder: for projects and caches; what is in it does not count as left.
        runs: where runs keep their folders.
        watched: folders in which everything counts.
        libvirt: the address of a daemon of others, or nothing.
        spared: processes that are no run's.
    """

    def __init__(
        self,
        folder: Path,
        runs: Path,
        watched: Sequence[Path],
        uri: str = "",
        spared: Callable[[], set[int]] = set,
        libvirt: Callable[[], list[str]] = list,
    ) -> None:
        self._folder = folder
        self._runs = runs
        self._uri = uri
        self._log = folder / "log"
        self._environment = {
            **{key: value for key, value in os.environ.items() if not key.startswith("VPERF_")},
            "VPERF_RUNS_DIR": str(runs),
            "VPERF_LOCK": str(folder / "measuring.lock"),
            "PYTEST_ADDOPTS": "",
        }
        self._machine: Callable[[Path], Machine] = lambda cache: Machine(
            watched, cache=cache, locks=[folder / "measuring.lock"], libvirt=libvirt, spared=spared
        )

    def _project(self, name: str, kind: Kind) -> tuple[Path, dict[str, str], Machine]:
        """A project, what its commands find in their environment, and what is to be looked at."""
        project, kept = self._folder / "project", self._folder / CACHE
        shutil.rmtree(project, ignore_errors=True)
        kind.lay_out(project)
        if kind.fresh:
            usual, kept = kept, self._folder / "cache-fresh"
            shutil.rmtree(kept, ignore_errors=True)
            own_cache(usual, kept, kind.fresh)
        return project, {**self._environment, "VPERF_CACHE_DIR": str(kept)}, self._machine(kept)

    def whole(self, name: str, kind: Kind) -> tuple[float, str]:
        """How long a run takes that nobody kills, with what all later ones find made; and why it failed.

        One in which a test took no sample is no run to kill: it has nothing that can be left, or lost.
        """
        project, environment, _ = self._project(name, kind)
        began = time.monotonic()
        status = self._run(kind.words(self._uri), project, environment, WHOLE)
        took = time.monotonic() - began
        problem = f"status {status}: {self._said()}" if status else ""
        sampled = {each.partition("[")[0] for each in _lines(project / "samples")}
        if missing := sorted(set(kind.names) - sampled):
            problem = problem or f"{missing[0]} took no sample: {self._said()}"
        self._run(kind.next_words(self._uri), project, environment, LIMIT)
        self._clean(project, environment)
        return took, problem

    def play(
        self, number: int, name: str, kind: Kind, how: str, typical: float, seed: int
    ) -> Round:
        """One round. Where the run had ended before, it is played again, for a moment of the time that it took."""
        chance = random.Random(f"{seed}-{number}")
        for _ in range(TRIES):
            project, environment, machine = self._project(name, kind)
            played = Round(
                name,
                how,
                number,
                chance.choice(("process", "group")) if how != "KILL" else "process",
                # Starting Python is the same for all: most of the moments are to be in what comes then.
                round(chance.uniform(0.05 * typical, 1.02 * typical), 3),
                round(chance.uniform(0.0, 2.0), 2)
                if how != "KILL" and chance.random() < 0.4
                else -1.0,
            )
            before = machine.look()
            lasted = self._kill(kind, played, project, environment)
            if not played.too_late:
                break
            typical = min(typical, lasted)
        played.lost = lost(project, kind, played)
        status = self._run(kind.next_words(self._uri), project, environment, LIMIT)
        if status:
            played.trouble.append(f"the next run ended with {status}: {self._said()}")
        played.next = left(before, machine, played.runs)
        played.trouble += self._clean(project, environment)
        played.clean = left(before, machine, played.runs)
        return played

    def _kill(self, kind: Kind, played: Round, project: Path, environment: dict[str, str]) -> float:
        """Start it and send it the signal; how many seconds it had by then."""
        began = time.monotonic()
        number = signal.Signals[f"SIG{played.signal}"]
        with self._log.open("wb") as log:
            process = subprocess.Popen(
                kind.words(self._uri),
                cwd=project,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=_usual_signals,
            )
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(played.at)
        played.too_late = process.poll() is not None
        lasted = time.monotonic() - began
        runs = self._living()
        began = time.monotonic()
        played.samples = len(_lines(project / "samples"))
        _send(process, number, played.to)
        if played.again >= 0:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(played.again)
            _send(process, number, played.to)
        try:
            played.ended = process.wait(LIMIT)
        except subprocess.TimeoutExpired:
            played.trouble.append(f"it did not end within {LIMIT:g} s: {self._said()}")
            process.kill()
            process.wait()
        played.took = round(time.monotonic() - began, 2)
        # Before, for an ending takes its folder away; after, for one may have begun between the look and the signal.
        played.runs = sorted(runs | self._living())
        return lasted

    def _living(self) -> set[str]:
        return {each.name.removeprefix("run-") for each in self._runs.glob("run-*")}

    def _run(
        self, words: list[str], project: Path, environment: dict[str, str], limit: float
    ) -> int:
        with self._log.open("wb") as log:
            try:
                return subprocess.run(
                    words,
                    cwd=project,
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    timeout=limit,
                    check=False,
                    start_new_session=True,
                    preexec_fn=_usual_signals,
                ).returncode
            except subprocess.TimeoutExpired:
                return -1

    def _clean(self, project: Path, environment: dict[str, str]) -> list[str]:
        words = [sys.executable, "-m", "pytest_vperf", "clean"]
        status = self._run(words, project, environment, LIMIT)
        return [f"vperf clean ended with {status}: {self._said()}"] if status else []

    def _said(self) -> str:
        lines = self._log.read_text(errors="replace").strip().splitlines()
        return " / ".join(lines[-6:])[-600:]


def left(before: State, machine: Machine, runs: Sequence[str]) -> list[str]:
    """What there is that was not there before, once what is ending has ended; and what is gone of it."""
    deadline = time.monotonic() + SETTLES
    while True:
        now = machine.look()
        found = [*sorted(now - before), *(f"gone: {line}" for line in sorted(before - now))]
        found = [line for line in found if _is_of(line, runs)]
        if not found or time.monotonic() > deadline:
            return found
        time.sleep(0.5)


def _is_of(line: str, runs: Sequence[str]) -> bool:
    """Whether something is of the killed runs. What is in the soak's namespaces is; control groups and loop devices
    are the machine's, and others may test on it.
    """
    what = line.removeprefix("gone: ").partition(" ")[0]
    mark = {"cgroup": "vperf-", "loop": "run-"}.get(what)
    return mark is None or any(mark + run in line for run in runs)


def lost(project: Path, kind: Kind, played: Round) -> list[str]:
    """What was measured and is in no record: after a signal every sample but the one in flight, after SIGKILL the
    claims that were acknowledged.
    """
    if kind.command:
        return []
    kept: set[str] = set()
    for path in project.glob("*out.json*"):
        if path.is_file():
            kept.update(each.decode() for each in _NODE.findall(path.read_bytes()))
    found = [f"claim of {name}" for name in _lines(project / "acknowledged") if name not in kept]
    if played.signal != "KILL":
        taken = _lines(project / "samples")
        for name in dict.fromkeys(taken):
            # The last one may have been interrupted between its being taken and its being kept.
            if name not in kept and taken.count(name) > 1:
                found.append(f"{taken.count(name)} samples of {name}")
    return list(dict.fromkeys(found))


def _lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def _send(process: subprocess.Popen[bytes], number: signal.Signals, to: str) -> None:
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            if to == "group":
                os.killpg(process.pid, number)
            else:
                process.send_signal(number)


def _usual_signals() -> None:
    """A shell without a terminal has its background jobs ignore SIGINT, and this process may be one."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


def order(kinds: Sequence[str], signals: Sequence[str], seed: int) -> Iterator[tuple[str, str]]:
    """Kind and signal of each round, without end: every kind, then every kind with another signal, and so on."""
    chance = random.Random(seed)
    while True:
        turns = {kind: chance.sample(signals, len(signals)) for kind in kinds}
        for turn in range(len(signals)):
            yield from ((kind, turns[kind][turn]) for kind in chance.sample(kinds, len(kinds)))
