"""The command ``vperf``: what this machine can measure, earlier verdicts, leftovers, labs, and a schema.

Running claims is pytest's business; this command is for before and after.
"""

from __future__ import annotations

import argparse
import errno
import io
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_vperf.reporting.console import say, tell

if TYPE_CHECKING:
    from collections.abc import Sequence

INTERRUPTED = 130  # as in a shell: 128 + SIGINT
#: A full disk or quota, a file at its size limit, an I/O error.
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status.

    Args:
        argv: the arguments, without the program's name; this process's own by default.

    Raises:
        SystemExit: ``--help``, ``--version``, or invalid arguments (status 2).
    """
    from pytest_vperf.machine.ending import ending_in_order

    if isinstance(sys.stdout, io.TextIOWrapper):
        # Tables contain ≤, which the locale's encoding may lack.
        sys.stdout.reconfigure(errors="backslashreplace")
    words, command = _split_command(sys.argv[1:] if argv is None else argv)
    arguments = parser().parse_args(words)
    arguments.words = words
    arguments.words_after = command  # not parsed here
    try:
        with ending_in_order():
            status: int = arguments.command(arguments)
            sys.stdout.flush()
    except KeyboardInterrupt:
        say("vperf", "interrupted")
        return INTERRUPTED
    except PermissionError as error:  # e.g. the folder of runs, which must belong to the user
        say("vperf", str(error))
        return 1
    except BrokenPipeError:
        _close_stdout()  # the reader (head, a pager) has seen enough
        return 0
    except OSError as error:
        if error.errno not in _FULL:
            raise
        say("vperf", f"{error.filename or 'standard output'}: {error.strerror}")
        _close_stdout()
        return 1
    return status


def _close_stdout() -> None:
    """Discard unwritten output, so that Python does not fail again when it closes the stream."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _split_command(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """The words before the first ``--``, and those after it: a command to run, or arguments for pytest."""
    words = list(words)
    takes_command = words[:1] in (
        ["doctor"],
        ["selfcheck"],
        ["calibrate"],
        ["bisect"],
        ["gate"],
    ) or words[:2] == [
        "lab",
        "ssh",
    ]
    if not takes_command or "--" not in words:
        return words, []
    place = words.index("--")
    return words[:place], words[place + 1 :]


def parser() -> argparse.ArgumentParser:
    """The command line."""
    from pytest_vperf import __version__
    from pytest_vperf.commands import comment, completion, gate, help, report
    from pytest_vperf.commands.bisect import command as bisect_command
    from pytest_vperf.commands.calibrate import options
    from pytest_vperf.commands.claims import command as claims_command
    from pytest_vperf.commands.compare import command as compare_command
    from pytest_vperf.commands.gallery import command as gallery_command
    from pytest_vperf.commands.history import command as history_command

    whole = argparse.ArgumentParser(
        prog="vperf",
        description="What pytest-vperf can measure on this machine. Claims are run by pytest itself.",
    )
    whole.add_argument("--version", action="version", version=f"vperf {__version__}")
    commands = whole.add_subparsers(title="commands", metavar="COMMAND", required=True)
    _add_doctor(commands)
    _add_selfcheck(commands)
    options.add_parser(commands)
    claims_command.add_parser(commands)
    gallery_command.add_parser(commands)
    compare_command.add_parser(commands)
    history_command.add_parser(commands)
    bisect_command.add_parser(commands)
    bisect_command.add_step_parser(commands)
    gate.add_parser(commands)
    report.add_parser(commands)
    comment.add_parser(commands)
    _add_lab(commands)
    _add_clean(commands)
    _add_schema(commands)
    completion.add_parser(commands, whole)
    return help.complete(whole)


def _add_doctor(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "doctor",
        usage="%(prog)s [-h] [--json] [--guest-kernel FILE] [--container-runtime NAME[,NAME]] [NAME ...]\n"
        "       %(prog)s --fleet FILE [--json] [--container-runtime NAME[,NAME]] [NAME ...]\n"
        "       %(prog)s --tune [--apply] [--also NAME[,NAME]] [-- COMMAND ...]",
        help="show what is usable here, what is not and why, and the command that fixes it",
        description="Checks targets, accelerators, firmware and tools. Some pods are started to find out "
        "whether they work, and with which accelerator; this takes some seconds.",
        epilog="Exit status: with names, 0 if all of them are usable, else 1; without names, 0 if "
        "containers or pods are usable, else 1; of a fleet, on every machine; 2 for an unknown name.",
    )
    parser.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        help="check only these, e.g. container pod kvm runsc sysbench",
    )
    parser.add_argument("--json", action="store_true", help="print the answers as JSON")
    parser.add_argument(
        "--fleet",
        type=Path,
        metavar="FILE",
        help="check the machines of a fleet, all at once: whether they can run tests, and container and pod if no "
        "NAME is given; see 'A fleet' in the documentation",
    )
    parser.add_argument(
        "--guest-kernel",
        type=Path,
        metavar="FILE",
        help="kernel that pods boot (default: the distribution's cloud kernel)",
    )
    parser.add_argument(
        "--container-runtime",
        action="append",
        metavar="NAME[,NAME]",
        help="OCI runtimes to check (default: runc and runsc); 'container' then means these",
    )
    tuning = parser.add_argument_group("to quieten this machine")
    tuning.add_argument(
        "--tune",
        action="store_true",
        help="show the settings that make measurements noisy, and the commands that change them",
    )
    tuning.add_argument(
        "--apply",
        action="store_true",
        help="change them (as root) while COMMAND runs, or until Ctrl-C, then restore them; "
        "exit status: COMMAND's, or 1 if a setting could not be changed or restored",
    )
    tuning.add_argument(
        "--also",
        action="append",
        metavar="NAME[,NAME]",
        help="also change settings with other effects: aslr (address space layout randomisation, which "
        "protects against attacks), smt (disables the second thread of each core)",
    )
    parser.set_defaults(command=_doctor, fail=parser.error)


def _add_selfcheck(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "selfcheck",
        usage="%(prog)s [-h] [--decisions N] [--pairs N] [--tolerance PERCENT] [--budget TIME] [--json FILE]\n"
        "                       [CLAIM ...] [-- PYTEST-ARGUMENT ...]\n"
        "       %(prog)s --forget [CLAIM ...]",
        help="check on real targets whether verdicts about a metric can be trusted here",
        description="Compares a claim's metric many times with itself, which must stay undecided, and with itself "
        "slowed down by twice the tolerance, which must be detected. A metric with too many wrong "
        "verdicts is marked: its claims are inconclusive on this machine until a self-check finds it stable.",
        epilog="pytest runs the tests in tests/claims, or those named by PYTEST-ARGUMENTs. Exit status: 0 if all "
        "metrics are stable, 1 if one is unstable, too noisy, has too few decisions or could not be measured, 2 "
        "for a name that is unknown or not tested.",
    )
    parser.add_argument(
        "claims",
        nargs="*",
        metavar="CLAIM",
        help="check only these: names, or patterns such as 'startup.*' (default: all claims of the tests)",
    )
    parser.add_argument(
        "--decisions",
        type=int,
        default=200,
        metavar="N",
        help="A/A decisions per metric; 30 %% as many are made about a slower one (default: 200)",
    )
    parser.add_argument(
        "--pairs",
        default="32",
        metavar="N",
        help="most pairs per A/A decision (default: 32); a decision about a slower metric may take as many as "
        "its claim",
    )
    parser.add_argument(
        "--tolerance",
        metavar="PERCENT",
        help="the slower metric is slower by twice this (default: the claim's own, else --claims-tolerance)",
    )
    parser.add_argument(
        "--budget",
        default="5 min",
        metavar="TIME",
        help="time per metric; the decisions made by then count (default: 5 min)",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every decision to FILE")
    parser.add_argument(
        "--forget", action="store_true", help="remove the marks of earlier self-checks, and exit"
    )
    parser.set_defaults(command=_selfcheck, fail=parser.error)


def _add_lab(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    from pytest_vperf.lab import command

    parser = commands.add_parser(
        "lab",
        help="whole hosts inside QEMU: a KVM host and a Xen host for any machine",
        description="Builds and starts whole hosts inside QEMU, a KVM host and a Xen host, each with libvirt and an "
        "SSH server, on ports of 127.0.0.1. Without working KVM they are emulated: everything "
        "runs, but the times mean nothing.",
    )
    command.add_parsers(parser)


def _add_clean(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "clean",
        help="remove what killed runs left behind",
        description="Shows and removes processes, containers, mounts, control groups and folders of killed "
        "runs, and labs that do not answer. Live runs, and labs that are up, "
        "are left alone.",
        epilog="Exit status: 0 if nothing is left, 1 if something could not be removed, "
        "or an engine could not be inspected.",
    )
    parser.add_argument("--dry-run", action="store_true", help="only show what would be removed")
    parser.add_argument("--labs", action="store_true", help="also end labs that are up")
    parser.set_defaults(command=_clean)


def _add_schema(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "schema",
        help="print the JSON Schema of threshold files, for editors",
        description="Prints the JSON Schema of threshold files. With it, an editor completes and "
        "checks thresholds/*.yaml as you type.",
    )
    parser.add_argument("--output", type=Path, metavar="FILE", help="write to FILE instead")
    parser.set_defaults(command=_schema)


def _doctor(arguments: argparse.Namespace) -> int:
    if arguments.tune:
        return _tune(arguments)
    if arguments.apply or arguments.also:
        arguments.fail("--apply and --also belong to --tune")
    from pytest_vperf.commands import doctor

    runtimes = [
        name for text in arguments.container_runtime or () for name in text.split(",") if name
    ]
    names, known = [*arguments.names, *arguments.words_after], tuple(dict.fromkeys(runtimes))
    if arguments.fleet is not None:
        from pytest_vperf.commands import fleet_doctor

        if arguments.guest_kernel is not None:
            arguments.fail("--guest-kernel is a file of this machine; leave it out with --fleet")
        return fleet_doctor.run(arguments.fleet, names, json=arguments.json, runtimes=known)
    return doctor.run(
        names, json=arguments.json, guest_kernel=arguments.guest_kernel, runtimes=known
    )


def _tune(arguments: argparse.Namespace) -> int:
    from pytest_vperf.commands import tune
    from pytest_vperf.machine.tuning import ASKED

    also = [name for text in arguments.also or () for name in text.split(",") if name]
    others = ("names", "json", "fleet", "guest_kernel", "container_runtime")
    if any(getattr(arguments, each) for each in others):
        arguments.fail("--tune goes with --apply, --also and `-- COMMAND` only")
    if arguments.words_after and not arguments.apply:
        arguments.fail("a COMMAND is run with --apply only")
    for name in also:
        if name not in ASKED:
            arguments.fail(f"--also: {name!r} is not known; there are: {', '.join(ASKED)}")
    return tune.run(apply=arguments.apply, also=also, command=arguments.words_after)


def _selfcheck(arguments: argparse.Namespace) -> int:
    from pytest_vperf.commands.selfcheck import command as selfcheck
    from pytest_vperf.commands.selfcheck.plugin import Options
    from pytest_vperf.thresholds import judge

    if arguments.forget:
        if arguments.words_after:
            arguments.fail("--forget runs no tests")
        return selfcheck.forget(arguments.claims)
    if not 1 <= arguments.decisions <= 100_000:
        arguments.fail(f"--decisions: {arguments.decisions} is not from 1 to 100000")

    def read(key: str, text: str) -> float:
        try:
            return judge.read(key, text)
        except ValueError as error:
            arguments.fail(f"--{key}: {error}")
            raise  # never reached: argparse has ended the command

    options = Options(
        claims=arguments.claims,
        decisions=arguments.decisions,
        pairs=int(read("pairs", arguments.pairs)),
        tolerance=read("tolerance", arguments.tolerance) if arguments.tolerance else None,
        budget=read("budget", arguments.budget),
    )
    return selfcheck.run(options, arguments.words_after, arguments.json)


def _clean(arguments: argparse.Namespace) -> int:
    from pytest_vperf.commands import clean
    from pytest_vperf.targets.base import TargetError

    if arguments.labs and not arguments.dry_run:
        try:
            for line in clean.end_labs():
                tell(line)
        except TargetError as error:
            say("vperf clean", str(error))
            return 1
    return clean.run(dry_run=arguments.dry_run)


def _schema(arguments: argparse.Namespace) -> int:
    from pytest_vperf.foreign_text import to_json
    from pytest_vperf.machine.whole_file import write_whole
    from pytest_vperf.thresholds.profile import json_schema

    text = to_json(json_schema(), indent=2) + "\n"
    if arguments.output is None:
        sys.stdout.write(text)
        return 0
    try:
        write_whole(arguments.output, text)
    except OSError as error:
        say("vperf schema", f"{arguments.output}: {error.strerror or error}")
        return 1
    return 0
