"""Claims as OpenMetrics text, which GitLab's metrics report and the node exporter's textfile collector read.

Every figure is a gauge with the claim's labels, so that no unit has to be known in advance: ``unit`` is a label.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from pytest_vperf import __version__, foreign_text
from pytest_vperf.results.record import of_sides

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prometheus_client.metrics_core import GaugeMetricFamily

    from pytest_vperf.reporting.ended import EndedRun
    from pytest_vperf.results.record import ClaimRecord

_LABELS = ("claim", "test", "side", "unit")
VERDICTS = ("holds", "refuted", "inconclusive", "not comparable", "not measured")


def text(run: EndedRun) -> str:
    """The metrics, and the line that ends them.

    Raises:
        ImportError: prometheus-client is not installed.
    """
    from prometheus_client.openmetrics.exposition import generate_latest

    class _Run:
        """What the library calls a registry."""

        def collect(self) -> Iterator[GaugeMetricFamily]:
            return families(run)

    made: bytes = generate_latest(_Run())
    return made.decode()


def families(run: EndedRun) -> Iterator[GaugeMetricFamily]:
    """The metrics, each with all of its samples."""
    from prometheus_client.metrics_core import GaugeMetricFamily as Gauge

    verdict = Gauge(
        "vperf_claim_verdict",
        "1 for the verdict that a claim has, else 0",
        labels=[*_LABELS[:3], "verdict"],
    )
    estimate = Gauge(
        "vperf_claim_estimate", "What was measured: a claim's statistic, or a ratio", labels=_LABELS
    )
    bound = Gauge(
        "vperf_claim_interval", "An end of the interval of the estimate", labels=[*_LABELS, "end"]
    )
    limit = Gauge("vperf_claim_limit", "What was claimed", labels=_LABELS)
    samples = Gauge(
        "vperf_claim_samples",
        "The samples, or pairs of samples, behind the verdict",
        labels=_LABELS[:3],
    )
    median = Gauge(
        "vperf_claim_side_median", "What was measured of a side of a comparison", labels=_LABELS
    )
    seconds = Gauge(
        "vperf_claim_sampling_seconds", "How long the claim was sampled", labels=_LABELS[:3]
    )
    for record in _last(run):
        labels = _labels(record)
        for each in VERDICTS:
            verdict.add_metric([*labels[:3], each], record["verdict"] == each)
        samples.add_metric(labels[:3], record["n"])
        seconds.add_metric(labels[:3], record["duration_s"])
        if record["estimate"] is not None:
            estimate.add_metric(labels, record["estimate"])
        for end, value in zip(("low", "high"), record["interval"] or (), strict=False):
            if value is not None:
                bound.add_metric([*labels, end], value)
        if record["threshold"] is not None:
            limit.add_metric(labels, record["threshold"])
        for arm, own in record["arms"].items():
            side = record["sides"].get(arm) or arm
            median.add_metric([*labels[:2], foreign_text.line(side), own["unit"]], own["estimate"])
    yield from (verdict, estimate, bound, limit, samples, median, seconds)
    status = Gauge("vperf_run_exit_status", "The exit status of the run", labels=["version"])
    status.add_metric([__version__], run.status)
    yield status
    if run.started:
        began = Gauge("vperf_run_start_time_seconds", "When the run began, as seconds since 1970")
        began.add_metric([], datetime.fromisoformat(run.started).timestamp())
        yield began


def _last(run: EndedRun) -> list[ClaimRecord]:
    """Of claims with the same labels the last one: a metric may be there once."""
    found: dict[tuple[str, ...], ClaimRecord] = {}
    for record in run.claims:
        found[tuple(_labels(record)[:3])] = record
    return list(found.values())


def _labels(record: ClaimRecord) -> list[str]:
    if of_sides(record):
        side = f"{record['sides']['a']}/{record['sides']['b']}"
    elif (own := record["baseline"]) is not None:
        side = f"against {own['word']}"
    else:
        side = next(iter(record["sides"].values()), "")
    return [
        foreign_text.line(each) for each in (record["name"], record["nodeid"], side, record["unit"])
    ]
