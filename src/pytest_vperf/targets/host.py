"""The host target: this machine itself; and the embedded other host, the far end of a network test.

By default the other host is *embedded*: a network namespace on this machine, on the run's own switch. It has its own
address and links, but shares this machine's CPUs and memory; the record says so. A machine reached by SSH is in
`pytest_vperf.targets.remote.ssh`.
"""

from __future__ import annotations

import copy
import itertools
import os
import shutil
import stat
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pytest_vperf.targets.base import (
    MOST_FILE,
    Completed,
    Facts,
    RunsCommands,
    TargetError,
    TimedOut,
    Unavailable,
    Usage,
)
from pytest_vperf.targets.network.commands import entering
from pytest_vperf.targets.process import OutOfRoom, OutOfTime, received, run_process, too_large

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pytest_vperf.machine.runs import Run
    from pytest_vperf.targets.base import Command, Link, Program
    from pytest_vperf.targets.control_group import ControlGroup
    from pytest_vperf.targets.disks import CappedDisk, Disk
    from pytest_vperf.targets.image.rootfs import Rootfs
    from pytest_vperf.targets.network.switch import Namespace


Tools = Literal["image", "host"]

_HOST_MARK = "VPERF_HOST"
_PIECE = 1 << 20
_numbers = itertools.count(1)


class Host(RunsCommands):
    """This machine as a target.

    Args:
        run: the processes carry its marks, so that leftovers of a killed run can be found.
        rootfs: returns the image whose programs are run in place; called when the first one is needed.
        tools: whether `program` returns the image's programs, or those installed on the host.

    Attributes:
        link: its link to the run's own network, if any.
    """

    name = "host"
    link: Link | None = None
    _group: ControlGroup | None = None
    _made_of_it: tuple[Host, ...] = ()
    #: A prefix to each command.
    _entering: Sequence[str] = ()

    def __init__(
        self,
        run: Run | None = None,
        rootfs: Callable[[], Rootfs] | None = None,
        *,
        tools: Tools = "image",
    ) -> None:
        self._owner = run
        self._rootfs = rootfs
        self._tools = tools
        self._used: list[
            Rootfs
        ] = []  # the image, once one of its programs was used; shared by `limited`
        self._mark = f"{os.getpid()}-{next(_numbers)}"
        self._cpu_time = 0.0

    def limited(
        self,
        *,
        cpus: float | None = None,
        cpuset: str | None = None,
        cpu_shares: int | None = None,
        memory: int | str | None = None,
        disks: Sequence[Disk | CappedDisk] = (),
    ) -> Host:
        """This machine, with commands limited by a control group of the run; it ends with this target.

        Args:
            cpus: CPU time they may use together, in CPUs, e.g. 0.5.
            cpuset: the CPUs they may run on, e.g. ``0-1``.
            cpu_shares: their weight against others; the default is 1024.
            memory: their limit together, without swap: bytes, or e.g. ``200 MiB``.
            disks: capped ones, from ``disk.capped(…)``.

        Raises:
            Unavailable: this user may not make control groups.
            CannotStart: the system rejects a limit, or a limit is not as requested.
        """
        from pytest_vperf.targets.control_group import ControlGroup
        from pytest_vperf.targets.disks import attached
        from pytest_vperf.targets.limits import Limits, bytes_of

        _, caps = attached(disks)
        limits = Limits(cpus, cpuset, cpu_shares, bytes_of(memory), caps)
        if self._owner is None or not limits:
            raise ValueError(
                "limited() needs a limit" if self._owner else "a limited host needs a run"
            )
        made = copy.copy(self)
        made._mark = f"{os.getpid()}-{next(_numbers)}"
        made._cpu_time, made._made_of_it = 0.0, ()
        made._group = ControlGroup(self._owner, limits, self.name)
        self._made_of_it = (*self._made_of_it, made)
        return made

    def _run(self, command: Command) -> Completed:
        """Run a command; at its time limit the whole session is killed, including children that hold its output."""
        base = self._owner.environment if self._owner else dict(os.environ)
        entered: Sequence[str] = (*self._entering, *command.argv)
        if self._group:
            entered = self._group.entered(entered)
        try:
            done = run_process(
                entered,
                env={**base, **command.env, _HOST_MARK: self._mark},
                input=command.input,
                cwd=command.cwd,
                timeout=command.timeout,
                max_output=command.max_output,
            )
        except OutOfRoom as error:
            self._cpu_time += error.cpu_time
            raise error.output.too_much(command.argv, command.max_output, self.name) from None
        except OutOfTime as error:
            self._cpu_time += error.cpu_time
            raise TimedOut(
                f"{command} did not end within {command.timeout:g} s on the host and was killed",
                target=self.name,
                stdout=error.output.stdout,
                stderr=error.output.stderr,
            ) from None
        except OSError as error:
            raise TargetError(
                f"{command} cannot be started on the host: {error.strerror}",
                target=self.name,
            ) from error
        self._cpu_time += done.cpu_time
        return Completed(command.argv, done.returncode, done.stdout, done.stderr, done.duration)

    def program(self, name: str) -> Program:
        """A program of the image, through the image's loader; see `pytest_vperf.targets.base.Target.program`."""
        from pytest_vperf.targets.image import programs

        try:
            if self._tools == "host":
                return programs.installed_program(name)
            if self._rootfs is None:
                raise Unavailable("the host was given no image whose programs it could run")
            image = self._rootfs()
            found = programs.programs_of(image).in_place(name)
        except Unavailable as error:
            error.target = self.name
            raise
        if not self._used:
            self._used.append(image)
        return found

    def put(self, source: Path, destination: str) -> None:
        """Copy a file to an absolute path, keeping its permission bits."""
        self._require_absolute(destination)
        try:
            shutil.copyfile(source, destination)
            shutil.copymode(source, destination)
        except (OSError, shutil.SameFileError) as error:
            why = getattr(error, "strerror", None) or "it is the same file"
            raise TargetError(
                f"{source} cannot be copied to {destination}: {why}", target=self.name
            ) from error

    def get(self, source: str, destination: Path, *, limit: int = MOST_FILE) -> None:
        """Copy a file from an absolute path; see `pytest_vperf.targets.base.Target.get`."""
        self._require_absolute(source)
        try:
            # Non-blocking: opening a named pipe without a writer would wait for ever.
            opened = os.open(source, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            raise self._unread(source, destination, error.strerror) from error
        found = os.fstat(opened)
        if not stat.S_ISREG(found.st_mode):
            os.close(opened)
            raise self._unread(source, destination, "it is not a regular file")
        with os.fdopen(opened, "rb") as stream, received(destination, self.name) as draft:
            left = limit + 1  # it may grow endlessly
            while left and (piece := stream.read(min(left, _PIECE))):
                draft.file.write(piece)
                left -= len(piece)
            if not left:
                raise too_large(source, limit, self.name)
            draft.mode = found.st_mode

    def _unread(self, source: str, destination: Path, why: str | None) -> TargetError:
        return TargetError(f"{source} cannot be copied to {destination}: {why}", target=self.name)

    def _require_absolute(self, path: str) -> None:
        if not Path(path).is_absolute():
            raise TargetError(f"{path} is not an absolute path", target=self.name)

    def facts(self) -> Facts:
        """Kernel, architecture and usable CPUs of this machine; the image, once one of its programs was used."""
        system = os.uname()
        return Facts(
            kind="host",
            name=self.name,
            details={
                "kernel": f"{system.sysname} {system.release}",
                "architecture": system.machine,
                "cpus": str(len(os.sched_getaffinity(0))),
                **_describe(self._used),
                **(self._group.details if self._group else {}),
                **(self.link.details() if self.link else {}),
            },
        )

    @property
    def scratch(self) -> str:
        """A folder for files of commands: the run's, removed with it."""
        return str(self._owner.folder) if self._owner else tempfile.gettempdir()

    def usage(self) -> Usage:
        """CPU time of the commands run so far, including their waited-for children; no memory."""
        return Usage(cpu_time=self._cpu_time, memory=None)

    def close(self) -> None:
        """End background processes that commands left."""
        from pytest_vperf.machine.processes import end, marked

        for made in self._made_of_it:
            made.close()
        end(marked(_HOST_MARK, self._mark))
        if self._group is not None:
            self._group.close()


def _describe(images: Sequence[Rootfs]) -> dict[str, str]:
    return {"rootfs": images[0].name, "rootfs_sha256": images[0].sha256} if images else {}


class EmbeddedHost(Host):
    """A network namespace of this machine as a target.

    Args:
        namespace: where its commands run; removed with this target.
        link: its link to the switch.
        run: as for `Host`, like the rest.
    """

    name = "other host (embedded)"

    def __init__(
        self,
        namespace: Namespace,
        link: Link,
        run: Run | None = None,
        rootfs: Callable[[], Rootfs] | None = None,
        *,
        tools: Tools = "image",
    ) -> None:
        super().__init__(run, rootfs, tools=tools)
        self.link = link
        self._namespace = namespace
        self._entering = entering(namespace.path)

    def facts(self) -> Facts:
        """Those of `Host`, and that it is a network namespace."""
        found = super().facts()
        return Facts(
            "host",
            self.name,
            {**found.details, "placement": "network namespace on this machine"},
        )

    def close(self) -> None:
        """End background processes that commands left, and remove link and namespace."""
        super().close()
        # One from `limited` shares this one's namespace.
        if self._group is None and self.link is not None:
            self.link.close()
            self._namespace.delete()
