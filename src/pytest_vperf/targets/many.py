"""Many targets of one kind: started and ended several at a time."""

from __future__ import annotations

import os
import re
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

from pytest_vperf.quantity import amount
from pytest_vperf.targets.base import TargetError, Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pytest_vperf.targets.base import Target
    from pytest_vperf.targets.scope import Closes, Scope

T = TypeVar("T")

#: Most starts or ends at a time: more would not make an engine faster.
_MOST_AT_A_TIME = 8
#: The share of the available memory that many machines may take; other processes need some, too.
SHARE = 0.5
#: Least MiB for a machine with the tools.
_LEAST = 256


def start_many(start: Callable[[], T], count: int, scope: Scope) -> list[T]:
    """Start ``count`` targets, several at a time once the first one runs.

    The first one, alone, prepares what all need: engine, image, kernel, a probe of the accelerator.

    Args:
        start: starts one, owned by the scope.
        count: how many.
        scope: the test's; they are ended with it, several at a time.

    Raises:
        the error of a start: further ones are not begun, running ones are waited for, and the scope ends them all.
        Ctrl-C has the same effect.
    """
    if count < 1:
        raise ValueError(f"count is {count}, less than 1")
    started: list[T] = []

    def one() -> None:
        started.append(start())

    one()
    with ThreadPoolExecutor(at_a_time(), "start") as pool:
        waiting = [pool.submit(one) for _ in range(count - 1)]
        try:
            for each in waiting:
                each.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
        finally:
            scope.keep(_Ends(started))  # type: ignore[arg-type]
    return started


class _Ends:
    """Closes targets several at a time; their scope, which closes them one by one, finds them closed."""

    def __init__(self, targets: Sequence[Closes]) -> None:
        self._targets = targets

    def close(self) -> None:
        """Close all, then raise the first error, if any."""
        with ThreadPoolExecutor(at_a_time(), "end") as pool:
            ends = [pool.submit(target.close) for target in self._targets]
        errors = [error for error in (end.exception() for end in ends) if error is not None]
        if errors:
            raise errors[0]


def at_a_time() -> int:
    """How many targets are started or ended at a time: two for each CPU of this machine."""
    return min(_MOST_AT_A_TIME, 2 * (os.cpu_count() or 1))


def fitting(host: Target, each: int, asked: int) -> int:
    """How many machines fit into the memory of their host, at most ``asked``.

    Args:
        host: where they run.
        each: most bytes that one takes, including its hypervisor's.
        asked: the requested number.

    Raises:
        TargetError: the host does not report its available memory.
    """
    return max(0, min(asked, int(SHARE * available(host) / each)))


def memory_each(host: Target, machines: int, most: str) -> str:
    """The memory that each of some machines can have on a host, e.g. ``512 MiB``; see `share_of_memory`.

    Raises:
        Unavailable: there is too little.
        TargetError: the host does not report its available memory.
    """
    return share_of_memory(SHARE * available(host), machines, most, host.name)


def share_of_memory(memory: float, machines: int, most: str, name: str) -> str:
    """An equal share of memory, in multiples of 64 MiB and at most ``most``.

    Args:
        memory: bytes.
        machines: their number.
        most: the upper limit, e.g. ``1 GiB``.
        name: the host's, for messages.

    Raises:
        Unavailable: a share is less than 256 MiB, with which no machine with the tools boots.
    """
    wanted = amount("memory", most, "MiB", such_as="1 GiB")
    each = min(wanted, memory / machines / 2**20) // 64 * 64
    if each < _LEAST:
        raise Unavailable(
            f"{name} has {memory / 2**20:.0f} MiB for {machines} machines, less than {_LEAST} MiB for each",
            remedy="end what else takes its memory",
        )
    return f"{each:.0f} MiB"


def available(host: Target) -> int:
    """Bytes of memory available to new programs on a host: ``MemAvailable`` of proc(5).

    Raises:
        TargetError: the host does not report it.
    """
    text = host.run(["cat", "/proc/meminfo"]).text
    found = re.search(r"^MemAvailable: +([0-9]{1,15}) kB$", text, re.MULTILINE)
    if found is None:
        raise TargetError(f"{host.name} does not say how much memory is available")
    return int(found[1]) * 1024
