"""``vperf history``: its options, and reading the runs."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING

from pytest_vperf.commands.options import add_reading_options, check_reading_options
from pytest_vperf.reporting.console import say

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from pytest_vperf.results.store.series import History

SHOWN, FAILED, MISUSED, NOTHING = 0, 1, 2, 5


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "history",
        help="show when a claim's figure changed, and with which commit",
        description="Shows the runs that were kept in the order of their time, and where their level changed: in a "
        "step, or in a slip over several runs of which each passes. The runs of the newest one's machine are taken.",
        epilog="Exit status: 0 if the history was shown, with or without changes; 1 if a file could not be written; "
        "2 for runs or options that are wrong; 5 if no claim has so many runs that anything could be seen.",
    )
    parser.add_argument(
        "claim",
        metavar="CLAIM",
        nargs="?",
        default="*",
        help="this claim, with a plot, or those like 'startup.*' (default: all)",
    )
    parser.add_argument(
        "--runs",
        metavar="NAME",
        default="",
        help="the runs of this name; NAME@SIDE or @SIDE for a gate's side (default: all runs)",
    )
    parser.add_argument(
        "--last", metavar="N", type=int, help="the last N of them (default: as many as there are)"
    )
    parser.add_argument(
        "--machine",
        metavar="NAME",
        default="",
        help="take the runs of this machine of a fleet (default: the machine of the newest run)",
    )
    add_reading_options(parser, json="write JSON, with every run")
    parser.set_defaults(command=_history, fail=parser.error)


def _history(arguments: argparse.Namespace) -> int:
    check_reading_options(arguments)
    if arguments.last is not None and arguments.last < 1:
        arguments.fail(f"--last: {arguments.last} is no number of runs")
    from pytest_vperf.commands.store import reading
    from pytest_vperf.results.store.choosing import choose_all
    from pytest_vperf.results.store.model import StoreProblem
    from pytest_vperf.results.store.series import histories

    try:
        with reading("vperf history", arguments.store) as store:
            most = None if arguments.machine else arguments.last
            chosen = choose_all(store, arguments.runs, claim=arguments.claim, most=most)
        if arguments.machine:
            chosen = chosen.on(arguments.machine)
            chosen = replace(chosen, runs=chosen.runs[: arguments.last])
        found, left_out = histories(chosen, arguments.claim)
        if not found:
            raise StoreProblem(f"none of the runs has a figure of a claim {arguments.claim!r}")
        return _show(arguments, found, left_out)
    except StoreProblem as error:
        say("vperf history", str(error))
    except ImportError as missing:
        say("vperf history", f"this takes {missing.name}: pip install 'pytest-vperf[store]'")
    return MISUSED


def _show(arguments: argparse.Namespace, found: Sequence[History], left_out: int) -> int:
    from pytest_vperf.commands.history import output
    from pytest_vperf.commands.shown import show

    def text(width: int | None, colour: bool) -> str:
        drawn = "utf" in (sys.stdout.encoding or "").lower()
        return output.text(found, left_out, width=width, colour=colour, drawn=drawn)

    ways = {"markdown": output.markdown, "json": output.document}
    form = next((each for each in ways if getattr(arguments, each)), "")
    if not show("vperf history", form and ways[form](found, left_out), text, arguments.output):
        return FAILED
    return SHOWN if any(history.can_show for history in found) else NOTHING
