"""A target whose machine has our agent: commands and files go over its wire, whatever the transport."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, BinaryIO

from pytest_vperf.targets.agent.wire import Conversation, Frame, Type, command_payload
from pytest_vperf.targets.base import (
    MOST_FILE,
    MOST_OUTPUT,
    RunsCommands,
    TargetError,
    TooMuchOutput,
    named,
)
from pytest_vperf.targets.process import received, too_large

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from pytest_vperf.targets.agent.wire import Speaker
    from pytest_vperf.targets.base import Command, Completed, Program
    from pytest_vperf.targets.image.rootfs import Rootfs

#: The default environment of commands, the same as Docker's.
ENVIRONMENT = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": "/root",
}
_CHUNK = 1 << 16


class AgentTarget(RunsCommands):
    """Commands and files of a machine with our agent; subclasses add its start and facts.

    Args:
        machine: with the agent.
        rootfs: its image.
        environment: of every command; a command's own variables override it.
    """

    def __init__(self, machine: Speaker, rootfs: Rootfs, environment: Mapping[str, str]) -> None:
        self.name = machine.name
        self._speaker = machine
        self._rootfs = rootfs
        self._environment = dict(environment)
        self._stream = 1
        # One conversation at a time: the wire belongs to the thread that runs the command.
        self._lock = threading.Lock()

    def _run(self, command: Command) -> Completed:
        environment = {**self._environment, **command.env}
        try:
            payload = command_payload(command.argv, environment, command.cwd or "")
        except ValueError as error:
            raise TargetError(f"{self.name}: {error}", target=self.name) from error
        return self._converse(
            Type.EXEC,
            payload,
            command.argv,
            iter([command.input]),
            command.timeout,
            command.max_output,
        )

    def program(self, name: str) -> Program:
        """A program of the image; see `pytest_vperf.targets.base.Target.program`."""
        from pytest_vperf.targets.image.programs import programs_of

        with named(self.name):
            return programs_of(self._rootfs).find(name)

    def put(self, source: Path, destination: str) -> None:
        """Copy a file into it; see `pytest_vperf.targets.base.Target.put`."""
        with source.open("rb") as stream:
            mode = os.fstat(stream.fileno()).st_mode & 0o7777
            payload = os.fsencode(destination) + b"\0" + f"{mode:o}".encode() + b"\0"
            chunks = iter(lambda: stream.read(_CHUNK), b"")
            self._transfer(Type.WRITE, payload, ("put", str(source), destination), chunks)

    def get(self, source: str, destination: Path, *, limit: int = MOST_FILE) -> None:
        """Copy a file out of it; see `pytest_vperf.targets.base.Target.get`."""
        payload, what = os.fsencode(source) + b"\0", ("get", source, str(destination))
        with received(destination, self.name) as draft:
            try:
                self._transfer(Type.READ, payload, what, iter(()), limit, draft.file)
            except TooMuchOutput:
                raise too_large(source, limit, self.name) from None

    def _transfer(
        self,
        kind: Type,
        payload: bytes,
        what: tuple[str, ...],
        chunks: Iterator[bytes],
        most: int = MOST_OUTPUT,
        content: BinaryIO | None = None,
    ) -> None:
        completed = self._converse(kind, payload, what, chunks, 600.0, most, content)
        if completed.returncode:
            message = completed.stderr.decode("utf-8", "replace").strip()
            raise TargetError(f"{' '.join(what)} in {self.name}: {message}", target=self.name)

    def _converse(
        self,
        kind: Type,
        payload: bytes,
        argv: tuple[str, ...],
        chunks: Iterator[bytes],
        timeout: float,
        max_output: int,
        stdout: BinaryIO | None = None,
    ) -> Completed:
        with self._lock:
            # Stream 1 is the container's own process; numbers come round again after 65,534 commands.
            self._stream = 2 + (self._stream - 1) % 0xFFFD
            conversation = Conversation(self._speaker, self._stream, argv, max_output, stdout)
            return conversation.hold(Frame(kind, self._stream, payload), chunks, timeout)
