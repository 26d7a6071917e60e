"""One step of ``git bisect run``: build the commit that Git has checked out, and judge it."""

from __future__ import annotations

import json
import time
from signal import SIGTERM
from typing import TYPE_CHECKING, Any

from pytest_vperf.commands.bisect.search import Judged, Search
from pytest_vperf.commands.builds import BuildFailed, content
from pytest_vperf.machine.ending import end_with
from pytest_vperf.machine.git import git
from pytest_vperf.reporting.console import say

if TYPE_CHECKING:
    from pathlib import Path

#: What Git takes an exit status for.
_STATUS = {"good": 0, "bad": 1, "skip": 125}


def step(file: Path) -> int:
    """Judge the commit, say so on standard error, and return the exit status that Git wants.

    Args:
        file: of the bisection, see `Search.write`.
    """
    search = Search.read(file)
    end_with(search.owner, SIGTERM)
    began = time.monotonic()
    commit, _, subject = git("log", "--format=%H %s", "--max-count=1", at=search.tree).partition(
        " "
    )
    found = _judge(search)
    line = {
        "commit": commit,
        "subject": subject,
        "answer": found.answer,
        "change": found.change,
        "pairs": found.pairs,
        "seconds": round(time.monotonic() - began, 1),
    }
    with search.steps.open("a", encoding="utf-8") as stream:
        stream.write(json.dumps(line) + "\n")
    say("vperf bisect", f"{commit[:12]} {found.answer:4}  {found.change}  {subject}")
    return _STATUS[found.answer]


def _judge(search: Search) -> Judged:
    try:
        build = search.built("step")
    except BuildFailed as error:
        return Judged("skip", str(error))
    known: dict[str, dict[str, Any]] = json.loads((search.folder / "known.json").read_text("utf-8"))
    key = content(build)
    if key in known:
        return Judged(known[key]["answer"], known[key]["change"])
    good = next((search.folder / "good").iterdir())
    found = search.judge(build, good=good)
    if found.answer != "skip":
        name = git("rev-parse", "--short", "HEAD", at=search.tree)
        known[key] = {"answer": found.answer, "change": f"the bytes of {name}"}
        (search.folder / "known.json").write_text(json.dumps(known), "utf-8")
    return found
