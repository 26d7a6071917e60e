"""What pytest-xdist's controller knows of the claims of its workers, so that none is lost with one of them.

A worker reports a test when it is over, and a claim that is judged in several sessions is over late. Until then only
the worker knows of it. So it also writes what it does into a file in memory, which belongs to the controller
(memfd_create(2)): it outlives the worker, and nothing is left of it when the controller ends, however that ends.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import re
import signal
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pytest

from pytest_vperf.results.record import from_wire

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pytest_vperf.results.record import ClaimRecord

#: What a worker notes: its tests that ask for claims; one that begins; the name of a claim; what was measured of one
#: whose next session is to come; a claim that ended.
_Kind = Literal["claiming", "begun", "named", "paused", "ended"]
#: The key of the file's path in a worker's input.
_INPUT = "vperf_notes"


class Notes:
    """A worker's notes for its controller.

    Args:
        config: the worker's.
    """

    def __init__(self, config: pytest.Config) -> None:
        self._path = str(getattr(config, "workerinput", {}).get(_INPUT, ""))

    @property
    def are_read(self) -> bool:
        """Whether there is a controller that reads them."""
        return bool(self._path)

    def add(self, kind: _Kind, *words: Any) -> None:
        """Note something; in vain where there is no such worker, or the controller is gone."""
        if not self._path:
            return
        line = f"{json.dumps([kind, *words])}\n".encode()
        with contextlib.suppress(OSError):
            file = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
            try:
                os.write(file, line)
            finally:
                os.close(file)


@dataclass
class Lost:
    """A test whose report will not come.

    Attributes:
        nodeid: of the test.
        worker: that died in it, or before its next session; ``None`` where none was left to begin it.
        reason: why its claims are not measured.
        ended: the claims that had ended.
        names: of those that had not; empty if the test had named none.
        paused: by name, what was measured of these in earlier sessions.
    """

    nodeid: str
    worker: Any
    reason: str
    ended: list[ClaimRecord] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    paused: dict[str, ClaimRecord] = field(default_factory=dict)


def take_note(lost: Lost, kind: _Kind, words: Sequence[Any]) -> None:
    """Add what a worker noted of a test to what is known of it.

    Args:
        lost: the test.
        kind: of the note.
        words: of the note; the first one is the test's node ID.
    """
    if kind == "named" and words[1] not in lost.names:
        lost.names.append(words[1])
    elif kind == "paused":
        for each in from_wire(words[1]):
            each.update(reason=lost.reason, cause="error")
            lost.paused[each["name"]] = each
    elif kind == "ended":
        lost.ended += from_wire(words[1])
        over = {each["name"] for each in lost.ended}
        lost.names = [each for each in lost.names if each not in over]


class Workers:
    """The workers of a controller. A plug-in of its own."""

    def __init__(self) -> None:
        self._notes: dict[Any, int] = {}
        self._dead: list[Any] = []
        self._over: set[str] = set()

    def begin(self, node: Any) -> None:
        """Give a worker that is about to start on this machine its file."""
        with contextlib.suppress(OSError):
            file = os.memfd_create("vperf-notes", os.MFD_CLOEXEC)
            self._notes[node] = file
            node.workerinput[_INPUT] = f"/proc/{os.getpid()}/fd/{file}"

    def ended(self, node: Any) -> None:
        """Note that a worker ended; one that died has sent no last message."""
        if not hasattr(node, "workeroutput"):
            self._dead.append(node)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note that a test is over."""
        if report.when == "teardown":
            self._over.add(report.nodeid)

    @property
    def claiming_died(self) -> bool:
        """Whether a worker died that had collected tests with claims."""
        return any(self._read(node) for node in self._dead)

    def lost(self, *, stopped: bool) -> list[Lost]:
        """The tests with claims whose reports will not come, in the order in which they were collected.

        Args:
            stopped: whether the run was stopped early, so that tests were left out on purpose.
        """
        if not self._dead:
            return []
        found: dict[str, Lost] = {}
        claiming: list[str] = []
        begun: set[str] = set()
        for node in self._notes:
            for kind, *words in self._read(node):
                if kind == "claiming":
                    claiming = words[0]
                    continue
                nodeid = words[0]
                begun.add(nodeid)
                if node not in self._dead or nodeid in self._over:
                    continue
                if nodeid not in found:
                    died = (
                        f"pytest-xdist's worker {node.gateway.id} died before this claim was judged"
                    )
                    found[nodeid] = Lost(nodeid, node, f"error: {died}")
                take_note(found[nodeid], kind, words)
        if not stopped:
            left = (each for each in claiming if each not in begun | self._over)
            nobody = "error: pytest-xdist had no worker left for this test"
            found.update((nodeid, Lost(nodeid, None, nobody)) for nodeid in left)
        return [found[nodeid] for nodeid in claiming if nodeid in found]

    def _read(self, node: Any) -> list[Any]:
        """A worker's notes; a last one that was cut off is left out."""
        file = self._notes.get(node)
        if file is None:
            return []
        with open(os.dup(file), "rb") as stream:  # noqa: PTH123 - a descriptor
            stream.seek(0)
            return [json.loads(line) for line in stream if line.endswith(b"\n")]

    def close(self) -> None:
        """Free the files."""
        while self._notes:
            os.close(self._notes.popitem()[1])


def reports_of(
    lost: Lost, records: Iterable[ClaimRecord], *, failed: bool
) -> list[pytest.TestReport]:
    """What is reported of a lost test: that it failed, and a teardown that carries its claims, for JUnit.

    Args:
        lost: the test.
        records: of all its claims.
        failed: whether pytest-xdist has reported already that it failed.
    """
    from pytest_vperf.results.run import properties

    told = list(records)
    file = lost.nodeid.split("::")[0]
    location = (file, None, lost.nodeid)
    left: dict[str, list[str]] = {}
    for each in told:
        if each["reason"] == lost.reason:
            left.setdefault(each["verdict"], []).append(each["name"])
    names = "; ".join(f"{', '.join(names)}: {verdict}" for verdict, names in left.items())
    made = [
        pytest.TestReport(lost.nodeid, location, {}, outcome, text, when)  # type: ignore[arg-type]
        for outcome, text, when in (
            (
                "failed",
                f"{names}: {lost.reason}" if names else f"not finished: {lost.reason}",
                "call",
            ),
            ("passed", None, "teardown"),
        )[failed:]
    ]
    made[-1].user_properties = [pair for each in told for pair in properties(each)]
    for report in made:
        if report.failed:
            vars(report)["vperf_verdict"] = (
                "inconclusive" if left.keys() == {"inconclusive"} else "not measured"
            )
        if lost.worker is not None:  # JUnit knows a test by its worker, too
            vars(report)["node"] = lost.worker
    return made


# Ending pytest-xdist's workers when the run is interrupted, without losing what they measured.
#
# When it is interrupted, pytest-xdist's controller stops listening and gives its workers 10 s, five of which pass
# before they are told (execnet, ``_terminate_execution``). That is too short to shut machines down, and whatever the
# workers send is lost.

#: Seconds for all workers to end what they have started.
_LIMIT = 120.0


def end_workers(config: pytest.Config, workers: set[Any]) -> None:
    """Tell the workers on this machine to end, and passes on what they still report.

    Args:
        config: the controller's.
        workers: those still running; ``pytest_testnodedown`` removes each.
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
    """Send a signal that the worker handles: SIGTERM if it has claims, else SIGINT, unless its shell had it ignored.

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
