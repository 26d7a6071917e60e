"""Who uses the processors of a host: every thread's share of one, and what interrupts take of each.

From proc(5): ``/proc/PID/task/TID/schedstat`` has the nanoseconds that a thread ran, and those that it waited for a
processor (Linux, Documentation/scheduler/sched-stats.rst). Both count here: on a machine with fewer processors than
threads that want one, nobody has a whole one, and yet somebody has no time left. What interrupts take is in
``/proc/stat``, by processor, in ticks of 10 ms.

All threads are looked at, by two commands on the host with a window between them, and named afterwards: who the
bottleneck is need not be known before.
"""

from __future__ import annotations

import re
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_vperf.load import Busy
from pytest_vperf.targets.base import TargetError, Unavailable
from pytest_vperf.workloads.base import Output
from pytest_vperf.workloads.figures import Reader
from pytest_vperf.workloads.threadcpu import USER_HZ

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pytest_vperf.targets.base import Target

#: Four parts, each after a line of its own; first what has to be of one moment. Threads that end meanwhile are left
#: out without a word.
_LOOK = r"""
exec 2>/dev/null
echo clock; cat /proc/uptime; grep '^cpu[0-9]' /proc/stat
echo times; grep -H '' /proc/[0-9]*/task/[0-9]*/schedstat
echo names; cat /proc/[0-9]*/task/[0-9]*/stat
echo commands; grep -aH '' /proc/[0-9]*/cmdline
echo end
"""
_PARTS = re.compile(r"clock\n(.*)\ntimes\n(.*\n)?names\n(.*\n)?commands\n(.*\n)?end\n", re.DOTALL)
#: Who is not named is told of from this share on, in %.
_TOLD = 50.0


@dataclass(frozen=True)
class Look:
    """What a host's kernel accounted for until a moment.

    Attributes:
        uptime: seconds, by the host's own clock.
        names: of each thread, by process and thread.
        commands: of each process that has one, its words with spaces between them.
        times: of each thread, seconds that it ran, and that it waited for a processor.
        interrupts: seconds that each processor spent on soft interrupts, by its number.
    """

    uptime: float
    names: Mapping[tuple[int, int], str]
    commands: Mapping[int, str]
    times: Mapping[tuple[int, int], tuple[float, float]]
    interrupts: Mapping[int, float]

    @classmethod
    def parse(cls, output: Output) -> Look:
        """Read what the command printed.

        Raises:
            ParseError: a part is missing or makes no sense.
        """
        reader = Reader("/proc", output)
        parts = _PARTS.fullmatch(output.stdout)
        if parts is None:
            raise reader.error("it is not whole")
        clock, times, names, commands = (part or "" for part in parts.groups())
        uptime, *processors = clock.splitlines()
        found = {
            (int(match[1]), int(match[2])): (
                reader.number(match[3], "the time it ran") / 1e9,
                reader.number(match[4], "the time it waited") / 1e9,
            )
            for match in re.finditer(
                r"^/proc/(\d+)/task/(\d+)/schedstat:(\S+) (\S+) ", times, re.MULTILINE | re.ASCII
            )
        }
        by_thread = {
            int(match[1]): match[2]
            for match in re.finditer(r"^(\d+) \((.*)\) [A-Za-z] ", names, re.MULTILINE | re.ASCII)
        }
        if not by_thread:
            raise reader.error("there is no thread in it")
        return cls(
            reader.number(uptime.split(" ")[0], "the uptime", positive=True),
            {key: by_thread[key[1]] for key in found if key[1] in by_thread},
            _commands(commands),
            found,
            {
                # user, nice, system, idle, iowait, irq, softirq
                int(match[1]): reader.number(match[2], "softirq") / USER_HZ
                for line in processors
                if (match := re.match(r"cpu(\d+)(?: \S+){6} (\S+)", line, re.ASCII))
            },
        )


def _commands(printed: str) -> dict[int, str]:
    """The words of each process; one may have several lines, each with the file's name before it."""
    found: dict[int, str] = {}
    for match in re.finditer(r"^/proc/(\d+)/cmdline:(.*)$", printed, re.MULTILINE | re.ASCII):
        words = match[2].replace("\0", " ")
        before = found.get(int(match[1]))
        found[int(match[1])] = words if before is None else f"{before} {words}"
    return found


@dataclass(frozen=True)
class Use:
    """How much of one processor a thread had.

    Attributes:
        process: its process.
        name: the thread's, up to 15 characters; of interrupts ``softirq of CPU 0``.
        command: of the process; empty for a thread of the kernel.
        share: that it ran, in %.
        wanted: that it ran or waited for a processor, in %.
    """

    process: int
    name: str
    command: str
    share: float
    wanted: float


def uses(before: Look, after: Look) -> list[Use]:
    """Who used how much between two looks: threads that were there at both, the busiest first.

    Raises:
        TargetError: the looks are of one moment, or the kernel does not keep such accounts.
    """
    passed = after.uptime - before.uptime
    if passed <= 0:
        raise TargetError("two looks at one moment tell nothing of who uses the processors")
    if not any(ran for ran, _ in after.times.values()):
        raise Unavailable(
            "this kernel does not account for the time that threads run and wait (schedstat)",
            remedy="a kernel with CONFIG_SCHED_INFO",
        )
    found = [
        Use(0, f"softirq of CPU {number}", "", share, share)
        for number, spent in after.interrupts.items()
        if (share := 100 * (spent - before.interrupts.get(number, spent)) / passed) >= 0
    ]
    for key, (ran, waited) in after.times.items():
        name = after.names.get(key)
        # A thread that began meanwhile may have the number of one that ended.
        if name is None or before.names.get(key) != name or key not in before.times:
            continue
        share = 100 * (ran - before.times[key][0]) / passed
        wait = 100 * (waited - before.times[key][1]) / passed
        if share >= 0 and wait >= 0:
            found.append(Use(key[0], name, after.commands.get(key[0], ""), share, share + wait))
    return sorted(found, key=lambda use: -use.share)


@dataclass(frozen=True)
class Who:
    """Somebody to look for.

    Attributes:
        label: for people: ``the sender's vhost-net thread``.
        find: of all that used a processor, those that are meant; the busiest counts.
        source: see `Busy`.
    """

    label: str
    find: Callable[[Sequence[Use]], Sequence[Use]]
    source: bool = False


def command(label: str, *words: str, source: bool = False) -> Who:
    """The threads of processes whose command has all these words in it."""

    def find(found: Sequence[Use]) -> Sequence[Use]:
        return [use for use in found if all(word in use.command for word in words)]

    return Who(label, find, source)


def virtual_cpu(label: str, machine: str, *, source: bool = False) -> Who:
    """The virtual processors of a machine that libvirt calls so; QEMU names these threads ``CPU 0/KVM``."""

    def find(found: Sequence[Use]) -> Sequence[Use]:
        return [use for use in _of_qemu(found, machine) if use.name.startswith("CPU ")]

    return Who(label, find, source)


def vhost(label: str, machine: str) -> Who:
    """The thread of the kernel that moves the packets of a machine, ``vhost-PID`` with the PID of its QEMU.

    Until Linux 6.3 it is a process of its own, from 6.4 on a thread of QEMU's.
    """

    def find(found: Sequence[Use]) -> Sequence[Use]:
        names = {f"vhost-{use.process}" for use in _of_qemu(found, machine)}
        return [use for use in found if use.name in names]

    return Who(label, find)


def _of_qemu(found: Sequence[Use], machine: str) -> list[Use]:
    return [use for use in found if f"guest={machine}," in use.command]


def named(found: Sequence[Use], who: Sequence[Who]) -> tuple[Busy, ...]:
    """Those that were looked for, and everybody else who used half of a processor or more.

    Raises:
        TargetError: somebody that was looked for is not there.
    """
    told: list[Busy] = []
    seen: set[int] = set()
    for one in who:
        theirs = one.find(found)
        if not theirs:
            raise TargetError(f"there is no thread that could be {one.label}")
        seen.update(id(use) for use in theirs)
        first = max(theirs, key=lambda use: use.wanted)
        told.append(Busy(one.label, max(use.share for use in theirs), first.wanted, one.source))
    others: dict[str, Busy] = {}
    for use in found:
        if id(use) not in seen and use.share >= _TOLD:
            others.setdefault(use.name, Busy(use.name, use.share, use.wanted))
    return (*told, *others.values())


def look(host: Target) -> Look:
    """What a host's kernel accounted for until now.

    Raises:
        ParseError: what it says makes no sense.
        TargetError: it cannot be asked.
    """
    done = host.run(["sh", "-c", _LOOK], timeout=60.0, check=False)
    return Look.parse(Output.of(done))


class Watch:
    """Looks at a host's processors while a block runs, which does not wait for it.

    Args:
        host: on whose processors the work is done; it is asked by another thread than the block's.
        who: is looked for.
        after: seconds until the first look, when what runs in the block has begun.
        window: seconds from the first look to the second.
    """

    def __init__(self, host: Target, who: Sequence[Who], *, after: float, window: float) -> None:
        self._host, self._who = host, who
        self._after, self._window = after, window
        self._looks: list[Look] = []
        self._error: Exception | None = None
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._work, name="watching the processors")

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _work(self) -> None:
        begins = time.monotonic() + self._after
        try:
            # The second look is not later by what the first one took: then it would be at somebody else's work.
            for moment in (begins, begins + self._window):
                if self._ended.wait(max(0.0, moment - time.monotonic())):
                    return
                self._looks.append(look(self._host))
        except Exception as error:
            self._error = error

    def busy(self) -> tuple[Busy, ...]:
        """Who was; to be asked after the block.

        Raises:
            TargetError: the block was over before the window.
            whatever went wrong with looking, and what `named` raises.
        """
        if self._error is not None:
            raise self._error
        if len(self._looks) < 2:
            raise TargetError(
                f"what ran on {self._host.name} ended before its processors had been looked at twice: run it longer"
            )
        return named(uses(*self._looks), self._who)
