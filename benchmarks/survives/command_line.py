"""Kills runs over every kind of target at random moments, and compares the machine before and after.

Each round starts a run, sends it KILL, TERM, HUP or INT, lets the next run begin and end, and then calls ``vperf
clean``. Processes, mounts, loop devices, links, rules, control groups, what libvirt and Docker know, files, drafts in
the cache, settings, shared memory and locks must be as they were, and nothing that was measured may be lost. It plays
in namespaces of its own, so that nothing else on the machine is seen or touched. Exit status: 0 if nothing was left,
lost or wrong, else 1; 2 where a kind cannot be played here.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_vperf.machine import cache
from survives.kinds import KINDS, own_cache
from survives.rounds import CACHE, SIGNALS, Round, Soak, order

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

LIGHT = tuple(name for name, kind in KINDS.items() if not kind.heavy)
_SOAK = "soak"
#: In namespaces of its own: what is mounted over is empty there. The network is one without others' links.
_NAMESPACES = (
    *("unshare", "--mount", "--propagation", "private", "--net", "--ipc"),
    *("--pid", "--fork", "--mount-proc", "--kill-child"),
)
#: Its first process buries what the killed ones leave. /sys shows the links of who mounted it; the control groups are
#: the machine's.
_SETUP = """set -e
mount -t tmpfs -o mode=1777 none /dev/shm
mount -t tmpfs -o mode=755 none /run
mkdir -p /run/lock /run/libvirt /run/groups
mount --rbind /sys/fs/cgroup /run/groups
mount -t sysfs none /sys
mount --move /run/groups /sys/fs/cgroup
rmdir /run/groups
mount --bind "$1" /var/tmp
mount -t tmpfs -o mode=1777 none /tmp
ip link set lo up
ip netns add first && ip netns delete first
shift
set +e
"$@"
exit $?
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Play, or show what was played; the exit status."""
    options = _options(argv)
    if options.inside:
        return _inside(options)
    lines = _read(options.record)
    if options.table:
        rounds = [_round(line) for line in lines if line["what"] == "round"]
        print("\n".join(table(rounds)))
        return 1 if any(wrong(each) for each in rounds) else 0
    if os.geteuid() != 0:
        print("survives: only root can have namespaces for this", file=sys.stderr)
        return 2
    with contextlib.ExitStack() as undo:
        folder = tempfile.mkdtemp(prefix="vperf-survives-", dir="/var/tmp")
        undo.callback(shutil.rmtree, folder, ignore_errors=True)
        Path(folder).chmod(0o1777)  # it becomes /var/tmp
        soak = Path(folder, _SOAK)
        soak.mkdir(mode=0o700)
        own_cache(cache.root(), soak / CACHE)  # no link leads from one mount to another
        if options.record:
            record: Any = undo.enter_context(options.record.open("a+b"))
        else:
            record = undo.enter_context(tempfile.TemporaryFile("a+b"))
        words = sys.argv[1:] if argv is None else list(argv)
        script = str(Path(__file__).parent)
        inner = [sys.executable, script, *words, f"--inside={record.fileno()}"]
        return subprocess.run(
            [*_NAMESPACES, "sh", "-c", _SETUP, "sh", folder, *inner],
            pass_fds=(record.fileno(),),
            check=False,
        ).returncode


def _options(argv: Sequence[str] | None) -> Any:
    lines = (__doc__ or "").split("\n\n")
    parser = argparse.ArgumentParser(prog="survives", description=lines[0], epilog=lines[1])
    parser.add_argument("--rounds", type=int, default=8, metavar="N", help="(default: 8)")
    parser.add_argument(
        "--seed", type=int, default=1, help="chooses kinds and moments (default: 1)"
    )
    parser.add_argument(
        "--kinds",
        default=",".join(LIGHT),
        metavar="KIND[,KIND]",
        help=f"of {', '.join(KINDS)} (default: all that take seconds)",
    )
    parser.add_argument("--signals", default=",".join(SIGNALS), metavar="NAME[,NAME]")
    parser.add_argument(
        "--seconds", type=float, default=float("inf"), help="begin no more rounds after so many"
    )
    parser.add_argument(
        "--record",
        type=Path,
        metavar="FILE",
        help="append each round to FILE as a line of JSON, and go on where it ends",
    )
    parser.add_argument("--table", action="store_true", help="only show the table of --record")
    parser.add_argument("--inside", type=int, default=0, help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    for name, known in (("kinds", tuple(KINDS)), ("signals", SIGNALS)):
        chosen = getattr(options, name).split(",")
        for each in chosen:
            if each not in known:
                parser.error(f"--{name}: there is no {each!r}; there are: {', '.join(known)}")
        setattr(options, name, chosen)
    if options.rounds < 1:
        parser.error("there has to be a round")
    if options.table and options.record is None:
        parser.error("--table: of which --record?")
    return options


def _read(path: Path | None) -> list[dict[str, Any]]:
    if path is None or not path.exists():
        return []
    return [json.loads(line) for line in path.read_text().splitlines()]


def _round(line: dict[str, Any]) -> Round:
    return Round(**{key: value for key, value in line.items() if key != "what"})


def _inside(options: Any) -> int:
    """Play the rounds, within the namespaces."""
    began = time.monotonic()
    with os.fdopen(options.inside, "a+b") as record:
        record.seek(0)
        lines = [json.loads(line) for line in record.read().splitlines()]
        rounds = [_round(each) for each in lines if each["what"] == "round"]

        def keep(line: dict[str, Any]) -> None:
            record.write(json.dumps(line).encode() + b"\n")
            record.flush()

        folder, runs = Path("/var/tmp", _SOAK), Path("/var/tmp/r")
        runs.mkdir(mode=0o700)
        need = any(KINDS[name].libvirt for name in options.kinds)
        with _libvirt(folder) if need else contextlib.nullcontext(_NOBODY) as (uri, known, spared):
            watched = [Path("/tmp"), Path("/run"), Path("/dev/shm"), runs]
            soak = Soak(folder, runs, watched, uri, lambda: spared | {1}, known)
            try:
                for one in go_on(soak, options, lines, keep, began + options.seconds):
                    rounds.append(one)
                    keep(one.record())
                    print(one.line(), flush=True)
            except NotHere as problem:
                print(f"survives: {problem}", file=sys.stderr)
                return 2
    print("\n".join(table(rounds)))
    return 1 if any(wrong(each) for each in rounds) else 0


class NotHere(Exception):
    """A kind cannot be played on this machine; says why."""


def go_on(
    soak: Soak,
    options: Any,
    lines: Sequence[dict[str, Any]],
    keep: Callable[[dict[str, Any]], None],
    end: float,
) -> Iterator[Round]:
    """Play the rounds that a record does not have.

    Each kind is first played whole, also where the record says how long that takes: what later ones find made, such
    as the folders of a daemon, is made anew in these namespaces, and nobody left it.

    Args:
        soak: that plays them.
        options: of the command line.
        lines: of the record.
        keep: adds a line to it.
        end: when no more begin, of the monotonic clock.

    Raises:
        NotHere: a kind cannot be played.
    """
    typical = {each["kind"]: each["seconds"] for each in lines if each["what"] == "typical"}
    done = sum(each["what"] == "round" for each in lines)
    played = enumerate(order(options.kinds, options.signals, options.seed), 1)
    ready = set()
    for number, (name, how) in itertools.islice(played, done, done + options.rounds):
        if time.monotonic() > end:
            return
        if name not in ready:
            took, problem = soak.whole(name, KINDS[name])
            if problem:
                raise NotHere(f"{name} cannot be played here: {problem}")
            print(f"{name}: {took:.1f} s when nobody kills it", flush=True)
            ready.add(name)
            if name not in typical:
                typical[name] = took
                keep({"what": "typical", "kind": name, "seconds": took})
        yield soak.play(number, name, KINDS[name], how, typical[name], options.seed)


_NOBODY: tuple[str, Callable[[], list[str]], set[int]] = ("", list, set())


@contextlib.contextmanager
def _libvirt(folder: Path) -> Iterator[tuple[str, Callable[[], list[str]], set[int]]]:
    """A libvirt daemon of others: its address, what it knows, and its processes."""
    import libvirt
    import psutil

    from pytest_vperf.machine.runs import Run
    from pytest_vperf.targets.libvirt.connect import PrivateDaemon

    libvirt.registerErrorHandler(lambda *_: None, None)
    os.environ["VPERF_RUNS_DIR"] = str(folder / "o")
    with Run.begin() as run:
        del os.environ["VPERF_RUNS_DIR"]
        daemon = PrivateDaemon.start(run)
        try:
            connection = libvirt.open(daemon.uri)
            family = psutil.Process(daemon.pid)
            spared = {family.pid, *(each.pid for each in family.children(recursive=True))}

            def known() -> list[str]:
                points = Path(f"/proc/{max(spared)}/mountinfo").read_text().splitlines()
                return [
                    *(f"domain {each.name()}" for each in connection.listAllDomains()),
                    *(f"network {each.name()}" for each in connection.listAllNetworks()),
                    *(
                        f"volume {volume.name()} of {pool.name()}"
                        for pool in connection.listAllStoragePools()
                        if pool.isActive()
                        for volume in pool.listAllVolumes()
                    ),
                    *(f"pool {each.name()}" for each in connection.listAllStoragePools()),
                    *(f"mount {line}" for line in points if "vperf-" in line.split()[4]),
                ]

            yield daemon.uri, known, spared
        finally:
            daemon.stop()


def wrong(played: Round) -> bool:
    """Whether a round found anything."""
    return bool(played.next or played.clean or played.lost or played.trouble)


def table(rounds: Iterable[Round]) -> list[str]:
    """A row for each kind and signal, and one for all."""
    cells: dict[tuple[str, str], list[Round]] = {}
    for each in rounds:
        cells.setdefault((each.kind, each.signal), []).append(each)
    rows: list[tuple[str, ...]] = [
        (
            "kind",
            "signal",
            "rounds",
            "too late",
            "samples",
            "left: next run",
            "left: clean",
            "lost",
            "other",
            "slowest end",
        )
    ]
    known = list(KINDS)
    for kind, how in sorted(cells, key=lambda cell: (known.index(cell[0]), SIGNALS.index(cell[1]))):
        rows.append(_row(kind, how, cells[kind, how]))
    rows.append(_row("all", "", [each for cell in cells.values() for each in cell]))
    widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
    return ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]


def _row(kind: str, how: str, cell: Sequence[Round]) -> tuple[str, ...]:
    return (
        kind,
        how,
        str(len(cell)),
        str(sum(each.too_late for each in cell)),
        str(sum(each.samples for each in cell)),
        *(
            str(sum(len(getattr(each, name)) for each in cell))
            for name in ("next", "clean", "lost")
        ),
        str(sum(len(each.trouble) for each in cell)),
        f"{max((each.took for each in cell), default=0.0):.1f} s",
    )
