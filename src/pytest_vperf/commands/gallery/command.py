"""``vperf gallery``: its options, and reading the records."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_vperf.commands.pictures import NoReport, add_option, asked
from pytest_vperf.reporting.console import say

if TYPE_CHECKING:
    import argparse

    from pytest_vperf.commands.pictures import Pictures
    from pytest_vperf.thresholds.profile import HardwareProfile

DONE, DAMAGED, MISUSED = 0, 1, 2


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "gallery",
        help="show what projects publish about themselves, and what this machine can judge of it",
        description="Shows the claims that other projects publish about themselves, what this machine lacks for "
        "each, and its last verdict in RECORDs of earlier runs. Nothing is measured: "
        "`pytest --pyargs pytest_vperf.published -m gallery` does that, in any folder.",
        epilog="Exit status: 0; 1 if a file in a folder is a damaged record, or a file could not be written; 2 if a "
        "RECORD, the threshold file or an option is wrong.",
    )
    parser.add_argument(
        "records",
        nargs="*",
        type=Path,
        metavar="RECORD",
        help="a file of --claims-json or --keep, or a folder of them; for each claim the latest verdict on a "
        "machine counts",
    )
    parser.add_argument("--markdown", action="store_true", help="write a page of Markdown")
    parser.add_argument(
        "--output", type=Path, metavar="FILE", help="write it to FILE; with --markdown"
    )
    parser.add_argument(
        "--keep",
        type=Path,
        metavar="FILE",
        help="keep the last verdicts in FILE, without their samples; an existing FILE is read as a RECORD too",
    )
    add_option(parser)
    parser.set_defaults(command=_gallery, fail=parser.error)


def _gallery(arguments: argparse.Namespace) -> int:
    if arguments.output is not None and not arguments.markdown:
        arguments.fail("--output goes with --markdown")
    from pytest_vperf.commands.claims.tests import ProjectError, ask
    from pytest_vperf.thresholds.match import GALLERY
    from pytest_vperf.thresholds.profile import load_profiles
    from pytest_vperf.thresholds.text_file import ThresholdError

    try:
        profile = load_profiles(ask().folders).get(GALLERY)
        pictures = asked(arguments)
    except (NoReport, ProjectError, ThresholdError) as error:
        say("vperf gallery", str(error))
        return MISUSED
    if profile is None:
        say("vperf gallery", f"no threshold file has the profile {GALLERY}")
        return MISUSED
    return _show(arguments, profile, pictures)


def _show(
    arguments: argparse.Namespace, profile: HardwareProfile, pictures: Pictures | None
) -> int:
    from pytest_vperf.commands.claims.measured import measured
    from pytest_vperf.commands.claims.output import kept
    from pytest_vperf.commands.claims.records import read_all
    from pytest_vperf.commands.gallery import output
    from pytest_vperf.commands.gallery.exhibits import exhibits
    from pytest_vperf.machine.whole_file import write_whole

    keep: Path | None = arguments.keep
    earlier = [keep] if keep is not None and keep.exists() else []
    found = read_all([*earlier, *arguments.records])
    for text in (*found.notes, *found.wrong, *found.damaged):
        say("vperf gallery", text)
    if found.wrong:
        return MISUSED
    every = exhibits(profile, [each for run in found.runs for each in measured(run)])
    if found.damaged and (keep is not None or arguments.output is not None):
        return DAMAGED  # an incomplete file would look complete
    files = []
    if keep is not None:
        files.append((keep, kept([line for each in every for line in each.lines])))
    if not arguments.markdown:
        output.show(every)
    else:
        text = output.page(every, shlex.join(["vperf", *arguments.words]), pictures)
        if arguments.output is None:
            sys.stdout.write(text)
        else:
            files.append((arguments.output, text))
    for path, text in files:
        try:
            write_whole(path, text)
        except OSError as error:
            say("vperf gallery", f"{path}: {error.strerror or error}")
            return DAMAGED
    return DAMAGED if found.damaged else DONE
