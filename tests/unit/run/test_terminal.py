"""What only a terminal shows: colours, and the progress line of sampling."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from terminals import on_a_terminal

from pytest_vperf import foreign_text
from pytest_vperf.claims.sampling import Need, Snapshot
from pytest_vperf.machine.waits import listen, waiting_for
from pytest_vperf.reporting.terminal import fitted, progress_texts
from pytest_vperf.stats.rule import State

SLOW = """
    from samplers import around
    def test_slow(claim): claim("start.alike").compares(around(99, sleep=0.06), to=around(99))
    def test_after(): pass
"""


@pytest.mark.parametrize(
    ("options", "before"), [(("-v",), "test_progress.py::test_slow "), ((), "test_progress.py ")]
)
def test_progress_comes_and_goes(
    project: pytest.Pytester,
    monkeypatch: pytest.MonkeyPatch,
    options: tuple[str, ...],
    before: str,
) -> None:
    monkeypatch.delenv("COLUMNS")
    project.makepyfile(test_progress=SLOW)
    text = on_a_terminal(project, options)
    lines = re.findall(r"\r\x1b\[K(start\.alike: [^\r\x1b]*)", text)
    assert len(lines) >= 3
    assert all(re.search(r" of 60 s$|; budget 60 s, \d+ s spent$", line) for line in lines)
    # Erase it, one line up, and right to where pytest had stopped and goes on.
    end = text.index(f"\r\x1b[K\x1b[A\r\x1b[{len(before)}C")
    assert re.match(r"(\x1b\[\d+m)*H", text[end:].partition("C")[2])
    assert "start.alike: " not in text[end:].partition(" claims ")[0]


def test_progress_says_which_session(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS")
    project.makepyfile(
        test_progress="""
        from samplers import around
        def test_slow(claim): claim("start.quick").holds(around(350, sleep=0.06))
        """
    )
    text = on_a_terminal(project, ())
    for number in (1, 2, 3):
        assert re.search(rf"\r\x1b\[Kstart\.quick: session {number} of 3, \d+ samples?", text)


@pytest.mark.parametrize("options", [("-qq",), ("-s",)])
def test_no_progress_where_it_is_not_wanted(
    project: pytest.Pytester, options: tuple[str, ...]
) -> None:
    project.makepyfile(test_progress=SLOW)
    assert "\x1b[A" not in on_a_terminal(project, options)


def test_progress_says_what_a_test_waits_for(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS")
    project.makepyfile(
        test_waits="""
        import time
        from pytest import fixture
        from pytest_vperf.machine.waits import waiting_for
        from samplers import around
        @fixture
        def engine():
            with waiting_for("an engine to start"):
                time.sleep(0.3)
        def test_it(claim, engine): claim("start.quick").holds(around(350))
        """
    )
    text = on_a_terminal(project, ("--claims-sessions=1",))
    assert "\r\x1b[Ktest_it: waits for an engine to start\r\x1b[K\x1b[A" in text


def test_of_many_targets_that_start_at_a_time_no_thread_writes_there(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS")
    project.makepyfile(
        test_waits="""
        from concurrent.futures import ThreadPoolExecutor
        from pytest_vperf.machine.waits import waiting_for
        from samplers import around
        def start():
            with waiting_for("an engine to start"): pass
        def test_it(claim):
            with ThreadPoolExecutor() as pool: pool.submit(start).result()
            claim("start.quick").holds(around(350))
        """
    )
    text = on_a_terminal(project, ("--claims-sessions=1",))
    assert "1 held" in text
    assert "waits for" not in text


def test_a_listener_hears_until_it_is_told_not_to() -> None:
    heard: list[str] = []
    stop = listen(heard.append)
    with pytest.raises(OSError, match="no"), waiting_for("an engine to start"):
        raise OSError("no")
    stop()
    stop()
    with waiting_for("more"):
        pass
    assert heard == ["an engine to start", ""]


def test_no_progress_without_a_terminal(project: pytest.Pytester) -> None:
    project.makepyfile(SLOW)
    assert "\x1b" not in project.runpytest_subprocess().stdout.str()


def test_a_terminal_without_our_signs_has_others(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS")
    project.makepyfile(
        test_signs="""
        from samplers import around
        def test_slow(claim): claim("start.quick").holds(around(450, sleep=0.03))
        """
    )
    text = on_a_terminal(project, ("-v",), 80, NO_COLOR="1", PYTHONIOENCODING="ascii")
    assert text.isascii()
    for line in (
        r"start\.quick: session 2 of 3, \d+ samples, 45\d(\.\d)? ms",
        r"start\.quick is refuted: measured 450(\.\d)? ms, claimed <=400 ms",
        r"  strip +400 \|!-+[.oO-]+\| 451\.\d+ ms",
        r"refuted   start\.quick   450(\.\d)? ms \[.*\] +<=400 ms",
    ):
        assert re.search(line, text), line


@pytest.mark.parametrize(
    ("centre", "option", "colour", "word"),
    [
        (350, "", 32, "held"),
        (450, "", 31, "refuted"),
        (450, "--claims-advisory", 33, "refuted"),
    ],
)
def test_the_last_line_has_the_colour_of_the_verdict(
    project: pytest.Pytester, centre: int, option: str, colour: int, word: str
) -> None:
    project.makepyfile(
        f"""
        from samplers import around
        def test_it(claim): claim("start.quick").holds(around({centre}))
        """
    )
    result = project.runpytest("--color=yes", *filter(None, [option]))
    last = result.outlines[-1]
    assert last.startswith(f"\x1b[{colour}m=")
    assert f"\x1b[{colour}m\x1b[1m1 {word}\x1b[0m" in last


def test_a_claim_not_measured_leaves_the_line_green(project: pytest.Pytester) -> None:
    project.makepyfile(
        """
        from samplers import around, missing
        def test_held(claim): claim("start.quick").holds(around(350))
        def test_missing(claim): claim("start.quick").holds(missing)
        """
    )
    result = project.runpytest("--color=yes")
    assert result.outlines[-1].startswith("\x1b[32m=")
    assert "\x1b[33m1 not measured" in result.outlines[-1]
    strict = project.runpytest("--color=yes", "--claims-strict")
    assert strict.outlines[-1].startswith("\x1b[31m=")


def test_a_failure_stays_red_and_a_warning_yellow(project: pytest.Pytester) -> None:
    project.makepyfile(
        """
        import warnings
        from samplers import around
        def test_held(claim): claim("start.quick").holds(around(350))
        def test_failed(): assert False
        def test_warned(): warnings.warn("careful")
        """
    )
    assert project.runpytest("--color=yes").outlines[-1].startswith("\x1b[31m=")
    result = project.runpytest("--color=yes", "-k", "not failed")
    assert result.outlines[-1].startswith("\x1b[33m=")


STATE = State(
    decided=False,
    decision="inconclusive",
    reason="",
    estimate=1367.2,
    low=1344.0,
    high=1390.4,
    confidence=0.99,
    samples=6,
    forecast=13,
)


@pytest.mark.parametrize(
    ("standing", "text"),
    [
        (
            Snapshot("start.quick", STATE, "ms", "sample", 14.2, 60.0, "session 2 of 3"),
            "start.quick: session 2 of 3, 6 samples, 1367 ms ± 23.2, 14 of 60 s",
        ),
        (
            Snapshot("a.b", STATE, "", "pair", 14.2, 60.0, "", Need(1234, 284.0, hopeless=False)),
            "a.b: 6 pairs, 1367 ± 23.2, needs ~1200 pairs, 5 min; budget 60 s, 14 s spent",
        ),
        (
            Snapshot("a.b", STATE, "ms", "sample", 4.0, 60.0, "", Need(13, 8.7, hopeless=False)),
            "a.b: 6 samples, 1367 ms ± 23.2, needs ~13 samples, 9 s; budget 60 s, 4 s spent",
        ),
        (
            Snapshot(
                "start.quick",
                State(False, "inconclusive", "", None, None, None, 0.99, 1),
                "ms",
                "sample",
                14.2,
                60.0,
            ),
            "start.quick: 1 sample, 14 of 60 s",
        ),
    ],
)
def test_the_progress_line_shows_sampling_so_far(standing: Snapshot, text: str) -> None:
    assert progress_texts(standing)[0] == text


LONG = Snapshot("startup.pod.tcg.qboot", STATE, "ms", "sample", 14.2, 60.0, "session 2 of 3")
AWAITED = Snapshot("a.b", STATE, "", "pair", 14.2, 60.0, "", Need(1234, 284.0, hopeless=False))


@pytest.mark.parametrize(
    ("standing", "width", "line"),
    [
        (
            LONG,
            119,
            "startup.pod.tcg.qboot: session 2 of 3, 6 samples, 1367 ms ± 23.2, 14 of 60 s (3 of 32, ~12 min left)",
        ),
        (
            LONG,
            99,
            "startup.pod.tcg.qboot: session 2 of 3, 6 samples, 1367 ms, 14 of 60 s (3 of 32, ~12 min left)",
        ),
        (LONG, 79, "startup.pod.tcg.qboot: 6 samples, 14 of 60 s (3 of 32, ~12 min left)"),
        (LONG, 60, "startup.pod.tcg.qboot: session 2 of 3, 6 samples, 14 of 60 s"),
        (LONG, 30, "startup.pod.tcg.qboot: 6 sampl"),
        (AWAITED, 79, "a.b: 6 pairs, needs ~1200 pairs, 5 min, 14 of 60 s (3 of 32, ~12 min left)"),
    ],
)
def test_a_shorter_line_has_what_matters_most(standing: Snapshot, width: int, line: str) -> None:
    assert fitted(progress_texts(standing), "3 of 32, ~12 min left", width) == line


@given(st.text(max_size=60), st.text(max_size=60), st.text(max_size=30), st.integers(1, 100))
def test_the_progress_line_is_never_longer_than_the_terminal(
    long: str, short: str, place: str, width: int
) -> None:
    line = fitted([long, short], foreign_text.line(place), width)
    assert cell_len(line) <= width
    assert line.isprintable()


@pytest.mark.parametrize(("words", "rows"), [((), 200), (("-v",), 205)])
def test_very_many_claims_have_not_all_a_row(
    project: pytest.Pytester, words: tuple[str, ...], rows: int
) -> None:
    project.makepyfile(
        test_many="""
        import pytest
        from samplers import around
        @pytest.mark.parametrize("number", range(205))
        def test_it(claim, number):
            claim("start.quick").holds(around(350 if number < 204 else 450))
        """
    )
    result = project.runpytest("--claims-sessions=1", "--claims-json=out.json", *words)
    text = result.stdout.str().rpartition(" claims ====")[2]
    assert len(re.findall("(?m)^(holds|refuted)  ", text)) == rows
    assert ("5 claims more have no row here: -v shows all, and the record has them" in text) == (
        rows == 200
    )
    result.stdout.re_match_lines([r"refuted +start\.quick .*", "claims: 204 held, 1 refuted"])
