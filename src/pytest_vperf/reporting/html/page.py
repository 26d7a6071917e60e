"""The page: its answer, tables and the claims' data as HTML that loads nothing.

Everything that a record says is text, whoever wrote it. Jinja escapes it, the data is JSON in which no ``<`` is left,
and the script makes nodes of text alone. A Content-Security-Policy names the page's own style and scripts by their
hashes, so that nothing else could run even if something were overlooked.
"""

from __future__ import annotations

import base64
import hashlib
import re
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from pytest_vperf import __version__, foreign_text
from pytest_vperf.foreign_text import to_json
from pytest_vperf.reporting import words
from pytest_vperf.reporting.ended import compares
from pytest_vperf.reporting.html.view import (
    ORDER,
    SIGNS,
    Change,
    Row,
    Shared,
    change,
    data,
    filling,
    row,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from jinja2 import Environment
    from markupsafe import Markup

    from pytest_vperf.reporting.ended import EndedRun
    from pytest_vperf.results.record import ClaimRecord

#: Until the run has ended.
UNFINISHED = (
    '<!doctype html>\n<html lang="en"><meta charset="utf-8"><title>claims</title>\n'
    "<p>claims: this run has not ended\n</html>\n"
)
#: So many rows are shown at once; the others after a filter, or when they are asked for. Laying out more takes longer
#: than reading them.
SHOWN_AT_FIRST = 250
#: A text is cut to so many characters.
LONGEST = 4000
_SCRIPTS = ("vendor/d3.min.js", "vendor/plot.umd.min.js", "templates/page.js")


class Listed(NamedTuple):
    """A claim in the page's table.

    Attributes:
        row: its cells.
        anchor: what a link to it ends in.
        data: what its pictures are made from, as JSON.
        place: its place in the order of verdicts.
    """

    row: Row
    anchor: str
    data: Markup
    place: int


class Unmeasured(NamedTuple):
    """Claims that nothing is known of for the same reason."""

    reason: str
    claims: Sequence[Listed]


def page(run: EndedRun) -> str:
    """The page of a run.

    Args:
        run: the run.
    """
    shared = Shared()
    anchors = _anchors(run.claims)
    listed = [
        Listed(row(each), anchor, _data(data(each, run, shared)), ORDER.index(each["verdict"]))
        for each, anchor in zip(run.claims, anchors, strict=True)
    ]
    listed.sort(key=lambda each: each.place)
    style, scripts = _own("templates/page.css"), [_own(name) for name in _SCRIPTS]
    text: str = (
        _environment()
        .get_template("page.html.j2")
        .render(
            run=run,
            version=__version__,
            policy=_policy([style], scripts),
            style=_trusted(style),
            scripts=[_trusted(each) for each in scripts],
            machine=_machine(run.fingerprint),
            families=_families(listed),
            verdicts=[
                verdict for verdict in ORDER if any(v.row.verdict == verdict for v in listed)
            ],
            signs=SIGNS,
            categories={verdict: words.OUTCOMES[verdict].category for verdict in ORDER},
            changes=_changes(run.claims, anchors),
            listed=listed,
            shown_at_first=SHOWN_AT_FIRST,
            unmeasured=_unmeasured(listed),
            sides=_sides(run.sides),
            shared=_data(
                {
                    "targets": shared.facts,
                    "fillings": [filling(each) for each in run.fillings],
                    "claimed": _claimed(run),
                }
            ),
        )
    )
    return text


def _anchors(records: Iterable[ClaimRecord]) -> list[str]:
    """``claim-NAME`` of each; where a name is there several times, the others have a number, too."""
    found: list[str] = []
    seen: dict[str, int] = {}
    for each in records:
        name = "claim-" + re.sub(r"[^A-Za-z0-9._-]", "-", each["name"])
        seen[name] = seen.get(name, 0) + 1
        # No name has a ~ left, so that no other one can come out the same.
        found.append(name if seen[name] == 1 else f"{name}~{seen[name]}")
    return found


def _families(listed: Iterable[Listed]) -> dict[str, dict[str, int]]:
    """Of each family how many claims have which verdict, the family with the gravest ones first."""
    found: dict[str, dict[str, int]] = {}
    for each in listed:
        counts = found.setdefault(each.row.family, dict.fromkeys(ORDER, 0))
        counts[each.row.verdict] += 1
    return found


def _changes(records: Iterable[ClaimRecord], anchors: Iterable[str]) -> list[tuple[Change, str]]:
    """What differs from base, or from the runs of a baseline, and the claim's anchor: the worst first."""
    found = [
        (change(each), anchor)
        for each, anchor in zip(records, anchors, strict=True)
        if compares(each)
    ]
    grave = {verdict: number for number, verdict in enumerate(ORDER)}
    return sorted(found, key=lambda each: (grave[each[0].verdict], each[0].said.startswith("not ")))


def _unmeasured(listed: Iterable[Listed]) -> list[Unmeasured]:
    """The claims without a verdict, by the reason, the one with the most claims first."""
    found: dict[str, list[Listed]] = {}
    for each in listed:
        if each.row.verdict == "not measured":
            found.setdefault(each.row.reason, []).append(each)
    groups = [Unmeasured(reason, claims) for reason, claims in found.items()]
    return sorted(groups, key=lambda group: -len(group.claims))


def _claimed(run: EndedRun) -> list[int]:
    """The places of the filled hosts that a claim is about; the others have pictures of their own."""
    tests = {each["nodeid"] for each in run.claims}
    return [place for place, each in enumerate(run.fillings) if each["nodeid"] in tests]


def _machine(fingerprint: Mapping[str, str]) -> str:
    from pytest_vperf.reporting.summary import machine_line

    return machine_line(fingerprint)


def _sides(sides: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """What each setting of each side of a gate is: side, key, and what is known of it."""
    return [
        (side, key, ", ".join(f"{name} {value}" for name, value in own.items() if value))
        for side, settings in sides.items()
        for key, own in settings.items()
    ]


# Texts on their way into the page.


def _data(value: Any) -> Markup:
    """JSON for a block of data: whatever its texts have, they cannot end the block."""
    text = to_json(_plain(value))
    return _trusted(text.replace("&", r"\u0026").replace("<", r"\u003c").replace(">", r"\u003e"))


def _plain(value: Any) -> Any:
    """The same with each text on one line, printable, and not too long."""
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, dict):
        return {_text(str(key)): _plain(own) for key, own in value.items()}
    return [_plain(own) for own in value] if isinstance(value, (list, tuple)) else value


def _text(text: str) -> str:
    shown = foreign_text.line(text[: 2 * LONGEST])
    return shown if len(shown) <= LONGEST else shown[: LONGEST - 1] + "…"


def _trusted(text: str) -> Markup:
    """A text of ours, or JSON by `_data`, that Jinja is not to escape."""
    from markupsafe import Markup

    return Markup(text)  # nosec B704 # nothing of a record but as JSON without <


@cache
def _own(name: str) -> str:
    """A file of the page that is ours, or a library's; without its last line end, as its hash is made."""
    from importlib.resources import files

    text = files("pytest_vperf.reporting.html").joinpath(name).read_text("utf-8")
    return text.strip()


@cache
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    def shown(value: Any) -> Any:
        safe = hasattr(value, "__html__")  # as Jinja itself knows it
        return _text(value) if isinstance(value, str) and not safe else value

    return Environment(
        loader=PackageLoader("pytest_vperf.reporting.html"),
        autoescape=True,
        finalize=shown,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _policy(styles: Iterable[str], scripts: Iterable[str]) -> str:
    """The page may use its own style and scripts, and nothing else from nowhere."""
    return (
        "default-src 'none'; base-uri 'none'; form-action 'none'; "
        f"style-src {' '.join(map(_hashed, styles))}; script-src {' '.join(map(_hashed, scripts))}"
    )


def _hashed(text: str) -> str:
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return f"'sha256-{digest}'"
