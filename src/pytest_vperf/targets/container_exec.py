"""Running a command in a running container, with a time limit that is kept."""

from __future__ import annotations

import re
import secrets
import time
from typing import TYPE_CHECKING, Any, BinaryIO

from pytest_vperf.machine.marks import end, marked
from pytest_vperf.targets.base import MOST_OUTPUT, CannotConnect, Completed, TargetError, TimedOut
from pytest_vperf.targets.end_marked import end_marked
from pytest_vperf.targets.engine_address import answering
from pytest_vperf.targets.exec_stream import Conversation
from pytest_vperf.targets.received import Output

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pytest_vperf.targets.engine import Engine

_MARK = "VPERF_EXEC"
#: Bytes that a command of ours prints, which is the image's own program.
_OUR_OWN = 1 << 20
_NOT_FOUND = re.compile(r"not found|no such file or directory", re.IGNORECASE)


class Exec:
    """Commands in one container.

    Args:
        engine: the engine that has the container.
        container: the container's ID.
        target: its name in messages.
    """

    def __init__(self, engine: Engine, container: str, target: str) -> None:
        self._engine = engine
        self._api: Any = engine.client.api
        self._container = container
        self._target = target

    def run(
        self,
        argv: Sequence[str],
        *,
        input: bytes = b"",
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        timeout: float = 60.0,
        max_output: int = MOST_OUTPUT,
        stdout: BinaryIO | None = None,
    ) -> Completed:
        """Run a command to its end; see `pytest_vperf.targets.base.Target.run`.

        Args:
            stdout: where standard output goes instead of into memory.

        Raises:
            TooMuchOutput: it printed more than ``max_output``; it was ended, likewise.
            TimedOut: the limit passed; the command was ended, with the container if nothing else helped.
            CannotConnect: the engine or the container is gone.
            TargetError: the engine refuses the command.
        """
        command = list(argv)
        if not command:
            raise ValueError("a command has at least one word")
        mark = secrets.token_hex(8)
        output = Output(max_output, stdout)
        with answering(self._engine.url, target=self._target):
            identity = self._create(command, {**(env or {}), _MARK: mark}, cwd, bool(input))
            begin = time.perf_counter()
            conversation = self._start(identity, output)
            try:
                ended = conversation.run(input, begin + timeout)
                duration = time.perf_counter() - begin
                if not ended:
                    too_much = output.is_full
                    how = self._end(identity, mark)
                    conversation.run(b"", time.perf_counter() + 0.2)  # what it still had to say
            finally:
                conversation.close()
            if not ended and too_much:
                raise output.too_much(command, max_output, self._target)
            if not ended:
                raise TimedOut(
                    f"{' '.join(command)} did not end within {timeout:g} s in {self._target} and {how}",
                    target=self._target,
                    stdout=output.stdout,
                    stderr=output.stderr,
                )
            status = self._api.exec_inspect(identity)
        if status["ExitCode"] is None:
            raise CannotConnect(
                f"the connection to {' '.join(command)} in {self._target} broke before it ended",
                target=self._target,
            )
        if not status.get("Pid"):  # it never ran; what there is of output are the runtime's words
            words = (output.stdout + output.stderr).strip() + b"\n"
            missing = _NOT_FOUND.search(words.decode("utf-8", "replace"))
            return Completed(tuple(command), 127 if missing else 126, b"", words, duration)
        return Completed(
            tuple(command), int(status["ExitCode"]), output.stdout, output.stderr, duration
        )

    def _create(
        self, command: list[str], env: Mapping[str, str], cwd: str | None, stdin: bool
    ) -> str:
        from docker.errors import APIError

        try:
            return str(
                self._api.exec_create(
                    self._container, command, stdin=stdin, environment=dict(env), workdir=cwd
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
        """What an error of the engine about an exec means: the container is gone, or it is refused."""
        words = str(error.explanation or error)
        if error.status_code == 404:
            return CannotConnect(
                f"{self._target} is gone: the engine has no such container", target=self._target
            )
        if error.status_code == 409:
            return CannotConnect(f"{self._target} is not running: {words}", target=self._target)
        return TargetError(f"{self._target} refuses the command: {words}", target=self._target)

    def _end(self, identity: str, mark: str) -> str:
        """End a command that took too long: from outside, else from inside, else with its container."""
        seen = list(marked(_MARK, mark))  # none where the container is not on this kernel
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
        # gVisor's process on the host may be gone while the command itself lives on inside.
        found = self._inside(["sh", "-c", f'grep -l "{_MARK}=$1" /proc/[0-9]*/environ', "sh", mark])
        return bool(found.strip())

    def _inside(self, argv: list[str]) -> bytes:
        identity = self._create(argv, {}, None, False)
        output = Output(_OUR_OWN)
        conversation = self._start(identity, output)
        try:
            conversation.run(b"", time.perf_counter() + 10)
        finally:
            conversation.close()
        return output.stdout
