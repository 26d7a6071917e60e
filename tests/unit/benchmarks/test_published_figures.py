"""Each shipped limit and ratio holds on the machine of its document, and is refuted on one that is 20 % worse."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from published_figures import Case, cases

from pytest_vperf.quantity import Quantity
from pytest_vperf.thresholds.criterion import Limit

if TYPE_CHECKING:
    from collections.abc import Sequence

RUNS = 5
#: What an exact machine and a worse one have to give, of all runs of a document. The benchmark has more runs.
RIGHT = 0.95


@pytest.fixture(scope="module")
def every() -> Sequence[Case]:
    return list(cases())


def test_every_limit_and_ratio_is_simulated(every: Sequence[Case]) -> None:
    of = defaultdict(set)
    for case in every:
        of[case.document].add(case.name)
    assert {document[:3]: len(names) for document, names in of.items()} == {
        "000": 117, "001": 37, "002": 57, "003": 15, "004": 1,
    }  # fmt: skip


def test_the_documents_machine_holds_and_a_worse_one_is_refuted(every: Sequence[Case]) -> None:
    found = defaultdict(list)
    for case in every:
        held, refuted = case.right(RUNS, seed=1)
        assert held >= 0.8, case.name
        assert refuted >= 0.8, case.name
        found[case.document].append((held, refuted))
    for document, shares in found.items():
        for at in (0, 1):
            assert sum(each[at] for each in shares) / len(shares) >= RIGHT, document


def test_a_limit_that_is_the_published_figure_itself_would_be_found(every: Sequence[Case]) -> None:
    (case,) = (each for each in every if each.name == "type1 cpu.dhrystone.host")
    bare = replace(case.threshold, criterion=Limit("at_least", Quantity(24938, "DMIPS")))
    held, _ = replace(case, threshold=bare).right(20, seed=1)
    assert held < RIGHT


def test_nine_of_ten_finds_starts_that_the_median_does_not_see(every: Sequence[Case]) -> None:
    typical, slow = (
        next(each for each in every if each.name == f"type1 startup.pod.kvm.seabios{end}")
        for end in ("", ".p90")
    )

    def sometimes(case: Case) -> Case:
        start = case.metrics[0]
        return replace(case, metrics=(lambda draw: 4000.0 if draw.random() < 0.3 else start(draw),))

    assert sometimes(typical).right(20, seed=1)[0] < 0.5
    verdicts = [sometimes(slow).decided(seed) for seed in range(20)]
    assert "holds" not in verdicts
    assert verdicts.count("refuted") > 10
