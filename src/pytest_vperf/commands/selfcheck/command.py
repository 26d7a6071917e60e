"""``vperf selfcheck``: whether verdicts about a metric can be trusted on this machine.

A claim's sampler is in the body of a test, so pytest runs the tests in a process of its own, with the plug-in
`pytest_vperf.commands.selfcheck.plugin`.
"""

from __future__ import annotations

import json
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from pytest_vperf.claims.marks import mean_samples, tally
from pytest_vperf.commands.pytest_process import NOTHING_COLLECTED, RAN, run_pytest
from pytest_vperf.commands.selfcheck.plugin import is_pattern
from pytest_vperf.foreign_text import to_json
from pytest_vperf.machine.runs import Run
from pytest_vperf.machine.whole_file import write_whole
from pytest_vperf.reporting.console import print_table, say, tell
from pytest_vperf.thresholds.text_file import nearest

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pytest_vperf.claims.marks import Result
    from pytest_vperf.commands.selfcheck.plugin import Options

SOUND, DOUBTFUL, MISUSED = 0, 1, 2


def run(options: Options, words: Sequence[str], json_file: Path | None) -> int:
    """Run the tests, print the table, and return the exit status.

    Args:
        options: the options of the command.
        words: arguments for pytest.
        json_file: receives every decision and sample as JSON; ``None`` for no file.

    Raises:
        KeyboardInterrupt: the run was interrupted; the table of the results so far was printed.
    """
    with Run.begin() as own:  # its folder is removed even after a kill, by the next run
        folder = own.folder
        plugin = ["-p", "pytest_vperf.commands.selfcheck.plugin"]
        request = f"--selfcheck-request={options.write(folder)}"
        status, interrupted = run_pytest([*plugin, request, "-q", *words])
        results: list[Result] = _read(folder, "result")
        seen: set[str] = set(_read(folder, "seen"))
    if results:
        print_table(_COLUMNS, [_row(result) for result in results])
        for line in _notes(results):
            tell(line)
    if json_file is not None and not _write(json_file, results):
        return DOUBTFUL
    if interrupted:
        raise KeyboardInterrupt
    if status not in RAN:
        if status == NOTHING_COLLECTED:
            say("vperf selfcheck", "pytest found no tests")
        return MISUSED
    missing = list(_missing(options.claims, results, seen))
    for line in missing:
        say("vperf selfcheck", line)
    if missing or not results:
        return MISUSED
    sound = status == 0 and all(result["finding"] == "stable" for result in results)
    return SOUND if sound else DOUBTFUL


def forget(patterns: Sequence[str]) -> int:
    """Remove the findings of earlier self-checks, and print their claims."""
    from pytest_vperf.claims import marks

    gone = marks.forget(patterns)
    tell(f"forgotten: {', '.join(gone)}" if gone else "nothing to forget")
    return SOUND


def _read(folder: Path, kind: str) -> list[Any]:
    return [json.loads(path.read_text("utf-8")) for path in sorted(folder.glob(f"{kind}-*.json"))]


def _write(path: Path, results: Sequence[Result]) -> bool:
    from pytest_vperf import __version__
    from pytest_vperf.machine import fingerprint

    document = {
        "format": 1,
        "vperf": __version__,
        "fingerprint": fingerprint.read().as_dict(),
        "metrics": results,
    }
    try:
        write_whole(path, to_json(document, indent=1) + "\n")
    except OSError as error:
        say("vperf selfcheck", f"{path}: {error.strerror or error}")
        return False
    return True


_COLUMNS = (
    *("claim", "A/A decisions", "wrong (allowed)", "slower found", "at", "samples", "finding"),
)


def _row(result: Result) -> list[str]:
    counted, mean = tally(result), mean_samples(result)
    return [
        result["claim"],
        f"{counted.decisions} of {result['decisions']}",
        f"{counted.wrong} ({counted.limit})",
        f"{counted.found} of {counted.slower}",
        f"+{200 * result['tolerance']:g} % {result['injected']}",
        "-" if mean is None else f"{mean:.0f}",
        result["finding"],
    ]


def _notes(results: Sequence[Result]) -> list[str]:
    """Remarks below the table."""
    lines = [f"{result['claim']}: {result['reason']}" for result in results]
    if any(result["injected"] == "scaled" for result in results):
        lines.append(
            "scaled: measured values were multiplied, which checks judge and noise, and not the target's clock; "
            "a test that offers slower=… has real work injected"
        )
    return lines


def _missing(names: Sequence[str], results: Sequence[Result], seen: set[str]) -> list[str]:
    """A line for each requested claim that was not checked."""
    if not names and not results:
        return ["no test that ran judges a claim"]
    lines = []
    for name in names:
        if any(fnmatchcase(result["claim"], name) for result in results):
            continue
        if any(fnmatchcase(each, name) for each in seen):
            lines.append(f"the test of {name!r} ended before it judged the claim, see above")
        else:
            what = "a claim like" if is_pattern(name) else "the claim"
            known = f"; those that ran name {', '.join(sorted(seen))}" if seen else ""
            known = nearest(name, seen) or known
            lines.append(f"no test that ran names {what} {name!r}{known}")
    return lines
