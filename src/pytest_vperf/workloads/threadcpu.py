"""The share of a processor that one thread takes: a machine's vCPU (``CPU 0/KVM``), a kernel thread (``vhost-1234``).

From proc(5), ``/proc/PID/task/TID/stat``: user and system time in clock ticks, which are 10 ms in what Linux shows to
programs on x86 (USER_HZ is 100), so that a share over a window of 1 s is right to about one per cent of a processor.
A kernel thread is a process of its own, whose only thread has its number. Since Linux 6.4 the ``vhost-PID`` threads
belong to the machine's process instead.
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from pytest_vperf.quantity import Quantity
from pytest_vperf.targets.base import TargetError
from pytest_vperf.workloads.base import Output, ParseError
from pytest_vperf.workloads.figures import Reader

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Ticks per second in /proc; see above.
USER_HZ = 100

#: A stat line has so many fields at least since Linux 2.6 (proc(5)); fewer are a line that was cut.
_FIELDS = 41


@dataclass(frozen=True)
class ThreadStat:
    """A thread's line in ``stat``, in part.

    Attributes:
        number: the thread's, or the process's.
        name: up to 15 characters; may hold spaces and parentheses.
        state: one letter, e.g. ``R`` or ``Z``.
        session: the session it belongs to.
        user: ticks in user mode.
        system: ticks in the kernel.
        started: ticks after the boot when it began; tells two threads with one number apart.
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
        """Read the file's one line.

        Raises:
            ParseError: it is none.
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
    """The version of a small tool of GNU or of BusyBox.

    Raises:
        ParseError: it is neither's.
    """
    text = output.stdout + output.stderr
    match = re.search(r"\(GNU coreutils\) ([0-9][0-9.]*)|BusyBox v([0-9][0-9.]*)", text, re.ASCII)
    if match is None:
        raise ParseError(tool, "there is no version in what it printed", output)
    return match[1] or f"busybox {match[2]}"


class ThreadCpu:
    """The CPU share of threads on this host, as a test asks for it."""

    def share(self, process: int, thread: str = "", *, window: float = 1.0) -> Quantity:
        """How much of one processor a thread takes.

        Args:
            process: its number.
            thread: the thread's name, e.g. ``CPU 0/KVM``; the process's first thread where it is empty.
            window: seconds to look at it; a share is exact to 1 % of a processor by 1 s.

        Returns:
            In %, of one processor; no direction, since more may be good or bad.

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
        return Quantity(100 * used / (then - at), "%")

    def kernel_share(self, name: str, *, window: float = 1.0) -> Quantity:
        """The same of a kernel thread that is a process of its own, by its name, e.g. ``vhost-1234``.

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
