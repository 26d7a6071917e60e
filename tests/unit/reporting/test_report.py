"""The report as a page of HTML: what it says, and that it says nothing as markup; a browser shows it in
tests/integration/report."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
import reported_runs
from hypothesis import given
from hypothesis import strategies as st
from reported_runs import claim, compared, everything, limited

from pytest_vperf.reporting.ended import EndedRun
from pytest_vperf.reporting.html.page import SHOWN_AT_FIRST, page

HTML = Path("src/pytest_vperf/reporting/html")


class Parsed(HTMLParser):
    """What a page has, as a browser would see it without running anything."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.blocks: dict[str, str] = {}
        self.inline: dict[str, list[str]] = {"style": [], "script": []}
        self.table: list[list[str]] = []
        self._open: list[str] = []
        self._block = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        own = dict(attrs)
        self.tags.append((tag, own))
        self._open.append(tag)
        self._block = str(own.get("id")) if own.get("type") == "application/json" else ""
        if tag in ("dt", "dd"):
            self.text += " "
        if tag == "tr":
            self.table.append([])
        elif tag in ("td", "th") and self.table:
            self.table[-1].append("")

    def handle_endtag(self, tag: str) -> None:
        while self._open and self._open.pop() != tag:
            pass

    def handle_data(self, data: str) -> None:
        if self._block and self._open[-1:] == ["script"]:
            self.blocks[self._block] = self.blocks.get(self._block, "") + data
        elif self._open and self._open[-1] in self.inline:
            self.inline[self._open[-1]].append(data)
        else:
            self.text += data
            if "tr" in self._open and self.table and self.table[-1]:
                self.table[-1][-1] += data

    def rows(self) -> list[list[str]]:
        return [[" ".join(cell.split()) for cell in row] for row in self.table]

    def data(self, name: str) -> dict[str, Any]:
        """The data of the claim of that name."""
        places = {own["id"]: own["data-of"] for tag, own in self.tags if "data-of" in own}
        found: dict[str, Any] = json.loads(self.blocks[f"data-{places[f'claim-{name}']}"])
        return found


def run(*claims: Any, answer: str = "claims: 1 held", **more: Any) -> EndedRun:
    return EndedRun(claims=claims, answer=answer, word="ok", status=0, mark="ab12", **more)


def test_the_page_begins_with_the_answer_what_was_asked_and_the_machine() -> None:
    text = " ".join(Parsed(page(everything())).text.split())
    assert text.index("gate: 1 slower, 1 not slower (within 5 %)") < text.index("Asked")
    assert "Asked pytest -m startup --hw=type1" in text
    assert "Machine Some CPU, 2 CPUs, 24 GiB, kernel 6.1.0" in text
    assert "Judged by type1, any; this machine differs: 2 CPUs, not 8" in text
    assert "ended: refuted, exit status 1" in text


def test_verdicts_are_counted_by_family() -> None:
    rows = Parsed(page(everything())).rows()
    assert rows[0] == [
        "family",
        "refuted",
        "inconclusive",
        "not comparable",
        "held",
        "not measured",
    ]
    assert ["startup", "✗ 1", "", "", "✓ 1", "– 1"] in rows  # noqa: RUF001 - the sign
    assert ["start", "✗ 1", "? 1", "", "✓ 1", ""] in rows


def test_what_changed_has_both_builds_the_worst_first() -> None:
    rows = Parsed(page(everything())).rows()
    at = rows.index(["change", "claim", "before", "now", "by"])
    assert rows[at + 1 : at + 3] == [
        ["✗ slower", "start.runsc", "100 ms [99, 101]", "119 ms [118, 120]", "+19 % [+17, +21]"],
        ["✓ not slower", "start.runc", "100 ms [99, 101]", "99 ms [98, 100]", "-1 % [-3, +1]"],
    ]
    assert ["startup.pod.qboot", "350 ms", "376 ms", "+7.4 %"] in rows


def test_a_claim_has_a_row_and_a_link_of_its_own_the_gravest_verdict_first() -> None:
    found = Parsed(page(run(limited("b.x", "holds", 1, 2), limited("a.x", "refuted", 3, 2))))
    rows = [row for row in found.rows() if len(row) == 7][1:]
    assert [row[:4] for row in rows] == [
        ["✗ refuted", "a.x", "3 ms [2.94, 3.06]", "≤ 2 ms"],
        ["✓ holds", "b.x", "1 ms [0.98, 1.02]", "≤ 2 ms"],
    ]
    assert [
        own["href"] for tag, own in found.tags if tag == "a" and own.get("class") == "name"
    ] == [
        "#claim-a.x",
        "#claim-b.x",
    ]


def test_claims_of_one_name_have_different_links() -> None:
    found = Parsed(page(run(claim("a b"), claim("a-b"), claim("a b"))))
    links = [own["id"] for tag, own in found.tags if own.get("class") == "claim"]
    assert links == ["claim-a-b", "claim-a-b~2", "claim-a-b~3"]


def test_what_is_not_measured_is_grouped_by_its_reason() -> None:
    text = Parsed(page(everything())).text
    assert re.search(
        r"2: no /dev/kvm here\s*startup.kvm, cpu.kvm\s*1: no Xen here\s*disk.xen", text
    )


def test_a_claim_has_what_its_pictures_are_drawn_from() -> None:
    found = Parsed(page(everything()))
    limit = found.data("startup.pod.seabios")
    assert len(limit["samples"]) == 30
    assert limit["samples"][0][1:3] == [1, "a"]
    assert limit["samples"][0][4] == 1
    assert limit["threshold"] == 400
    assert limit["interval"][1] == 530.4
    assert [each["disturbed"] for each in limit["sessions"]] == [
        [],
        ["steal 5 %", "pressure on cpu 30 %"],
        [],
    ]
    assert ["published", 'Pod paper, section 4: "less than 400 ms"'] in limit["facts"]
    assert "judged" not in limit  # follows from the samples
    gate = found.data("start.runsc")
    assert gate["arms"]["a"]["name"] == "head"
    assert gate["ratio"]
    assert found.data("start.against")["arms"]["b"]["name"] == "container runc"


@pytest.mark.parametrize(
    ("criterion", "near"),
    [
        ("near 70 % ± 5 %", [66.5, 73.5]),
        ("saturates near 70 kilopacket/s ± 5 %", [66.5, 73.5]),
        ("≤ 70 %", None),
        ("no worse by more than 5 %", None),
    ],
)
def test_a_claim_that_is_near_a_figure_has_its_band(
    criterion: str, near: list[float] | None
) -> None:
    record = limited("a.b", "holds", 71, 70)
    record = {**record, "criterion": criterion, "plan": {"tolerance": 0.05}}
    assert Parsed(page(run(record))).data("a.b").get("near") == near


def test_arms_have_the_names_of_their_targets() -> None:
    record = compared("start.x", "holds", 1.0, sides=False)
    targets = [
        {"kind": "pod", "name": f"pod {arm}", "arms": [arm], "details": {}}
        for arm in ("a", "b", "b")
    ]
    arms = [
        Parsed(page(run({**record, **more}))).data("start.x")["arms"]
        for more in ({"targets": targets}, {"target": "host"})
    ]
    assert [[own[arm]["name"] for arm in "ab"] for own in arms] == [
        ["pod a", "pod b"],
        ["in question", "compared with"],
    ]


def test_a_claim_has_what_its_other_pictures_are_drawn_from() -> None:
    found = Parsed(page(everything()))
    assert found.data("priority.shares")["beside"]["heavy"]["values"][1] == [1, 0.67]
    assert found.data("saturation.vhost")["sweep"]["knee"] == 70
    shared = json.loads(found.blocks["shared"])
    assert len(shared["fillings"][found.data("density.pods")["fillings"][0]]["curve"]) == 28
    assert shared["claimed"] == [0]
    assert found.data("startup.pod.qboot")["past"]["changes"] == [{"first": 11, "word": "slower"}]


def test_a_claim_is_run_again_as_it_was_asked_for() -> None:
    found = Parsed(page(everything())).data("startup.pod.qboot")
    assert found["again"] == (
        "pytest 'tests/claims/test_startup.py::test_it[startup.pod.qboot]' --hw=type1"
    )


def test_facts_of_targets_are_there_once() -> None:
    claims = [limited(f"a.b{k}", "holds", 1, 2) for k in range(9)]
    found = Parsed(page(run(*claims)))
    assert len(json.loads(found.blocks["shared"])["targets"]) == 1
    assert found.data("a.b8")["targets"] == [0]


def test_a_run_without_claims_says_so() -> None:
    found = Parsed(page(run(answer="claims: nothing was claimed")))
    assert "Nothing was claimed." in found.text


def test_rows_beyond_the_first_ones_are_there_and_not_shown() -> None:
    found = Parsed(page(run(*(claim(f"a.b{k}") for k in range(SHOWN_AT_FIRST + 7)))))
    later = [own for tag, own in found.tags if own.get("class") == "claim later"]
    assert len(later) == 7


# What a record says is text.


def test_no_text_of_a_record_becomes_markup() -> None:
    usual = Parsed(page(everything()))
    attacked = Parsed(page(reported_runs.attacking()))
    own = {tag for tag, _ in usual.tags}
    assert {tag for tag, _ in attacked.tags} <= own
    assert {"img", "iframe", "svg", "object", "link", "base"}.isdisjoint(own)
    names = {name for _, attributes in attacked.tags for name in attributes}
    assert not {name for name in names if name.startswith("on")}
    links = [each["href"] for tag, each in attacked.tags if tag == "a"]
    assert links
    assert all(str(link).startswith("#") for link in links)
    # An attack is shown as it was written, and what cannot be printed as an escape.
    assert "<img src=x onerror=" in attacked.text
    assert "\\u202eesrever" in attacked.text
    assert "\u202e" not in attacked.text
    assert "{{ 7 * 7 }}" in attacked.text


@given(st.text(), st.text(), st.text())
def test_no_text_at_all_becomes_markup(name: str, reason: str, fact: str) -> None:
    record = claim("a.b", "refuted", reason=reason, target=fact, summary=name, nodeid=name)
    named = claim(name or "-", "not measured", reason=reason)
    found = Parsed(
        page(run(record, named, answer=reason, fingerprint={name: fact, "kernel": reason}))
    )
    plain = Parsed(page(run(claim("a.b", "refuted", reason="r"), claim("b", "not measured", reason="r"),
                            fingerprint={"a": "b", "kernel": "c"})))  # fmt: skip
    assert [tag for tag, _ in found.tags] == [tag for tag, _ in plain.tags] or not (name or reason)
    assert len(found.blocks) == 3


def test_the_page_allows_its_own_style_and_scripts_alone() -> None:
    found = Parsed(page(everything()))
    policy = next(
        str(own["content"])
        for tag, own in found.tags
        if own.get("http-equiv") == "Content-Security-Policy"
    )
    given_hashes = set(re.findall(r"'sha256-([^']+)'", policy))
    own = [*found.inline["style"], *found.inline["script"]]
    made = {
        base64.b64encode(hashlib.sha256(each.encode()).digest()).decode()
        for each in own
        if each.strip()
    }
    assert made == given_hashes
    assert len(made) == 4
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy


def test_the_page_names_no_other_place() -> None:
    found = Parsed(page(everything()))
    assert not [
        own for _, own in found.tags if {"src", "action", "srcset", "background"} & own.keys()
    ]
    # The style, too, loads nothing.
    assert not re.search(r"url\(|@import", "".join(found.inline["style"]))


def test_a_text_is_not_longer_than_anybody_reads() -> None:
    found = Parsed(page(run(claim("a.b", "refuted", reason="x" * 100_000))))
    assert len(dict(found.data("a.b")["facts"])["why"]) == 4000


def test_many_claims_stay_a_page_that_can_be_sent() -> None:
    text = page(reported_runs.of_many(500, 100))
    # 5,000 claims with 100 samples are to have less than 40 MB; the libraries are there once.
    assert 10 * len(text.encode()) < 40e6


def test_each_library_is_what_its_table_says() -> None:
    table = (HTML / "vendor" / "README.md").read_text()
    for path in (HTML / "vendor").glob("*.js"):
        assert f"`{path.name}`" in table
        assert hashlib.sha256(path.read_bytes()).hexdigest() in table


def test_a_gate_without_figures_has_its_row() -> None:
    record = compared("a.b", "not measured", 1.0)
    record = {
        **record,
        "arms": {},
        "estimate": None,
        "interval": None,
        "observations": [],
        "samples": [],
    }
    assert ["– not measured", "a.b", "", "", "-"] in Parsed(page(run(record))).rows()  # noqa: RUF001
