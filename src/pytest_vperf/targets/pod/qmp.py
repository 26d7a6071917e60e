"""QEMU's control socket (QMP): a synchronous interface to the library qemu.qmp."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, TypeVar

from qemu.qmp import QMPClient, QMPError

if TYPE_CHECKING:
    import socket
    from collections.abc import Coroutine, Mapping

T = TypeVar("T")

# The library logs an error when a machine ends; ours are raised if it is one.
logging.getLogger("qemu.qmp").setLevel(logging.CRITICAL)


class QmpError(Exception):
    """QEMU did not answer, or refused a command; the message says which."""


class QmpTimeout(QmpError):
    """QEMU did not answer in time."""


class Qmp:
    """One machine's control connection over a connected socket."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._loop = asyncio.new_event_loop()
        self._client = QMPClient("vperf")

    def connect(self, timeout: float) -> None:
        """Wait for the greeting and answer it; QEMU sends it as soon as its main loop runs.

        Raises:
            QmpError: QEMU is gone, or sends nothing within ``timeout`` seconds.
        """
        self._wait(self._client.connect(self._socket), timeout, "greeting")

    def execute(self, command: str, timeout: float = 10.0, **arguments: object) -> Any:
        """Run a QMP command and return its result; an argument ``node_name`` is QMP's ``node-name``.

        Raises:
            QmpError: QEMU refused it, is gone, or does not answer within ``timeout`` seconds.
        """
        return self._wait(self._client.execute(command, _named(arguments)), timeout, command)

    def field(self, command: str, name: str, kind: type[T], timeout: float = 10.0) -> T:
        """Run a QMP command and return one value of its result.

        Raises:
            QmpError: as for `execute`; or the result has no such value, so it is not from QEMU.
        """
        result = self.execute(command, timeout)
        value = result.get(name) if isinstance(result, dict) else None
        if not isinstance(value, kind):
            raise QmpError(f"{command}: the answer has no {name}")
        return value

    def execute_with(
        self, descriptor: int, command: str, timeout: float = 10.0, **arguments: object
    ) -> Any:
        """Like `execute`, for a command that takes a file descriptor; QEMU gets a copy of it.

        Raises:
            QmpError: as for `execute`.
        """

        async def work() -> Any:
            self._client.send_fd_scm(descriptor)
            return await self._client.execute(command, _named(arguments))

        return self._wait(work(), timeout, command)

    def execute_until(
        self, event: str, device: str, command: str, timeout: float, **arguments: object
    ) -> None:
        """Run a QMP command, and wait until QEMU sends an event about a device.

        Raises:
            QmpTimeout: it sends none within ``timeout`` seconds.
            QmpError: QEMU refused the command, or is gone.
        """

        async def awaited(listener: Any) -> None:
            async for each in listener:
                data = each.get("data")
                if isinstance(data, dict) and data.get("device") == device:
                    return

        async def work() -> None:
            with self._client.listener(event) as listener:
                # If QEMU ends, the event never comes, so wait for that as well.
                gone = asyncio.ensure_future(self._client.runstate_changed())
                await self._client.execute(command, _named(arguments))
                told = asyncio.ensure_future(awaited(listener))
                try:
                    await asyncio.wait((told, gone), return_when=asyncio.FIRST_COMPLETED)
                    if not told.done():
                        raise QmpError(f"{command}: QEMU is gone")
                finally:
                    told.cancel()
                    gone.cancel()

        self._wait(work(), timeout, f"{command}, {event}")

    def close(self) -> None:
        """Close the connection; never raises."""
        if self._loop.is_closed():
            return
        try:
            self._wait(self._client.disconnect(), 2.0, "disconnect")
        except QmpError:
            pass  # QEMU closed it first
        finally:
            self._end_tasks()
            self._socket.close()
            self._loop.close()

    def _end_tasks(self) -> None:
        """Cancel tasks that the library left, as after a missing greeting."""
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
        except AssertionError as error:  # raised by the library if QEMU ends during the greeting
            raise QmpError(f"{what}: the connection ended") from error
        except QmpError:
            raise
        except (
            Exception
        ) as error:  # the library's reader lets errors of invalid UTF-8 and unexpected JSON through
            raise QmpError(f"{what}: the answer is not a QMP message") from error


def _named(arguments: Mapping[str, object]) -> dict[str, object] | None:
    return {name.replace("_", "-"): value for name, value in arguments.items()} or None
