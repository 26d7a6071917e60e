"""``vperf compare``: its options, and reading the runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_vperf.commands.options import add_reading_options, check_reading_options
from pytest_vperf.reporting.console import say

if TYPE_CHECKING:
    import argparse

    from pytest_vperf.commands.compare.comparison import Comparison

SAME, WORSE, MISUSED, ELSEWHERE, NOTHING = 0, 1, 2, 3, 5
#: As between the sides of a gate.
TOLERANCE = "5 %"


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "compare",
        help="compare runs that were kept with other ones",
        description="Compares the claims of NEW with those of OLD: what each run measured is one figure, and the "
        "figures of several runs are compared by their ranks. Each of the two is a file of --claims-json, a folder "
        "of kept runs, 'last', 'last~2', a name, or a commit; of a gate the figures of head, or of SIDE in "
        "'WORD@SIDE'. Several runs of each say more than one: from one against one nothing can be concluded.",
        epilog="Exit status: 0 if nothing is worse; 1 if something is, or a file could not be written; 2 for runs or "
        "options that are wrong; 3 if the runs are of different machines; 5 if the runs could show no change.",
    )
    parser.add_argument("old", metavar="OLD", help="the runs to compare with")
    parser.add_argument("new", metavar="NEW", help="the runs in question")
    parser.add_argument(
        "-k",
        dest="pattern",
        metavar="CLAIM",
        default="*",
        help="compare this claim, or those like 'startup.*', only",
    )
    parser.add_argument(
        "--tolerance",
        metavar="PERCENT",
        default=TOLERANCE,
        help="how much worse counts as no worse (default: 5 %%)",
    )
    parser.add_argument(
        "--machine",
        metavar="NAME",
        default="",
        help="take the runs of this machine of a fleet (default: the machine of the newest new run)",
    )
    add_reading_options(parser, json="write JSON")
    parser.set_defaults(command=_compare, fail=parser.error)


def _compare(arguments: argparse.Namespace) -> int:
    check_reading_options(arguments)
    from pytest_vperf.commands.compare.comparison import OtherHardware, compare
    from pytest_vperf.commands.store import reading
    from pytest_vperf.results.store.choosing import choose
    from pytest_vperf.results.store.model import StoreProblem
    from pytest_vperf.thresholds.judge import read_tolerance

    try:
        tolerance = read_tolerance(arguments.tolerance)
    except ValueError as error:
        arguments.fail(f"--tolerance: {error}")
    try:
        with reading("vperf compare", arguments.store) as store:
            old, new = choose(store, arguments.old), choose(store, arguments.new)
        if arguments.machine:
            old, new = old.on(arguments.machine), new.on(arguments.machine)
        found = compare(old, new, tolerance=tolerance, pattern=arguments.pattern)
    except OtherHardware as error:
        say("vperf compare", str(error))
        return ELSEWHERE
    except StoreProblem as error:
        say("vperf compare", str(error))
        return MISUSED
    return _show(arguments, found, tolerance)


def _show(arguments: argparse.Namespace, found: Comparison, tolerance: float) -> int:
    from pytest_vperf.commands.compare import output
    from pytest_vperf.commands.shown import show

    status = _status(found)
    written = ""
    if arguments.json:
        written = output.document(found, tolerance, status)
    elif arguments.markdown:
        written = output.markdown(found, tolerance)

    def text(width: int | None, colour: bool) -> str:
        return output.text(found, tolerance, width=width, colour=colour)

    return status if show("vperf compare", written, text, arguments.output) else WORSE


def _status(found: Comparison) -> int:
    if any(row.verdict == "refuted" for row in found.rows):
        return WORSE
    shown = any(row.compared is not None and not row.compared.missing for row in found.rows)
    return SAME if shown else NOTHING
