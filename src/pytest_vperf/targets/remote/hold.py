"""What a run has on another machine for as long as it lives: the measuring lock, and a folder.

One command there holds both and waits for the end of its input, so that they are given back however this process
ends.
"""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
from typing import TYPE_CHECKING

from pytest_vperf.targets.base import CannotStart
from pytest_vperf.targets.ssh_connection import remote_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytest_vperf.targets.ssh_connection import SshConnection

#: Words: whether to lock, and seconds to wait. The lock is that of `pytest_vperf.machine.lock` and is found in the
#: same way; it is opened without O_CREAT where it is there, see there.
_HOLD = """
folder=$(mktemp -d /tmp/vperf-XXXXXXXX) || exit 1
trap 'rm -rf -- "$folder"' EXIT
trap 'exit 1' HUP INT TERM
echo "folder $folder"
if [ "$1" = yes ]; then
  place=/tmp; [ -z "$(find /run/lock -maxdepth 0 -perm -o+w 2>/dev/null)" ] || place=/run/lock
  lock=${VPERF_LOCK:-$place/vperf-measuring.lock}
  [ -e "$lock" ] || (umask 0; : >>"$lock") || exit 1
  exec 9<"$lock" || exit 1
  flock -n 9 || { echo "waiting $(head -c 200 "$lock")"; flock -w "$2" 9; } || { echo late; exit 1; }
fi
echo held
cat >/dev/null
"""
#: Seconds: another run may measure for long.
WAIT = 3600
_ANSWER = 60.0


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
        self._where = connection.name
        self._limit = _ANSWER
        asked = "yes" if lock else "no"
        line = remote_line(["sh", "-c", _HOLD, "sh", asked, str(WAIT)], {}, None, "")
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
        self._process.kill()  # what it has said to the error stream is read to its end
        assert self._process.stderr is not None
        said = self._process.stderr.read().decode("utf-8", "replace").strip() or "no answer"
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

    def close(self) -> None:
        """Give back the lock and the folder. Safe to repeat."""
        streams = (self._process.stdin, self._process.stdout, self._process.stderr)
        assert streams[0] is not None
        with contextlib.suppress(OSError):
            streams[0].close()
        try:
            self._process.wait(10.0)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        for stream in streams[1:]:
            assert stream is not None
            stream.close()
