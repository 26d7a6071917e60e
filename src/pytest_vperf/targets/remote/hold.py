"""What a run has on another machine for as long as it lives: the measuring lock, and a folder.

One command there holds both and waits for the end of its input, so that they are given back however this process
ends.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import subprocess
from importlib import resources
from typing import IO, TYPE_CHECKING

from pytest_vperf.machine.ending import end_by_input
from pytest_vperf.targets.base import CannotConnect, CannotStart
from pytest_vperf.targets.process import Stopped
from pytest_vperf.targets.ssh_connection import remote_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytest_vperf.targets.ssh_connection import SshConnection

#: Seconds: another run may measure for long.
WAIT = 3600
_ANSWER = 60.0
#: Seconds in which a command that failed has told why.
_LAST_WORDS = 2.0


class Hold:
    """A folder of the run there and, if asked for, the machine's measuring lock.

    Args:
        connection: to the machine.
        lock: whether to take the lock.
        say: is told if another run has it.

    Attributes:
        folder: private to the user; removed with this.

    Raises:
        CannotStart: the lock was held for an hour, or the machine has no place or program for this.
    """

    def __init__(
        self, connection: SshConnection, *, lock: bool, say: Callable[[str], None]
    ) -> None:
        self._connection = connection
        self._where = connection.name
        self.folder = ""
        self._limit = _ANSWER
        asked = "yes" if lock else "no"
        who = f"a run of user {os.getuid()} on {socket.gethostname()}"
        line = _line(asked, str(WAIT), who)
        self._process = subprocess.Popen(
            connection.words(line),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=connection.environment,
            start_new_session=True,
        )
        try:
            self.folder = self._await(say)
        except BaseException:
            self.close()
            raise

    def _await(self, say: Callable[[str], None]) -> str:
        folder = ""
        for line in self._lines():
            word, _, rest = line.partition(" ")
            if word == "folder":
                folder = rest
            elif word == "waiting":
                self._limit = WAIT + _ANSWER
                say(f"{self._where} is being measured by another run ({rest}): waiting for it")
            elif word == "late":
                raise CannotStart(
                    f"{self._where}: another measurement held it for {WAIT} s", target=self._where
                )
            elif word == "held":
                return folder
        assert self._process.stderr is not None
        said = _last_words(self._process.stderr).strip() or "no answer"
        raise CannotStart(
            f"{self._where}: neither a folder nor the measuring lock can be had there: {said}",
            target=self._where,
        )

    def _lines(self) -> Iterator[str]:
        """What the command says, line by line, until it ends or is silent for longer than the limit."""
        assert self._process.stdout is not None
        descriptor, left = self._process.stdout.fileno(), b""
        while True:
            ready, _, _ = select.select([descriptor], [], [], self._limit)
            data = os.read(descriptor, 4096) if ready else b""
            if not data:
                return
            left += data
            *lines, left = left.split(b"\n")
            for line in lines:
                yield line.decode("utf-8", "replace")

    def check(self) -> None:
        """Make sure that it is still held.

        Raises:
            CannotConnect: it is not: what was measured since may have been disturbed.
        """
        if self._process.poll() is not None:
            raise CannotConnect(
                f"{self._where}: the command that holds its measuring lock and our folder there has ended"
                " (somebody ended it, or the connection broke)",
                target=self._where,
            )

    def _end_for_it(self) -> None:
        """Do what the command would have done at its end, in case that it was killed and could not."""
        if self.folder and self._connection.is_open:
            self._connection.watch = lambda: None
            with contextlib.suppress(Stopped, OSError):
                self._connection.call(_line("end", self.folder), timeout=20.0)

    def close(self) -> None:
        """Give back the lock and the folder. Safe to repeat."""
        if self._process.poll() is not None:
            self._end_for_it()
        end_by_input(self._process, 10.0)


def _line(*words: str) -> str:
    script = resources.files(__package__).joinpath("hold.sh").read_text()
    return remote_line(["sh", "-c", script, "sh", *words], {}, None, "")


def _last_words(stream: IO[bytes]) -> str:
    """What is said until the stream ends, or is silent for a moment: ``ssh`` may keep it open."""
    said = b""
    while select.select([stream], [], [], _LAST_WORDS)[0]:
        data = os.read(stream.fileno(), 4096)
        if not data:
            break
        said += data
    return said.decode("utf-8", "replace")
