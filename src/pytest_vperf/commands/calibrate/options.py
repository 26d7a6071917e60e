"""The options of ``vperf calibrate``, parsed before any slow import."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse

LEAST_RUNS, MOST_RUNS = 3, 100
MOST_NEXT_RUNS = 10_000
MOST_APART = 86_400

#: Options that each run of a calibration has already.
_SET = ("--hw", "--claims-json", "--claims-level", "--claims-strict", "--claims-advisory")


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to those of ``vperf``."""
    parser = commands.add_parser(
        "calibrate",
        usage="%(prog)s [-h] --hw NAME [--runs N] [--confidence PERCENT] [--next N] [--apart TIME] [--noisy]\n"
        "                       [--records DIR] [-k EXPRESSION] [-m EXPRESSION] [PATH ...] [-- PYTEST-ARGUMENT ...]",
        help="write a profile of this machine: limits from several runs of the tests",
        description="Runs the tests several times, measures their claims about a limit without judging them, and "
        "sets each limit far enough from the figures for the next runs to stay within it. Comparisons are left "
        "alone, and so are limits that are published or written by hand.",
        epilog="The file is NAME.calibrated.yaml in the project's folder of thresholds; NAME.yaml beside it is "
        "yours, and its figures have precedence. "
        "Exit status: 0 if every claim has a limit or needs none, 1 if one could not be measured in every run, if "
        "the machine is noisy, or the file could not be written, 2 for invalid options, or if "
        "pytest did not run the tests.",
    )
    parser.add_argument("paths", nargs="*", metavar="PATH", help="tests (default: tests/claims)")
    parser.add_argument("--hw", required=True, metavar="NAME", help="name of the profile")
    parser.add_argument(
        "--runs",
        type=int,
        default=5,
        metavar="N",
        help="number of runs; more runs give tighter limits (default: 5)",
    )
    parser.add_argument(
        "--confidence",
        default="99 %",
        metavar="PERCENT",
        help="probability that the figures of all of the next runs are within a claim's limit (default: 99 %%)",
    )
    parser.add_argument(
        "--next",
        dest="next_runs",
        type=int,
        default=20,
        metavar="N",
        help="number of next runs that this covers (default: 20)",
    )
    parser.add_argument(
        "--apart",
        default="60 s",
        metavar="TIME",
        help="least time between the starts of two runs: back to back, their spread "
        "is too small, since a machine's level moves between minutes (default: 60 s)",
    )
    parser.add_argument(
        "--noisy",
        action="store_true",
        help="calibrate even if this machine is noisy; the file says why it was",
    )
    parser.add_argument(
        "--records",
        type=Path,
        metavar="DIR",
        help="keep the records of the runs in DIR, or continue with those in it "
        "(default: a new folder in the cache)",
    )
    parser.add_argument("-k", dest="keyword", metavar="EXPRESSION", help="as pytest's -k")
    parser.add_argument("-m", dest="marker", metavar="EXPRESSION", help="as pytest's -m")
    parser.set_defaults(command=_calibrate, fail=parser.error)


def _calibrate(arguments: argparse.Namespace) -> int:
    from pytest_vperf.commands.calibrate import command

    _check_name(arguments)
    if not LEAST_RUNS <= arguments.runs <= MOST_RUNS:
        arguments.fail(
            f"--runs: {arguments.runs} is not from {LEAST_RUNS} to {MOST_RUNS}: "
            "fewer runs do not show the spread"
        )
    if not 1 <= arguments.next_runs <= MOST_NEXT_RUNS:
        arguments.fail(f"--next: {arguments.next_runs} is not from 1 to {MOST_NEXT_RUNS}")
    words = [*arguments.paths]
    for option, value in (("-k", arguments.keyword), ("-m", arguments.marker)):
        if value is not None:
            words += [option, value]
    for word in arguments.words_after:
        name = word.partition("=")[0]
        if name in _SET:
            arguments.fail(f"{name} is set for each run: leave it out after --")
    options = command.Options(
        profile=arguments.hw,
        runs=arguments.runs,
        confidence=_confidence(arguments),
        next_runs=arguments.next_runs,
        apart=_apart(arguments),
        noisy=arguments.noisy,
        records=arguments.records,
        words=[*words, *arguments.words_after],
    )
    return command.run(options)


def _check_name(arguments: argparse.Namespace) -> None:
    from pydantic_core import PydanticCustomError

    from pytest_vperf.thresholds.match import ANY
    from pytest_vperf.thresholds.scalars import parse_profile_name

    try:
        parse_profile_name(arguments.hw)
    except PydanticCustomError as error:
        arguments.fail(f"--hw: {error.message()}")
    if arguments.hw == ANY:
        arguments.fail(f"--hw: the profile {ANY!r} is for every machine, and limits are of one")


def _confidence(arguments: argparse.Namespace) -> float:
    match = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*%\s*", arguments.confidence)
    share = float(match[1]) / 100 if match else 0.0
    if not 0.5 < share <= 0.9999:
        arguments.fail(
            f"--confidence: {arguments.confidence!r} is not a percentage above 50 % and up to 99.99 %, such as '99 %'"
        )
    return share


def _apart(arguments: argparse.Namespace) -> float:
    from pytest_vperf.quantity import QuantityError, amount

    try:
        seconds = amount("--apart", arguments.apart, "s", such_as="60 s")
    except QuantityError as error:
        arguments.fail(str(error))
        raise  # never reached: argparse has ended the command
    if not 0 <= seconds <= MOST_APART:
        arguments.fail(f"--apart: {arguments.apart!r} is not from 0 s to a day")
    return seconds
