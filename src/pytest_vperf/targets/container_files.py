"""Files into a container and out of it, by the command ``tar`` of its image.

The engine's own way (``put_archive``, ``get_archive``) works on the root file system as the host sees it.
Seen to go wrong, without an error: gVisor's sandbox keeps its view of the tree to itself, so that a file
the engine puts there is not found inside, nor one made inside found by the engine; and below a mount of
the container (``/proc``, ``/dev/shm``, a tmpfs) the file lands underneath it. A command in the container
sees what every other command in it sees. Only an image without ``tar`` is served the engine's way, and only
where the runtime shares the host's files.
"""

from __future__ import annotations

import contextlib
import io
import tarfile
import tempfile
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, BinaryIO

from pytest_vperf.targets.base import MOST_FILE, CannotConnect, TargetError, TooMuchOutput
from pytest_vperf.targets.engine_address import answering
from pytest_vperf.targets.received import Output, received, too_large
from pytest_vperf.targets.tar_members import DAMAGE, Headers

if TYPE_CHECKING:
    from pytest_vperf.targets.container_exec import Exec
    from pytest_vperf.targets.engine import Engine
    from pytest_vperf.targets.received import Draft

_TIMEOUT = 120.0
_NO_TAR = (126, 127)
#: Bytes of an archive with one file that are not the file's: headers, and the end, which tar fills up to 10 KiB.
_AROUND = 2 << 20
_PIECE = 1 << 20


class Files:
    """The files of one container.

    Args:
        engine: the engine that has it.
        container: its ID.
        target: its name in messages.
        commands: runs ``tar`` in it.
        shared: whether the engine's view of its files is its own.
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
        """Copy a file in, its permission bits kept; owned by root.

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
        argv = ["tar", "-x", "-p", "-f", "-", "-C", str(path.parent)]
        done = self._commands.run(argv, input=archive, timeout=_TIMEOUT)
        if done.returncode in _NO_TAR:
            self._require_shared()
            self._engine_put(path, archive)
        elif done.returncode != 0:
            raise self._failed(f"{destination} cannot be written", done.stderr or done.stdout)

    def get(self, source: str, destination: Path, *, limit: int = MOST_FILE) -> None:
        """Copy a file out; see `pytest_vperf.targets.base.Target.get`.

        What ``tar`` of the image, or the engine, says is not believed: one regular file is taken from it.

        Raises:
            TooMuchOutput: it has more than ``limit`` bytes.
            TargetError: the source is not a file that can be read, or the destination cannot be written.
            CannotConnect: the container or the engine is gone.
        """
        path = self._absolute(source)
        argv = ["tar", "-c", "-h", "-f", "-", "-C", str(path.parent), path.name]
        with (
            received(destination, self._target) as draft,
            # Without a name, and on the disk that the file comes to.
            tempfile.TemporaryFile(dir=destination.parent) as archive,
        ):
            try:
                done = self._commands.run(
                    argv, timeout=_TIMEOUT, max_output=limit + _AROUND, stdout=archive
                )
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
                f"the image of {self._target} has no tar, without which no file can be copied here",
                target=self._target,
            )

    def _engine_put(self, path: PurePosixPath, archive: bytes) -> None:
        from docker.errors import APIError

        try:
            with answering(self._engine.url, target=self._target):
                # Not the SDK's put_archive: it lets a file replace a folder.
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
                f"{source} cannot be read: what came of it is not whole", target=self._target
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
