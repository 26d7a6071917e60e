"""What a job of fio measured, out of its JSON.

Formats (stat.c of the versions named, and HOWTO): until 2.x latencies are in microseconds (``lat``, ``clat``), since
3.0 in nanoseconds (``lat_ns``, ``clat_ns``); ``bw`` is KiB/s in all of them, also where a report says "KB/s" (2.x
wrote KB for 1024 bytes), and ``bw_bytes`` stands beside it since 3.4. 2.0 and 2.1 cut ``iops`` to a whole number and
do not count blocks (``total_ios``). Until 3.1 the list of percentiles ends with several keys ``0.00``. fio may print
notes before and after the JSON.
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from pytest_vperf.quantity import Quantity

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pytest_vperf.workloads.figures import Reader

#: What fio was told, which is not read: an option that may be given again, such as filename, is a key that is there
#: again (issue 1571 of fio).
_OPTIONS = re.compile(r'("(?:global|job) options" : )\{(?:[^{}"]|"(?:[^"\\]|\\.)*")*\}')

Direction = Literal["read", "write"]

#: The percentiles that a job asks for.
PERCENTILES = ("50", "95", "99", "99.9")


@dataclass(frozen=True)
class Latency:
    """How long one block took, in µs.

    Attributes:
        mean: from its submission to its completion, queues of the kernel included.
        p50: half of the blocks completed within this time; as the other percentiles from the moment that the
            kernel had taken the block (fio's "clat"), and from a histogram whose steps are below 2 %.
        p95: 95 % did.
        p99: 99 % did.
        p99_9: 99.9 % did.
    """

    mean: Quantity
    p50: Quantity
    p95: Quantity
    p99: Quantity
    p99_9: Quantity


@dataclass(frozen=True)
class Transfer:
    """What a job moved in one direction, after its ramp.

    Attributes:
        iops: blocks per second, in operation/s; fio 2.0 and 2.1 cut it to a whole number.
        bandwidth: in KiB/s, 1024 bytes, as fio's ``bw``.
        latency: of one block.
        blocks: how many were counted; ``None`` from fio 2.0 and 2.1, which do not print it.
    """

    iops: Quantity
    bandwidth: Quantity
    latency: Latency
    blocks: int | None


@dataclass(frozen=True)
class FioResult:
    """What a job measured.

    Attributes:
        read: ``None`` for a job that only writes.
        write: ``None`` for a job that only reads.
    """

    read: Transfer | None
    write: Transfer | None


def result(reader: Reader, directions: Sequence[Direction]) -> FioResult:
    """Read the JSON among whatever else was printed.

    Raises:
        ParseError: there is none, or of another job; the job ended with an error; a direction that was asked
            for moved nothing after the ramp.
    """
    jobs = _document(reader).get("jobs")
    if not isinstance(jobs, list) or len(jobs) != 1 or not isinstance(jobs[0], dict):
        raise reader.error("its JSON has not exactly one job")
    job: Mapping[str, Any] = jobs[0]
    error = reader.json_number(job.get("error"), "the job's error")
    if error:
        words = f" ({os.strerror(int(error))})" if error < 200 else ""
        raise reader.error(f"the job ended with error {error:g}{words}")
    found = {name: _transfer(reader, job, name) for name in directions}
    return FioResult(found.get("read"), found.get("write"))


def _document(reader: Reader) -> Mapping[str, Any]:
    """The JSON document; notes of fio around it are passed over, within it they break it."""
    start = reader.need(r'^\{\s*"fio version"', "JSON of fio").start()
    text = reader.text[start:]
    try:
        _, end = json.JSONDecoder().raw_decode(text)
    except (ValueError, RecursionError) as error:
        raise reader.error(f"its JSON cannot be read: {error or 'too deep'}") from None
    # Until 3.1 the unused places of the list of percentiles are printed too, all as "0.00" (json.c, stat.c).
    text = re.sub(r',\s*"0\.00" : 0(?=\s*[,}])', "", text[:end])
    return reader.json_document(_OPTIONS.sub(r"\1{}", text))


def _transfer(reader: Reader, job: Mapping[str, Any], name: Direction) -> Transfer:
    part = _object(reader, job, name, "job")

    def number(key: str, *, positive: bool = False) -> float:
        return reader.json_number(part.get(key), f"{name} {key}", positive=positive)

    counted = "total_ios" in part
    blocks = number("total_ios" if counted else "io_bytes")
    if not blocks:
        raise reader.error(f"the job's {name} moved no block after its ramp")
    bandwidth = number("bw_bytes", positive=True) / 1024 if "bw_bytes" in part else number("bw")
    return Transfer(
        iops=Quantity(number("iops", positive=True), "operation/s", better="higher"),
        bandwidth=Quantity(
            reader.checked(bandwidth, f"{name} bw", positive=True), "KiB/s", better="higher"
        ),
        latency=_latency(reader, part, name),
        blocks=int(blocks) if counted else None,
    )


def _latency(reader: Reader, part: Mapping[str, Any], name: str) -> Latency:
    ending, factor = ("_ns", 1e-3) if "lat_ns" in part else ("", 1.0)
    whole = _object(reader, part, f"lat{ending}", name)
    completion = _object(reader, part, f"clat{ending}", name)
    percentiles = _object(reader, completion, "percentile", f"{name} clat{ending}")

    def time(value: object, what: str, *, positive: bool = False) -> Quantity:
        number = reader.json_number(value, f"{name} {what}", positive=positive)
        return Quantity(number * factor, "us", better="lower")

    # It is 0 where fio was told not to measure it (disable_lat). A percentile of fio 2 may be: it is in whole µs.
    mean = time(whole.get("mean"), "mean latency", positive=True)
    p50, p95, p99, p99_9 = (
        time(percentiles.get(f"{float(each):.6f}"), f"percentile {each}", positive=factor < 1)
        for each in PERCENTILES
    )
    if not p50.value <= p95.value <= p99.value <= p99_9.value:
        raise reader.error(f"the percentiles of its {name} latency fall")
    return Latency(mean, p50, p95, p99, p99_9)


def _object(reader: Reader, parent: Mapping[str, Any], key: str, of: str) -> Mapping[str, Any]:
    found = parent.get(key)
    if not isinstance(found, dict):
        raise reader.error(f"there is no {key!r} in its {of}")
    return found
