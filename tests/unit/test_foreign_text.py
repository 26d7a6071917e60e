"""Foreign text reaches a terminal, Markdown, XML and JSON as a text and as nothing else."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
import unicodedata
import xml.etree.ElementTree as ET
from html import unescape
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from pytest_vperf import foreign_text

SOURCE = Path(foreign_text.__file__).parent
#: Moves the cursor, sets the title, changes colours, in C0 and in C1; turns writing round; hides; half a pair; what
#: XML forbids; a cell's end, an element, an entity, rich's markup.
HOSTILE = (
    "a\x1b[2J\x1b]0;title\x07\x9b31m\x85\x00\x08\r\u202e\u2066\u200b\ufeff\udce9\U000e0041\ufffe"
    "|<script>&amp;[bold]x[/bold][/nothing]]]>`*_z"
)
#: None of which may reach a screen.
FORBIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff"
    "\ufffe\uffff\U000e0000-\U000e007f]"
)
anything = st.text(st.characters(exclude_categories=()), max_size=60)


@given(anything)
def test_on_a_terminal_nothing_is_left_that_is_not_printable(text: str) -> None:
    for shown in (foreign_text.line(text), foreign_text.short(text)):
        assert shown.isprintable()
    assert foreign_text.lines(text).replace("\n", "").isprintable()
    assert "\n" not in foreign_text.line(text)
    foreign_text.lines(text).encode()


@given(st.text(st.characters(categories=("L", "N", "P", "S")), max_size=60))
def test_printable_text_stays(text: str) -> None:
    assert foreign_text.line(text) == text
    assert foreign_text.lines(f"{text}\n  {text}") == f"{text}\n  {text}"
    assert json.loads(foreign_text.to_json(text)) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31mred", r"\x1b[31mred"),
        ("\x9b31m", r"\x9b31m"),
        ("a\tb", "a       b"),
        ("a\r\nb\rc", "a\nb\\rc"),
        ("no\xa0break", "no break"),
        ("caf\udce9", r"caf\udce9"),
        ("\u202eabc", r"\u202eabc"),
        ("\U000e0041", r"\U000e0041"),
    ],
)
def test_unprintable_characters_are_shown_as_escapes(text: str, shown: str) -> None:
    assert foreign_text.lines(text) == shown


@given(anything)
def test_json_reads_back_as_it_was_and_is_printable(text: str) -> None:
    value = {"key": [text, {text: 1}]}
    for indent in (None, 1):
        written = foreign_text.to_json(value, indent=indent)
        assert json.loads(written) == value
        assert written.replace("\n", "").isprintable()
    assert "\n" not in foreign_text.to_json(value)


@given(anything)
def test_a_cell_of_markdown_has_the_text_and_nothing_else(text: str) -> None:
    table = f"| a |\n| --- |\n| x{foreign_text.markdown(text)}x |\n"
    html = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"]).render(table)
    (cell,) = re.findall(r"<td>(.*?)</td>", html.replace("<span>", "").replace("</span>", ""))
    assert unescape(cell) == f"x{foreign_text.line(text)}x"


@given(anything)
def test_xml_can_say_it(text: str) -> None:
    element = ET.Element("property", value=foreign_text.lines(text))
    ET.fromstring(ET.tostring(element))


def test_the_hostile_text_of_these_tests_is_hostile() -> None:
    kinds = {unicodedata.category(character) for character in HOSTILE}
    assert kinds >= {"Cc", "Cf", "Cs", "Cn"}
    assert FORBIDDEN.search(HOSTILE)


def test_commands_print_through_one_place() -> None:
    """No ``print`` elsewhere, but of what is JSON or Markdown already, or a program for another interpreter."""
    wrong = []
    for path in sorted(SOURCE.rglob("*.py")):
        if path.name == "console.py":
            continue
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if not isinstance(node, ast.Call):
                continue
            name = ast.unparse(node.func)
            made_fit = node.args and ast.unparse(node.args[0]).startswith("foreign_text.")
            if name == "print" and not made_fit:
                wrong.append(f"{path.relative_to(SOURCE)}:{node.lineno}: {ast.unparse(node)}")
            if name == "json.dumps" and any(each.arg == "ensure_ascii" for each in node.keywords):
                wrong.append(f"{path.relative_to(SOURCE)}:{node.lineno}: {ast.unparse(node)}")
    assert [each for each in wrong if not each.startswith(KNOWN)] == []


#: JSON that goes to a parser of ours or into YAML, and to nobody's screen.
KNOWN = (
    "foreign_text.py",
    "results/reading.py",
    "results/record.py",
    "commands/claims/records.py",
    "commands/calibrate/",
)


def test_the_table_of_a_record_with_hostile_texts(tmp_path: Path) -> None:
    """Each form of ``vperf claims``, of a file that somebody else wrote."""
    hardware = {"profile": HOSTILE, "location": "", "matches": False, "mismatches": [HOSTILE]}
    target = {"kind": HOSTILE, "name": HOSTILE, "details": {"lab": HOSTILE, "on": HOSTILE}}
    claim = {
        "name": HOSTILE, "verdict": "refuted", "reason": HOSTILE, "criterion": HOSTILE,
        "statistic": HOSTILE, "unit": "ms\x1b[1m\udce9", "estimate": 1.0, "interval": None, "n": 1,
        "samples": [1.0], "target": HOSTILE, "targets": [target], "hardware": hardware,
        "nodeid": HOSTILE, "started_at": "2026-11-20T10:00:00+00:00",
    }  # fmt: skip
    run = {
        "format": 1, "vperf": HOSTILE, "started": "2026-11-20T10:00:00+00:00",
        "profile": {"names": [HOSTILE]}, "fingerprint": {"cpu_model": HOSTILE, "on": HOSTILE},
        "claims": [claim],
    }  # fmt: skip
    path = tmp_path / "run\x1b[31m.json"
    path.write_text(json.dumps(run))
    (tmp_path / "broken\x1b[31m.json").write_text("{")
    (tmp_path / "other\x9b31m.json").write_text("{}")
    (tmp_path / "thresholds").mkdir()
    (tmp_path / "thresholds" / "any.yaml").write_text(
        'hardware: {name: any, match: {}, summary: "x\\u202ey"}\n'
        'claims: {a.b: {at_most: 1 ms, summary: "x\\u202ey", source: {document: "\\u202e|<b>", rule: x}}}\n'
    )
    for words in ([], ["--markdown"], ["--json"]):
        kept = tmp_path / f"kept{len(words)}.json"
        program = "import sys; from pytest_vperf.cli import main; sys.exit(main())"
        command = ["claims", str(path), "--thresholds=thresholds", f"--keep={kept}", *words]
        done = subprocess.run(
            [sys.executable, "-c", program, *command],
            cwd=tmp_path, capture_output=True, check=False, timeout=60,
        )  # fmt: skip
        text = (done.stdout + done.stderr).decode()
        assert done.returncode == 0, text
        assert not FORBIDDEN.search(text), FORBIDDEN.search(text)
        assert not FORBIDDEN.search(kept.read_text("utf-8"))
        assert "title" in text
        kept.unlink()
    done = subprocess.run(
        [sys.executable, "-c", program, "claims", ".", "--thresholds=thresholds"],
        cwd=tmp_path, capture_output=True, check=False, timeout=60,
    )  # fmt: skip
    said = done.stderr.decode()
    assert "vperf claims: broken\\x1b[31m.json: is not JSON" in said
    assert "vperf claims: left out: other\\x9b31m.json: " in said
    assert not FORBIDDEN.search(said + done.stdout.decode())
