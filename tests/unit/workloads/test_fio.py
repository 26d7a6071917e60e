"""fio's job: what it refuses, what each version is told, and what its fixture makes of a test's words."""

from __future__ import annotations

import json
from typing import Any

import pytest
from passing_time import Clock

from pytest_vperf.quantity import Quantity
from pytest_vperf.workloads import fio
from pytest_vperf.workloads.base import Output, ParseError, Unsupported
from pytest_vperf.workloads.fio import Fio, FioJob


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({}, "give one of filename and directory"),
        ({"filename": "/f", "directory": "/d"}, "give one of filename and directory"),
        ({"directory": "/d"}, "a file in a directory needs a size"),
        ({"filename": "/f", "rw": "trim"}, "rw is 'trim', not one of read, write, randread"),
        ({"filename": "/f", "block_size": 0}, "block_size is 0, not a whole number"),
        ({"filename": "/f", "iodepth": True}, "iodepth is True, not a whole number"),
        ({"filename": "/f", "jobs": 1.5}, "jobs is 1.5, not a whole number"),
        ({"filename": "/f", "size": 512}, r"size is 512, less than a block \(4096\)"),
        ({"filename": "/f", "runtime": 0}, "runtime is 0, not between"),
        ({"filename": "/f", "ramp_time": -1}, "ramp_time is -1, not between"),
        ({"filename": "/f", "engine": "a=b"}, "engine is 'a=b', not the name"),
    ],
)
def test_an_invalid_job_is_refused(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        FioJob(**parameters)


def test_unsupported_versions_are_refused() -> None:
    with pytest.raises(Unsupported, match=r"fio before 2\.1 does not print JSON"):
        FioJob(filename="/f").argv("1.59")
    with pytest.raises(Unsupported, match=r"fio before 3\.0 takes whole seconds, not 0\.5"):
        FioJob(filename="/f", ramp_time=0.5).argv("2.21")
    assert "--ramp_time=500ms" in FioJob(filename="/f", ramp_time=0.5).argv("3.33")


def test_a_colon_in_a_path_does_not_make_two_files() -> None:
    assert "--filename=/a\\:b" in FioJob(filename="/a:b").argv("3.33")


def test_the_version_is_read() -> None:
    assert FioJob.version_of(Output("fio-3.33\n")) == "3.33"
    assert FioJob.version_of(Output("fio-2.1.11-dirty\n")) == "2.1.11-dirty"


class Recorder:
    """In place of a bench: keeps the workload."""

    def run(self, target: Any, workload: Any) -> Any:
        self.workload = workload
        raise KeyError


class SomeDisk:
    formatted = True

    def where(self, target: object) -> str:
        return f"/disk of {target}"


def asked(disk: Any, **parameters: Any) -> FioJob:
    bench: Any = Recorder()
    with pytest.raises(KeyError):
        Fio(bench).randwrite("t", disk, **parameters)  # type: ignore[arg-type]
    workload: FioJob = bench.workload
    return workload


def test_parameters_become_the_job() -> None:
    job = asked("/dev/sdb", block_size="128 KiB", runtime="1500 ms")
    assert (job.filename, job.size, job.block_size, job.runtime) == ("/dev/sdb", None, 131072, 1.5)
    assert (job.rw, job.directions) == ("randwrite", ("write",))
    job = asked(SomeDisk(), size="1 MiB")
    assert (job.directory, job.filename, job.size) == ("/disk of t", "", 1 << 20)
    assert asked("/mnt/").directory == "/mnt/"
    with pytest.raises(ValueError, match=r"block_size is '0\.3 byte'"):
        Fio(Recorder()).read("t", "/f", block_size="0.3 byte")  # type: ignore[arg-type]


def test_blocks_in_flight_as_the_ramp_ended_may_count_in_the_bandwidth_alone() -> None:
    # Seen of fio 3.33 under a cap of 1200 iops, with 32 blocks in flight: 31 blocks' bytes more.
    latency = {"mean": 26_600_000, "percentile": dict.fromkeys(_LISTED, 26_000_000)}
    read = {
        "io_bytes": 5_041_216,
        "bw_bytes": 5_041_233,
        "iops": 1199.8,
        "runtime": 1000,
        "total_ios": 1200,
        "lat_ns": latency,
        "clat_ns": latency,
    }
    document = json.dumps({"fio version": "fio-3.33", "jobs": [{"error": 0, "read": read}]})
    output = Output(document, version="3.33")
    found = FioJob(filename="/f", iodepth=32, runtime=1).parse(output)
    assert found.read is not None
    assert found.read.iops.value == 1199.8
    with pytest.raises(ParseError, match=r"1199\.8 iops of 4096 bytes are not 4923\.08 KiB/s read"):
        FioJob(filename="/f", iodepth=1, runtime=1).parse(output)


#: The percentiles that a job asks for, as fio prints their names.
_LISTED = ("50.000000", "95.000000", "99.000000", "99.900000")


@pytest.mark.parametrize(
    ("figures", "taken", "last"),
    [
        # Steady from the start: for as long as a throttle may take to act.
        ([100.0], 4, 100.0),
        # It acts after nine seconds, and a sample that is lower begins the count again.
        ([900.0, 900.0, 900.0, 100.0, 99.0, 98.0], 6, 98.0),
        # Samples that go up and down within 5 % have settled.
        ([100.0, 97.0, 102.0, 98.0], 4, 98.0),
        # It falls for longer than anybody waits.
        ([1000.0 * 0.9**each for each in range(40)], 20, 1000.0 * 0.9**19),
    ],
)
def test_a_throttle_that_is_slow_to_act_is_waited_out(
    monkeypatch: pytest.MonkeyPatch, figures: list[float], taken: int, last: float
) -> None:
    clock = Clock()
    monkeypatch.setattr(fio, "time", clock)
    asked: list[float] = []

    def sample() -> Quantity:
        clock.sleep(3)
        asked.append(figures[min(len(asked), len(figures) - 1)])
        return Quantity(asked[-1], "KiB/s", direction="higher")

    assert Fio.settle(sample).value == last
    assert len(asked) == taken
