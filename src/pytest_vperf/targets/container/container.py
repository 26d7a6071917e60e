"""A running container of a Docker engine: a Target. `pytest_vperf.targets.container.containers` starts it.

A command's input and both its outputs share one connection, and its time limit is enforced. Files are copied with the
image's own ``tar``.

The engine's own copying (``put_archive``, ``get_archive``) works on the root file system as the host sees it, and was
seen to fail without an error: gVisor's sandbox keeps its own view of the tree, so that neither side finds a file that
the other one wrote; and below a mount in the container (``/proc``, ``/dev/shm``, a tmpfs) the file ends up underneath
the mount. A command in the container sees what all its commands see. The engine only copies for an image without
``tar``, and only if the runtime shares the host's view of the files.
"""

from __future__ import annotations

import contextlib
import io
import re
import secrets
import socket
import tarfile
import tempfile
import threading
import time
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, BinaryIO

from pytest_vperf.machine.processes import end, marked
from pytest_vperf.targets.base import (
    MOST_FILE,
    CannotConnect,
    Command,
    Completed,
    Facts,
    RunsCommands,
    TargetError,
    TimedOut,
    TooMuchOutput,
    Unavailable,
    Usage,
    end_marked,
    named,
)
from pytest_vperf.targets.container.address import answering
from pytest_vperf.targets.container.limits import usage
from pytest_vperf.targets.container.start import discard
from pytest_vperf.targets.image.tar import DAMAGE, Headers
from pytest_vperf.targets.process import Output, received, too_large

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from pytest_vperf.quantity import Quantity
    from pytest_vperf.targets.base import Link, Program
    from pytest_vperf.targets.container.engine import Engine
    from pytest_vperf.targets.disks import Disk
    from pytest_vperf.targets.image.rootfs import Rootfs
    from pytest_vperf.targets.process import Draft


_HEADER = 8
_STDERR = 2
#: Seconds to wait for the remaining output of a command that was ended.
_REMAINING = 0.2


class Demultiplexer:
    """Splits the engine's stream into standard output and standard error.

    Each frame is a header of 8 bytes, of which the first is the stream (1 or 2) and the last four the payload's
    length, big-endian, followed by the payload (Docker Engine API, "Attach to a container").

    Args:
        output: receives the payloads.
    """

    def __init__(self, output: Output) -> None:
        self._output = output
        self._header = bytearray()
        self._left = 0

    def feed(self, data: bytes) -> None:
        """Process received bytes, in pieces of any size."""
        while data:
            if not self._left:
                wanted = _HEADER - len(self._header)
                self._header += data[:wanted]
                data = data[wanted:]
                if len(self._header) < _HEADER:
                    return
                self._left = int.from_bytes(self._header[4:], "big")
                if not self._left:
                    self._header.clear()
                continue
            # Not buffered until it is complete: a frame's length is the sender's choice, up to 4 GiB.
            payload = data[: self._left]
            data = data[len(payload) :]
            self._left -= len(payload)
            if self._header[0] == _STDERR:
                self._output.take_stderr(payload)
            else:
                self._output.take_stdout(payload)
            if not self._left:
                self._header.clear()


class Conversation:
    """The connection to a command that has been started; ended with `close`.

    Args:
        stream: what ``exec_start(socket=True)`` of the SDK returns.
        output: receives what it prints.
    """

    def __init__(self, stream: Any, output: Output) -> None:
        self._stream = stream
        self._connection = getattr(stream, "_sock", stream)
        self._output = output
        self._frames = Demultiplexer(output)

    def run(self, input: bytes, deadline: float) -> bool:
        """Send the input and collect the output until the command closes it.

        Args:
            input: for its standard input.
            deadline: on the clock of `time.perf_counter`.

        Returns:
            Whether the output ended before the deadline and within its size limit.

        Raises:
            OSError: the engine broke the connection.
        """
        self._frames.feed(self._read_ahead())
        if input:
            self._connection.settimeout(max(0.001, deadline - time.perf_counter()))
            threading.Thread(target=self._feed, args=(input,), daemon=True).start()
        while True:
            left = deadline - time.perf_counter()
            if left <= 0 or self._output.is_full:
                return False
            self._connection.settimeout(left)
            try:
                data = self._connection.recv(1 << 16)
            except TimeoutError:
                return False
            if not data:
                return True
            self._frames.feed(data)

    @contextlib.contextmanager
    def read_on(self) -> Iterator[None]:
        """Take the remaining output in the background, in the block and a moment longer, and drop what is too much.

        The engine handles the ends of a container's commands one after the other, and waits for the output of each.
        """
        reader = threading.Thread(target=self._take, daemon=True)
        self._connection.settimeout(None)
        reader.start()
        try:
            yield
            reader.join(_REMAINING)
        finally:
            self.close()
            reader.join()

    def _take(self) -> None:
        with contextlib.suppress(OSError):
            while data := self._connection.recv(1 << 16):
                if not self._output.is_full:
                    self._frames.feed(data)

    def _read_ahead(self) -> bytes:
        """Output that was already read from the connection together with the answer's HTTP header.

        The SDK returns the bare connection without these bytes, the first output of a quick command.
        """
        reader = getattr(getattr(self._stream, "_response", None), "raw", None)
        reader = getattr(getattr(reader, "_fp", None), "fp", None)
        if reader is None or not hasattr(reader, "peek"):
            return b""
        self._connection.settimeout(0)
        with contextlib.suppress(BlockingIOError):
            return bytes(reader.read1(len(reader.peek())))
        return b""

    def _feed(self, input: bytes) -> None:
        # A command need not read all of its input.
        with contextlib.suppress(OSError):
            self._connection.sendall(input)
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """Close the connection. Safe to repeat."""
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)
        response: Any = getattr(self._stream, "_response", None)
        for thing in (response, self._stream):
            with contextlib.suppress(Exception):  # closed either way
                thing.close()


_MARK = "VPERF_EXEC"
#: Most output in bytes of our own commands in the container, which run the image's programs.
_OUR_OWN = 1 << 20
_NOT_FOUND = re.compile(r"not found|no such file or directory", re.IGNORECASE)


class Exec:
    """Commands in one container.

    Args:
        engine: the container's engine.
        container: the container's ID.
        target: its name in messages.
    """

    def __init__(self, engine: Engine, container: str, target: str) -> None:
        self._engine = engine
        self._api: Any = engine.client.api
        self._container = container
        self._target = target

    def run(self, command: Command, stdout: BinaryIO | None = None) -> Completed:
        """Run a command to its end, whatever its status.

        Args:
            stdout: where standard output goes instead of into memory.

        Raises:
            TooMuchOutput: it printed more than ``max_output``; it was ended, as after a timeout.
            TimedOut: it exceeded its time limit and was killed, along with the container if nothing else helped.
            CannotConnect: the engine or the container is gone.
            TargetError: the engine refuses the command.
        """
        mark = secrets.token_hex(8)
        output = Output(command.max_output, stdout)
        with answering(self._engine.url, target=self._target):
            identity = self._create(command, mark)
            begin = time.perf_counter()
            conversation = self._start(identity, output)
            try:
                ended = conversation.run(command.input, begin + command.timeout)
                duration = time.perf_counter() - begin
                if not ended:
                    too_much = output.is_full
                    with conversation.read_on():
                        how = self._end(identity, mark)
            finally:
                conversation.close()
            if not ended and too_much:
                raise output.too_much(command.argv, command.max_output, self._target)
            if not ended:
                raise TimedOut(
                    f"{command} did not end within {command.timeout:g} s in {self._target} and {how}",
                    target=self._target,
                    stdout=output.stdout,
                    stderr=output.stderr,
                )
            status = self._api.exec_inspect(identity)
        if status["ExitCode"] is None:
            raise CannotConnect(
                f"the connection to {command} in {self._target} broke before it ended",
                target=self._target,
            )
        if not status.get("Pid"):  # it never ran: any output is the runtime's error message
            words = (output.stdout + output.stderr).strip() + b"\n"
            missing = _NOT_FOUND.search(words.decode("utf-8", "replace"))
            return Completed(command.argv, 127 if missing else 126, b"", words, duration)
        return Completed(
            command.argv, int(status["ExitCode"]), output.stdout, output.stderr, duration
        )

    def _create(self, command: Command, mark: str) -> str:
        from docker.errors import APIError

        try:
            return str(
                self._api.exec_create(
                    self._container,
                    list(command.argv),
                    stdin=bool(command.input),
                    environment={**command.env, **({_MARK: mark} if mark else {})},
                    workdir=command.cwd,
                )["Id"]
            )
        except APIError as error:
            raise self._gone(error) from error

    def _start(self, identity: str, output: Output) -> Conversation:
        from docker.errors import APIError

        try:
            return Conversation(self._api.exec_start(identity, socket=True), output)
        except APIError as error:
            raise self._gone(error) from error

    def _gone(self, error: Any) -> TargetError:
        """The error for an exec that the engine rejected: the container is not running, or the command is refused."""
        words = str(error.explanation or error)
        if error.status_code == 404:
            return CannotConnect(
                f"{self._target} is gone: the engine has no such container", target=self._target
            )
        if error.status_code == 409:
            return CannotConnect(f"{self._target} is not running: {words}", target=self._target)
        return TargetError(f"{self._target} refuses the command: {words}", target=self._target)

    def _end(self, identity: str, mark: str) -> str:
        """End a command from outside the container, else from inside, else along with the container; return how."""
        seen = list(marked(_MARK, mark))  # none if its processes are not visible on this kernel
        end(seen)
        if seen and not self._running(identity, mark):
            return "was killed"
        self._inside(end_marked(_MARK, mark))
        if not self._running(identity, mark):
            return "was killed"
        self._api.kill(self._container)
        return "could not be ended alone, so the container was killed"

    def _running(self, identity: str, mark: str) -> bool:
        deadline = time.monotonic() + 1.0
        while self._api.exec_inspect(identity)["Running"]:
            if time.monotonic() > deadline:
                return True
            time.sleep(0.02)
        # gVisor's process on the host may be gone while the command itself still runs inside.
        found = self._inside(["sh", "-c", f'grep -l "{_MARK}=$1" /proc/[0-9]*/environ', "sh", mark])
        return bool(found.strip())

    def _inside(self, argv: list[str]) -> bytes:
        identity = self._create(Command(tuple(argv)), mark="")
        output = Output(_OUR_OWN)
        conversation = self._start(identity, output)
        try:
            conversation.run(b"", time.perf_counter() + 10)
        finally:
            conversation.close()
        return output.stdout


_TIMEOUT = 120.0
_NO_TAR = (126, 127)
#: Most bytes of a one-file archive besides the content: headers, and the end, which tar pads to 10 KiB.
_AROUND = 2 << 20
_PIECE = 1 << 20


class Files:
    """The files of one container.

    Args:
        engine: its engine.
        container: its ID.
        target: its name in messages.
        commands: runs ``tar`` in it.
        shared: whether the engine sees the same files as the container.
    """

    def __init__(
        self, engine: Engine, container: str, target: str, commands: Exec, *, shared: bool
    ) -> None:
        self._engine = engine
        self._api: Any = engine.client.api
        self._container = container
        self._target = target
        self._commands = commands
        self._shared = shared

    def put(self, source: Path, destination: str) -> None:
        """Copy a file in, keeping its permission bits; root owns it.

        Raises:
            TargetError: the source cannot be read, or the destination cannot be written.
            CannotConnect: the container or the engine is gone.
        """
        path = self._absolute(destination)
        try:
            archive = _pack(source, path.name)
        except OSError as error:
            raise TargetError(
                f"{source} cannot be read: {error.strerror}", target=self._target
            ) from error
        argv = ("tar", "-x", "-p", "-f", "-", "-C", str(path.parent))
        done = self._commands.run(Command(argv, archive, timeout=_TIMEOUT))
        if done.returncode in _NO_TAR:
            self._require_shared()
            self._engine_put(path, archive)
        elif done.returncode != 0:
            raise self._failed(f"{destination} cannot be written", done.stderr or done.stdout)

    def get(self, source: str, destination: Path, *, limit: int = MOST_FILE) -> None:
        """Copy a file out; see `pytest_vperf.targets.base.Target.get`.

        The archive that the image's ``tar`` or the engine sends is not trusted: only one regular file is taken from
        it.

        Raises:
            TooMuchOutput: it is larger than ``limit`` bytes.
            TargetError: the source is not a readable file, or the destination cannot be written.
            CannotConnect: the container or the engine is gone.
        """
        path = self._absolute(source)
        argv = ("tar", "-c", "-h", "-f", "-", "-C", str(path.parent), path.name)
        command = Command(argv, timeout=_TIMEOUT, max_output=limit + _AROUND)
        with (
            received(destination, self._target) as draft,
            # Unnamed, and on the destination's disk, which has to hold the file anyway.
            tempfile.TemporaryFile(dir=destination.parent) as archive,
        ):
            try:
                done = self._commands.run(command, archive)
                if done.returncode in _NO_TAR:
                    self._require_shared()
                    self._engine_get(path, archive, limit + _AROUND)
                elif done.returncode != 0:
                    raise self._failed(f"{source} cannot be read", done.stderr)
            except TooMuchOutput:
                raise too_large(source, limit, self._target) from None
            self._unpack(archive, source, draft, limit)

    def _absolute(self, path: str) -> PurePosixPath:
        pure = PurePosixPath(path)
        if not pure.is_absolute() or not pure.name:
            raise TargetError(f"{path} is not the absolute path of a file", target=self._target)
        return pure

    def _require_shared(self) -> None:
        if not self._shared:
            raise TargetError(
                f"the image of {self._target} has no tar, which copying files needs with this runtime",
                target=self._target,
            )

    def _engine_put(self, path: PurePosixPath, archive: bytes) -> None:
        from docker.errors import APIError

        try:
            with answering(self._engine.url, target=self._target):
                # Not the SDK's put_archive: it lets a file replace a directory.
                url = self._api._url("/containers/{0}/archive", self._container)
                options = {"path": str(path.parent), "noOverwriteDirNonDir": "true"}
                self._api._raise_for_status(self._api._put(url, params=options, data=archive))
        except APIError as error:
            raise self._refused(f"{path} cannot be written", error) from error

    def _engine_get(self, path: PurePosixPath, archive: BinaryIO, most: int) -> None:
        from docker.errors import APIError

        try:
            with answering(self._engine.url, target=self._target):
                # follow a link, as any program in the container would
                for _ in range(10):
                    chunks, found = self._api.get_archive(self._container, str(path))
                    output = Output(most, archive)
                    archive.seek(0)
                    archive.truncate()
                    with contextlib.closing(chunks):
                        for chunk in chunks:
                            output.take_stdout(chunk)
                            if output.is_full:
                                raise TooMuchOutput(str(path), target=self._target)
                    if not found["linkTarget"] or found["linkTarget"] == str(path):
                        break
                    path = PurePosixPath(found["linkTarget"])
        except APIError as error:
            raise self._refused(f"{path} cannot be read", error) from error

    def _unpack(self, archive: BinaryIO, source: str, draft: Draft, limit: int) -> None:
        archive.seek(0)
        headers: Any = Headers(archive, source)
        try:
            with tarfile.open(fileobj=headers, mode="r:") as members:
                member = members.next()
        except DAMAGE as error:
            raise TargetError(f"{source} cannot be read: {error}", target=self._target) from error
        if member is None or not member.isreg() or member.issparse():
            raise TargetError(f"{source} cannot be read: it is not a file", target=self._target)
        if member.size > limit:
            raise too_large(source, limit, self._target)
        archive.seek(member.offset_data)
        left = member.size
        while left > 0 and (piece := archive.read(min(left, _PIECE))):
            draft.file.write(piece)
            left -= len(piece)
        if left:  # below 0, too
            raise TargetError(
                f"{source} cannot be read: it arrived incomplete", target=self._target
            )
        draft.mode = member.mode

    def _failed(self, what: str, words: bytes) -> TargetError:
        lines = words.decode("utf-8", "replace").strip().splitlines() or ["no reason given"]
        return TargetError(f"{what} in {self._target}: {lines[0]}", target=self._target)

    def _refused(self, what: str, error: Any) -> TargetError:
        words = str(error.explanation or error)
        if error.status_code == 404 and "No such container" in words:
            return CannotConnect(
                f"{self._target} is gone: the engine has no such container", target=self._target
            )
        return TargetError(f"{what} in {self._target}: {words}", target=self._target)


def _pack(source: Path, name: str) -> bytes:
    with source.open("rb") as stream:
        data = stream.read()
    entry = tarfile.TarInfo(name)
    entry.size = len(data)
    entry.mode = source.stat().st_mode & 0o7777
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:") as archive:
        archive.addfile(entry, io.BytesIO(data))
    return packed.getvalue()


class Container(RunsCommands):
    """A running container. Made by `Containers.start`.

    Attributes:
        name: ``container`` and the runtime.
        startup_time: from the request until its process ran, broken down by the engine's two requests.
        link: its link to the run's own network, if any.
        disks: the run's disks that it was started with.
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

    def _run(self, command: Command) -> Completed:
        return self._commands.run(command)

    def program(self, name: str) -> Program:
        """A program of the image; see `pytest_vperf.targets.base.Target.program`."""
        from pytest_vperf.targets.image.programs import programs_of

        with named(self.name):
            if self._tree is None:
                raise Unavailable(f"the files in the image of {self.name} are not known")
            return programs_of(self._tree()).find(name)

    def put(self, source: Path, destination: str) -> None:
        """Copy a file in; see `Files.put`."""
        self._files.put(source, destination)

    def get(self, source: str, destination: Path, *, limit: int = MOST_FILE) -> None:
        """Copy a file out; see `Files.get`."""
        self._files.get(source, destination, limit=limit)

    def check_devices(self) -> None:
        """Make sure that the raw disks are present: a runtime with its own kernel may silently omit them.

        Raises:
            Unavailable: one is missing.
        """
        for disk in self.disks:
            if not disk.formatted and self.run(["test", "-b", disk.inside], check=False).returncode:
                raise Unavailable(
                    f"its runtime does not pass block devices through: there is no {disk.inside}",
                    remedy='disks.make(…, format="ext4"), whose file system is bound in',
                    target=self.name,
                )

    def facts(self) -> Facts:
        """Runtime, engine, image, kernel, the requested limits as read back, and its network."""
        if self.link is None:
            return self._facts
        details = {**self._facts.details, **self.link.details()}
        return replace(self._facts, details=details)

    @property
    def pid(self) -> int:
        """The ID of its first process, or of its sandbox, in the engine's PID namespace."""
        return self._pid

    def usage(self) -> Usage:
        """CPU time and memory, as accounted by the host."""
        return usage(self._engine, self.id, self._pid, self.name)

    def close(self) -> None:
        """Remove the container and its volumes. Safe to repeat; no error if it or its engine is gone."""
        if not self._closed:
            self._closed = True
            discard(self._engine, self.id)
            if self._holder:
                discard(self._engine, self._holder)
            if self.link is not None:
                self.link.close()
