"""What every test of sysbench prints at its end: time, events, latency, and how evenly the threads shared the work.

Formats (report_cumulative in sysbench.c of the versions named): 0.4 prints "per-request statistics:", 0.5 "response
time:", the versions that led to 1.0 "Latency statistics:", each with the unit, ms or s, beside each figure; 1.0
prints "Latency (ms):". ``--percentile`` chooses another percentile than the 95th, or none ("disabled").
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pytest_vperf.quantity import Quantity
from pytest_vperf.workloads.figures import TOKEN, Reader

#: Of another percentile than the 95th, the whole line; or the words instead of any.
_OTHER_PERCENTILE = (
    r"^[ \t]+(?:(?:approx\.[ ]+)?(?!95(?:th)? )[0-9]{1,3}(?:th)? percentile:[ \t]*[0-9.]+(?:m?s)?"
    r"|percentile stats:[ \t]*disabled)[ \t]*$"
)


@dataclass(frozen=True)
class Latency:
    """How long one event took, in ms, with two decimals.

    Attributes:
        minimum: the shortest.
        average: the mean.
        maximum: the longest.
        percentile_95: from the tool's histogram, so it may lie a little above the maximum; ``None`` where the run was
            told (``--percentile``) to print another one, or none.
    """

    minimum: Quantity
    average: Quantity
    maximum: Quantity
    percentile_95: Quantity | None


@dataclass(frozen=True)
class Fairness:
    """How evenly the threads shared the work.

    Attributes:
        events: mean number of events of a thread.
        events_stddev: its standard deviation between threads.
        execution_time: mean time that a thread spent in events.
        execution_time_stddev: its standard deviation between threads.
    """

    events: float
    events_stddev: float
    execution_time: Quantity
    execution_time_stddev: Quantity


@dataclass(frozen=True)
class Run:
    """What both tests print.

    Attributes:
        limited_by: ``work`` or ``time``: which of the two the run was told.
        elapsed: how long the run took; `total_time` is the same where it is a measure.
        events: how many events it had, in all threads.
        latency: of one event.
        fairness: between threads.
    """

    limited_by: Literal["work", "time"]
    elapsed: Quantity
    events: int
    latency: Latency
    fairness: Fairness

    @property
    def total_time(self) -> Quantity:
        """How long the given work took, in s; lower is better.

        Raises:
            ValueError: the run was limited by time, so that its time says nothing.
        """
        if self.limited_by == "time":
            raise ValueError(
                f"total_time is no measure of a run that was told to end after a time ({self.elapsed} of it): "
                "ask for a rate, or limit the run by its work (without time=)"
            )
        return self.elapsed


def general(reader: Reader, threads: int) -> Run:
    """What follows "General statistics:" (0.4: "Test execution summary:"), in every test."""
    said = reader.need(rf"^Number of threads:[ \t]*({TOKEN})[ \t]*$", "number of threads")
    if reader.whole(said[1], "the number of threads") != threads:
        raise reader.error(f"it ran {said[1]} threads, not {threads}")
    # 1.1 says "time elapsed" under "Throughput:".
    elapsed = reader.need(r"^[ \t]+(?:total time|time elapsed):[ \t]*(\S+?)s[ \t]*$", "total time")
    events = reader.need(
        rf"^[ \t]+total number of events:[ \t]*({TOKEN})[ \t]*$", "total number of events"
    )
    run = Run(
        "work",
        reader.quantity(elapsed[1], "the total time", "s", "lower", positive=True),
        reader.whole(events[1], "the total number of events", positive=True),
        _latency(reader),
        _fairness(reader),
    )
    # By far: the two clocks do not start together.
    if run.latency.maximum.value > 2000 * run.elapsed.value + 100:
        raise reader.error("its longest event took longer than the run")
    return run


def check_rate(reader: Reader, count: int, elapsed: Quantity, rate: float, what: str) -> None:
    """Refuse a rate that is not what was done by the time it took.

    The tool reads its clock twice for the two, which on a machine with much else to do is some time apart; and prints
    a rate with two decimals, of which a slow machine has one that is not zero.

    Raises:
        ParseError: it is far off.
    """
    if abs(rate * elapsed.value - count) > 0.1 * count + 0.5 * rate + 0.0051 * elapsed.value:
        raise reader.error(f"{count} in {elapsed.value:g} s are not {rate:g} {what}")


def _latency(reader: Reader) -> Latency:
    block = reader.need(
        r"^(?:[ \t]+(?:per-request statistics|response time):|Latency statistics:|Latency \((ms)\):)[ \t]*$",
        "latency",
    )
    suffix = "" if block[1] else "(m?s)"
    units = {block[1]} if block[1] else set()

    def figure(label: str, name: str) -> Quantity:
        match = reader.need(rf"^[ \t]+{label}:[ \t]*(\S+?){suffix}[ \t]*$", name)
        unit = match[2] if suffix else block[1]
        units.add(unit)
        found = reader.number(match[1], name) * (1000 if unit == "s" else 1)
        return Quantity(reader.checked(found, name), "ms", better="lower")

    latency = Latency(
        figure("min", "minimum latency"),
        figure("avg", "average latency"),
        figure("max", "maximum latency"),
        None
        if reader.find(_OTHER_PERCENTILE, "percentile of latency")
        else figure(
            r"(?:approx\.[ ]+95(?:th)? percentile|95th percentile)", "95th percentile of latency"
        ),
    )
    if len(units) > 1:
        raise reader.error("its latencies have more than one unit")
    if not latency.minimum.value <= latency.average.value <= latency.maximum.value:
        raise reader.error("its average latency is not between minimum and maximum")
    return latency


def _fairness(reader: Reader) -> Fairness:
    def pair(label: str) -> tuple[float, float]:
        match = reader.need(
            rf"^[ \t]+{label} \(avg/stddev\):[ \t]*([^\s/]+)/([^\s/]+)[ \t]*$",
            f"{label} per thread",
        )
        return (
            reader.number(match[1], f"{label} per thread"),
            reader.number(match[2], f"the deviation of {label}"),
        )

    events, times = pair("events"), pair("execution time")
    return Fairness(*events, Quantity(times[0], "s"), Quantity(times[1], "s"))
