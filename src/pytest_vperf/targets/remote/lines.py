"""Connections to one machine, as many as its sessions need: an ``sshd`` allows ten on each.

That is MaxSessions of sshd_config(5), which may have another value there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_vperf.targets.ssh_connection import SshConnection

#: Of the ten, without what holds the machine, a command, and one to spare.
_ROOM = 7


class Lines:
    """Connections that sessions are shared out to.

    Args:
        first: is open, and is not closed by this.
        connect: opens a further one.
    """

    def __init__(self, first: SshConnection, connect: Callable[[], SshConnection]) -> None:
        self._connect = connect
        self._first = first
        self._sessions = {first: 0}

    def take(self) -> SshConnection:
        """A connection with room for one more session, that is `give` back.

        Raises:
            CannotConnect: a further one cannot be opened.
        """
        line = next((each for each, used in self._sessions.items() if used < _ROOM), None)
        if line is None:
            line = self._connect()
            self._sessions[line] = 0
        self._sessions[line] += 1
        return line

    def give(self, line: SshConnection) -> None:
        """Its session has ended. A further connection without any is closed: it would soon end by itself."""
        self._sessions[line] -= 1
        if line is not self._first and not self._sessions[line]:
            del self._sessions[line]
            line.close()

    def close(self) -> None:
        """Close those that were opened. Safe to repeat."""
        for line in self._sessions:
            if line is not self._first:
                line.close()
