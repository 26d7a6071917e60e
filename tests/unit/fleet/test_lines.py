"""What goes between a run and the machines of its fleet."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_vperf.fleet import lines
from pytest_vperf.fleet.lines import Lines, TooLong, line


@given(st.lists(st.binary().filter(lambda each: b"\n" not in each)), st.data())
def test_lines_are_the_same_in_whatever_pieces_they_come(
    texts: list[bytes], data: st.DataObject
) -> None:
    whole = b"".join(each + b"\n" for each in texts)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=9)))
    read = Lines()
    pieces = [whole[one:other] for one, other in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    assert [each for piece in pieces for each in read.feed(piece)] == texts


def test_a_line_without_an_end_does_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "LONGEST", 1000)
    read = Lines()
    read.feed(b"x" * 900)
    with pytest.raises(TooLong):
        read.feed(b"x" * 200)


def test_what_we_say_is_one_line() -> None:
    said = line("end", said="two\nlines")
    assert said.count(b"\n") == 1
    assert json.loads(said) == {"vperf": "end", "said": "two\nlines"}
