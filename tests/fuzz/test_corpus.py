"""Every input that fuzzing kept, and what it began with, replayed: an answer, or an error that is documented."""

from __future__ import annotations

import time

import pytest
from fuzz_targets import CORPUS, SECONDS, TARGETS


@pytest.mark.parametrize("name", TARGETS)
def test_kept_inputs_end_in_a_result_or_an_error(name: str) -> None:
    target, crashes, count = TARGETS[name], [], 0
    for label, data in target.inputs():
        count += 1
        began = time.monotonic()
        try:
            target.feed(data)
        except Exception as error:
            crashes.append(f"{name}/{label}: {type(error).__name__}: {error}")
        if time.monotonic() - began > SECONDS:
            crashes.append(f"{name}/{label}: more than {SECONDS} s")
    assert crashes == []
    assert count, "a target without a seed or a kept input tests nothing"


def test_the_corpus_is_of_known_targets_and_small() -> None:
    assert {path.name for path in CORPUS.iterdir()} <= TARGETS.keys()
    assert sum(path.stat().st_size for path in CORPUS.rglob("*") if path.is_file()) < 1_500_000
