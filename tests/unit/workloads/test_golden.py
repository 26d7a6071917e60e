"""Every golden file's output is read as the file says."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import golden_cases
import pytest

from pytest_vperf.quantity import Quantity
from pytest_vperf.workloads.base import ParseError
from pytest_vperf.workloads.registry import WORKLOADS, workload_class

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def _id(path: Path) -> str:
    return str(path.relative_to(golden_cases.GOLDEN).with_suffix(""))


@pytest.mark.parametrize("path", golden_cases.paths(), ids=_id)
def test_output_is_read_as_the_golden_file_says(path: Path) -> None:
    case = golden_cases.load(path)
    if case.argv is not None:
        assert case.made.argv(case.output.version) == case.argv
    if case.error is not None:
        with pytest.raises(ParseError) as caught:
            case.made.parse(case.output)
        first = str(caught.value).splitlines()[0]
        assert first.partition("; it ")[0] == case.error
        return
    result = case.made.parse(case.output)
    assert case.result, "a golden file says what the result is"
    assert list(golden_cases.differences(case.result, result)) == []
    assert list(golden_cases.figures(result)), "a result has a figure"


def test_every_text_has_its_yaml_file() -> None:
    texts = {path.with_suffix("") for path in golden_cases.GOLDEN.glob("*/*.txt")}
    assert texts == {path.with_suffix("") for path in golden_cases.paths()}


@pytest.mark.parametrize("name", sorted(WORKLOADS))
def test_workload_of_the_registry_is_there(name: str) -> None:
    found = workload_class(name)
    assert found.tool
    assert not isinstance(found.version_argv, str)


@pytest.mark.parametrize("name", sorted(WORKLOADS))
def test_every_workload_has_golden_files_of_two_versions_or_kinds(name: str) -> None:
    mine = [case for case in golden_cases.cases() if case.workload == name and case.result]
    assert len({(case.output.version, case.raw) for case in mine}) >= 2


def test_unknown_workload_is_refused_with_the_names() -> None:
    with pytest.raises(KeyError, match=r"'sysbench\.gpu' is not a workload: .*sysbench\.cpu"):
        workload_class("sysbench.gpu")


def _quantities(result: Any, name: str = "") -> Iterator[tuple[str, Quantity]]:
    """The quantities in a result, each with the name of its field."""
    if isinstance(result, Quantity):
        yield name, result
    elif dataclasses.is_dataclass(result):
        for item in dataclasses.fields(result):
            yield from _quantities(getattr(result, item.name), item.name)


def test_what_may_be_none_and_what_is_printed_in_steps_says_so() -> None:
    found = [
        each
        for case in golden_cases.cases()
        if case.result
        for each in _quantities(case.made.parse(case.output))
    ]
    signed = {name for name, quantity in found if quantity.signed}
    discrete = {name for name, quantity in found if quantity.discrete}
    of_memory = {"available", "buffers", "cached", "free", "used", "used_without_caches"}
    lost = {"loss", "out_of_order", "retransmits"}
    percentiles = {"p50", "p90", "p95", "p99", "p99_9", "percentile_95"}
    latencies = {"average", "maximum", "minimum", *percentiles}
    spread = "execution_time_stddev"
    assert signed == {*of_memory, *lost, "jitter", spread}
    assert discrete - {""} == {*of_memory, *lost, *latencies, "total", spread}
    # What is none of these is 0 only where its tool's steps are too coarse for it.
    assert {name for name, quantity in found if quantity.value <= 0} <= signed | latencies
