"""Work that is timed: recorded as noise, and compared live with exactly so many percent more of itself.

Each workload is a context that gives a sampler: called with a whole number of percent, it does its work with that
much more and returns the seconds. Where the work has units (``spin``, ``memory``) the extra is more units. Where it
has none (a start, a round trip) the processor spins after it until exactly that share of the time it took has passed.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import sys
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from contextlib import AbstractContextManager

    #: Seconds of one run with so many percent more work.
    Sampler = Callable[[int], float]

_UNITS = 100
_SPIN_UNIT = 1500  # loops: 100 units take 3 to 8 ms
_BLOCK = 1 << 17  # bytes
_TRIPS = 50
_TRUE = "/bin/true"


class NotHere(Exception):
    """This machine cannot run a workload; the text says why."""


def stretched(began: float, percent: int) -> float:
    """Spin until so many percent more have passed than since ``began``; the seconds in all."""
    elapsed = time.perf_counter() - began
    if percent:
        end = began + elapsed * (100 + percent) / 100
        while time.perf_counter() < end:
            pass
        elapsed = time.perf_counter() - began
    return elapsed


@contextlib.contextmanager
def spin() -> Iterator[Sampler]:
    """An empty loop."""

    def sample(percent: int) -> float:
        began = time.perf_counter()
        for _ in range(_SPIN_UNIT * (_UNITS + percent)):
            pass
        return time.perf_counter() - began

    yield sample


@contextlib.contextmanager
def memory() -> Iterator[Sampler]:
    """Copies of blocks from all over 64 MiB, more than most caches hold."""
    size = 64 << 20
    source, target = bytearray(os.urandom(1 << 20) * 64), memoryview(bytearray(_BLOCK))
    view = memoryview(source)
    step = size // (2 * _UNITS)

    def sample(percent: int) -> float:
        began = time.perf_counter()
        for block in range(_UNITS + percent):
            begin = block * step
            target[:] = view[begin : begin + _BLOCK]
        return time.perf_counter() - began

    yield sample


@contextlib.contextmanager
def process() -> Iterator[Sampler]:
    """A process that ends at once, from its start until it was waited for."""
    yield lambda percent: _started([_TRUE], percent)


@contextlib.contextmanager
def python() -> Iterator[Sampler]:
    """A Python interpreter with nothing to do."""
    yield lambda percent: _started([sys.executable, "-I", "-S", "-c", ""], percent)


@contextlib.contextmanager
def sysbench() -> Iterator[Sampler]:
    """Twenty events of sysbench's processor test, the whole run of the command."""
    program = shutil.which("sysbench")
    if program is None:
        raise NotHere("sysbench is not installed: apt-get install sysbench")
    argv = [program, "cpu", "--cpu-max-prime=5000", "--events=20", "--time=0", "run"]
    yield lambda percent: _started(argv, percent)


def _started(argv: list[str], percent: int) -> float:
    null = (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)
    began = time.perf_counter()
    child = os.posix_spawn(argv[0], argv, os.environ, file_actions=[null])
    _, status = os.waitpid(child, 0)
    if status:
        raise NotHere(f"{argv[0]} ended with status {os.waitstatus_to_exitcode(status)}")
    return stretched(began, percent)


@contextlib.contextmanager
def tcp() -> Iterator[Sampler]:
    """Fifty times a byte to a process of its own over the loopback device, and back."""
    server = socket.create_server(("127.0.0.1", 0))
    child = os.fork()
    if not child:
        with contextlib.suppress(BaseException):
            peer, _ = server.accept()
            peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            while byte := peer.recv(1):
                peer.sendall(byte)
        os._exit(0)
    try:
        with socket.create_connection(server.getsockname()) as client:
            server.close()
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

            def sample(percent: int) -> float:
                began = time.perf_counter()
                for _ in range(_TRIPS):
                    client.sendall(b"x")
                    client.recv(1)
                return stretched(began, percent)

            yield sample
    finally:
        server.close()
        os.waitpid(child, 0)


@contextlib.contextmanager
def container() -> Iterator[Sampler]:
    """A container's start, from the request until its process runs; removed after each."""
    from pytest_vperf.machine.runs import Run
    from pytest_vperf.targets.base import TargetError
    from pytest_vperf.targets.container.containers import Containers
    from pytest_vperf.targets.container.engine import Engine
    from pytest_vperf.targets.image.rootfs import default_rootfs, import_into
    from pytest_vperf.targets.scope import Scope

    with contextlib.ExitStack() as stack:
        try:
            run = stack.enter_context(Run.begin())
            engine = stack.enter_context(Engine.connect(run))
            image = import_into(engine.client, default_rootfs())
        except TargetError as error:
            raise NotHere(str(error)) from error
        scope = Scope()
        containers = Containers(lambda: engine, run, scope, runtime="runc", rootfs=lambda _: image)

        def sample(percent: int) -> float:
            began = time.perf_counter()
            containers.start()
            try:
                return stretched(began, percent)
            finally:
                scope.close_since()

        yield sample


#: By name.
WORKLOADS: Mapping[str, Callable[[], AbstractContextManager[Sampler]]] = {
    "process": process,
    "python": python,
    "spin": spin,
    "sysbench": sysbench,
    "tcp": tcp,
    "memory": memory,
    "container": container,
}
