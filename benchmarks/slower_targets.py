"""Real targets that are started or run as they are, and with a known share more of work.

Each kind is a context that gives `Arms`. What makes the slower arm slower lies inside the timed path, and whatever it
costs besides is in both arms: the plain one runs through the same wrapper with a sleep of nothing.
"""

from __future__ import annotations

import contextlib
import dataclasses
import re
import shlex
import subprocess
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from verdicts.workloads import WORKLOADS

from pytest_vperf.machine.preflight import find_program
from pytest_vperf.machine.runs import Run
from pytest_vperf.targets.base import Unavailable
from pytest_vperf.targets.container.address import connect
from pytest_vperf.targets.container.containers import Containers
from pytest_vperf.targets.container.engine import Engine
from pytest_vperf.targets.container.private_engine import PrivateEngine
from pytest_vperf.targets.image.rootfs import default_rootfs, import_into
from pytest_vperf.targets.pod.assets import prepare
from pytest_vperf.targets.pod.pod import boot
from pytest_vperf.targets.pod.pods import IDLE
from pytest_vperf.targets.scope import Scope

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from contextlib import AbstractContextManager
    from pathlib import Path

_POD_LIMIT = 60.0


@dataclass(frozen=True)
class Arms:
    """A target and a slower self.

    Attributes:
        plain: seconds of one run.
        slower: seconds of one run of the slower self.
        calibrate: told the level of the plain one, in seconds, whenever it moves.
        how: what makes it slower.
    """

    plain: Callable[[], float]
    slower: Callable[[], float]
    calibrate: Callable[[float], None]
    how: str


class _Wrapper:
    """A program that sleeps before it becomes another one; for how long is in a file that is read each time."""

    def __init__(self, folder: Path, name: str, program: str, *, only: str = "") -> None:
        """Write it; with ``only``, it sleeps only where that is one of its arguments."""
        self.path, self._time = folder / name, folder / f"{name}.time"
        pause = f'read -r pause < {shlex.quote(str(self._time))}; sleep "$pause"'
        if only:
            pause = f'case " $* " in *" {only} "*) {pause};; esac'
        self.path.write_text(f'#!/bin/sh\n{pause}\nexec {shlex.quote(program)} "$@"\n')
        self.path.chmod(0o755)
        self.sleep(0.0)

    def sleep(self, seconds: float) -> None:
        """Sleep so long from now on."""
        self._time.write_text(f"{seconds:.6f}\n")


@contextlib.contextmanager
def container(slowdown: float) -> Iterator[Arms]:
    """A container's start in an engine of our own; the slower one by another OCI runtime: sleep, then runc."""
    runc = find_program("runc")
    if runc is None:
        raise Unavailable("runc is not installed", remedy="apt-get install runc")
    with Run.begin() as run:
        folder = run.subfolder("runtimes")
        plain, slower = (
            _Wrapper(folder, name, runc, only="create") for name in ("plain-runc", "slower-runc")
        )

        class EngineWithWrappers(PrivateEngine):
            def _configuration(self, dockerd: str) -> dict[str, object]:
                known = {each.path.name: {"path": str(each.path)} for each in (plain, slower)}
                return {**super()._configuration(dockerd), "runtimes": known}

        own = EngineWithWrappers.start(run)
        with Engine(connect(own.url), own.url, run, own) as engine:
            image, scope = import_into(engine.client, default_rootfs()), Scope()

            def starter(runtime: str) -> Callable[[], float]:
                containers = Containers(
                    lambda: engine, run, scope, runtime=runtime, rootfs=lambda _: image
                )

                def start() -> float:
                    try:
                        return containers.start().startup_time.to("s").value
                    finally:
                        scope.close_since()

                return start

            yield Arms(
                starter(plain.path.name),
                starter(slower.path.name),
                lambda median: slower.sleep(slowdown * median),
                "an OCI runtime that sleeps before `runc create`",
            )


@contextlib.contextmanager
def pod(slowdown: float) -> Iterator[Arms]:
    """A pod's start with QEMU's emulation; the slower one by a program that sleeps, then becomes QEMU."""
    assets = prepare(default_rootfs())
    config = assets.config("tcg", "qboot")
    with Run.begin() as run:
        folder = run.subfolder("qemu")
        plain, slower = (_Wrapper(folder, name, assets.qemu) for name in ("plain", "slower"))

        def starter(wrapper: _Wrapper) -> Callable[[], float]:
            wrapped = dataclasses.replace(assets, qemu=str(wrapper.path))

            def start() -> float:
                with boot(
                    wrapped, config, "qboot", run, command=IDLE, timeout=_POD_LIMIT
                ) as machine:
                    return machine.startup_time.to("s").value

            return start

        yield Arms(
            starter(plain),
            starter(slower),
            lambda median: slower.sleep(slowdown * median),
            "a program that sleeps before it becomes QEMU",
        )


_EVENTS = 400
_TOTAL = re.compile(r"total time:\s+([0-9.]+)s")


@contextlib.contextmanager
def sysbench(slowdown: float) -> Iterator[Arms]:
    """The time that sysbench's processor test takes for its events, by its own account; the slower one has more."""
    program = find_program("sysbench")
    if program is None:
        raise Unavailable("sysbench is not installed", remedy="apt-get install sysbench")
    more = round(_EVENTS * (1 + slowdown))

    def runner(events: int) -> Callable[[], float]:
        argv = [program, "cpu", "--cpu-max-prime=5000", f"--events={events}", "--time=0", "run"]

        def run() -> float:
            said = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
            found = _TOTAL.search(said)
            if found is None:
                raise SystemExit(f"sysbench names no total time:\n{said}")
            return float(found[1])

        return run

    yield Arms(runner(_EVENTS), runner(more), lambda _: None, f"{more} events, not {_EVENTS}")


@contextlib.contextmanager
def process(slowdown: float) -> Iterator[Arms]:
    """A process that ends at once; after the slower one the processor spins for that share of the time it took."""
    percent = round(100 * slowdown)
    if abs(percent - 100 * slowdown) > 1e-9:
        raise Unavailable("the slowdown of process must be whole percents")
    with WORKLOADS["process"]() as sample:
        yield Arms(
            lambda: sample(0),
            lambda: sample(percent),
            lambda _: None,
            f"{percent} % of each run's own time, spun after it",
        )


#: By name.
KINDS: Mapping[str, Callable[[float], AbstractContextManager[Arms]]] = {
    "container": container,
    "pod": pod,
    "sysbench": sysbench,
    "process": process,
}


def timed(
    sample: Callable[[], float], seconds: float, over: type[Exception]
) -> Callable[[], float]:
    """A sampler that raises ``over`` instead of beginning a sample so many seconds from now or later."""
    end = time.monotonic() + seconds

    def watched() -> float:
        if time.monotonic() > end:
            raise over
        return sample()

    return watched
