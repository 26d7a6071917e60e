"""Containers started by an OCI runtime alone: ``runc run``, or create, start and delete, without an engine.

The bundle is written before the clock starts. A time is from before the first command of the runtime is started until
the last one has ended, on the host's monotonic clock; the CPU time is that of the commands and of the children they
waited for (getrusage(2)). The container's own process is among them in `OciRuntime.run`, and not in
`OciRuntime.cycle`, where it is nobody's child.

On a machine with a hybrid tree of control groups every command of every runtime enters a mount namespace where crun
works, too (`pytest_vperf.machine.cgroup_view`); that takes some 2 ms, on both sides of a comparison.

Every command has a time limit, since a container that ends at once is a hard case for a runtime: youki 0.7.0's
foreground ``run`` is known not to return now and then.
"""

from __future__ import annotations

import contextlib
import itertools
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_vperf.machine import cgroup_view
from pytest_vperf.machine.preflight import find_program
from pytest_vperf.machine.runs import remove_tree
from pytest_vperf.quantity import Quantity
from pytest_vperf.targets.base import (
    CannotStart,
    Facts,
    TargetError,
    TimedOut,
    Unavailable,
    named,
)
from pytest_vperf.targets.container import runtimes
from pytest_vperf.targets.image.programs import image_folder
from pytest_vperf.targets.least import TOP, Least, search
from pytest_vperf.targets.limits import bytes_of
from pytest_vperf.targets.oci.bundle import Settings, write
from pytest_vperf.targets.process import OutOfTime, run_detached, run_process

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from pytest_vperf.machine.runs import Run
    from pytest_vperf.targets.image.rootfs import Rootfs
    from pytest_vperf.targets.process import Finished
    from pytest_vperf.targets.scope import Scope

#: Seconds that each command of a runtime may take.
TIMEOUT = 30.0
TRUE = ("/bin/true",)
_numbers = itertools.count(1)
#: Runs a command a number of times; the first that fails ends it.
_LOOP = 'n=$1; shift; while [ "$n" -gt 0 ]; do "$@" || exit; n=$((n - 1)); done'


@dataclass(frozen=True)
class Ran:
    """What commands of a runtime took.

    Attributes:
        duration: wall time, in ms.
        cpu_time: user and system, in ms.
    """

    duration: Quantity
    cpu_time: Quantity


@dataclass(frozen=True)
class _Ready:
    """What commands of a runtime need: its beginning, the root file system, a folder, and where they run."""

    argv: Sequence[str]
    root: Path
    folder: Path
    view: cgroup_view.View | None

    @property
    def entering(self) -> Sequence[str]:
        return self.view.entering if self.view is not None else ()


class OciRuntime:
    """One runtime of this machine; found, and its first bundle made, when it is first used.

    Args:
        runtime: its name, see `pytest_vperf.targets.container.runtimes`.
        run: owns the bundles, the states and the control groups.
        scope: closes it, and keeps its facts.
        rootfs: returns the root file system.
        arguments: for the runtime, before its command, e.g. ``--platform=ptrace``.
        build: what is called instead of the installed one; its own arguments come first.
        mark: the suffix of its name.
        timeout: seconds that each of its commands may take.
    """

    def __init__(
        self,
        runtime: str,
        run: Run,
        scope: Scope,
        *,
        rootfs: Callable[[], Rootfs],
        arguments: Sequence[str] = (),
        build: runtimes.Build | None = None,
        mark: str = "",
        timeout: float = TIMEOUT,
    ) -> None:
        self.name = " ".join(("container", runtime, *arguments, "(no engine)")) + mark
        self._program = build.path if build is not None else runtime
        self._arguments = (*(build.arguments if build is not None else ()), *arguments)
        self._runtime = build.kind if build is not None else runtime
        self._run, self._scope, self._rootfs, self._timeout = run, scope, rootfs, timeout
        self._ready: _Ready | None = None

    def _use(self) -> _Ready:
        """What its commands need.

        Raises:
            Unavailable: it is not installed, or this user may not start containers with it.
        """
        if self._ready is None:
            program = find_program(self._program)
            if program is None:
                raise Unavailable(
                    f"{self._program} is not installed",
                    remedy=runtimes.remedy(self._runtime),
                    target=self.name,
                )
            if os.geteuid() != 0:
                raise Unavailable(f"{self._runtime} needs root without an engine", target=self.name)
            with named(self.name):
                image = self._rootfs()
                root = image_folder(image)
            options = (*runtimes.ARGUMENTS.get(self._runtime, ()), *self._arguments)
            details = {
                "runtime": self._runtime,
                "runtime_version": runtimes.version(program),
                "runtime_path": program,
                "arguments": " ".join(options),
                "rootfs": image.name,
                "rootfs_sha256": image.sha256,
            }
            view = None
            if (point := cgroup_view.hybrid()) is not None:
                try:
                    view = cgroup_view.View(point, self._run.environment)
                except OSError as error:
                    raise Unavailable(str(error), target=self.name) from error
                details["control_groups"] = cgroup_view.HIDDEN
            folder = self._run.subfolder("oci")
            argv = (program, "--root", str(folder / "state"), *options)
            self._ready = _Ready(argv, root, folder, view)
            self._scope.keep(self)
            facts = {name: text for name, text in details.items() if text}
            self._scope.note_facts(Facts("container", self.name, facts))
        return self._ready

    def run(
        self,
        command: Sequence[str] = TRUE,
        *,
        memory: int | str | None = None,
        network: bool = True,
        times: int = 1,
    ) -> Ran:
        """Run a container to its end: ``run``.

        Args:
            command: its process; it must succeed.
            memory: its limit: bytes, or e.g. ``4 MiB``.
            network: whether it has a network namespace of its own; else it shares the host's.
            times: how many, one after the other, in a loop of a shell; what they take together is returned.

        Raises:
            Unavailable: the runtime is not installed, or this user may not start containers with it.
            CannotStart: the runtime or the command failed, with what was printed.
            TimedOut: it did not end.
        """
        with self._container(Settings(command, bytes_of(memory), network)) as (name, bundle):
            loop = ("sh", "-c", _LOOP, "sh", str(times)) if times != 1 else ()
            return _took(self._foreground("run", "--bundle", str(bundle), name, before=loop))

    def cycle(self, command: Sequence[str] = TRUE) -> Ran:
        """Create, start and delete a container: ``create``, ``start`` and ``delete --force``.

        Raises: as `run`.
        """
        with self._container(Settings(command)) as (name, bundle):
            return _took(
                self._background("create", "--bundle", str(bundle), name),
                self._background("start", name),
                self._background("delete", "--force", name),
            )

    def detached(self, command: Sequence[str] = TRUE) -> Ran:
        """Start a container in the background: ``run --detach``. It is deleted after the clock has stopped.

        Raises: as `run`.
        """
        with self._container(Settings(command)) as (name, bundle):
            return _took(self._background("run", "--detach", "--bundle", str(bundle), name))

    def peak_memory(self, command: Sequence[str] = TRUE) -> Quantity:
        """The maximum resident set size of the runtime or a child it waited for, in KiB, in `run`.

        GNU time reads it (getrusage(2), ``RUSAGE_CHILDREN``): a process that we start ourselves has our own peak,
        since the kernel counts what a process was before it executed a program. (``busybox time`` prints four times
        as much.)

        Raises: as `run`; Unavailable: GNU time is not installed.
        """
        time = find_program("time")
        if time is None:
            raise Unavailable(
                "GNU time is not installed", remedy="apt-get install time", target=self.name
            )
        peak = self._use().folder / "peak"
        watched = (time, "--format=%M", f"--output={peak}")
        with self._container(Settings(command)) as (name, bundle):
            self._foreground("run", "--bundle", str(bundle), name, before=watched)
        return Quantity(int(peak.read_text()), "KiB", direction="lower", discrete=True)

    def least_memory(self, command: Sequence[str] = TRUE, *, top: str = TOP) -> Least:
        """Search for the least memory limit with which a container starts and its command succeeds.

        Args:
            command: its process.
            top: a limit with which it starts.

        Raises: as `pytest_vperf.targets.least.search`.
        """
        return search(lambda size: self.run(command, memory=size), target=self.name, top=top)

    @contextlib.contextmanager
    def _container(self, settings: Settings) -> Iterator[tuple[str, Path]]:
        """A container's name and its bundle; whatever there is of the container is deleted at the end."""
        ready = self._use()
        name = f"vperf-{self._run.id}-{next(_numbers)}"
        bundle = ready.folder / name
        bundle.mkdir()
        write(bundle, ready.root, f"/{self._run.cgroup}/{name}", settings)
        try:
            yield name, bundle
        finally:
            # A folder named after it, or with gVisor files whose names begin with its own.
            if any((ready.folder / "state").glob(f"{name}*")):
                with contextlib.suppress(TargetError):
                    self._background("delete", "--force", name)
            remove_tree(bundle)

    def _foreground(self, *words: str, before: Sequence[str] = ()) -> Finished:
        """Run one command of the runtime, with its output read until nothing holds it."""
        ready = self._use()
        argv = [*ready.entering, *before, *ready.argv, *words]
        try:
            done = run_process(argv, env=self._run.environment, timeout=self._timeout)
        except OutOfTime as error:
            raise self._too_long(words, error.output.stderr) from None
        return self._checked(words, done)

    def _background(self, *words: str) -> Finished:
        """Run one command that leaves a process behind, which holds its output."""
        ready = self._use()
        argv, log = [*ready.entering, *ready.argv, *words], ready.folder / "output"
        try:
            done = run_detached(argv, env=self._run.environment, log=log, timeout=self._timeout)
        except OutOfTime as error:
            raise self._too_long(words, error.output.stderr) from None
        return self._checked(words, done)

    def _checked(self, words: Sequence[str], done: Finished) -> Finished:
        if done.returncode == 0:
            return done
        said = (done.stderr or done.stdout).decode(errors="replace").strip()
        raise CannotStart(
            f"{self._runtime} {words[0]} ended with status {done.returncode}"
            + (f":\n{said}" if said else ""),
            target=self.name,
        )

    def _too_long(self, words: Sequence[str], stderr: bytes) -> TimedOut:
        return TimedOut(
            f"{self._runtime} {words[0]} did not end within {self._timeout:g} s and was killed",
            target=self.name,
            stdout=b"",
            stderr=stderr,
        )

    def close(self) -> None:
        """End what is left, and remove the files. Safe to repeat."""
        ready, self._ready = self._ready, None
        if ready is not None:
            if ready.view is not None:
                ready.view.close()
            remove_tree(ready.folder)


def _took(*commands: Finished) -> Ran:
    return Ran(
        Quantity(sum(each.duration for each in commands) * 1e3, "ms", direction="lower"),
        Quantity(sum(each.cpu_time for each in commands) * 1e3, "ms", direction="lower"),
    )
