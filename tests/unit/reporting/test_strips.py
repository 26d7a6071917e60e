"""The samples of a claim as dots, and as ASCII where a terminal has nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reported_runs import attacking, claim, compared, everything, limited

from pytest_vperf.reporting import strips
from pytest_vperf.reporting.encodings import encodable

if TYPE_CHECKING:
    from pytest_vperf.results.record import ClaimRecord


def of_limit(values: list[float], limit: float | None, unit: str = "ms") -> ClaimRecord:
    record = limited("a.b", "holds", 100, 100, n=len(values))
    seen = [
        {**each, "value": value, "unit": unit, "warm_up": False}
        for each, value in zip(record["observations"], values, strict=True)
    ]
    return claim("a.b", unit=unit, threshold=limit, observations=seen)


def test_a_limit_is_on_the_axis_of_the_samples() -> None:
    (strip,) = strips.strips(of_limit([350, 361, 361, 361, *[390] * 6], 400))
    assert strip.name == "strip"
    assert strips.lines([strip]) == [f"350 ├·{'─' * 7}•{'─' * 23}●{'─' * 6}┊┤ 400 ms"]


def test_both_arms_are_on_one_axis_and_the_limit_on_that_of_their_ratios() -> None:
    record = compared("gate.one", "refuted", 1.2)
    base, head, ratios = strips.strips(record)
    assert [base.name, head.name, ratios.name] == ["base", "head", "ratios"]
    assert (base.low, base.high) == (head.low, head.high)
    assert strips.LIMIT not in base.dots + head.dots
    assert ratios.dots.startswith(f"├{strips.LIMIT}")
    # In front of shorter figures there is room for longer ones.
    assert len({line.index("├") for line in strips.lines([base, head, ratios])}) == 1
    first, second, _ = strips.strips(compared("two.arms", "refuted", 1.2, sides=False))
    assert [first.name, second.name] == ["first", "second"]
    assert list(strips.arms(compared("two.arms", "refuted", 1.2, sides=False))) == [
        "first",
        "second",
    ]


@pytest.mark.parametrize("values", [[5.0, 5.0, 5.0], []])
def test_where_nothing_varies_there_is_no_axis(values: list[float]) -> None:
    assert not list(strips.strips(of_limit(values, None)))


def test_a_sweep_has_no_strip() -> None:
    (swept,) = [each for each in everything().claims if each["sweep"]]
    assert not list(strips.strips(swept))


@given(
    st.lists(st.floats(0.01, 9e6), max_size=60),
    st.none() | st.floats(0.01, 9e6),
)
def test_a_strip_fits_a_line_whatever_is_measured(values: list[float], limit: float | None) -> None:
    for strip in strips.strips(of_limit(values, limit, "MiB/s")):
        assert len(strip.dots) == strips.WIDTH + 2
        assert (strips.LIMIT in strip.dots) == (limit is not None)
        (line,) = strips.lines([strip])
        assert len("  second's  " + line) <= 80


def test_strips_of_any_record_can_be_had() -> None:
    for run in (everything(), attacking()):
        for record in run.claims:
            list(strips.strips(record))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("≤ 400 ms", "<=400 ms"),
        ("1.01 [≤ 1.02]", "1.01 [<=1.02]"),
        ("1367 ms ± 23.2", "1367 ms +-23.2"),
        ("5 µs", "5 us"),
        ("1 … 2 … 3", "1...2...3"),
        ("├·•●─┊┤", "|.oO-!|"),
        ("ж", r"\u0436"),
        ("plain", "plain"),
    ],
)
def test_ascii_has_signs_of_its_own(text: str, shown: str) -> None:
    assert encodable(text, "ascii") == shown
    assert encodable(text, "utf-8") == encodable(text, None) == text


def test_a_character_set_keeps_what_it_has() -> None:
    assert encodable("5 µs", "latin-1") == "5 µs"
    assert encodable("µ ≤ 5", "latin-1") == "u <=5"


@given(st.text(), st.sampled_from(["ascii", "latin-1", "cp437", "koi8-r", "utf-8"]))
def test_what_is_encodable_can_be_written(text: str, encoding: str) -> None:
    shown = encodable(text, encoding)
    if encoding != "utf-8":
        shown.encode(encoding)
