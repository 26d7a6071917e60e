"""CPU usage by thread: the share of a processor that each thread uses, and that of interrupts.

From proc(5): ``/proc/PID/task/TID/schedstat`` has the nanoseconds that a thread ran, and those that it waited for a
processor (Linux, Documentation/scheduler/sched-stats.rst). Both count here: on a machine with fewer processors than
busy threads, none gets a whole processor, and yet one is the bottleneck. The time of interrupts is in ``/proc/stat``,
by processor, in ticks of 10 ms.

All threads are read, by two commands on the host with a window between them, and named afterwards: the bottleneck
need not be known beforehand. The share of a single thread, such as a machine's vCPU (``CPU 0/KVM``) or a kernel
thread (``vhost-1234``), is from ``/proc/PID/task/TID/stat``: user and system time in clock ticks of 10 ms (USER_HZ is
100 on x86), so that a share over a window of 1 s is accurate to about one per cent of a processor.
A kernel thread is a process of its own, whose only thread has the same ID. Since Linux 6.4 the ``vhost-PID`` threads
belong to the machine's process instead.
"""

from __future__ import annotations

import re
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from pytest_vperf.quantity import Quantity
from pytest_vperf.results.record import Busy
from pytest_vperf.targets.base import TargetError, Unavailable
from pytest_vperf.workloads.base import Output, ParseError, Reader

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pytest_vperf.targets.base import Target


#: Ticks per second in /proc; see above.
USER_HZ = 100

#: Least number of fields in a stat line since Linux 2.6 (proc(5)); a line with fewer was truncated.
_FIELDS = 41


@dataclass(frozen=True)
class ThreadStat:
    """A thread's line in ``stat``, in part.

    Attributes:
        number: the ID of the thread or process.
        name: up to 15 characters; may contain spaces and parentheses.
        state: one letter, e.g. ``R`` or ``Z``.
        session: the session it belongs to.
        user: ticks in user mode.
        system: ticks in the kernel.
        started: ticks from boot to its start; distinguishes threads with a reused ID.
    """

    number: int
    name: str
    state: str
    session: int
    user: int
    system: int
    started: int

    @property
    def cpu_time(self) -> float:
        """Seconds of CPU time, user and system."""
        return (self.user + self.system) / USER_HZ


@dataclass(frozen=True)
class StatFile:
    """The text of a ``stat`` file, as ``cat`` prints it in any target.

    Attributes:
        path: of the file, e.g. ``/proc/self/stat``.
    """

    tool: ClassVar[str] = "cat"
    version_argv: ClassVar[Sequence[str]] = ("--version",)

    path: str = "/proc/self/stat"

    def argv(self, version: str) -> tuple[str, ...]:
        """See `Workload.argv`."""
        return (self.path,)

    @property
    def timeout(self) -> float:
        """See `Workload.timeout`."""
        return 60.0

    def parse(self, output: Output) -> ThreadStat:
        """Read the file's only line.

        Raises:
            ParseError: it is not a stat line.
        """
        reader = Reader(self.tool, output)
        # The name ends at the last parenthesis of the line.
        match = re.fullmatch(
            r"(\S+) \((.*)\) ([A-Za-z](?: -?\S+)+)\n?", output.stdout, re.ASCII | re.DOTALL
        )
        if match is None:
            raise reader.error("this is not the line of a thread")
        fields = match[3].split(" ")
        # The state is field 3 of proc(5).
        if len(fields) < _FIELDS - 2 or not output.stdout.endswith("\n"):
            raise reader.error(f"the line has {len(fields) + 2} fields and is not whole")

        def field(number: int, what: str) -> int:
            return reader.whole(fields[number - 3], what)

        return ThreadStat(
            reader.whole(match[1], "the thread's number", positive=True),
            match[2],
            fields[0],
            field(6, "the session"),
            field(14, "the user time"),
            field(15, "the system time"),
            field(22, "the start"),
        )

    @classmethod
    def version_of(cls, output: Output) -> str:
        """See `Workload.version_of`."""
        return coreutils_version(cls.tool, output)


def coreutils_version(tool: str, output: Output) -> str:
    """The version of a small tool of GNU coreutils or BusyBox.

    Raises:
        ParseError: it is of neither.
    """
    text = output.stdout + output.stderr
    match = re.search(r"\(GNU coreutils\) ([0-9][0-9.]*)|BusyBox v([0-9][0-9.]*)", text, re.ASCII)
    if match is None:
        raise ParseError(tool, "there is no version in what it printed", output)
    return match[1] or f"busybox {match[2]}"


class ThreadCpu:
    """The CPU share of threads on this host, for the fixture ``threadcpu``."""

    def share(self, process: int, thread: str = "", *, window: float = 1.0) -> Quantity:
        """The share of one processor that a thread uses.

        Args:
            process: its ID.
            thread: the thread's name, e.g. ``CPU 0/KVM``; empty for the process's first thread.
            window: seconds to measure; with 1 s a share is accurate to 1 % of a processor.

        Returns:
            In % of one processor; without a direction, since more may be good or bad.

        Raises:
            TargetError: there is no such process, or not exactly one such thread, or it ended meanwhile.
        """
        path = self._find(process, thread)
        before, at = _read(path), time.monotonic()
        time.sleep(window)
        after, then = _read(path), time.monotonic()
        if (after.number, after.started) != (before.number, before.started):
            raise TargetError(
                f"thread {before.number} ({before.name}) ended while it was looked at"
            )
        used = after.cpu_time - before.cpu_time
        return Quantity(100 * used / (then - at), "%", signed=True)

    def kernel_share(self, name: str, *, window: float = 1.0) -> Quantity:
        """The same for a kernel thread that is a process of its own, by its name, e.g. ``vhost-1234``.

        Raises:
            TargetError: there is not exactly one process of that name.
        """
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdecimal():
                try:
                    if _read(entry / "stat").name == name[:15]:
                        found.append(int(entry.name))
                except TargetError:
                    continue
        if len(found) != 1:
            raise TargetError(f"there are {len(found)} processes named {name!r}, not one")
        return self.share(found[0], window=window)

    def _find(self, process: int, thread: str) -> Path:
        tasks = Path(f"/proc/{process}/task")
        if not thread:
            return tasks / str(process) / "stat"
        names = {}
        try:
            numbers = [entry.name for entry in tasks.iterdir()]
        except OSError:
            raise TargetError(f"there is no process {process}") from None
        for number in numbers:
            try:
                names[number] = _read(tasks / number / "stat").name
            except TargetError:
                continue
        found = [number for number, name in names.items() if name == thread[:15]]
        if len(found) != 1:
            known = ", ".join(sorted(set(names.values()))) or "none"
            raise TargetError(
                f"process {process} has {len(found)} threads named {thread!r}, not one; it has: {known}"
            )
        return tasks / found[0] / "stat"


def _read(path: Path) -> ThreadStat:
    try:
        text = path.read_bytes().decode("utf-8", "replace")
    except OSError:
        raise TargetError(f"there is no thread {path.parent.name}") from None
    return StatFile(str(path)).parse(Output(text))


#: Four parts, each after a heading; those that must be simultaneous come first. Threads that end meanwhile are
#: silently left out.
_LOOK = r"""
exec 2>/dev/null
echo clock; cat /proc/uptime; grep '^cpu[0-9]' /proc/stat
echo times; grep -H '' /proc/[0-9]*/task/[0-9]*/schedstat
echo names; cat /proc/[0-9]*/task/[0-9]*/stat
echo commands; grep -aH '' /proc/[0-9]*/cmdline
echo end
"""
_PARTS = re.compile(r"clock\n(.*)\ntimes\n(.*\n)?names\n(.*\n)?commands\n(.*\n)?end\n", re.DOTALL)
#: Threads that were not looked for are reported from this share on, in %.
_TOLD = 50.0


@dataclass(frozen=True)
class Look:
    """A snapshot of a host kernel's accounts.

    Attributes:
        uptime: seconds, by the host's own clock.
        names: of each thread, by process and thread.
        commands: of each process that has one, its words joined by spaces.
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
        """Read the command's output.

        Raises:
            ParseError: a part is missing or invalid.
        """
        reader = Reader("/proc", output)
        parts = _PARTS.fullmatch(output.stdout)
        if parts is None:
            raise reader.error("it is not whole")
        clock, times, names, commands = (part or "" for part in parts.groups())
        uptime, _, processors = clock.partition("\n")
        found = {
            (int(match[1]), int(match[2])): (
                reader.number(match[3], "the time it ran") / 1e9,
                reader.number(match[4], "the time it waited") / 1e9,
            )
            for match in re.finditer(
                r"^/proc/(\d{1,10})/task/(\d{1,10})/schedstat:(\S+) (\S+) ",
                times,
                re.MULTILINE | re.ASCII,
            )
        }
        by_thread = {
            int(match[1]): match[2]
            for match in re.finditer(
                r"^(\d{1,10}) \((.*)\) [A-Za-z] ", names, re.MULTILINE | re.ASCII
            )
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
                for line in processors.splitlines()
                if (match := re.match(r"cpu(\d{1,10})(?: \S+){6} (\S+)", line, re.ASCII))
            },
        )


def _commands(printed: str) -> dict[int, str]:
    """The command of each process; it may have several lines, each prefixed with the file's name."""
    found: dict[int, str] = {}
    for match in re.finditer(r"^/proc/(\d{1,10})/cmdline:(.*)$", printed, re.MULTILINE | re.ASCII):
        words = match[2].replace("\0", " ")
        before = found.get(int(match[1]))
        found[int(match[1])] = words if before is None else f"{before} {words}"
    return found


@dataclass(frozen=True)
class Use:
    """The share of one processor that a thread used.

    Attributes:
        process: its process.
        name: the thread's, up to 15 characters; of interrupts ``softirq of CPU 0``.
        command: the process's; empty for a kernel thread.
        share: of the time that it ran, in %.
        wanted: of the time that it ran or waited for a processor, in %.
    """

    process: int
    name: str
    command: str
    share: float
    wanted: float


def uses(before: Look, after: Look) -> list[Use]:
    """Usage between two snapshots, of threads in both; the busiest first.

    Raises:
        TargetError: the snapshots are of the same moment, or the kernel does not keep such accounts.
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
        # A thread that began meanwhile may have the ID of one that ended.
        if name is None or before.names.get(key) != name or key not in before.times:
            continue
        share = 100 * (ran - before.times[key][0]) / passed
        wait = 100 * (waited - before.times[key][1]) / passed
        if share >= 0 and wait >= 0:
            found.append(Use(key[0], name, after.commands.get(key[0], ""), share, share + wait))
    return sorted(found, key=lambda use: -use.share)


@dataclass(frozen=True)
class Who:
    """A thread to look for.

    Attributes:
        label: its name in messages: ``the sender's vhost-net thread``.
        find: selects the thread from all that used a processor; the busiest counts.
        source: see `Busy`.
    """

    label: str
    find: Callable[[Sequence[Use]], Sequence[Use]]
    source: bool = False


def command(label: str, *words: str, source: bool = False) -> Who:
    """The threads of processes whose command contains all these words."""

    def find(found: Sequence[Use]) -> Sequence[Use]:
        return [use for use in found if all(word in use.command for word in words)]

    return Who(label, find, source)


def virtual_cpu(label: str, machine: str, *, source: bool = False) -> Who:
    """The virtual processors of a machine, by libvirt's name for it; QEMU names these threads ``CPU 0/KVM``."""

    def find(found: Sequence[Use]) -> Sequence[Use]:
        return [use for use in _of_qemu(found, machine) if use.name.startswith("CPU ")]

    return Who(label, find, source)


def vhost(label: str, machine: str) -> Who:
    """The kernel thread that moves a machine's packets, ``vhost-PID`` with the PID of its QEMU.

    Until Linux 6.3 it is a process of its own, since 6.4 a thread of QEMU.
    """

    def find(found: Sequence[Use]) -> Sequence[Use]:
        names = {f"vhost-{use.process}" for use in _of_qemu(found, machine)}
        return [use for use in found if use.name in names]

    return Who(label, find)


def _of_qemu(found: Sequence[Use], machine: str) -> list[Use]:
    return [use for use in found if f"guest={machine}," in use.command]


def named(found: Sequence[Use], who: Sequence[Who]) -> tuple[Busy, ...]:
    """The threads to look for, and all others that used half a processor or more.

    Raises:
        TargetError: a thread to look for is missing.
    """
    told: list[Busy] = []
    seen: set[int] = set()
    for one in who:
        theirs = one.find(found)
        if not theirs:
            raise TargetError(f"no thread could be {one.label}")
        seen.update(id(use) for use in theirs)
        first = max(theirs, key=lambda use: use.wanted)
        told.append(Busy(one.label, max(use.share for use in theirs), first.wanted, one.source))
    others: dict[str, Busy] = {}
    for use in found:
        if id(use) not in seen and use.share >= _TOLD:
            others.setdefault(use.name, Busy(use.name, use.share, use.wanted))
    return (*told, *others.values())


def look(host: Target) -> Look:
    """Take a snapshot of a host kernel's accounts.

    Raises:
        ParseError: it is invalid.
        TargetError: it cannot be read.
    """
    done = host.run(["sh", "-c", _LOOK], timeout=60.0, check=False)
    return Look.parse(Output.of(done))


class Watch:
    """Watches a host's processors, in another thread, while a block runs.

    Args:
        host: whose processors do the work.
        who: the threads to look for.
        after: seconds until the first snapshot, for the work in the block to begin.
        window: seconds between the two snapshots.
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
            # The time of the first snapshot does not delay the second one, which might miss the work then.
            for moment in (begins, begins + self._window):
                if self._ended.wait(max(0.0, moment - time.monotonic())):
                    return
                self._looks.append(look(self._host))
        except Exception as error:
            self._error = error

    def busy(self) -> tuple[Busy, ...]:
        """The busy threads; to be called after the block.

        Raises:
            TargetError: the block was over before the window.
            the errors of the snapshots and of `named`.
        """
        if self._error is not None:
            raise self._error
        if len(self._looks) < 2:
            raise TargetError(
                f"what ran on {self._host.name} ended before its processors had been looked at twice: run it longer"
            )
        return named(uses(*self._looks), self._who)
