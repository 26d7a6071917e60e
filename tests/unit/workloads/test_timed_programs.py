"""Programs that run for a time as a test asks for them: what is refused, and with which words."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from pytest_vperf.workloads.dhrystone import Dhrystone, VperfDhrystone
from pytest_vperf.workloads.system import Switches, Syscalls, VperfSwitches, VperfSyscalls
from pytest_vperf.workloads.whetstone import VperfWhetstone, Whetstone

#: Refused before anything is run: neither a bench nor a target is needed.
NOTHING: Any = SimpleNamespace(run=None)


@pytest.mark.parametrize("work", [VperfDhrystone, VperfWhetstone, VperfSyscalls, VperfSwitches])
def test_a_warm_up_is_an_argument_only_where_there_is_one(work: Any) -> None:
    assert work(0.5).argv("1.1") == ("--seconds=0.5",)
    assert work(0.5, warmup=0.1).argv("1.1") == ("--seconds=0.5", "--warmup=0.1")


@pytest.mark.parametrize(
    ("tool", "parameters", "message"),
    [
        (Dhrystone, {"time": 0.001}, "time is 0.001, not a number of seconds from 0.01 to 60"),
        (Dhrystone, {"time": True}, "time is True, not a number of seconds from 0.01 to 60"),
        (Whetstone, {"time": 1e9}, "time is 1000000000.0, not a number of seconds from 0.01 to 3600"),
        (Syscalls, {"time": 61}, "time is 61, not a number of seconds from 0.01 to 60"),
        (Switches, {"warmup": 6}, "warmup is 6, not a number of seconds from 0 to 5"),
        (Whetstone, {"warmup": -1}, "warmup is -1, not a number of seconds from 0 to 5"),
        (Dhrystone, {"warmup": float("nan")}, "warmup is nan, not a number of seconds from 0 to 5"),
    ],
)  # fmt: skip
def test_bad_arguments_are_refused(tool: Any, parameters: Any, message: str) -> None:
    with pytest.raises(ValueError, match=r".") as caught:
        tool(NOTHING).run(NOTHING, **parameters)
    assert str(caught.value) == message
