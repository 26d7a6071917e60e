"""Disturbances of a window: from invented counters, from this machine, and from invalid files."""

from __future__ import annotations

import json
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_vperf.machine.noise import CPUS_LOOKED_AT, Snapshot, evidence, recent, snapshot

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Put = Callable[[Mapping[str, str | None]], Path]


CPU = "sys/devices/system/cpu"


def test_a_window_is_the_difference_of_the_counters(root: Path, put: Put) -> None:
    put(
        {
            f"{CPU}/cpu{n}/thermal_throttle/{kind}_throttle_count": "5\n"
            for n in (0, 1)
            for kind in ("core", "package")
        }
    )
    before = snapshot(root)
    put(
        {
            # 200 ticks more: 20 of them stolen, 10 waiting for disks
            "proc/stat": "cpu  1100 0 530 8040 110 0 0 420 0 0\ncpu0 0\ncpu1 0\n",
            "proc/loadavg": "1.50 0.70 0.30 3/90 17300\n",
            "proc/pressure/cpu": "some avg10=9.00 avg60=0.00 avg300=0.00 total=1500000\n"
            "full avg10=0.00 avg60=0.00 avg300=0.00 total=400000\n",
            "proc/pressure/io": "some avg10=9.00 avg60=0.00 avg300=0.00 total=3000000\n"
            "full avg10=0.00 avg60=0.00 avg300=0.00 total=1000000\n",
            f"{CPU}/cpufreq/policy1/scaling_cur_freq": "3400000\n",
            f"{CPU}/cpu0/thermal_throttle/core_throttle_count": "7\n",
            f"{CPU}/cpu1/thermal_throttle/core_throttle_count": "6\n",
            f"{CPU}/cpu0/thermal_throttle/package_throttle_count": "9\n",
            f"{CPU}/cpu1/thermal_throttle/package_throttle_count": "9\n",
        }
    )
    after = replace(snapshot(root), at=before.at + 10)
    assert evidence(before, after) == {
        "window_s": 10.0,
        "pressure": {
            "cpu": {"some": 0.05},  # the kernel knows no "full" for the processors of a machine
            "io": {"some": 0.2, "full": 0.1},
            "memory": {"some": 0.0, "full": 0.0},
        },
        "steal": 0.1,
        "iowait": 0.05,
        "load": [1.5, 0.7, 0.3],
        "runnable": 3,
        "cpus": 2,
        "frequency_mhz": {"min": 800.0, "max": 3400.0, "mean": 1550.0, "source": "cpufreq"},
        "throttled": {"core": 3, "package": 4},
    }


def test_missing_readings_are_left_out(tmp_path: Path) -> None:
    before = snapshot(tmp_path)
    found = evidence(before, replace(before, at=before.at + 1))
    assert found == {"window_s": 1.0}
    assert recent(tmp_path) == {}


def test_without_frequency_policies_the_rate_is_that_of_cpuinfo(root: Path, put: Put) -> None:
    for number in (0, 1):
        put({f"{CPU}/cpufreq/policy{number}/scaling_cur_freq": None})
    frequency = recent(root)["frequency_mhz"]
    assert frequency == {"min": 3400.021, "max": 3400.021, "mean": 3400.021, "source": "cpuinfo"}


def test_without_a_window_noise_is_counted_since_boot(root: Path, put: Put) -> None:
    put({"proc/pressure/io": "some avg10=12.50 avg60=0.00 avg300=0.00 total=7\n"})
    found = recent(root)
    assert "window_s" not in found
    assert found["steal"] == 0.04
    assert found["pressure"] == {
        "cpu": {"some": 0.0},
        "io": {"some": 0.125},
        "memory": {"some": 0.0, "full": 0.005},
    }


def test_a_counter_that_went_back_is_left_out(root: Path, put: Put) -> None:
    before = snapshot(root)
    put(
        {
            "proc/stat": "cpu  2000 0 500 8000 90 0 0 400 0 0\n",
            "proc/pressure/memory": "some avg10=0.00 avg60=0.00 avg300=0.00 total=5\n",
        }
    )
    found = evidence(before, replace(snapshot(root), at=before.at + 1))
    assert "iowait" not in found
    assert found["steal"] == 0.0
    assert "memory" not in found["pressure"]


def test_a_window_without_length_has_no_shares(root: Path) -> None:
    now = snapshot(root)
    found = evidence(now, now)
    assert found["window_s"] == 0.0
    assert found.keys().isdisjoint({"pressure", "steal", "iowait"})


def test_only_some_processors_of_a_large_machine_are_read(root: Path, put: Put) -> None:
    put({f"{CPU}/cpufreq/policy{n}/scaling_cur_freq": f"{n + 1}000\n" for n in range(250)})
    now = snapshot(root)
    assert 8 <= len(now.mhz) <= CPUS_LOOKED_AT
    assert now.mhz[0] == 1.0
    assert now.mhz[-1] > 230  # spread over all of them


def test_noise_of_this_machine_is_read() -> None:
    found = evidence(snapshot(), snapshot())
    assert found["cpus"] >= 1
    assert len(found["load"]) == 3
    assert json.loads(json.dumps(found, allow_nan=False)) == found


NAMES = ["proc/stat", "proc/loadavg", "proc/cpuinfo", "proc/pressure/cpu", "proc/pressure/io"]
LINES = st.sampled_from(
    [b"cpu ", b"cpu0", b"some", b"full", b" avg10=", b" total=", b"cpu MHz\t: ", b"\n", b" ", b"/"]
)
NUMBERS = st.sampled_from([b"1", b"-1", b"1e999", b"nan", b"0.5", b"9" * 30, "٣".encode(), b"\xff"])
CONTENTS = st.lists(st.one_of(LINES, NUMBERS, st.binary(max_size=4)), max_size=30).map(b"".join)


@settings(max_examples=examples(60))
@given(st.dictionaries(st.sampled_from(NAMES), st.tuples(CONTENTS, CONTENTS)))
def test_invalid_readings_are_left_out(contents: dict[str, tuple[bytes, bytes]]) -> None:
    seen: list[Snapshot] = []
    with tempfile.TemporaryDirectory() as folder:
        for moment in (0, 1):
            for name, texts in contents.items():
                path = Path(folder, name)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(texts[moment])
            seen.append(snapshot(Path(folder)))
        first = recent(Path(folder))
    for found in (first, evidence(seen[0], replace(seen[1], at=seen[0].at + 1))):
        json.dumps(found, allow_nan=False)
        shares = [share for each in found.get("pressure", {}).values() for share in each.values()]
        assert all(0 <= share <= 1 for share in shares)
