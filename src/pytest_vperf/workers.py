"""The end of pytest-xdist's workers when the run is interrupted: in order, with what they measured.

pytest-xdist's controller stops to listen when it is interrupted; the workers then have 10 s, five of them before they
are even told (execnet, ``_terminate_execution``), which is too short to end machines, and what they say is lost.
"""

from __future__ import annotations

import contextlib
import os
import queue
import re
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pytest

#: Seconds for all workers to end what they have started.
_LIMIT = 120.0


def end_workers(config: pytest.Config, workers: set[Any]) -> None:
    """Tell the workers of this machine to end, and hand on what they still say.

    Args:
        config: the controller's.
        workers: those that run; ``pytest_testnodedown`` takes each out.
    """
    distribution: Any = config.pluginmanager.getplugin("dsession")
    if distribution is None:
        return
    for node in tuple(workers):
        # The process of a worker on this machine; execnet has no public name for it.
        process = getattr(getattr(node.gateway, "_io", None), "popen", None)
        if process is not None and process.poll() is None:
            with contextlib.suppress(OSError):
                _tell(process.pid)
    deadline = time.monotonic() + _LIMIT
    while workers and time.monotonic() < deadline:
        try:
            event, said = distribution.queue.get(timeout=1.0)
        except queue.Empty:
            continue
        if event == "testreport":
            said["rep"].node = said["node"]
            config.hook.pytest_runtest_logreport(report=said["rep"])
        elif event in ("workerfinished", "errordown"):
            config.hook.pytest_testnodedown(node=said["node"], error=said.get("error"))
            workers.discard(said["node"])


def _tell(pid: int) -> None:
    """Send what the worker heeds: SIGTERM if it claims, else SIGINT, unless a shell has made it ignore that.

    Raises:
        OSError: it is gone.
    """
    status = Path(f"/proc/{pid}/status").read_text()
    found = re.search(
        r"^SigCgt:\t([0-9a-f]+)$", status, re.MULTILINE
    )  # proc(5): signals with a handler
    caught = int(found[1], 16) if found else 0
    for number in (signal.SIGTERM, signal.SIGINT):
        if caught >> (number - 1) & 1:
            os.kill(pid, number)
            return
