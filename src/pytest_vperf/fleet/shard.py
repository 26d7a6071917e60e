"""What runs on a machine of a fleet: ``python -m pytest_vperf.fleet.shard``.

It says what the machine is, takes an order from its input, and has an ordinary pytest run the tests, alone on the
machine among shards. Reports and notes go to its output as they come. It ends with its input, however that is closed:
a run that is killed leaves no pytest and no target here. A run that is out of reach is one that is gone, since nobody
reads what it would be told.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import selectors
import signal
import stat
import subprocess
import sys
import time
from importlib import metadata
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from pytest_vperf import __version__
from pytest_vperf.fleet import cargo
from pytest_vperf.fleet.lines import BEAT, DESERTED, VARIABLE, Lines, line
from pytest_vperf.machine import fingerprint
from pytest_vperf.machine.lock import (
    WAIT_LIMIT,
    LockTimeout,
    holder,
    lock_path,
    note_holder,
    open_lock,
    try_lock,
)
from pytest_vperf.machine.runs import Run
from pytest_vperf.targets import versions

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

#: The plug-in of its pytest. It is not imported here, as pytest is not: that takes a third of a second.
_INSIDE = "pytest_vperf.fleet.inside"
#: Seconds that pytest has to end what it started once nobody waits for it; then it is killed, and its targets
#: removed.
_DESERTED_END = 2.5
#: The same where the run waits: pytest shuts machines down in order, and reports what it measured.
_END = 110.0
#: Seconds to remove what a killed pytest left.
_SWEEP = 60.0
#: Sweeps when told to; not, if who would tell it is gone. The signals that end a job do not end it.
_SWEEPER = """
import signal, sys
signal.signal(signal.SIGTERM, signal.SIG_IGN)
from pytest_vperf.commands import clean
if sys.stdin.readline():
    clean.run()
"""
#: Seconds between two looks at the lock, and between two words about who has it.
_LOOK, _TELL = 0.25, 30.0
#: What is kept of pytest's own output, in bytes: enough for an error that kept it from running.
_SAID = 4096
#: The statuses of a pytest that ran its tests: passed, failed, none there (pytest's "Exit codes").
_RAN = (0, 1, 5)
#: Bytes that wait to be sent before we stop reading from pytest: it waits, then, and no memory is filled.
_MOST_WAITING = 64 << 20


class _Over(Exception):
    """The shard is to end."""


class Shard:
    """The shard of this process."""

    def __init__(self) -> None:
        self._input, self._output = Lines(), bytearray()
        self._select = selectors.DefaultSelector()
        os.set_blocking(1, False)
        self._heard = self._spoke = time.monotonic()
        self._orders: list[bytes] = []
        #: Whether the order is a file: nobody hears us, or ends us by ending our input.
        self._alone_here = stat.S_ISREG(os.fstat(0).st_mode)
        if self._alone_here:
            self._orders += sys.stdin.buffer.read().splitlines()
        else:
            self._select.register(0, selectors.EVENT_READ, self._listen)
        self._deserted = self._stopped = self._worked = False
        self._sweep: Sweep | None = None
        self._said = b""
        self._begins: dict[str, Any] = {}

    def run(self) -> bool:
        """Say hello, take the order, run the tests, and say how that ended.

        Returns:
            whether pytest could run.
        """
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            signal.signal(number, self._signalled)
        self._say("hello", **about())
        try:
            while not self._orders:
                self._turn(BEAT)
            given = self._orders.pop(0)
            order = json.loads(given)
            self._begins = {"order": hashlib.sha256(given).hexdigest(), "about": order.get("about")}
            if "doctor" in order:
                self._run_doctor(order["doctor"])
                raise _Over
            with contextlib.ExitStack() as ends:
                ends.enter_context(contextlib.closing(self._alone(order["who"])))
                if order["cargo"] is not None:
                    order = self._lay_out(order, ends.enter_context(Run.begin()))
                self._run_pytest(order)
        except _Over:
            pass
        except (OSError, ValueError, LockTimeout, subprocess.TimeoutExpired) as error:
            self._say("end", status=None, said=str(error))
        while self._output and not self._deserted:
            self._pump(BEAT)
        return self._worked

    def _signalled(self, number: int, frame: object) -> None:
        self._deserted = True  # an engine ends its job, and gives it a few seconds

    # What goes out and comes in.

    def _say(self, kind: str, **more: Any) -> None:
        self._output += line(kind, **more)

    def _turn(self, wait: float) -> None:
        """Read and write what can be, for at most so many seconds.

        Raises:
            _Over: the run is gone, or asks for the end.
        """
        self._pump(wait)
        if self._deserted or self._stopped:
            raise _Over

    def _pump(self, wait: float) -> None:
        now = time.monotonic()
        if now - self._spoke >= BEAT:
            self._spoke = now
            self._say("beat")
        self._flush()
        writing = bool(self._output) and not self._deserted
        if writing:
            self._select.register(1, selectors.EVENT_WRITE, self._flush)
        try:
            for key, _ in self._select.select(min(wait, self._spoke + BEAT - now)):
                key.data()
        finally:
            if writing:
                self._select.unregister(1)
        if time.monotonic() - self._heard > DESERTED and not self._alone_here:
            self._deserted = True

    def _listen(self) -> None:
        data = os.read(0, 1 << 16)
        if not data:
            self._deserted = True
            self._select.unregister(0)
            return
        self._heard = time.monotonic()
        for each in self._input.feed(data):
            if each == b"stop":
                self._stopped = True
            elif each:
                self._orders.append(each)

    def _flush(self) -> None:
        try:
            while self._output:
                del self._output[: os.write(1, memoryview(self._output)[: 1 << 16].tobytes())]
        except BlockingIOError:
            pass
        except OSError:  # nobody reads it any more
            self._deserted = True

    # The machine's shards, one after the other.

    def _alone(self, who: str) -> _Held:
        path = lock_path()
        held = _Held(open_lock(path.with_name(f"{path.stem}-shards{path.suffix}")))
        began, told = time.monotonic(), -_TELL
        try:
            while not try_lock(held.descriptor):
                now = time.monotonic()
                if now - began >= WAIT_LIMIT:
                    by, waited = holder(held.descriptor), f"{now - began:.0f} s"
                    raise LockTimeout(f"another run ({by}) had this machine for all of {waited}")
                if now - told >= _TELL:
                    told = now
                    self._say("waits", holder=holder(held.descriptor), seconds=held.age)
                self._turn(_LOOK)
        except BaseException:
            held.close()
            raise
        note_holder(held.descriptor, who)
        return held

    # pytest.

    def _lay_out(self, order: dict[str, Any], run: Run) -> dict[str, Any]:
        """The order, with a copy of the project that it is about; its cargo is asked for if it is not here."""
        digest = order["cargo"]["digest"]
        folder = cargo.kept(digest)
        if folder is None:
            self._say("wants")
            while not self._orders:
                self._turn(BEAT)
            folder = cargo.keep(digest, self._orders.pop(0))
        own = cargo.lay_out(folder, run.folder / "project", order)
        own["environment"] = {**run.environment, **own["environment"]}
        return own

    def _run_pytest(self, order: dict[str, Any]) -> None:
        if not os.path.isdir(order["folder"]):  # noqa: PTH112 - a text
            self._say("end", status=None, said=f"there is no folder {order['folder']} here")
            return
        order["input"]["vperf_machine"].update(fingerprint.read().as_dict())
        given = os.memfd_create("vperf-order", 0)
        os.write(given, json.dumps(order).encode())
        os.lseek(given, 0, os.SEEK_SET)
        stream, writes = os.pipe()
        told, tells = os.pipe()
        self._say("begins", **self._begins)
        words = [sys.executable, "-m", "pytest", "-p", _INSIDE, *order["words"]]
        environment = {**os.environ, **order["environment"], VARIABLE: f"{given},{writes}"}
        try:
            process = subprocess.Popen(
                words,
                cwd=order["folder"],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=tells,
                stderr=tells,
                pass_fds=(given, writes),
                start_new_session=True,
            )
        finally:
            for each in (given, writes, tells):
                os.close(each)
        lines = Lines()

        def pass_on(data: bytes) -> None:  # whole lines, as others of ours come between them
            self._output.extend(b"".join(b"%s\n" % each for each in lines.feed(data)))

        self._attend(process, {stream: pass_on, told: self._hear})

    def _run_doctor(self, words: list[str]) -> None:
        """Say what the doctor finds here."""
        answers = bytearray()
        command = [sys.executable, "-m", "pytest_vperf", "doctor", "--json", *words]
        (told, tells), (said, says) = os.pipe(), os.pipe()
        try:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=tells, stderr=says, start_new_session=True
            )
        finally:
            os.close(tells)
            os.close(says)
        self._attend(
            process,
            {told: answers.extend, said: self._hear},
            lambda: {"answers": answers.decode("utf-8", "replace")},
        )

    def _attend(
        self,
        process: subprocess.Popen[bytes],
        streams: Mapping[int, Callable[[bytes], None]],
        more: Callable[[], dict[str, Any]] = dict,
    ) -> None:
        """Read what a process says until it has ended, and say how it did.

        Args:
            process: it is ended when the shard is to end.
            streams: what it writes to, and what takes that; closed then.
            more: to be said at the end.
        """
        for file, take in streams.items():
            os.set_blocking(file, False)
            self._read_from(file, take)
        try:
            while process.poll() is None:
                self._turn(_LOOK)
        except _Over:
            self._end(process)
        for file, take in streams.items():
            self._drain(file, take)
        self._worked = process.returncode in _RAN
        if process.returncode < 0:
            (self._sweep or Sweep()).run()
        elif self._sweep is not None:
            self._sweep.leave_out()
        if not self._deserted:
            said = self._said.decode("utf-8", "replace")
            self._say("end", status=process.returncode, said=said, **more())

    def _end(self, process: subprocess.Popen[bytes]) -> None:
        """End it in order, as far as there is time for that."""
        process.terminate()
        began = time.monotonic()
        if self._deserted:
            with contextlib.suppress(OSError):  # too many processes: there is a later try
                self._sweep = Sweep()
        while process.poll() is None:
            self._pump(_LOOK)
            if time.monotonic() - began > (_DESERTED_END if self._deserted else _END):
                process.kill()
                process.wait()

    def _hear(self, data: bytes) -> None:
        if self._alone_here:
            os.write(2, data)  # the log of its job is read
        self._said = (self._said + data)[-_SAID:]

    def _read_from(self, file: int, take: Callable[[bytes], None]) -> None:
        def read() -> None:
            if len(self._output) > _MOST_WAITING:
                time.sleep(_LOOK)
                return
            data = os.read(file, 1 << 20)
            if data:
                take(data)
            else:
                self._select.unregister(file)

        self._select.register(file, selectors.EVENT_READ, read)

    def _drain(self, file: int, take: Callable[[bytes], None]) -> None:
        """Take what is still in a pipe; a process that pytest left may keep it open."""
        if file in self._select.get_map():
            self._select.unregister(file)
            with contextlib.suppress(BlockingIOError):
                while data := os.read(file, 1 << 20):
                    take(data)
        os.close(file)


class _Held:
    """The lock that a machine's shards take, one after the other."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor

    @property
    def age(self) -> float:
        """Seconds since its holder took it."""
        return max(0.0, time.time() - os.fstat(self.descriptor).st_mtime)

    def close(self) -> None:
        """Give it up."""
        with contextlib.suppress(OSError):
            note_holder(self.descriptor, "")
        os.close(self.descriptor)


def about() -> dict[str, Any]:
    """What this machine is, and what it has to run a shard."""
    return {
        "version": __version__,
        "pytest": metadata.version("pytest"),
        "reportlog": find_spec("pytest_reportlog") is not None,
        "host": os.uname().nodename,
        "fingerprint": fingerprint.read().as_dict(),
        "software": versions.installed(),
        "worker": {
            "version_info": sys.version_info[:3],
            "sysplatform": sys.platform,
            "executable": sys.executable,
        },
    }


class Sweep:
    """Removes what a killed pytest left: a process that is made while pytest still has time to end, as to start it
    takes longer than to sweep."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", _SWEEPER],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def run(self) -> None:
        """Have it sweep, and wait for that."""
        try:
            self._process.communicate(b"\n", timeout=_SWEEP)
        except subprocess.TimeoutExpired:
            self.leave_out()

    def leave_out(self) -> None:
        """End it."""
        self._process.kill()
        self._process.communicate()


if __name__ == "__main__":
    sys.exit(0 if Shard().run() else 1)
