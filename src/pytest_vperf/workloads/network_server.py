"""The server of a network tool: started in a target, waited for, and reliably ended.

`Target.run` runs a command to its end, so the target's own shell puts a server into the background, in its own
session. It is ready when the target's kernel shows its port as bound (proc(5), ``/proc/net/tcp``), which is checked
within the target, before anything is measured. It is ended by its session ID, with its child processes; at the
latest, it ends with the target.
"""

from __future__ import annotations

import contextlib
import re
import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from pytest_vperf.targets.base import CannotStart, link_of
from pytest_vperf.workloads.bench import ENVIRONMENT

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pytest_vperf.targets.base import Link, Program, Target

Transport = Literal["tcp", "udp"]

#: Ports are chosen from these: above those that systems assigned in our tests, below Linux's range for clients
#: (ip_local_port_range, 32768 to 60999), so that no connection uses one.
PORTS = range(20_000, 32_000)
#: The state of a server's line in /proc/net: TCP_LISTEN, or TCP_CLOSE for an unconnected UDP
#: socket (Linux, include/net/tcp_states.h).
_STATES = {"tcp": "0A", "udp": "07"}
#: Seconds within which a server must have bound its port; emulated machines are slow.
READY_WITHIN = 20.0
_TRIES = 4
#: The folder of a server's log, in a target that has no `scratch`.
_FOLDER = "/tmp"  # nosec B108 # the log has a name that nobody can guess

_START = r"""
log=$1 kind=$2 port=$3 state=$4 tries=$5
shift 5
setsid "$@" >"$log" 2>&1 </dev/null &
pid=$!
while [ "$tries" -gt 0 ]; do
  if ! kill -0 "$pid" 2>/dev/null; then
    cat "$log" >&2
    rm -f "$log"
    wait "$pid"
    exit 97
  fi
  for table in /proc/net/"$kind" /proc/net/"$kind"6; do
    [ -r "$table" ] || continue
    while read -r _ here _ now _; do
      if [ "${here##*:}" = "$port" ] && [ "$now" = "$state" ]; then
        echo "$pid"
        exit 0
      fi
    done <"$table"
  done
  sleep 0.05
  tries=$((tries - 1))
done
kill -9 -"$pid" 2>/dev/null || kill -9 "$pid"
cat "$log" >&2
rm -f "$log"
exit 98
"""
_END = r"""
kill -9 -"$1" 2>/dev/null
kill -9 "$1" 2>/dev/null
rm -f "$2"
tries=100
while [ "$tries" -gt 0 ]; do
  # A process that its parent does not reap stays as a zombie, which holds no port.
  [ -r "/proc/$1/stat" ] || exit 0
  read -r line <"/proc/$1/stat" || exit 0
  case ${line##*) } in Z*) exit 0 ;; esac
  sleep 0.05
  tries=$((tries - 1))
done
exit 1
"""


@dataclass(frozen=True)
class Server:
    """A tool's running server.

    Attributes:
        target: where it runs.
        tool: the server's program, e.g. ``iperf3``.
        port: where it listens.
        log: the file in the target with its output.
    """

    target: Target
    tool: str
    port: int
    log: str

    def address_for(self, client: Target) -> str:
        """The address by which a client reaches it.

        Raises:
            Unavailable: it cannot be reached from the client's network.
            TargetError: one of the two is on no network.
        """
        return link_of(self.target).address_for(link_of(client))

    @property
    def second_port(self) -> int:
        """Another port in the target that a client can reach; 0 if all can."""
        others = [port for port in link_of(self.target).ports if port != self.port]
        return others[0] if others else 0

    def said(self) -> bytes:
        """Its output so far."""
        return self.target.run(["cat", self.log], timeout=30.0).stdout


@contextlib.contextmanager
def serving(
    target: Target,
    program: Program,
    arguments: Sequence[str],
    *,
    transport: Transport = "tcp",
) -> Iterator[Server]:
    """Start a server and end it with the block.

    Args:
        target: where; it must be on a network.
        program: the target's.
        arguments: after the program; ``{address}`` and ``{port}`` in them are replaced.
        transport: of the port that shows that it is ready.

    Raises:
        TargetError: the target is on no network.
        CannotStart: the server ended, or bound no port in time; with its output.
    """
    link = link_of(target)
    folder = getattr(target, "scratch", _FOLDER)
    for attempt in range(_TRIES):
        port = _choose(link, _taken(target))
        log = f"{folder}/vperf-{program.name}-{secrets.token_hex(8)}.log"
        words = [word.format(address=link.listen, port=port) for word in arguments]
        tries = str(round(READY_WITHIN / 0.05))
        shell = ["sh", "-c", _START, "sh", log, transport, f"{port:04X}", _STATES[transport], tries]
        done = target.run(
            [*shell, *program.argv, *words],
            env=ENVIRONMENT,
            timeout=READY_WITHIN * 3,
            check=False,
        )
        if done.returncode == 0:
            break
        said = done.stderr.decode("utf-8", "replace").strip()
        # The port was taken meanwhile; if it was not ours to choose, another try would not help.
        if "in use" in said.lower() and attempt + 1 < _TRIES and not link.ports:
            continue
        how = "ended at once" if done.returncode == 97 else f"bound no port in {READY_WITHIN:g} s"
        raise CannotStart(
            f"the server {program.name} in {target.name} {how} (status {done.returncode})"
            + (f":\n{said[-500:]}" if said else " and said nothing"),
            target=target.name,
        )
    pid = done.text.strip()
    if not pid.isdigit():
        raise CannotStart(
            f"the server {program.name} in {target.name} has no process number but {pid[:80]!r}",
            target=target.name,
        )
    try:
        yield Server(target, program.name, port, log)
    finally:
        end(target, program.name, pid, log)


def end(target: Target, tool: str, pid: str, log: str) -> None:
    """End a server with its session.

    Raises:
        CannotStart: it does not end.
    """
    done = target.run(["sh", "-c", _END, "sh", pid, log], timeout=30.0, check=False)
    if done.returncode != 0:
        raise CannotStart(f"the server {tool} in {target.name} does not end", target=target.name)


def _taken(target: Target) -> set[int]:
    tables = [f"/proc/net/{kind}" for kind in ("tcp", "tcp6", "udp", "udp6")]
    # A kernel without IPv6 only has two of them.
    printed = target.run(["cat", *tables], timeout=30.0, check=False).text
    return bound_ports(printed)


def bound_ports(tables: str) -> set[int]:
    """The local ports in the text of ``/proc/net/tcp`` and the like: ``SL: ADDRESS:PORT …``, in hexadecimal."""
    found = re.finditer(r"^\s*\d+:\s+[0-9A-F]+:([0-9A-F]{4})\s", tables, re.MULTILINE)
    return {int(match[1], 16) for match in found}


def _choose(link: Link, taken: set[int]) -> int:
    free = [port for port in (link.ports or PORTS) if port not in taken]
    if not free:
        raise CannotStart("all ports that a server could have here are taken")
    return free[0] if link.ports else secrets.choice(free)
