"""QEMU's control socket (QMP), spoken by qemu.qmp, without asyncio for the callers."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from qemu.qmp import QMPClient, QMPError

if TYPE_CHECKING:
    import socket
    from collections.abc import Coroutine

# The library logs a machine that goes away as an error; whether it is one is said by our own errors.
logging.getLogger("qemu.qmp").setLevel(logging.CRITICAL)


class QmpError(Exception):
    """QEMU did not answer, or refused a command; the text says which."""


class QmpTimeout(QmpError):
    """QEMU did not answer in time."""


class Qmp:
    """One machine's control connection over a connected socket."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._loop = asyncio.new_event_loop()
        self._client = QMPClient("vperf")

    def connect(self, timeout: float) -> None:
        """Wait for the greeting and take it up; QEMU sends it as soon as its main loop runs.

        Raises:
            QmpError: QEMU is gone or says nothing within ``timeout`` seconds.
        """
        self._wait(self._client.connect(self._socket), timeout, "greeting")

    def execute(self, command: str, timeout: float = 10.0, **arguments: object) -> Any:
        """Run a QMP command and return its result.

        Raises:
            QmpError: QEMU refused it, is gone, or does not answer within ``timeout`` seconds.
        """
        return self._wait(self._client.execute(command, arguments or None), timeout, command)

    def close(self) -> None:
        """Let go of the connection; never raises."""
        if self._loop.is_closed():
            return
        try:
            self._wait(self._client.disconnect(), 2.0, "disconnect")
        except QmpError:
            pass  # QEMU was quicker
        finally:
            self._end_tasks()
            self._socket.close()
            self._loop.close()

    def _end_tasks(self) -> None:
        """End what the library still waits for, as after a greeting that never came."""
        tasks = asyncio.all_tasks(self._loop)
        for task in tasks:
            task.cancel()
        if tasks:
            self._loop.run_until_complete(asyncio.wait(tasks, timeout=2.0))

    def _wait(self, work: Coroutine[Any, Any, Any], timeout: float, what: str) -> Any:
        try:
            return self._loop.run_until_complete(asyncio.wait_for(work, timeout))
        except asyncio.TimeoutError:
            raise QmpTimeout(f"QEMU did not answer ({what}) within {timeout:g} s") from None
        except (QMPError, OSError, EOFError) as error:
            raise QmpError(f"{what}: {error}") from error
