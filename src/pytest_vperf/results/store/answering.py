"""A server of a database that is there, and answers nothing.

No limit that the server keeps is one if the server itself hangs, and libpq waits for ever for an answer on a
connection that is alive (its ``tcp_user_timeout`` is about the network alone). So the connection is cut from here.
"""

from __future__ import annotations

import os
import socket
import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

import sqlalchemy as sa

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy.engine import Engine


class Answering:
    """The connections of an engine, which are cut if the server takes too long.

    Args:
        engine: of a server.
        seconds: that it may take for all that is asked in one `within`.

    Attributes:
        late: whether the connections were cut in the latest `within`.
    """

    def __init__(self, engine: Engine, seconds: float) -> None:
        self.seconds = seconds
        self.late = False
        self._open: WeakSet[Any] = WeakSet()
        sa.event.listen(engine, "do_connect", self._connect)

    def _connect(self, dialect: Any, _: object, words: Any, options: Any) -> Any:
        """Connect as the engine would, and remember the connection before anything is asked of it."""
        connection = dialect.connect(*words, **options)
        self._open.add(connection)
        return connection

    @contextmanager
    def within(self) -> Iterator[None]:
        """Within the context, all answers together may take the time."""
        self.late = False
        timer = threading.Timer(self.seconds, self._cut)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def _cut(self) -> None:
        self.late = True
        for connection in list(self._open):
            # It may be closed already, which each driver says in its own words.
            with suppress(Exception), socket.socket(fileno=os.dup(connection.fileno())) as shared:
                shared.shutdown(socket.SHUT_RDWR)
