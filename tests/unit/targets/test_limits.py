"""Limits: each setting in control groups of both versions, and that a different value is never ignored."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_vperf.targets.base import CannotStart, Unavailable, Usage
from pytest_vperf.targets.container.limits import confined, host_config, read_back, usage
from pytest_vperf.targets.limits import DiskCaps, Limits, bytes_of, check, cpus_of, weights

if TYPE_CHECKING:
    from pathlib import Path

CAPS = DiskCaps("/dev/loop3", "7:3", read_iops=1200, write_bytes=19_200_000)
ALL = Limits(cpus=0.5, cpuset="0,1", cpu_shares=512, memory=209_715_200, disks=(CAPS,))


def written(limits: Limits, version: int) -> dict[str, str]:
    return {
        setting.file: setting.value
        for controller in limits.controllers
        for setting in limits.settings(controller, version)
        if setting.written
    }


def test_the_files_of_version_1() -> None:
    assert written(ALL, 1) == {
        "cpu.cfs_period_us": "100000",
        "cpu.cfs_quota_us": "50000",
        "cpu.shares": "512",
        "cpuset.cpus": "0,1",
        "memory.limit_in_bytes": "209715200",
        "memory.memsw.limit_in_bytes": "209715200",
        "blkio.throttle.read_iops_device": "7:3 1200",
        "blkio.throttle.write_bps_device": "7:3 19200000",
    }


def test_the_files_of_version_2() -> None:
    assert written(ALL, 2) == {
        "cpu.max": "50000 100000",
        "cpu.weight": "50",
        "cpuset.cpus": "0,1",
        "memory.max": "209715200",
        "memory.swap.max": "0",
        "io.max": "7:3 wbps=19200000",  # the last line of two
    }


def test_the_arguments_of_an_engine() -> None:
    assert host_config(ALL) == {
        "cpu_period": 100_000,
        "cpu_quota": 50_000,
        "cpuset_cpus": "0,1",
        "cpu_shares": 512,
        "mem_limit": 209_715_200,
        "memswap_limit": 209_715_200,
        "device_read_iops": [{"Path": "/dev/loop3", "Rate": 1200}],
        "device_write_bps": [{"Path": "/dev/loop3", "Rate": 19_200_000}],
    }
    assert host_config(Limits()) == {}
    assert host_config(Limits(pids=9000)) == {"pids_limit": 9000}


def test_every_container_is_confined() -> None:
    """No privileges from files, a limit on processes, and a limit on the log."""
    assert confined(Limits()) == {
        "security_opt": ["no-new-privileges"],
        "pids_limit": 4096,
        "log_config": {"Type": "json-file", "Config": {"max-size": "1m", "max-file": "2"}},
    }
    assert confined(Limits(pids=9000))["pids_limit"] == 9000
    assert Limits(pids=9000).controllers == ("pids",)


def test_only_what_is_asked_for_needs_a_controller() -> None:
    assert Limits().controllers == ()
    assert not Limits()
    assert Limits(memory=1 << 20).controllers == ("memory",)
    assert Limits(disks=(DiskCaps("/dev/loop3", "7:3"),)).controllers == ()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"cpus": 0.0}, r"cpus is 0\.0: the smallest quota is 0\.01 CPUs"),
        ({"cpus": float("nan")}, "cpus is nan"),
        ({"cpuset": "0-"}, "cpuset is '0-': not a list of CPUs such as 0-2,4"),
        ({"cpuset": ""}, "cpuset is ''"),
        ({"cpuset": "3-1"}, "cpuset is '3-1'"),
        ({"cpuset": "0,3-1"}, "cpuset is '0,3-1'"),
        ({"cpuset": "0-99999999999"}, "cpuset is '0-99999999999'"),
        ({"cpu_shares": 1}, "cpu_shares is 1, not between 2 and 262144"),
        ({"memory": 100}, "memory is 100 bytes, less than a page"),
        ({"pids": 0}, "pids is 0: a container has at least one process"),
    ],
)
def test_invalid_limits_are_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(CannotStart, match=message):
        Limits(**given)


def lay_out(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (folder / name).write_text(f"{text}\n")


def test_limits_are_returned_as_read_back(tmp_path: Path) -> None:
    lay_out(tmp_path, {"cpuset.cpus": "0-1"})
    assert check(ALL.settings("cpuset", 1), tmp_path, "host") == {"cpuset": "0-1"}
    lines = "7:0 5\n7:3 1200"
    lay_out(
        tmp_path,
        {
            "blkio.throttle.read_iops_device": lines,
            "blkio.throttle.write_bps_device": "7:3 19200000",
        },
    )
    assert check(ALL.settings("io", 1), tmp_path, "host") == {
        "disk_read_iops": "7:3 1200",
        "disk_write_bytes": "7:3 19200000",
    }
    lay_out(tmp_path, {"io.max": "7:3 rbps=max wbps=19200000 riops=1200 wiops=max"})
    assert set(check(ALL.settings("io", 2), tmp_path, "host")) == {
        "disk_read_iops",
        "disk_write_bytes",
    }


@pytest.mark.parametrize(
    ("files", "message"),
    [
        (
            {"cpu.cfs_period_us": "100000", "cpu.cfs_quota_us": "-1", "cpu.shares": "512"},
            "pod tcg: asked for cpu_quota '50000', the system has '-1' in .*/cpu.cfs_quota_us",
        ),
        (
            {"cpu.cfs_period_us": "100000", "cpu.cfs_quota_us": "50000"},
            "asked for cpu_shares '512', the system has 'nothing: No such file or directory'",
        ),
    ],
)
def test_another_value_is_an_error_with_both(
    tmp_path: Path, files: dict[str, str], message: str
) -> None:
    lay_out(tmp_path, files)
    with pytest.raises(CannotStart, match=message) as caught:
        check(ALL.settings("cpu", 1), tmp_path, "pod tcg")
    assert caught.value.target == "pod tcg"


@pytest.mark.parametrize(
    ("files", "message"),
    [
        # A runtime that did not set it, under version 2; and a missing file.
        ({"cpuset.cpus": ""}, "asked for cpuset '0,1', the system has '' in "),
        ({}, "asked for cpuset '0,1', the system has 'nothing: No such file or directory' in "),
        # Version 2 keeps the written value, and uses other CPUs where none of these exist.
        (
            {"cpuset.cpus": "0-1", "cpuset.cpus.effective": "0"},
            "asked for cpuset_in_force '0,1', the system has '0' in .*/cpuset.cpus.effective",
        ),
    ],
)
def test_pinning_that_is_not_in_force_is_an_error(
    tmp_path: Path, files: dict[str, str], message: str
) -> None:
    lay_out(tmp_path, files)
    with pytest.raises(CannotStart, match=message):
        check(ALL.settings("cpuset", 2), tmp_path, "container runc")


def test_an_engine_and_our_group_get_the_same_quota() -> None:
    two_thirds = Limits(cpus=2 / 3)
    assert host_config(two_thirds) == {"cpu_period": 100_000, "cpu_quota": 66_667}
    assert written(two_thirds, 2) == {"cpu.max": "66667 100000"}


def test_a_cap_on_another_disk_does_not_count(tmp_path: Path) -> None:
    lay_out(tmp_path, {"blkio.throttle.read_iops_device": "7:0 1200"})
    with pytest.raises(CannotStart, match="asked for disk_read_iops '7:3 1200', the system has"):
        check(ALL.settings("io", 1), tmp_path, "host")


def test_swap_need_not_be_accounted_for(tmp_path: Path) -> None:
    lay_out(tmp_path, {"memory.limit_in_bytes": "209715200"})
    assert check(ALL.settings("memory", 1), tmp_path, "host") == {"memory": "209715200"}


def test_memory_is_rounded_down_to_pages(tmp_path: Path) -> None:
    lay_out(tmp_path, {"memory.limit_in_bytes": "8192"})
    assert check(Limits(memory=9000).settings("memory", 1), tmp_path, "host") == {"memory": "8192"}


def test_a_process_that_is_in_no_group_of_the_container_is_not_limited() -> None:
    import os

    with pytest.raises(Unavailable, match="asked for cpu_shares, but it cannot be read back") as no:
        read_back(Limits(cpu_shares=512), os.getpid(), "0123456789abcdef", "container runsc")
    assert no.value.target == "container runsc"
    assert read_back(Limits(), os.getpid(), "0123456789abcdef", "container runsc") == {}


MOUNTS_1 = """\
30 25 0:26 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct
31 25 0:27 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory
"""
MOUNTS_2 = "30 25 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"
GROUP = "vperf-run/0123456789abcdef"


@pytest.mark.parametrize(
    "files",
    [
        {
            "/proc/self/mountinfo": MOUNTS_1,
            "/proc/42/cgroup": f"2:cpu,cpuacct:/{GROUP}\n1:memory:/{GROUP}\n0::/\n",
            f"/sys/fs/cgroup/cpu,cpuacct/{GROUP}/cpuacct.usage": "2500000000\n",
            f"/sys/fs/cgroup/memory/{GROUP}/memory.usage_in_bytes": "5000\n",
            f"/sys/fs/cgroup/memory/{GROUP}/memory.stat": "cache 9\ntotal_inactive_file 1000\n",
        },
        {
            "/proc/self/mountinfo": MOUNTS_2,
            "/proc/42/cgroup": f"0::/{GROUP}\n",
            f"/sys/fs/cgroup/{GROUP}/cpu.stat": "usage_usec 2500000\nuser_usec 1\n",
            f"/sys/fs/cgroup/{GROUP}/memory.current": "5000\n",
            f"/sys/fs/cgroup/{GROUP}/memory.stat": "anon 9\ninactive_file 1000\n",
        },
    ],
    ids=["version 1", "version 2"],
)
def test_usage_is_read_from_the_containers_own_groups(files: dict[str, str]) -> None:
    def read(path: Path) -> str:
        try:
            return files[str(path)]
        except KeyError:
            raise FileNotFoundError(path) from None

    engine: Any = SimpleNamespace(read=read, machine=None)  # which is not asked
    found = usage(engine, "0123456789abcdef", 42, "container runc")
    assert found == Usage(cpu_time=2.5, memory=4000)


@given(st.integers(2, 262_144))
def test_weights_of_version_2_are_within_their_range(shares: int) -> None:
    assert all(1 <= weight <= 10_000 for weight in weights(shares))


def test_the_weights_of_the_default_shares() -> None:
    assert weights(1024) == [100, 39, 100]


@given(st.sets(st.integers(0, 200), min_size=1))
def test_a_list_of_cpus_is_read_as_written(cpus: set[int]) -> None:
    assert cpus_of(",".join(map(str, sorted(cpus)))) == cpus
    assert cpus_of(f"0-{max(cpus)}") == set(range(max(cpus) + 1))


def test_sizes_in_bytes() -> None:
    assert bytes_of("200 MiB") == bytes_of(209_715_200) == 209_715_200
    assert bytes_of(None) is None
