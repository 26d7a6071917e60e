"""What a pull request shows: a page, annotations and metrics of a run, as they are read where they go."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from pytest_vperf.reporting import annotations as notes
from pytest_vperf.reporting import markdown, openmetrics
from pytest_vperf.reporting.ended import EndedRun, Place
from pytest_vperf.results.record import unmeasured
from pytest_vperf.run.result import failing

if TYPE_CHECKING:
    from pytest_vperf.results.record import ClaimRecord


def claim(name: str = "start.a", verdict: str = "holds", **values: Any) -> ClaimRecord:
    found = unmeasured(
        name, "", target="", nodeid=f"t.py::test_{name}", started_at="", budget=60, seed=1
    )
    return cast("ClaimRecord", {**found, "verdict": verdict, **values})


def gated(
    name: str, verdict: str, ratio: float, *, low: float | None = None, **more: Any
) -> ClaimRecord:
    def arm(value: float, **phases: float) -> dict[str, Any]:
        median = {"estimate": value, "interval": [value, value], "confidence": 0.99}
        return {**median, "unit": "ms", "n": 9, "phases": phases}

    values: dict[str, Any] = {
        "sides": {"a": "head", "b": "base"},
        "arms": {"a": arm(100 * ratio, kernel=50 * ratio), "b": arm(100, kernel=50)},
        "estimate": ratio,
        "interval": [low or ratio - 0.01, ratio + 0.01],
        "confidence": 0.98,
        "better": "lower",
        "n": 9,
        "plan": {"tolerance": 0.05},
        "reason": "after 9 pairs it is shown",
        "threshold": 1.05,
        "criterion": "no worse by more than 5 %",
        **more,
    }
    return claim(name, verdict, **values)


def run(*claims: ClaimRecord, answer: str = "gate: 1 slower", **more: Any) -> EndedRun:
    level = failing("measured")
    return EndedRun(
        claims=claims, answer=answer, word="refuted", status=1, failing=level, mark="ab12", **more
    )


# The page.


def test_the_page_begins_with_the_answer_then_what_changed_then_the_rest_folded() -> None:
    page = markdown.page(
        run(
            gated("start.same", "holds", 1.0),
            gated("start.slow", "refuted", 1.2),
            gated("start.quick", "holds", 0.8),
            gated("start.close", "inconclusive", 1.04, reason="needs about 40 pairs"),
            claim("start.none", "not measured", reason="no /dev/kvm"),
            fingerprint={"cpu_model": "One"},
            sides={"head": {"runtime": {"is": "./runc", "sha256": "ab" * 32}}},
        )
    )
    assert page.splitlines()[:13] == [
        "**gate: 1 slower**",
        "",
        "| head | claim | of base | of head | change | pairs |",
        "|---|---|---:|---:|---:|---:|",
        "| 🔴&nbsp;slower | `start.slow` | 100&nbsp;ms | 120&nbsp;ms | +20&nbsp;%&nbsp;[+19,&nbsp;+21] | 9 |",
        "| 🟢&nbsp;faster | `start.quick` | 100&nbsp;ms | 80&nbsp;ms | -20&nbsp;%&nbsp;[-21,&nbsp;-19] | 9 |",
        "",
        "| verdict | claim | measured | limit | n | target |",
        "|---|---|---:|---|---:|---|",
        "| 🟡&nbsp;not&nbsp;measured | `start.none` | - | - | 0 | - |",
        "",
        "- `start.slow`: after 9 pairs it is shown; kernel +10 ms",
        "- `start.quick`: kernel -10 ms",
    ]
    folded = page[page.index("<details>") :]
    assert folded.startswith(
        "<details><summary>2 more claims: 1 not slower, 1 undecided</summary>\n\n"
    )
    assert "- `start.close`: needs about 40 pairs\n" in folded
    assert "- head: runtime=./runc, abababab" in folded
    assert page.count("<details>") == page.count("</details>") == 2


def test_a_run_without_sides_has_its_counts_and_what_fails() -> None:
    values: Any = {"estimate": 1.0, "unit": "ms", "n": 8, "threshold": 2, "criterion": "≤ 2 ms"}
    page = markdown.page(
        run(claim(**values), claim("b", "refuted", **values), answer="claims: 1 held, 1 refuted")
    )
    assert page.startswith("**claims: 1 held, 1 refuted**\n")
    assert page.index(
        "| 🔴&nbsp;refuted | `b` | 1&nbsp;ms | ≤&nbsp;2&nbsp;ms | 8 | - |"
    ) < page.index("<details>")
    assert "<details><summary>1 more claim: 1 held</summary>" in page


@given(
    st.integers(0, 400),
    st.integers(0, 400),
    st.sampled_from(["n" * 200, "é" * 200, "`|<b>" * 40]),
    st.sampled_from(["short", "r" * 10**5, "|\n`<script>" * 100]),
)
def test_a_page_has_at_most_60_kB_and_closes_what_it_opens(
    refuted: int, held: int, name: str, reason: str
) -> None:
    claims = [gated(f"{number}{name}", "refuted", 1.2, reason=reason) for number in range(refuted)]
    claims += [gated(f"{number}{name}", "holds", 1.0, reason=reason) for number in range(held)]
    sides = {f"s{number}": {"image": {"is": reason}} for number in range(refuted)}
    page = markdown.page(run(*claims, sides=sides))
    assert len(page.encode()) <= 60_000
    assert page.count("<details>") == page.count("</details>")
    assert "<script>" not in page
    shown = page.count("| 🔴&nbsp;slower |")
    if shown < refuted:
        assert f"… and {refuted - shown} more, in the record." in page


def test_foreign_text_is_no_markup() -> None:
    hostile = "x](https://evil) @everyone <img src=x onerror=y> | `code` www.evil"
    page = markdown.page(
        run(claim("a", "refuted", target=hostile, reason=hostile), answer="a|b<c>")
    )
    assert re.search(r"(?<!\\)<(?!/?(span|details|summary)>)", page) is None
    assert "@everyone" not in page
    assert re.search(r"(?<!\\)\]\(", page) is None
    assert page.startswith("**a\\|b\\<c\\>**\n")


# Annotations.


def test_failing_claims_are_annotated_at_their_tests_the_refuted_first() -> None:
    ended = run(
        claim("a: b, c", "not measured", reason="no /dev/kvm\n::error::of a stranger"),
        gated("start.slow", "refuted", 1.2),
        gated("start.same", "holds", 1.0),
        places={"t.py::test_start.slow": Place("tests/t.py", 7)},
    )
    assert list(notes.github(ended)) == [
        "::error file=tests/t.py,line=7,title=start.slow::start.slow is slower on head than on base: "
        "+20 %25 [+19, +21]",
        "::warning file=t.py,line=1,title=a%3A b%2C c::a: b, c: not measured: no /dev/kvm ::error::of a stranger",
    ]
    found = json.loads(notes.code_quality(ended))
    assert [(each["severity"], each["location"]) for each in found] == [
        ("major", {"path": "tests/t.py", "lines": {"begin": 7}}),
        ("minor", {"path": "t.py", "lines": {"begin": 1}}),
    ]
    assert len({each["fingerprint"] for each in found}) == 2


def test_what_github_would_drop_is_said() -> None:
    claims = [gated(f"start.{number}", "refuted", 1.2) for number in range(14)]
    lines = list(notes.github(run(*claims)))
    assert len(lines) == 11
    assert lines[-1] == "::notice title=pytest-vperf::4 more claims fail: see the summary"


# Metrics.


def metrics(ended: EndedRun) -> dict[str, list[Any]]:
    families = text_string_to_metric_families(openmetrics.text(ended))
    return {family.name: list(family.samples) for family in families}


def test_figures_are_gauges_with_the_claims_labels() -> None:
    ended = run(
        claim(estimate=92.5, unit="ms", interval=[90.0, None], threshold=100.0, n=8),
        gated("start.slow", "refuted", 1.2),
        started="2026-11-26T09:00:00.500+00:00",
    )
    found = metrics(ended)
    estimate = {
        each.labels["claim"]: (each.labels, each.value) for each in found["vperf_claim_estimate"]
    }
    assert estimate["start.a"] == (
        {"claim": "start.a", "test": "t.py::test_start.a", "side": "", "unit": "ms"}, 92.5
    )  # fmt: skip
    assert estimate["start.slow"][0]["side"] == "head/base"
    assert [(each.labels["side"], each.value) for each in found["vperf_claim_side_median"]] == [
        ("head", 120),
        ("base", 100),
    ]
    ends = [(each.labels["end"], each.value) for each in found["vperf_claim_interval"]][:1]
    assert ends == [("low", 90)]
    verdicts = [each for each in found["vperf_claim_verdict"] if each.value]
    assert [each.labels["verdict"] for each in verdicts] == ["holds", "refuted"]
    assert found["vperf_run_start_time_seconds"][0].value == pytest.approx(1795683600.5)
    assert found["vperf_run_exit_status"][0].value == 1


@given(st.text(min_size=1, max_size=50), st.text(max_size=50))
def test_whatever_a_claim_is_called_the_text_can_be_read(name: str, target: str) -> None:
    found = metrics(run(claim(name, target=target, estimate=1.0, n=1), claim(name, "refuted")))
    assert len([each for each in found["vperf_claim_verdict"] if each.value]) == 1


def test_a_run_without_claims_has_metrics_too() -> None:
    assert metrics(run())["vperf_run_exit_status"][0].value == 1
