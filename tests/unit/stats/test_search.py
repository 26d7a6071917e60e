"""The search for the smallest size that works: few tries, and every contradiction reported."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_vperf.stats.search import STEPS_UP, Answer, Found, NoSize, Try, smallest

#: The top of the search and the border, both unknown to it.
BORDERS = st.integers(1, 4096).flatmap(lambda top: st.tuples(st.just(top), st.integers(1, top)))


def from_on(border: int) -> Found:
    """The end of a search downwards from 512, where every size from the border on works."""
    return smallest(lambda size: Answer(size >= border, f"panic at {size}"), 512)


@given(BORDERS)
def test_any_border_is_found_with_few_tries(case: tuple[int, int]) -> None:
    top, border = case
    found = smallest(lambda size: Answer(size >= border), top)
    assert found.size == border
    assert len(found.tries) <= math.floor(math.log2(top)) + 5
    assert found.contradictions == ()
    # Both sides of the border were tried twice, and nothing else was.
    for size in (border, border - 1) if border > 1 else (border,):
        assert sum(each.size == size for each in found.tries) == 2
    assert len({each.size for each in found.tries}) >= len(found.tries) - 2
    assert all(1 <= each.size <= top for each in found.tries)


@given(BORDERS, st.integers(1, 5000))
def test_a_guess_is_only_where_the_search_looks_first(case: tuple[int, int], guess: int) -> None:
    top, border = case
    found = smallest(lambda size: Answer(size >= border), top, guess=guess)
    assert found.size == border
    assert found.tries[0].size == guess
    if guess == border:
        assert len(found.tries) <= 4


@given(st.integers(2, 600), st.randoms(use_true_random=False))
def test_the_search_ends_and_reports_contradictions_for_any_answers(
    top: int, chance: object
) -> None:
    def ask(size: int) -> Answer:
        return Answer(chance.random() < 0.6, "by chance")  # type: ignore[attr-defined]

    try:
        found = smallest(ask, top)
    except NoSize as error:
        tries = error.tries
    else:
        tries = found.tries
        last = [each.answer.works for each in tries if each.size == found.size]
        assert last[-1]
        assert len(last) >= 2
        # A size of the result that failed once, and any that failed above it, is told.
        text = " ".join(found.contradictions)
        for size in {each.size for each in tries}:
            said = {each.answer.works for each in tries if each.size == size}
            if len(said) == 2:
                assert f"{size} worked and failed" in text
            elif size > found.size and said == {False}:
                assert f"{size} failed, and" in text
    assert 0 < len(tries) <= math.log2(top) + 5 + 2 * STEPS_UP


@given(st.integers(2, 500), st.integers(1, 4))
def test_a_border_that_fails_at_its_second_try_moves_up(border: int, wide: int) -> None:
    """Sizes just above the border work at their first try only."""
    tried: dict[int, int] = {}

    def ask(size: int) -> Answer:
        tried[size] = tried.get(size, 0) + 1
        return Answer(size >= border + wide or (size >= border and tried[size] == 1), "no boot")

    found = smallest(ask, 512)
    assert border <= found.size <= border + wide
    if found.size > border:
        assert f"{border} worked and failed" in found.contradictions


def test_the_tries_are_kept_with_what_was_seen() -> None:
    found = from_on(67)
    assert found.size == 67
    assert [each.size for each in found.tries] == [
        512,
        256,
        128,
        64,
        96,
        80,
        72,
        68,
        66,
        67,
        66,
        67,
    ]
    assert found.tries[3] == Try(64, Answer(False, "panic at 64"))


def test_failures_above_the_result_are_contradictions() -> None:
    """From 100 on it works, and at 60 to 70 too."""
    answers = {512: True, 256: True, 128: True, 64: True, 32: False, 48: False, 56: False, 60: True}
    found = smallest(lambda size: Answer(answers.get(size, size > 58)), 512, guess=90)
    assert found.contradictions == ()
    found = smallest(lambda size: Answer(60 <= size <= 70 or size >= 100), 512, guess=60)
    assert (found.size, found.contradictions) == (60, ())
    # The guess fails between two ranges that work: the sizes above it are searched, and the border there is correct.
    found = smallest(lambda size: Answer(60 <= size <= 70 or size >= 100), 512, guess=80)
    assert (found.size, found.contradictions) == (100, ())


def test_a_failing_top_has_no_result() -> None:
    with pytest.raises(NoSize, match=r"^512 fails already: panic at 512$") as caught:
        from_on(513)
    assert [each.size for each in caught.value.tries] == [512]


def test_without_a_size_that_works_twice_there_is_no_result() -> None:
    tried: set[int] = set()

    def ask(size: int) -> Answer:
        first = size not in tried
        tried.add(size)
        return Answer(first and size > 20)

    with pytest.raises(NoSize, match=r"^nothing from 21 to 29 works twice$"):
        smallest(ask, 64)


@pytest.mark.parametrize(("top", "guess"), [(0, None), (-5, None), (8, 0)])
def test_sizes_below_one_are_refused(top: int, guess: int | None) -> None:
    with pytest.raises(ValueError, match="sizes are whole numbers from 1 on"):
        smallest(lambda _: Answer(True), top, guess=guess)
