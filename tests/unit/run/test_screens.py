"""What a terminal shows, character by character, at several widths, with and without colours and Unicode.

`screens/` has the screens as a terminal draws them: pyte reads what pytest writes, escape sequences included. They
are to be looked at. After a change that is meant, ``VPERF_SCREENS=new`` in the environment has them written anew.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pyte
import pytest
from terminals import on_a_terminal

SCREENS = Path(__file__).parent / "screens"
#: A test for each kind of verdict, one of which has a name that no narrow terminal has room for.
SUITE = """
    import itertools
    from pytest_vperf.quantity import Quantity
    from pytest_vperf.targets.base import Unavailable

    def around(centre, unit="ms"):
        noise = itertools.cycle([0, 30, -10, 25, -20, 10, 7, -13, 2, 41])
        def sample():
            value = centre * (1 + next(noise) / 1000)
            return Quantity(value, unit, (("firmware", value / 4), ("kernel", value * 3 / 4)))
        return sample

    def missing():
        raise Unavailable("no such machine here", remedy="buy one", target="pod kvm qboot")

    def test_refuted(claim): claim("start.quick").holds(around(450))
    def test_held(claim): claim("copy.rate").holds(around(12, "MB/s"))
    def test_alike(claim): claim("start.alike").compares(around(120), to=around(100))
    def test_missing(claim): claim("start.pod_with_a_long_name.on_a_machine").holds(missing)
    def test_elsewhere(claim): claim("start.elsewhere").holds(around(50))
"""
WIDTHS = (80, 100, 120, 200)
SIGNS = ("unicode", "ascii")


def drawn(written: str, columns: int) -> pyte.Screen:
    """What is on a terminal of any height when all this was written to it."""
    screen = pyte.Screen(columns, 500)
    pyte.Stream(screen).feed(written)
    return screen


def shown(screen: pyte.Screen) -> str:
    """The screen as text, from our first line on, without what differs from run to run."""
    lines = "\n".join(line.rstrip() for line in screen.display).strip("\n").splitlines()
    first = next(k for k, line in enumerate(lines) if line.startswith("claims: hardware"))
    text = "\n".join(lines[first:]) + "\n"
    # A busy machine says so in a line that a narrow terminal breaks.
    text = re.sub(r"^claims: noisy machine.*\n(?:.+\n)*", "", text, flags=re.M)
    # The machine, how far sessions were apart, and what pytest cuts unless it runs in a CI.
    text = re.sub(
        r"^(  (?:machine|note) +)\S.*\n(?: {12}\S.*\n)*", r"\1of this run\n", text, flags=re.M
    )
    text = re.sub(r"(short test summary info =+\n)(?:.*\n)*?(?==+ claims)", r"\1", text)
    text = re.sub(r"~[\d.]+ (s|min) left", "~2 s left", text)
    return re.sub(r"=+ ([^=]+) in [\d.]+s =+", r"= \1 in 1 s =", text)


def compare(name: str, text: str) -> None:
    """Hold a screen against the one that is kept."""
    path = SCREENS / f"{name}.txt"
    if os.environ.get("VPERF_SCREENS") == "new":
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


def run(project: pytest.Pytester, columns: int, signs: str, **environment: str) -> str:
    """What a run writes on a terminal."""
    project.makepyfile(test_suite=SUITE)
    with (project.path / "thresholds" / "here.yaml").open("a") as stream:
        stream.write("  start.pod_with_a_long_name.on_a_machine: {at_most: 400 ms}\n")
    encoding = {"unicode": "utf-8", "ascii": "ascii"}[signs]
    return on_a_terminal(
        project, ("-v", "--claims-seed=1"), columns, PYTHONIOENCODING=encoding, **environment
    )


@pytest.fixture(autouse=True)
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("COLUMNS", "NO_COLOR", "FORCE_COLOR", "PY_COLORS"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize("signs", SIGNS)
@pytest.mark.parametrize("columns", WIDTHS)
def test_a_screen_is_as_it_was(project: pytest.Pytester, columns: int, signs: str) -> None:
    written = run(project, columns, signs, NO_COLOR="1")
    compare(f"{columns}-{signs}", shown(drawn(written, columns)))
    # As long as the second session of a claim is sampled.
    going = re.search(r"\r\x1b\[K[^\r\x1b]*session 2 of 3[^\r\x1b]*", written)
    assert going is not None
    compare(f"{columns}-{signs}-going", shown(drawn(written[: going.end()], columns)))
    if signs == "ascii":
        assert written.isascii()


@pytest.mark.parametrize("columns", WIDTHS)
def test_colours_change_no_character(project: pytest.Pytester, columns: int) -> None:
    screen = drawn(run(project, columns, "unicode", PY_COLORS="1"), columns)
    compare(f"{columns}-unicode", shown(screen))
    if columns == 100:
        compare("100-colours", coloured(screen))


def coloured(screen: pyte.Screen) -> str:
    """The lines that have colours, from our table on: where one begins there is its name, ``<red>``."""
    found: list[str] = []
    for number, line in enumerate(screen.display):
        text, colour = "", "default"
        for column, character in enumerate(line.rstrip()):
            own = screen.buffer[number][column]
            new = f"{'bold ' if own.bold else ''}{own.fg}"
            text += (f"<{new}>" if new != colour else "") + character
            colour = new
        if found or line.startswith("verdict"):
            found += [text] * ("<" in text)
    return re.sub(r"in [\d.]+s", "in 1 s", "\n".join(found) + "\n")
