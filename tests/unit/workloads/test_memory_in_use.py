"""What is in use, whatever a version of ``free`` means by "used"."""

from __future__ import annotations

import pytest

from pytest_vperf.workloads.base import Output
from pytest_vperf.workloads.memory import Free

#: procps 4: used is total minus available.
PROCPS_4 = """\
               total        used        free      shared  buff/cache   available
Mem:        19922944     9437184     6291456      131072     7340032    10485760
Swap:              0           0           0
"""
#: procps 3.2: what is not free.
PROCPS_3 = """\
             total       used       free     shared    buffers     cached
Mem:      19922944   13631488    6291456          0     131072    7340032
-/+ buffers/cache:    6160384   13762560
Swap:            0          0          0
"""


@pytest.mark.parametrize("said", [PROCPS_4, PROCPS_3])
def test_caches_are_in_use_with_every_version(said: str) -> None:
    found = Free("b").parse(Output(said))
    assert found.in_use.to("MiB").value == 13
    assert found.in_use.direction == "lower"
    assert found.in_use.value + found.free.value == found.total.value
