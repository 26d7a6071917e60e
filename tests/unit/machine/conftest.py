"""A folder with kernel files, for tests that read or change a machine other than this one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

CPU = "sys/devices/system/cpu"
THP = "sys/kernel/mm/transparent_hugepage"

STAT = """\
cpu  1000 0 500 8000 100 0 0 400 0 0
cpu0 500 0 250 4000 50 0 0 200 0 0
cpu1 500 0 250 4000 50 0 0 200 0 0
intr 12 0
ctxt 100
"""
PRESSURE = """\
some avg10=0.00 avg60=0.00 avg300=0.00 total=1000000
full avg10=0.50 avg60=0.00 avg300=0.00 total=0
"""


def bare_metal() -> dict[str, str | None]:
    """A machine with two frequency policies and everything that adds noise."""
    files: dict[str, str | None] = {
        "proc/stat": STAT,
        "proc/loadavg": "0.10 0.20 0.30 1/87 17290\n",
        "proc/cpuinfo": "processor\t: 0\nflags\t\t: fpu vme\ncpu MHz\t\t: 3400.021\n\n",
        "proc/swaps": "Filename Type Size Used Priority\n/dev/sda2 partition 2097148 2048 -2\n",
        "proc/sys/kernel/randomize_va_space": "2\n",
        "proc/sys/kernel/numa_balancing": "1\n",
        "proc/sys/kernel/random/boot_id": "11111111-2222-3333-4444-555555555555\n",
        "proc/sys/vm/swappiness": "60\n",
        "sys/devices/system/node/online": "0-1\n",
        "sys/devices/system/clocksource/clocksource0/current_clocksource": "tsc\n",
        "sys/devices/system/clocksource/clocksource0/available_clocksource": "tsc hpet \n",
        f"{CPU}/isolated": "\n",
        f"{CPU}/intel_pstate/no_turbo": "0\n",
        f"{CPU}/smt/control": "on\n",
        f"{CPU}/smt/active": "1\n",
        f"{CPU}/cpu1/online": "1\n",
        f"{THP}/enabled": "[always] madvise never\n",
        f"{THP}/defrag": "[always] defer defer+madvise madvise never\n",
    }
    for resource in ("cpu", "io", "memory"):
        files[f"proc/pressure/{resource}"] = PRESSURE
    for number in (0, 1):
        policy = f"{CPU}/cpufreq/policy{number}"
        files |= {
            f"{policy}/scaling_governor": "powersave\n",
            f"{policy}/scaling_available_governors": "performance powersave\n",
            f"{policy}/scaling_driver": "intel_pstate\n",
            f"{policy}/scaling_cur_freq": f"{800_000 + number * 400_000}\n",
            f"{policy}/scaling_min_freq": "800000\n",
            f"{policy}/scaling_max_freq": "3800000\n",
            f"{policy}/energy_performance_preference": "balance_performance\n",
        }
    return files


def make(root: Path, files: Mapping[str, str | None]) -> Path:
    """Write files below a folder; ``None`` removes one."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if text is None:
            path.unlink()
        else:
            path.write_text(text)
    return root


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A noisy machine: Intel, two processors, bare metal."""
    folder = tmp_path / "root"
    return make(folder, bare_metal())


@pytest.fixture
def put(root: Path) -> Callable[[Mapping[str, str | None]], Path]:
    """Changes files of the noisy machine."""
    return lambda files: make(root, files)
