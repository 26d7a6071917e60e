"""What is done on another machine when this process ends by force, or the connection breaks: a command waits there.

What a run makes there by commands is taken away by commands as long as it lives. Where it is killed, nobody is left
to give them: so one waits for the end of its input, unless it is told that there is nothing to do.
"""

from __future__ import annotations

import contextlib
import subprocess
from typing import TYPE_CHECKING

from pytest_vperf.machine.ending import end_by_input
from pytest_vperf.targets.ssh_connection import remote_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_vperf.targets.ssh_connection import SshConnection

#: What would tell it of the connection's end by a signal comes as the end of the input, too.
_WAIT = """
trap '' HUP PIPE
read -r word && exit
exec "$@" >/dev/null 2>&1
"""
_GOODBYE = b"nothing\n"


class AtEnd:
    """A command that is run on another machine when this process ends without `close`.

    Args:
        connection: to the machine.
        argv: the command.
    """

    def __init__(self, connection: SshConnection, argv: Sequence[str]) -> None:
        line = remote_line(["sh", "-c", _WAIT, "sh", *argv], {}, None, "")
        self._process = subprocess.Popen(
            connection.words(line),
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=connection.environment,
            start_new_session=True,
        )

    def close(self) -> None:
        """There is nothing to do any more. Safe to repeat; quiet if the machine is gone."""
        stream = self._process.stdin
        if stream is not None and not stream.closed:
            with contextlib.suppress(OSError):
                stream.write(_GOODBYE)
                stream.flush()
        end_by_input(self._process, 10.0)
