"""A fake QEMU and agent that speak QMP and frames, with answers given by the test."""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import threading
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from pytest_vperf.targets.agent.wire import Decoder, Frame, Type
from pytest_vperf.targets.pod.config import MachineConfig
from pytest_vperf.targets.pod.machine import Machine

if TYPE_CHECKING:
    from collections.abc import Callable

_GREETING = {"QMP": {"version": {"qemu": {"major": 7, "minor": 2, "micro": 0}}, "capabilities": []}}


class FakeQemu:
    """The process: three sockets, and a thread at the other end of each of QMP and agent.

    Attributes:
        told: what QMP and the agent were told, in one order: commands by name, frames by type.
        answer: a frame of the host's in, the agent's frames out.
        refuse: a QMP command to its error's text.
        pushed: a QMP command to the events that follow its answer.
    """

    pid = 4242

    def __init__(self) -> None:
        pairs = [socket.socketpair() for _ in range(3)]
        self.qmp, self.console, self.agent = (pair[0] for pair in pairs)
        self._qmp, self._console, self._agent = (pair[1] for pair in pairs)
        self.status: int | None = None
        self.told: list[tuple[str, Any]] = []
        self.answer: Callable[[Frame], list[Frame]] = lambda _: []
        self.refuse: dict[str, str] = {}
        self.pushed: dict[str, list[dict[str, Any]]] = {}
        self._threads = [
            threading.Thread(target=each, daemon=True) for each in (self._control, self._listen)
        ]
        for thread in self._threads:
            thread.start()

    def _control(self) -> None:
        decoder, waiting = json.JSONDecoder(), ""

        def say(what: dict[str, Any]) -> None:
            self._qmp.sendall(json.dumps(what).encode() + b"\r\n")

        with contextlib.suppress(OSError):
            say(_GREETING)
            while data := self._qmp.recv(1 << 16):
                waiting += data.decode()
                while waiting:
                    # A client may end its commands with a line feed, or not.
                    request, end = decoder.raw_decode(waiting)
                    waiting = waiting[end:].lstrip()
                    self._obey(request, say)

    def _obey(self, request: dict[str, Any], say: Callable[[dict[str, Any]], None]) -> None:
        command, arguments = request["execute"], request.get("arguments", {})
        self.told.append((command, arguments))
        number = {"id": request["id"]} if "id" in request else {}
        if command in self.refuse:
            say({"error": {"class": "GenericError", "desc": self.refuse[command]}, **number})
            return
        say({"return": {"enabled": False} if command == "query-kvm" else {}, **number})
        for event in self.pushed.get(command, []):
            self.push(event)

    def push(self, event: dict[str, Any]) -> None:
        """Send an event over QMP."""
        stamped = {"timestamp": {"seconds": 0, "microseconds": 0}, **event}
        self._qmp.sendall(json.dumps(stamped).encode() + b"\r\n")

    def say(self, frame: Frame) -> None:
        """Send a frame from the agent."""
        self._agent.sendall(frame.encode())

    def _listen(self) -> None:
        decoder = Decoder()
        with contextlib.suppress(OSError):
            while data := self._agent.recv(1 << 16):
                for frame in decoder.feed(data):
                    self.told.append((frame.type.name, frame.payload))
                    for each in self.answer(frame):
                        self._agent.sendall(each.encode())

    def die(self, status: int) -> None:
        """End, as if by itself."""
        self.status = status
        for each in (self._qmp, self._console, self._agent):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def poll(self) -> int | None:
        return self.status

    def wait(self, timeout: float) -> int:
        if self.status is None:
            raise subprocess.TimeoutExpired("qemu", timeout)
        return self.status

    def hand_over(self, qmp: Any, file: PurePath) -> PurePath:
        return file

    def said(self) -> str:
        return ""

    def usage(self) -> Any:
        raise NotImplementedError

    def end(self) -> None:
        if self.status is None:
            self.die(-9)
        for thread in self._threads:
            thread.join(10)
        for each in (self._qmp, self._console, self._agent):
            each.close()


def machine_of(qemu: FakeQemu, *, replaceable: bool = True, kind: str = "q35") -> Machine:
    """A running machine of a fake QEMU."""
    file = PurePath("/nowhere")
    config = MachineConfig("tcg", file, file, file, file, machine=kind, replaceable=replaceable)
    machine = Machine(qemu, config, "pod tcg qboot")
    machine.go(10)
    qemu.told.clear()
    return machine


def exited(status: int, stream: int = 1) -> Frame:
    return Frame(Type.EXIT, stream, status.to_bytes(4, "little"))
