"""The least memory: sizes by octave or by step, what counts as a failure, and what ends a search."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_vperf.targets.base import CannotStart, Unavailable
from pytest_vperf.targets.least import STARTS, Sizes, search


def needs(border: int, tried: list[int] | None = None):
    """A start that fails below so many bytes."""

    def start(size: int) -> None:
        if tried is not None:
            tried.append(size)
        if size < border:
            raise CannotStart(f"out of memory with {size}\nand more", target="container x")

    return start


@given(st.integers(16 << 10, 16 << 20))
def test_eight_sizes_to_an_octave_find_a_border_to_a_tenth(border: int) -> None:
    least = search(needs(border), target="container x")
    found = least.memory.value * 1024
    # In whole pages, which is coarse below 64 KiB.
    assert border <= found <= max(border * 1.1, border + 8 * 1024)


@given(st.integers(1, 256))
def test_a_step_finds_a_border_to_the_step(number: int) -> None:
    least = search(needs(number * (64 << 10)), target="container x", step="64 KiB")
    assert least.memory.value == number * 64


@pytest.mark.parametrize("sizes", [Sizes(), Sizes(64)])
def test_a_size_is_found_by_its_number(sizes: Sizes) -> None:
    top = sizes.number("16 MiB")
    assert sizes.size(top) == 16 << 10
    assert sizes.number("1 byte") == 1


def test_a_size_must_work_a_number_of_times() -> None:
    tried: list[int] = []
    least = search(needs(2 << 20, tried), target="container x")
    assert tried.count(int(least.memory.value) << 10) >= STARTS
    once: list[int] = []
    search(needs(2 << 20, once), target="container x", starts=1)
    assert len(once) < len(tried)
    failed = [each.answer.words for each in least.found.tries if not each.answer.works]
    assert all(words.startswith("out of memory with ") for words in failed)
    assert not any("\n" in words for words in failed)


def test_what_fails_at_the_top_is_an_error() -> None:
    with pytest.raises(
        CannotStart, match=r"no least memory was found: 80 fails already: .* \(number N is 16 KiB"
    ):
        search(needs(17 << 20), target="container x")
    with pytest.raises(CannotStart, match=r"256 fails already: .* \(number N is 64 KiB · N\)"):
        search(needs(17 << 20), target="container x", step="64 KiB")


def test_what_is_not_there_is_not_too_small() -> None:
    def start(size: int) -> None:
        raise Unavailable("runx is not installed", target="container x")

    with pytest.raises(Unavailable, match="runx is not installed"):
        search(start, target="container x")


def test_a_step_is_in_pages() -> None:
    with pytest.raises(ValueError, match="step is '3 KiB', no whole number of pages of 4 KiB"):
        search(needs(1), target="container x", step="3 KiB")


@pytest.mark.parametrize("starts", [0, -1])
def test_a_size_that_is_never_tried_does_not_work(starts: int) -> None:
    with pytest.raises(ValueError, match=f"starts is {starts}, not at least 1"):
        search(needs(2 << 20), target="container x", starts=starts)
