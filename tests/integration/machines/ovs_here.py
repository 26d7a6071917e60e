"""An Open vSwitch for tests: this machine's where it answers, otherwise a private one with an empty database.

A switch removes what its kernel has of bridges that are not in its database, so there is never a second one.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from typing import TYPE_CHECKING

from pytest_vperf.machine.ending import at_parents_death
from pytest_vperf.targets.network import open_vswitch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    import pytest

SCHEMA = "/usr/share/openvswitch/vswitch.ovsschema"
#: Seconds until it answers.
START = 30.0


@contextlib.contextmanager
def answering(folder: Path, patch: pytest.MonkeyPatch) -> Iterator[None]:
    """Within this ``ovs-vsctl`` finds one that answers.

    Args:
        folder: is made where one has to be started; its path is short, since sockets are in it.
        patch: names it to whatever is started meanwhile.
    """
    if open_vswitch.check().usable:
        yield
        return
    folder.mkdir()
    patch.setenv("OVS_RUNDIR", str(folder))
    environment = {**os.environ, "OVS_RUNDIR": str(folder)}
    database, socket = folder / "conf.db", folder / "db.sock"
    subprocess.run(["ovsdb-tool", "create", str(database), SCHEMA], check=True)
    with contextlib.ExitStack() as undo:
        server = ["ovsdb-server", f"--remote=punix:{socket}", "--pidfile", str(database)]
        _start(server, folder, environment, undo)
        _until(socket.exists)
        subprocess.run(["ovs-vsctl", "--no-wait", "init"], env=environment, check=True)
        switch = ["ovs-vswitchd", "--pidfile", f"unix:{socket}"]
        _start(switch, folder, environment, undo)
        _until(lambda: open_vswitch.check().usable)
        yield


def said(*words: str) -> str:
    """What ``ovs-vsctl`` prints."""
    done = subprocess.run(
        ["ovs-vsctl", "--timeout=10", *words], capture_output=True, text=True, check=True
    )
    return done.stdout


def _start(
    words: list[str], folder: Path, environment: Mapping[str, str], undo: contextlib.ExitStack
) -> None:
    with (folder / f"{words[0]}.log").open("wb") as log:
        process = subprocess.Popen(
            words,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            preexec_fn=at_parents_death(signal.SIGTERM),
        )

    def end() -> None:
        process.terminate()
        process.wait()

    undo.callback(end)


def _until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + START
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.05)
