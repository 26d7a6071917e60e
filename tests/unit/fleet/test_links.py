"""The connections to machines, at their ends."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from pytest_vperf import FleetMachine, piped
from pytest_vperf.fleet.links import Links

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Mapping, Sequence

#: It asks for more than a pipe takes, and does not read it.
DEAF = """
echo '{"vperf": "hello"}'; read -r order
echo '{"vperf": "wants"}'; sleep 0.3; echo '{"vperf": "end"}'
"""


class Shell:
    """An engine whose machines run the command in a shell."""

    def machines(self) -> Sequence[FleetMachine]:
        return [FleetMachine("h1", "type-a")]

    def start(self, machine: FleetMachine, command: Sequence[str]) -> subprocess.Popen[bytes]:
        return piped(["sh", "-c", *command])

    def waits(self, said: str) -> bool:
        return False

    def failed(self, status: int, said: str) -> bool:
        return False

    def end(self, process: subprocess.Popen[bytes]) -> None:
        process.kill()

    def gone(self) -> Mapping[str, str]:
        return {}


def test_what_a_machine_does_not_read_any_more_is_not_sent() -> None:
    links = Links(Shell(), [DEAF])
    link = links.start(FleetMachine("h1", "type-a"))
    deadline = time.monotonic() + 30
    said = []
    while links.open and time.monotonic() < deadline:
        for _, each in links.turn(0.5):
            said.append(each)
            match each:
                case {"vperf": "hello"}:
                    links.send(link, b"an order\n")
                case {"vperf": "wants"}:
                    links.send(link, bytes(1 << 20))
                    time.sleep(1)  # by now it has ended: all of its streams are ready at once
                case {"vperf": "end"}:
                    links.dismiss(link)
    assert said == [
        *({"vperf": kind} for kind in ("hello", "wants", "end")),
        "its connection ended",
    ]
