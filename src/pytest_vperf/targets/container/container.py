"""A running container of a Docker engine: a Target. `pytest_vperf.targets.container` starts it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pytest_vperf.targets.base import (
    MOST_FILE,
    MOST_OUTPUT,
    CommandFailed,
    Completed,
    Facts,
    Unavailable,
    Usage,
)
from pytest_vperf.targets.container_exec import Exec
from pytest_vperf.targets.container_files import Files
from pytest_vperf.targets.container_start import discard
from pytest_vperf.targets.container_usage import usage
from pytest_vperf.targets.named import named

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path
    from types import TracebackType

    from pytest_vperf.quantity import Quantity
    from pytest_vperf.targets.base import Link
    from pytest_vperf.targets.disks import Disk
    from pytest_vperf.targets.engine import Engine
    from pytest_vperf.targets.image import Rootfs
    from pytest_vperf.targets.program import Program


class Container:
    """A running container. Made by `Containers.start`.

    Attributes:
        name: ``container`` and the runtime.
        startup_time: from the request until its process ran; the parts are the engine's two requests.
        link: how it is on the run's own network, if it is.
        disks: of the run, that it was started with.
    """

    def __init__(
        self,
        engine: Engine,
        identity: str,
        state: Mapping[str, Any],
        *,
        name: str,
        startup_time: Quantity,
        facts: Facts,
        shares_files: bool,
        link: Link | None = None,
        holder: str = "",
        disks: tuple[Disk, ...] = (),
        tree: Callable[[], Rootfs] | None = None,
    ) -> None:
        self.name = name
        self.disks = disks
        self.link = link
        self._holder = holder
        self.startup_time = startup_time
        self.id = identity
        self._engine = engine
        self._pid = int(state["State"]["Pid"])
        self._facts = facts
        self._tree = tree
        self._commands = Exec(engine, identity, name)
        self._files = Files(engine, identity, name, self._commands, shared=shares_files)
        self._closed = False

    def run(
        self,
        argv: Sequence[str],
        *,
        input: bytes = b"",
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        timeout: float = 60.0,
        check: bool = True,
        max_output: int = MOST_OUTPUT,
    ) -> Completed:
        """Run a command to its end; see `pytest_vperf.targets.base.Target.run`."""
        done = self._commands.run(
            argv, input=input, env=env, cwd=cwd, timeout=timeout, max_output=max_output
        )
        if check and done.returncode != 0:
            raise CommandFailed(done, target=self.name)
        return done

    def program(self, name: str) -> Program:
        """A program of the image; see `pytest_vperf.targets.base.Target.program`."""
        from pytest_vperf.targets.image_programs import programs_of

        with named(self.name):
            if self._tree is None:
                raise Unavailable(f"the files in the image of {self.name} are not known")
            return programs_of(self._tree()).find(name)

    def put(self, source: Path, destination: str) -> None:
        """Copy a file in; see `pytest_vperf.targets.container_files`."""
        self._files.put(source, destination)

    def get(self, source: str, destination: Path, *, limit: int = MOST_FILE) -> None:
        """Copy a file out; see `pytest_vperf.targets.container_files`."""
        self._files.get(source, destination, limit=limit)

    def check_devices(self) -> None:
        """Make sure that the raw disks are there: a runtime with a kernel of its own may leave them out in silence.

        Raises:
            Unavailable: one is not.
        """
        for disk in self.disks:
            if not disk.formatted and self.run(["test", "-b", disk.inside], check=False).returncode:
                raise Unavailable(
                    f"its runtime does not pass block devices through: there is no {disk.inside}",
                    remedy='disks.make(…, format="ext4"), whose file system is bound in',
                    target=self.name,
                )

    def facts(self) -> Facts:
        """Runtime, engine, image, kernel, the limits that were asked for as they were read back, and its network."""
        if self.link is None:
            return self._facts
        details = {**self._facts.details, **self.link.details()}
        return replace(self._facts, details=details)

    @property
    def pid(self) -> int:
        """The process ID of its first process, as the engine numbers it; of a sandbox the sandbox's."""
        return self._pid

    def usage(self) -> Usage:
        """CPU time and memory, by the host's account."""
        return usage(self._engine, self.id, self._pid, self.name)

    def close(self) -> None:
        """Remove the container with its volumes. Safe to repeat; quiet if it or its engine is gone."""
        if not self._closed:
            self._closed = True
            discard(self._engine, self.id)
            if self._holder:
                discard(self._engine, self._holder)
            if self.link is not None:
                self.link.close()

    def __enter__(self) -> Container:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
