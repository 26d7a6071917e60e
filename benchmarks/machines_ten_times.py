"""Machines started and ended, again and again, some of them killed from outside in the middle: is anything left?

Each round starts all machines, runs a command in each that takes a while, kills the hypervisor processes of some
meanwhile (has Xen destroy them, where they are domUs), and ends the rest. Every error that a killed machine gives is
printed: it has to say what happened. At the end everything of the run that the system still knows is looked for; the
last line is "nothing left", or how much is.

    python benchmarks/machines_ten_times.py [--kind guest.tcg] [--machines 10] [--rounds 10] [--kill 5] [--at-once 4]

DomUs are started on this machine where that is a Xen host, else in a lab: the user's own, where it is up
(``vperf lab up xen``), or one for the run. The exit status is 1 where something is left, where a machine that was not
killed failed, and where one that was killed gave no error, or another one than that it has ended.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
from alone import alone, interruptible
from machine_kinds import KINDS, TIMEOUT, daemon_of, machines_of

from pytest_vperf.machine.runs import Run
from pytest_vperf.targets.base import CannotConnect, TargetError

if TYPE_CHECKING:
    from machine_kinds import Hypervisors

    from pytest_vperf.targets.guest.guest import Guest
    from pytest_vperf.targets.guest.guests import Guests
    from pytest_vperf.targets.libvirt.daemon import Daemon
    from pytest_vperf.targets.xen.domus import Domu, Domus


def main() -> int:
    """Play the rounds; 0 where nothing is left and every end was as expected."""
    options = _options()
    try:
        with alone(), Run.begin() as run:
            wrong, left = _rounds(run, options)
    except TargetError as error:
        raise SystemExit(str(error)) from error
    left += of_system(run.id, run.folder)
    for each in left:
        print(f"left: {each}")
    if wrong:
        print(f"{wrong} machines ended in another way than they should")
    print("nothing left" if not left else f"{len(left)} things left")
    return 1 if left or wrong else 0


def _rounds(run: Run, options: Any) -> tuple[int, list[str]]:
    """All rounds; how many machines ended in another way than they should, and what is left while the run lives."""
    kind, wrong, before = KINDS[options.kind], 0, _links()
    with daemon_of(kind, run) as daemon, machines_of(kind, daemon) as (machines, hypervisors):
        for number in range(1, options.rounds + 1):
            wrong += play(number, machines, daemon, hypervisors, options)
        left = of_daemon(daemon, hypervisors)
    return wrong, left + [f"link {name}" for name in _links() if name not in before]


def _options() -> Any:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--machines", type=int, default=10, help="in each round (default: 10)")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--kill", type=int, default=5, help="how many of each round")
    parser.add_argument("--at-once", type=int, default=4, help="that start at the same time")
    parser.add_argument("--kind", choices=KINDS, default="guest.tcg", help="of machines")
    parser.add_argument("--seed", type=int, default=1, help="chooses which are killed")
    options = parser.parse_args()
    if not 0 <= options.kill <= options.machines or min(options.rounds, options.at_once) < 1:
        parser.error("there have to be rounds, and machines for all that are to be killed")
    return options


def play(
    number: int, machines: Guests | Domus, daemon: Daemon, hypervisors: Hypervisors, options: Any
) -> int:
    """One round; how many machines ended in another way than they should."""
    kind = KINDS[options.kind]
    began = time.perf_counter()
    with ThreadPoolExecutor(options.at_once) as pool:
        started = list(pool.map(lambda _: _start(machines), range(options.machines)))
    running = [each for each in started if not isinstance(each, TargetError)]
    wrong = len(started) - len(running)
    for each in started:
        if isinstance(each, TargetError):
            print(f"round {number}: did not start: {_line(each)}")
    alive = hypervisors.running()
    chosen = random.Random(options.seed + number).sample(alive, min(options.kill, len(alive)))
    with ThreadPoolExecutor(len(running) or 1) as pool:
        ends = [pool.submit(_command, each, kind.command) for each in running]
        time.sleep(kind.kill_after)
        killed = hypervisors.kill(chosen)
        errors = [error for error in (each.result() for each in ends) if error is not None]
    said: dict[str, int] = {}
    for error in errors:
        said[_line(error)] = said.get(_line(error), 0) + 1
        if not isinstance(error, CannotConnect) or kind.death not in str(error):
            wrong += 1
    wrong += abs(len(errors) - killed)
    for machine in running:
        machine.close()
    left = of_daemon(daemon, hypervisors)
    print(
        f"round {number}: {len(running)} started, {killed} killed, {len(errors)} errors, {len(left)} left,"
        f" {time.perf_counter() - began:.1f} s"
        + "".join(f"\n    {count} x {line}" for line, count in said.items()),
        flush=True,
    )
    return wrong


def _start(machines: Guests | Domus) -> Guest | Domu | TargetError:
    try:
        return machines.start(init="small", memory="256 MiB")
    except TargetError as error:
        return error


def _command(machine: Guest | Domu, seconds: float) -> TargetError | None:
    try:
        machine.run(["sleep", f"{seconds:g}"], timeout=TIMEOUT)
    except TargetError as error:
        return error
    return None


def _line(error: TargetError) -> str:
    return f"{type(error).__name__}: {str(error).splitlines()[0]}"


def of_daemon(daemon: Daemon, hypervisors: Hypervisors) -> list[str]:
    """What the daemon, and the hypervisor, still have of the run's machines while the daemon lives."""
    mark = daemon.run.cgroup
    machines = [domain.name() for domain in daemon.connection.handle.listAllDomains()]
    return [
        *(f"machine {name}" for name in machines if mark in name),
        *(f"volume {name}" for name in daemon.storage.names() if mark in name),
        *hypervisors.left(),
    ]


def of_system(identity: str, folder: Path, groups: Path = Path("/sys/fs/cgroup")) -> list[str]:
    """What the system still has of a run that has ended; control groups are looked for below ``groups``."""
    found = [f"folder {folder}"] if folder.exists() else []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            words = " ".join([*process.cmdline(), *process.environ().values()])
            if process.status() != psutil.STATUS_ZOMBIE and identity in words:
                found.append(f"process {process.pid} {process.name()}")
    # Not Path.glob(): that ends with an error where somebody's group goes while it looks.
    for above, names, _ in os.walk(groups):
        found += [f"cgroup {above}/{name}" for name in names if f"vperf-{identity}" in name]
    mounts = Path("/proc/mounts").read_text().splitlines()
    found += [f"mount {line}" for line in mounts if identity in line]
    return found


def _links() -> dict[str, str]:
    """The network links of this machine."""
    done = subprocess.run(
        ["ip", "-o", "link", "show"], capture_output=True, text=True, check=False, timeout=30
    )
    return {line.split(":")[1].strip(): line for line in done.stdout.splitlines()}


if __name__ == "__main__":
    sys.exit(interruptible("machines_ten_times", main))
