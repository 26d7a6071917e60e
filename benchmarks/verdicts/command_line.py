"""The command."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from verdicts import report
from verdicts.draws import Noise
from verdicts.plot import NoPlot
from verdicts.record import record
from verdicts.trace import SHIPPED, TraceError, load
from verdicts.workloads import WORKLOADS

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Decisions of each cell on each trace.
FULL, QUICK, LIVE = 250, 40, 20

_ABOUT = """\
How often rules for "B is no slower than A" are wrong, and how many samples they take.

Both arms are drawn from one stream: a block bootstrap of recorded noise with the order of time kept. The rules of
tools in use are judged beside those of pytest_vperf.stats. Equal seeds give equal tables.
"""
_MORE = """\
commands:
  live      the same question on work that really runs here, with exactly so much more of it in arm B
  record    record noise of this machine into traces
Each has a --help of its own.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run it.

    Returns:
        the exit status: 0; 1 where ``--gate`` finds a metric missed; 2 for a mistake in the arguments.
    """
    given = list(sys.argv[1:] if argv is None else argv)
    try:
        if given[:1] == ["live"]:
            return _live(given[1:])
        if given[:1] == ["record"]:
            return _record(given[1:])
        return _simulate(given)
    except (TraceError, NoPlot) as error:
        print(f"verdicts: {error}", file=sys.stderr)
        return 2


def _simulate(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="verdicts",
        description=_ABOUT,
        epilog=_MORE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--traces", type=Path, default=SHIPPED, metavar="DIR", help="recordings, *.json"
    )
    parser.add_argument(
        "--decisions", type=_positive, metavar="N", help=f"of a cell on a trace (default: {FULL})"
    )
    parser.add_argument(
        "--quick", action="store_true", help=f"{QUICK} decisions, and no robustness table"
    )
    parser.add_argument("--seed", type=int, default=1, help="default: 1")
    parser.add_argument("--processes", type=_positive, metavar="N", help="default: one a processor")
    parser.add_argument(
        "--block", type=float, default=100.0, metavar="SAMPLES", help="mean length (default: 100)"
    )
    parser.add_argument(
        "--position", type=float, default=0.0, metavar="%", help="how much slower a second call is"
    )
    parser.add_argument(
        "--warm-up", type=float, default=0.0, metavar="%", help="how much slower the first call is"
    )
    parser.add_argument("--per-trace", action="store_true", help="also our rule on each trace")
    parser.add_argument(
        "--gate",
        action="store_true",
        help="exit status 1 where our rule misses a metric; with --quick only where chance cannot be why",
    )
    parser.add_argument("--plot", type=Path, metavar="FILE", help="PNG, SVG or PDF, by its ending")
    parser.add_argument("--json", type=Path, metavar="FILE", help="every count")
    options = parser.parse_args(argv)
    try:
        noise = Noise(options.seed, options.block, options.position / 100, options.warm_up / 100)
    except ValueError as error:
        parser.error(str(error))
    decisions = options.decisions or (QUICK if options.quick else FULL)
    return report.simulated(
        load(options.traces),
        decisions,
        noise,
        processes=options.processes,
        quick=options.quick,
        per_trace=options.per_trace,
        gated=options.gate,
        plot_to=options.plot,
        json_to=options.json,
    )


def _live(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="verdicts live", description="Rules on work that really runs on this machine."
    )
    parser.add_argument("--what", type=_names, default=["spin", "process"], metavar="NAME,…",
                        help=f"of {', '.join(WORKLOADS)} (default: spin,process)")  # fmt: skip
    parser.add_argument("--decisions", type=_positive, default=LIVE, metavar="N",
                        help=f"of each rule at each slowdown (default: {LIVE})")  # fmt: skip
    parser.add_argument("--slowdowns", type=_percents, default=[0, 5, 10], metavar="%,…",
                        help="whole numbers (default: 0,5,10)")  # fmt: skip
    parser.add_argument(
        "--ours-alone",
        action="store_true",
        help="only our rule: the others take 40 to 400 samples each, minutes of container starts",
    )
    parser.add_argument("--seed", type=int, default=1, help="default: 1")
    parser.add_argument("--json", type=Path, metavar="FILE", help="every count")
    options = parser.parse_args(argv)
    return report.measured(
        options.what,
        options.slowdowns,
        options.decisions,
        options.seed,
        ours_alone=options.ours_alone,
        json_to=options.json,
    )


def _record(argv: Sequence[str]) -> int:
    from alone import alone

    parser = argparse.ArgumentParser(
        prog="verdicts record", description="Record noise of this machine into traces."
    )
    parser.add_argument("--what", type=_names, default=list(WORKLOADS), metavar="NAME,…",
                        help=f"of {', '.join(WORKLOADS)} (default: all)")  # fmt: skip
    parser.add_argument("--samples", type=_positive, metavar="N", help="of each (default: its own)")
    parser.add_argument("--folder", type=Path, required=True, metavar="DIR", help="for the files")
    options = parser.parse_args(argv)
    with alone():
        return record(options.what, options.folder, options.samples)


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} is less than 1")
    return number


def _names(text: str) -> list[str]:
    names = text.split(",")
    for name in names:
        if name not in WORKLOADS:
            raise argparse.ArgumentTypeError(f"{name!r} is none of {', '.join(WORKLOADS)}")
    return names


def _percents(text: str) -> list[int]:
    try:
        numbers = [int(part) for part in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of whole numbers") from None
    if min(numbers) < 0:
        raise argparse.ArgumentTypeError("a slowdown below 0 cannot be made by more work")
    return numbers
