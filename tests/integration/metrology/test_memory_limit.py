"""A memory limit is there: what a target says of its memory, and what happens beyond the limit."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from known_truth import Row, settings

if TYPE_CHECKING:
    from known_truth import Table
    from lab import Lab

MIB = 1 << 20
LIMIT, MACHINE = 64, 256

#: Holds so much memory for a moment: written to, so that it is really there. Of coreutils and a shell.
HOLD = "head -c {} /dev/zero | tail -c {} | wc -c"


def hold(mib: int) -> list[str]:
    """A command that needs so many MiB: `tail` keeps them all."""
    return ["sh", "-c", HOLD.format(mib * MIB, mib * MIB)]


@pytest.mark.parametrize("kind", ["host", "container"])
def test_beyond_its_limit_a_command_is_killed(lab: Lab, table: Table, kind: str) -> None:
    free = lab.start(kind, memory="4 GiB")
    target = lab.start(kind, memory=f"{LIMIT} MiB")
    needs = hold(2 * LIMIT)
    assert free.run(needs).text.split() == [str(2 * LIMIT * MIB)]
    assert target.run(hold(LIMIT // 4)).text.split() == [str(LIMIT // 4 * MIB)]
    beyond = target.run(needs, check=False)
    assert beyond.text.split() != [str(2 * LIMIT * MIB)]
    assert settings(target, "memory") == f"memory {LIMIT * MIB}"
    table.add(
        Row(
            f"memory limit {LIMIT} MiB",
            target.name,
            settings(target, "memory"),
            f"{LIMIT // 4} MiB fit, {2 * LIMIT} MiB do not",
            f"{LIMIT // 4} MiB written, at {2 * LIMIT} MiB killed",
            1,
            "holds",
        )
    )


def test_a_pods_machine_has_its_memory(lab: Lab, table: Table) -> None:
    pod = lab.start("pod", memory=f"{MACHINE} MiB")
    found = re.search(r"MemTotal:\s+([0-9]+) kB", pod.run(["cat", "/proc/meminfo"]).text)
    assert found is not None
    total = int(found[1]) / 1024
    # The kernel keeps its own code, its page table and what firmware took (Documentation/filesystems/proc: MemTotal).
    assert 0.8 * MACHINE < total < MACHINE
    table.add(
        Row(
            f"memory of the machine {MACHINE} MiB",
            pod.name,
            settings(pod, "memory"),
            f"below {MACHINE} MiB, by what the kernel keeps",
            f"MemTotal {total:.4g} MiB",
            1,
            "holds",
        )
    )
