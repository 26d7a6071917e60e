"""``vperf lab``: build, start, show, enter and end hosts inside QEMU."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from typing import TYPE_CHECKING

from pytest_vperf import foreign_text
from pytest_vperf.lab.kinds import KINDS
from pytest_vperf.reporting.console import print_table, say, tell

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator

    from pytest_vperf.lab.image import Say


def add_parsers(parser: argparse.ArgumentParser) -> None:
    """Add the commands of ``vperf lab`` to its parser."""
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    names = list(KINDS)

    build = commands.add_parser(
        "build",
        help="build what a host starts from; `up` does it, too",
        description="Builds the disk of a host from the machine's own package sources, and keeps it in the cache. "
        "It is built again where these have other versions, and not otherwise.",
    )
    build.add_argument("kinds", nargs="+", choices=names, metavar="KIND", help=", ".join(names))
    build.set_defaults(command=_build)

    up = commands.add_parser(
        "up",
        help="start a host, wait until its libvirt answers, and print the URI",
        description="Starts a host and waits until its libvirt answers. It stays up until `vperf lab down`, "
        "and claims use it meanwhile. Standard output has the URI, and nothing else.",
    )
    up.add_argument("kind", choices=names, metavar="KIND", help=", ".join(names))
    up.add_argument("--memory", type=_number(1024, 1 << 20), metavar="MIB", help="(default: 6144)")
    up.add_argument(
        "--vcpus", type=_number(1, 64), metavar="N", help="virtual CPUs of the host (default: 2)"
    )
    up.set_defaults(command=_up)

    status = commands.add_parser("status", help="show which hosts are built, and which are up")
    status.set_defaults(command=_status)

    ssh = commands.add_parser(
        "ssh",
        usage="%(prog)s [-h] KIND [-- COMMAND ...]",
        help="log in to a host that is up, or run a command there",
    )
    ssh.add_argument("kind", choices=names, metavar="KIND", help=", ".join(names))
    ssh.set_defaults(command=_ssh)

    down = commands.add_parser("down", help="end hosts that are up")
    # argparse would hold the empty list against the choices.
    down.add_argument(
        "kinds", nargs="*", metavar="KIND", help=f"{', '.join(names)} (default: all that are up)"
    )
    down.set_defaults(command=_down, fail=down.error)


def _number(least: int, most: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        import argparse

        if not text.isdecimal() or not least <= int(text) <= most:
            raise argparse.ArgumentTypeError(
                f"{text!r} is not a whole number from {least} to {most}"
            )
        return int(text)

    return read


def _build(arguments: argparse.Namespace) -> int:
    from pytest_vperf.lab import image as host_image
    from pytest_vperf.targets.base import TargetError

    for name in dict.fromkeys(arguments.kinds):
        began = time.monotonic()
        try:
            with _progress() as told:
                image = host_image.build(KINDS[name], told)
        except TargetError as error:
            return _refuse("build", error)
        took = time.monotonic() - began
        tell(f"lab {name}: {image.key}, {image.size >> 20} MiB, {took:.0f} s ({image.folder})")
    return 0


def _up(arguments: argparse.Namespace) -> int:
    from pytest_vperf.lab import labs
    from pytest_vperf.targets.base import TargetError

    found = labs.running(arguments.kind)
    if found is not None:
        if arguments.memory or arguments.vcpus:
            say(
                "vperf lab up",
                f"lab {arguments.kind} is up already, as it was started; for another one:"
                f" vperf lab down {arguments.kind}",
            )
        tell(found.uri)
        return 0
    try:
        with _progress() as told:
            host = labs.up(arguments.kind, say=told, memory=arguments.memory, vcpus=arguments.vcpus)
    except TargetError as error:
        return _refuse("up", error)
    tell(host.uri)
    return 0


def _status(_: argparse.Namespace) -> int:
    from pytest_vperf.lab.labs import COLUMNS, look

    seen = look()
    print_table(COLUMNS, [each.row for each in seen])
    for each in seen:
        if each.uri:
            tell(f"{each.kind}: {each.uri}")
    return 0


def _ssh(arguments: argparse.Namespace) -> int:
    from pytest_vperf.lab import labs
    from pytest_vperf.machine.preflight import find_program

    host = labs.running(arguments.kind)
    if host is None:
        say(
            "vperf lab ssh",
            f"lab {arguments.kind} is not up (to start it: vperf lab up {arguments.kind})",
        )
        return 1
    program = find_program("ssh") or "ssh"
    words = [program, "-F", str(host.ssh_config), f"lab-{host.kind}"]
    if arguments.words_after:
        import shlex

        words += ["--", shlex.join(arguments.words_after)]
    sys.stdout.flush()
    os.execv(program, words)
    raise AssertionError("never reached")


def _down(arguments: argparse.Namespace) -> int:
    from pytest_vperf.lab import labs
    from pytest_vperf.targets.base import TargetError

    for name in arguments.kinds:
        if name not in KINDS:
            arguments.fail(f"there is no lab {name!r}; there are: {', '.join(KINDS)}")
    for name in dict.fromkeys(arguments.kinds or KINDS):
        try:
            there = labs.down(name)
        except TargetError as error:
            return _refuse("down", error)
        if there or arguments.kinds:
            tell(f"lab {name}: {'ended' if there else 'was not up'}")
    return 0


def _refuse(command: str, error: Exception) -> int:
    say(f"vperf lab {command}", str(error))
    return 1


@contextlib.contextmanager
def _progress() -> Iterator[Say]:
    """Report progress on standard error, with the seconds since the start."""
    began = time.monotonic()

    def line(text: str) -> str:
        return f"{time.monotonic() - began:4.0f} s  {text}"

    if not sys.stderr.isatty():
        yield lambda text: print(foreign_text.lines(line(text)), file=sys.stderr, flush=True)
        return
    from rich.console import Console
    from rich.markup import escape

    console = Console(stderr=True, highlight=False)
    with console.status("") as status:

        def told(text: str) -> None:
            console.print(escape(foreign_text.lines(line(text))))
            status.update(escape(f"{foreign_text.line(text)} …"))

        yield told
