"""``vperf claims``: its options, and the table made from threshold files and records."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_vperf.commands.pictures import NoReport, add_option, asked
from pytest_vperf.reporting.console import say, tell

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Sequence

    from pytest_vperf.commands.claims.lines import Line
    from pytest_vperf.commands.claims.records import Found
    from pytest_vperf.commands.claims.rows import Row
    from pytest_vperf.commands.claims.tests import Project
    from pytest_vperf.commands.pictures import Pictures
    from pytest_vperf.thresholds.profile import HardwareProfile

DONE, DAMAGED, MISUSED = 0, 1, 2
#: Folders of tests, relative to the project's root; the first existing one is used.
USUAL_PLACES = ("tests/claims", "tests")


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "claims",
        help="show claims with their tests, their thresholds and their last verdicts",
        description="Shows each claim that a test here names or a RECORD has, with its limit in the project's "
        "threshold files or those shipped with pytest-vperf, and its last verdict in RECORDs of earlier runs. "
        "Nothing is measured, and no test is run.",
        epilog="Exit status: 0; 1 if a file in a folder is a damaged record, a file could not be written, or "
        "rows and claims do not fit, and neither --keep nor --output then writes; 2 if a RECORD, a threshold file, "
        "a name or an option is wrong.",
    )
    parser.add_argument(
        "records",
        nargs="*",
        type=Path,
        metavar="RECORD",
        help="a file of --claims-json or --keep, or a folder of them (default: that of the ini setting "
        "claims_json); for each claim the latest verdict on a machine counts",
    )
    parser.add_argument("--hw", metavar="NAME", help="show the claims of this profile only")
    parser.add_argument(
        "-k",
        dest="pattern",
        metavar="CLAIM",
        help="show this claim, or those like 'startup.*', only; whether or not a test here names them",
    )
    parser.add_argument(
        "--all",
        action="store_true",
        help="also show claims that no test here names, such as those shipped with pytest-vperf",
    )
    parser.add_argument(
        "--by",
        choices=("machine",),
        help="of runs over a fleet: show each claim on each machine, which machine of a type is out of line, and "
        "which one drifts",
    )
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--markdown", action="store_true", help="write a page of Markdown")
    form.add_argument("--json", action="store_true", help="write JSON")
    parser.add_argument("--output", type=Path, metavar="FILE", help="write it to FILE")
    parser.add_argument(
        "--rows",
        type=Path,
        metavar="FILE",
        help="a YAML file that groups claims into rows; adds a table of rows and profiles",
    )
    parser.add_argument(
        "--keep",
        type=Path,
        metavar="FILE",
        help="keep the last verdicts in FILE, without their samples; an existing FILE is read as a RECORD too",
    )
    parser.add_argument(
        "--tests",
        type=Path,
        metavar="PATH",
        help=f"tests that name claims (default: {' or '.join(USUAL_PLACES)})",
    )
    parser.add_argument(
        "--thresholds",
        action="append",
        default=[],
        metavar="FOLDER",
        help="threshold files, instead of the project's; may be repeated",
    )
    add_option(parser)
    parser.set_defaults(command=_claims, fail=parser.error)


def _claims(arguments: argparse.Namespace) -> int:
    if arguments.output is not None and not (arguments.markdown or arguments.json):
        arguments.fail("--output goes with --markdown or --json")
    if arguments.by and (arguments.markdown or arguments.rows or arguments.keep or arguments.all):
        arguments.fail("--by goes with --json, --output, --hw and -k alone")
    from pytest_vperf.commands.claims.rows import read_rows
    from pytest_vperf.commands.claims.tests import ProjectError, ask
    from pytest_vperf.thresholds.hardware import AUTO, no_profile
    from pytest_vperf.thresholds.match import GALLERY
    from pytest_vperf.thresholds.profile import load_profiles
    from pytest_vperf.thresholds.text_file import ThresholdError

    try:
        project = ask(arguments.thresholds)
        pictures = asked(arguments)
        profiles = load_profiles(project.folders)
        rows = read_rows(arguments.rows) if arguments.rows else []
        if rows and arguments.hw != GALLERY:  # rows are of the project's own claims
            profiles.pop(GALLERY, None)
    except (NoReport, ProjectError, ThresholdError) as error:
        return _wrong(str(error).splitlines())
    if not profiles:
        return _wrong(["there are no threshold files; name their folder with --thresholds=FOLDER"])
    if arguments.hw is not None and arguments.hw not in profiles:
        hint = "; 'auto' is for runs" if arguments.hw == AUTO else ""
        return _wrong([no_profile(arguments.hw, sorted(profiles), hint)])
    return _table(arguments, project, profiles, rows, pictures)


def _table(
    arguments: argparse.Namespace,
    project: Project,
    profiles: dict[str, HardwareProfile],
    rows: Sequence[Row],
    pictures: Pictures | None,
) -> int:
    from pytest_vperf.commands.claims import output
    from pytest_vperf.commands.claims.lines import lines
    from pytest_vperf.commands.claims.measured import measured
    from pytest_vperf.commands.claims.records import read_all
    from pytest_vperf.commands.claims.rows import misplaced
    from pytest_vperf.commands.claims.tests import naming_tests

    found = read_all(_records(arguments, project))
    _say(f"left out: {line}" for line in found.left_out)
    _say(found.notes)
    if found.wrong:
        return _wrong(found.wrong)
    if arguments.by:
        return _by_machine(arguments, found)
    place = arguments.tests or next(
        (path for name in USUAL_PLACES if (path := project.root / name).is_dir()), None
    )
    if place is not None and not place.exists():
        return _wrong([f"--tests: {place} does not exist"])
    tests, unread = naming_tests(place.absolute(), project.root) if place else ([], [])
    every = lines(profiles, [each for run in found.runs for each in measured(run)], tests)
    wrong = [*found.damaged, *unread]
    if rows:
        wrong += misplaced(rows, (name for each in profiles.values() for name in each.claims))
    _say(wrong)
    sound = not wrong
    if arguments.keep is not None and sound:
        sound = _write(arguments.keep, output.kept(every))
    if arguments.output is not None and not sound:
        return DAMAGED  # an incomplete file would look complete
    return DONE if _show(arguments, every, profiles, rows, pictures) and sound else DAMAGED


def _by_machine(arguments: argparse.Namespace, found: Found) -> int:
    from fnmatch import fnmatchcase

    from pytest_vperf.commands.claims import by_machine
    from pytest_vperf.commands.claims.measured import measured

    records = [
        each
        for run in found.runs
        for each in measured(run)
        if (arguments.hw is None or each.profile == arguments.hw)
        and (arguments.pattern is None or fnmatchcase(each.name, arguments.pattern))
    ]
    claims = by_machine.by_machine(records)
    if not claims:
        return _wrong(["no claim was measured in a run over a fleet: see --claims-fleet"])
    machines = {}
    for run in sorted(found.runs, key=lambda each: each.started):
        machines.update(run.machines)
    _say(found.damaged)
    if not arguments.json:
        by_machine.print_machines(claims, machines)
        written = True
    else:
        text = by_machine.document(claims, machines)
        written = (
            _write(arguments.output, text)
            if arguments.output is not None
            else bool(sys.stdout.write(text))
        )
    return DONE if written and not found.damaged else DAMAGED


def _records(arguments: argparse.Namespace, project: Project) -> list[Path]:
    """The files to read, the kept one first, so that it wins over equal records."""
    kept = [arguments.keep] if arguments.keep is not None and arguments.keep.exists() else []
    if arguments.records or kept:
        return [*kept, *arguments.records]
    return [project.json] if project.json is not None and project.json.is_file() else []


def _show(
    arguments: argparse.Namespace,
    every: Sequence[Line],
    profiles: dict[str, HardwareProfile],
    rows: Sequence[Row],
    pictures: Pictures | None,
) -> bool:
    """Print or write the requested table; return whether that worked."""
    import shlex
    from fnmatch import fnmatchcase

    from pytest_vperf.commands.claims import output
    from pytest_vperf.commands.claims.output import parts
    from pytest_vperf.commands.claims.page import markdown_page
    from pytest_vperf.thresholds.hardware import hidden_in

    chosen = [
        line
        for line in every
        if (arguments.hw is None or line.profile == arguments.hw)
        and (arguments.pattern is None or fnmatchcase(line.name, arguments.pattern))
    ]
    whole = arguments.all or arguments.pattern is not None
    shown = chosen if whole else [line for line in chosen if line.is_own]
    hidden = [
        each
        for each in hidden_in(profiles)
        if arguments.hw in (None, each.threshold.profile, each.by.profile)
        and (arguments.pattern is None or fnmatchcase(each.threshold.name, arguments.pattern))
    ]
    if not (arguments.markdown or arguments.json):
        if rows:
            output.print_parts(parts(rows, shown))
        output.print_lines(shown)
        output.print_hidden(hidden)
        if left := {(line.profile, line.name) for line in chosen} - {
            (line.profile, line.name) for line in shown
        }:
            tell(f"not shown: {len(left)} that no test here names; --all shows them")
        return True
    if arguments.json:
        text = output.document(shown, hidden)
    else:
        command = shlex.join(["vperf", *arguments.words])
        text = markdown_page(shown, parts(rows, shown), profiles, command, pictures)
    if arguments.output is not None:
        return _write(arguments.output, text)
    sys.stdout.write(text)
    return True


def _write(path: Path, text: str) -> bool:
    from pytest_vperf.machine.whole_file import write_whole

    try:
        write_whole(path, text)
    except OSError as error:
        _say([f"{path}: {error.strerror or error}"])
        return False
    return True


def _wrong(lines: Sequence[str]) -> int:
    _say(lines)
    return MISUSED


def _say(lines: Iterable[str]) -> None:
    for line in lines:
        say("vperf claims", line)
