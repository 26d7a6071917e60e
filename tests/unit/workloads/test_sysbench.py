"""What golden files do not show: parameters that are refused, limits that must not be mixed up, versions."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_vperf.workloads.base import Output, ParseError, Unsupported
from pytest_vperf.workloads.sysbench import SysbenchCpu, SysbenchMemory

GENERAL = """Number of threads: 1
Prime numbers limit: 10000
CPU speed:
    events per second:   100.00
General statistics:
    total time:                          10.0003s
    total number of events:              1000

Latency (ms):
         min:                                    9.90
         avg:                                    10.00
         max:                                    11.00
         95th percentile:                        10.50

Threads fairness:
    events (avg/stddev):           1000.0000/0.00
    execution time (avg/stddev):   10.0000/0.00
"""


def test_time_of_a_time_limited_run_is_no_measure() -> None:
    result = SysbenchCpu(time=10).parse(Output(GENERAL))
    assert result.events_per_second.value == 100
    with pytest.raises(
        ValueError, match=r"total_time does not measure a run that was told to end after a time"
    ):
        _ = result.total_time


def test_time_of_an_event_limited_run_is_a_measure() -> None:
    result = SysbenchCpu(events=1000).parse(Output(GENERAL))
    assert str(result.total_time) == "10 s"
    assert result.total_time.direction == "lower"
    assert result.events_per_second.direction == "higher"


def test_run_that_did_other_work_is_an_error() -> None:
    with pytest.raises(ParseError, match="it did 1000 events, not 10000"):
        SysbenchCpu().parse(Output(GENERAL))
    with pytest.raises(ParseError, match="it tested primes to 10000, not to 20000"):
        SysbenchCpu(max_prime=20_000, events=1000).parse(Output(GENERAL))
    with pytest.raises(ParseError, match="it ran 1 threads, not 2"):
        SysbenchCpu(threads=2, events=1000).parse(Output(GENERAL))


def test_average_outside_minimum_and_maximum_is_an_error() -> None:
    broken = GENERAL.replace("avg:                                    10.00", "avg: 12.00")
    with pytest.raises(ParseError, match="average latency is not between minimum and maximum"):
        SysbenchCpu(time=10).parse(Output(broken))


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"events": 5, "time": 5}, "events and time: a run ends after one of them, not both"),
        ({"threads": 0}, "threads is 0, not a whole number of at least 1"),
        ({"threads": True}, "threads is True, not a whole number of at least 1"),
        ({"max_prime": 2}, "max_prime is 2, not a whole number of at least 3"),
        ({"time": 1.5}, "time is 1.5, not a whole number of at least 1"),
    ],
)
def test_bad_cpu_parameters_are_refused(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        SysbenchCpu(**parameters)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"block_size": "1 kB"}, "total_size is 100 GiB, not a multiple of 1 kB"),
        (
            {"block_size": "1 s"},
            "block_size is '1 s', not one such as '64 KiB': s .* cannot be compared with byte",
        ),
        ({"block_size": "3 byte"}, "block_size is 3 byte, not a multiple of 8 bytes"),
        (
            {"total_size": "all"},
            "total_size is 'all', not one such as '64 KiB': 'all' is not a number with a unit",
        ),
        ({"operation": "none"}, "operation is 'none', not read or write"),
        ({"access": "random"}, "access is 'random', not seq or rnd"),
    ],
)
def test_bad_memory_parameters_are_refused(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        SysbenchMemory(**parameters)


def test_time_limited_memory_run_that_ran_out_of_work_is_an_error() -> None:
    text = GENERAL.replace(
        "Prime numbers limit: 10000",
        "Total operations: 1024 (100.00 per second)\n\n1.00 MiB transferred (0.10 MiB/sec)",
    )
    with pytest.raises(
        ParseError, match="all of 1 MiB was transferred before 60 s were over: ask for more"
    ):
        SysbenchMemory(total_size="1 MiB", time=60).parse(Output(text))


@pytest.mark.parametrize(
    ("printed", "version"),
    [
        ("sysbench 1.0.20\n", "1.0.20"),
        ("sysbench 0.4.12\n", "0.4.12"),
        ("sysbench 0.5:  multi-threaded system evaluation benchmark\n", "0.5"),
        ("sysbench v0.4.12:  multi-threaded system evaluation benchmark\n", "0.4.12"),
        ("sysbench 1.1.0-4e0e44c (using bundled LuaJIT 2.1.0-beta2)\n", "1.1.0-4e0e44c"),
    ],
)
def test_version_is_read(printed: str, version: str) -> None:
    assert SysbenchCpu.version_of(Output(printed)) == version
    assert SysbenchCpu().argv(version)


def test_unknown_version_is_refused() -> None:
    with pytest.raises(ParseError, match="there is no version in what --version printed"):
        SysbenchCpu.version_of(Output("bash: sysbench: command not found"))
    with pytest.raises(Unsupported, match=r"the output of versions before 0\.4 is not known"):
        SysbenchCpu().argv("0.3.4")


def test_timeout_grows_with_the_work() -> None:
    assert SysbenchCpu(time=10).timeout == 90
    assert SysbenchCpu(max_prime=50_000).timeout > 10 * 85.3706
    assert SysbenchMemory(total_size="150 GiB").timeout > 10 * 49.4274


def old_style(minimum: str, average: str, maximum: str) -> str:
    """The same with the unit beside each figure, as 0.4 and 0.5 print it."""
    before, rest = GENERAL.split("Latency (ms):\n")
    rest = rest.replace("9.90", minimum).replace("10.00\n", f"{average}\n", 1)
    rest = rest.replace("11.00", maximum).replace("95th percentile", "approx.  95 percentile")
    return f"{before}    response time:\n{rest.replace('10.50', '0.0105s')}"


def test_latency_in_seconds_is_told_from_milliseconds() -> None:
    latency = (
        SysbenchCpu(events=1000).parse(Output(old_style("0.0099s", "0.0100s", "0.0110s"))).latency
    )
    assert (str(latency.minimum), str(latency.average)) == ("9.9 ms", "10 ms")
    assert str(latency.percentile_95) == "10.5 ms"


def test_latencies_of_two_units_are_an_error() -> None:
    with pytest.raises(ParseError, match="its latencies have more than one unit"):
        SysbenchCpu(events=1000).parse(Output(old_style("9.90ms", "10.00ms", "11.00ms")))


def test_memory_that_threads_cannot_share_evenly() -> None:
    text = GENERAL.replace("Number of threads: 1", "Number of threads: 3").replace(
        "Prime numbers limit: 10000",
        "Total operations: {} (100.00 per second)\n\n1.00 MiB transferred (0.10 MiB/sec)",
    )
    test = SysbenchMemory(total_size="1 MiB", threads=3)
    assert test.parse(Output(text.format(1023))).operations_per_second.value == 100
    with pytest.raises(ParseError, match="it did 1022 operations, not the 1024 asked for"):
        test.parse(Output(text.format(1022).replace("1.00 MiB tr", "0.998 MiB tr")))
