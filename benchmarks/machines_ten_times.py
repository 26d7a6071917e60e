"""Machines started and ended, again and again, some of them killed from outside in the middle: is anything left?

Each round starts all machines, runs a command in each that takes a while, kills the hypervisor processes of some
meanwhile, and ends the rest. Every error that a killed machine gives is printed: it has to say what happened. At
the end everything of the run that the system still knows is looked for; the last line is "nothing left", or how
much is.

    python benchmarks/machines_ten_times.py [--machines 10] [--rounds 10] [--kill 5] [--at-once 4]

The exit status is 1 where something is left, where a machine that was not killed failed, and where one that
was killed gave no error, or another one than that its hypervisor failed.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
from alone import alone, interruptible

from pytest_vperf import tools_image
from pytest_vperf.machine.runs import Run
from pytest_vperf.targets.base import CannotConnect, TargetError, Unavailable
from pytest_vperf.targets.guest.guests import Guests
from pytest_vperf.targets.kernel.guest_kernel import distribution_kernel
from pytest_vperf.targets.scope import Scope
from pytest_vperf.targets.virt import connect

if TYPE_CHECKING:
    from pytest_vperf.targets.guest.guest import Guest
    from pytest_vperf.targets.virt.daemon import Daemon

#: Kinds of machines, each with its accelerator.
KINDS = {"guest.tcg": "tcg", "guest.kvm": "kvm"}
#: Seconds that a command in a machine takes, and after how many of them its hypervisor is killed.
COMMAND, KILL_AFTER = 4.0, 1.0
TIMEOUT = 600.0


def main() -> int:
    """Play the rounds; 0 where nothing is left and every end was as expected."""
    options = _options()
    wrong = 0
    with alone(), Run.begin() as run:
        before = _links()
        try:
            daemon = connect.find(run)
        except TargetError as error:
            raise SystemExit(str(error)) from error
        try:
            guests = _guests(options.kind, daemon)
            for number in range(1, options.rounds + 1):
                wrong += play(number, guests, daemon, options)
            left = of_daemon(daemon, run)
        finally:
            daemon.close()
        left += [f"link {name}" for name in _links() if name not in before]
        identity, folder = run.id, run.folder
    left += of_system(identity, folder)
    for each in left:
        print(f"left: {each}")
    if wrong:
        print(f"{wrong} machines ended in another way than they should")
    print("nothing left" if not left else f"{len(left)} things left")
    return 1 if left or wrong else 0


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


def _guests(kind: str, daemon: Daemon) -> Guests:
    try:
        rootfs, kernel = tools_image.make(), distribution_kernel()
    except Unavailable as error:
        raise SystemExit(str(error)) from error
    return Guests(
        lambda: daemon,
        lambda: rootfs,
        lambda: kernel,
        Scope(),
        accelerator=KINDS[kind],
        timeout=TIMEOUT,
    )


def play(number: int, guests: Guests, daemon: Daemon, options: Any) -> int:
    """One round; how many machines ended in another way than they should."""
    began = time.perf_counter()
    with ThreadPoolExecutor(options.at_once) as pool:
        started = list(pool.map(lambda _: _start(guests), range(options.machines)))
    running = [each for each in started if not isinstance(each, TargetError)]
    wrong = len(started) - len(running)
    for each in started:
        if isinstance(each, TargetError):
            print(f"round {number}: did not start: {_line(each)}")
    pids = hypervisors(daemon.run)
    chosen = random.Random(options.seed + number).sample(sorted(pids), min(options.kill, len(pids)))
    killed = 0
    with ThreadPoolExecutor(len(running) or 1) as pool:
        ends = [pool.submit(_command, each) for each in running]
        time.sleep(KILL_AFTER)
        for pid in chosen:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
                killed += 1
        errors = [error for error in (each.result() for each in ends) if error is not None]
    said: dict[str, int] = {}
    for error in errors:
        said[_line(error)] = said.get(_line(error), 0) + 1
        if not isinstance(error, CannotConnect) or "its hypervisor failed" not in str(error):
            wrong += 1
    wrong += abs(len(errors) - killed)
    for guest in running:
        guest.close()
    left = of_daemon(daemon, daemon.run)
    print(
        f"round {number}: {len(running)} started, {killed} killed, {len(errors)} errors, {len(left)} left,"
        f" {time.perf_counter() - began:.1f} s"
        + "".join(f"\n    {count} x {line}" for line, count in said.items()),
        flush=True,
    )
    return wrong


def _start(guests: Guests) -> Guest | TargetError:
    try:
        return guests.start(init="small", memory="256 MiB")
    except TargetError as error:
        return error


def _command(guest: Guest) -> TargetError | None:
    try:
        guest.run(["sleep", f"{COMMAND:g}"], timeout=TIMEOUT)
    except TargetError as error:
        return error
    return None


def _line(error: TargetError) -> str:
    return f"{type(error).__name__}: {str(error).splitlines()[0]}"


def hypervisors(run: Run) -> list[int]:
    """The processes of the run's machines."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            words = process.cmdline()
            if words and "qemu-system" in words[0] and any(run.cgroup in word for word in words):
                found.append(process.pid)
    return found


def of_daemon(daemon: Daemon, run: Run) -> list[str]:
    """What the daemon, and the kernel, still have of the run's machines while the daemon lives."""
    machines = [domain.name() for domain in daemon.connection.handle.listAllDomains()]
    return [
        *(f"machine {name}" for name in machines if run.cgroup in name),
        *(f"volume {name}" for name in daemon.storage.names() if run.cgroup in name),
        *(f"process {pid}" for pid in hypervisors(run)),
    ]


def of_system(identity: str, folder: Path) -> list[str]:
    """What the system still has of a run that has ended."""
    found = [f"folder {folder}"] if folder.exists() else []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            words = " ".join([*process.cmdline(), *process.environ().values()])
            if process.status() != psutil.STATUS_ZOMBIE and identity in words:
                found.append(f"process {process.pid} {process.name()}")
    found += [
        f"cgroup {path}"
        for path in Path("/sys/fs/cgroup").glob(f"**/*vperf-{identity}*")
        if path.is_dir()
    ]
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
