"""The settings of a machine as text, and which of them count as noise."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from pytest_vperf.machine.noise_settings import settings
from pytest_vperf.machine.noise_warnings import look, warnings

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from pytest_vperf.machine.noise import NoiseEvidence

    Put = Callable[[Mapping[str, str | None]], Path]

CPU = "sys/devices/system/cpu"
THP = "sys/kernel/mm/transparent_hugepage"


def quieten(put: Put) -> None:
    """Make the test machine quiet."""
    put(
        {
            "proc/swaps": "Filename Type Size Used Priority\n",
            "proc/sys/kernel/numa_balancing": "0\n",
            f"{CPU}/intel_pstate/no_turbo": "1\n",
            f"{CPU}/smt/control": "off\n",
            f"{CPU}/cpufreq/policy0/scaling_governor": "performance\n",
            f"{CPU}/cpufreq/policy1/scaling_governor": "performance\n",
            f"{THP}/enabled": "always [madvise] never\n",
            "proc/stat": "cpu  1000 0 500 8000 100 0 0 0 0 0\ncpu0 0\ncpu1 0\n",
        }
    )


def test_every_setting_is_read(root: Path) -> None:
    assert settings(root) == {
        "governor": "powersave",
        "frequency_driver": "intel_pstate",
        "turbo": "on",
        "smt": "on",
        "thp": "always",
        "thp_defrag": "always",
        "aslr": "2",
        "numa_balancing": "1",
        "numa_nodes": "0-1",
        "swappiness": "60",
        "swap": "2.0 MiB of 2048 MiB in use",
        "isolated_cpus": "none",
        "clocksource": "tsc",
    }


def test_missing_settings_are_unknown_with_the_reason(tmp_path: Path) -> None:
    found = settings(tmp_path)
    assert found["thp"] == f"unknown: there is no {tmp_path}/{THP}/enabled"
    assert (
        found["governor"] == f"unknown: there are no frequency policies in {tmp_path}/{CPU}/cpufreq"
    )
    assert found["turbo"] == f"unknown: no frequency driver in {tmp_path}/{CPU} has a switch for it"
    assert all(value.startswith("unknown: ") for value in found.values())
    assert warnings(found, root=tmp_path) == []


def test_differing_processors_are_listed(root: Path, put: Put) -> None:
    put({f"{CPU}/cpufreq/policy{n}/scaling_governor": "performance\n" for n in (0, 1, 3, 12)})
    put({f"{CPU}/cpufreq/policy2/scaling_governor": "schedutil\n"})
    assert settings(root)["governor"] == "performance (policy 0-1 3 12), schedutil (policy 2)"


@pytest.mark.parametrize(
    ("name", "text", "value"), [("boost", "1\n", "on"), ("boost", "0\n", "off")]
)
def test_turbo_is_read_from_other_drivers(
    root: Path, put: Put, name: str, text: str, value: str
) -> None:
    put({f"{CPU}/intel_pstate/no_turbo": None, f"{CPU}/cpufreq/{name}": text})
    assert settings(root)["turbo"] == value


@pytest.mark.parametrize(
    ("name", "key", "text", "value"),
    [
        (f"{THP}/enabled", "thp", "always\n", "unknown: no single choice is marked in 'always'"),
        (f"{THP}/enabled", "thp", "[a] [b]", "unknown: no single choice is marked in '[a] [b]'"),
        (
            "proc/sys/vm/swappiness",
            "swappiness",
            "a lot",
            "unknown: {} holds no number but 'a lot'",
        ),
        ("proc/sys/vm/swappiness", "swappiness", "", "unknown: {} holds no number but ''"),
        ("proc/swaps", "swap", "x\ny z\n", "unknown: {} is not understood"),
        (f"{CPU}/intel_pstate/no_turbo", "turbo", "7", "unknown: {} holds neither 0 nor 1 but 7"),
        (f"{CPU}/isolated", "isolated_cpus", "\x1b[31m\n2", "\\x1b[31m 2"),
        (f"{CPU}/isolated", "isolated_cpus", "x" * 5000, "x" * 119 + "…"),
    ],
)
def test_invalid_contents_are_unknown(
    root: Path, put: Put, name: str, key: str, text: str, value: str
) -> None:
    put({name: text})
    assert settings(root)[key] == value.format(root / name)


def test_an_unreadable_file_is_unknown_with_the_reason(root: Path) -> None:
    path = root / THP / "enabled"
    path.unlink()
    path.mkdir()  # root may read everything but this
    assert settings(root)["thp"] == f"unknown: {path}: {os.strerror(21)}"


def test_a_quiet_machine_has_no_warnings(root: Path, put: Put) -> None:
    quieten(put)
    assert look(root) == []


def test_every_noisy_setting_is_shown_with_its_command(root: Path) -> None:
    found = {each.name: each for each in warnings(settings(root), root=root)}
    thp, policies = root / THP, root / CPU / "cpufreq/policy*"
    assert {name: each.remedy for name, each in found.items()} == {
        "turbo": f"echo 1 > {root / CPU}/intel_pstate/no_turbo",
        "CPU governor": f"echo performance | tee {policies}/scaling_governor",
        "transparent huge pages": f"echo madvise > {thp}/enabled",
        "defragmentation for huge pages": f"echo madvise > {thp}/defrag",
        "NUMA balancing": f"echo 0 > {root}/proc/sys/kernel/numa_balancing",
        "swap in use": f"echo 1 > {root}/proc/sys/vm/swappiness",
        "SMT": f"echo off > {root / CPU}/smt/control",
    }
    assert str(found["CPU governor"]) == (
        "CPU governor powersave: the clock rate follows the load, with a delay; "
        f"echo performance | tee {policies}/scaling_governor"
    )


def test_only_the_processors_that_need_it_are_named(root: Path, put: Put) -> None:
    quieten(put)
    put({f"{CPU}/cpufreq/policy1/scaling_governor": "powersave\n"})
    (found,) = look(root)
    path = root / CPU / "cpufreq/policy1/scaling_governor"
    assert found.short == "CPU governor performance (policy 0), powersave (policy 1)"
    assert found.remedy == f"echo performance > {path}"


def test_a_missing_governor_is_not_proposed(root: Path, put: Put) -> None:
    quieten(put)
    put(
        {
            f"{CPU}/cpufreq/policy1/scaling_governor": "ondemand\n",
            f"{CPU}/cpufreq/policy1/scaling_available_governors": "ondemand\n",
        }
    )
    (found,) = look(root)
    assert (found.remedy, found.by_command) == ("cannot be changed here", False)


def test_numa_balancing_on_one_node_is_no_noise(root: Path, put: Put) -> None:
    quieten(put)
    put({"proc/sys/kernel/numa_balancing": "1\n", "sys/devices/system/node/online": "0\n"})
    assert look(root) == []


@pytest.mark.parametrize(
    ("offered", "remedy"),
    [
        ("tsc hpet", "echo tsc > {}, unless `dmesg` calls it unstable"),
        ("hpet", "cannot be changed here"),
    ],
)
def test_a_slow_clock_source_is_a_warning(root: Path, put: Put, offered: str, remedy: str) -> None:
    quieten(put)
    clock = "sys/devices/system/clocksource/clocksource0"
    put({f"{clock}/current_clocksource": "hpet\n", f"{clock}/available_clocksource": offered})
    (found,) = look(root)
    assert found.short == "clock source hpet"
    assert found.remedy == remedy.format(root / clock / "current_clocksource")


@pytest.mark.parametrize(
    ("evidence", "said"),
    [
        ({"steal": 0.0099}, None),
        ({"steal": 0.09}, "steal 9 % of CPU time since boot"),
        ({"steal": 0.0123, "window_s": 2.0}, "steal 1.2 % of CPU time"),
        ({"pressure": {"cpu": {"some": 0.09}}}, None),
        ({"pressure": {"cpu": {"some": 0.5}}}, "cpu pressure 50 % in the last 10 s"),
        ({"pressure": {"io": {"some": 1.0}}, "window_s": 2.0}, "io pressure 100 %"),
        ({"pressure": {"memory": {"some": 0.02}}}, "memory pressure 2 % in the last 10 s"),
        ({"load": [1.0, 9.0, 9.0], "cpus": 2}, None),
        ({"load": [1.2, 0.0, 0.0], "cpus": 2}, "load 1.2 on 2 processors"),
        ({"load": [99.0, 0.0, 0.0]}, None),
        ({"throttled": {"core": 0, "package": 0}}, None),
        ({"throttled": {"core": 3, "package": 1}}, "thermal throttling 4 times"),
    ],
)
def test_disturbances_are_warnings(
    root: Path, put: Put, evidence: NoiseEvidence, said: str | None
) -> None:
    quieten(put)
    found = warnings(settings(root), evidence, root)
    assert [each.short for each in found] == ([] if said is None else [said])


def test_steal_can_only_be_remedied_on_the_host(root: Path, put: Put) -> None:
    quieten(put)
    put({"proc/cpuinfo": "processor\t: 0\nflags\t\t: fpu hypervisor\n\n"})
    (found,) = warnings(settings(root), {"steal": 0.5}, root)
    assert found.remedy == (
        "cannot be changed from inside this virtual machine; its host must have a processor for "
        "each of this machine's"
    )
