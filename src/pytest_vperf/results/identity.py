"""Whether two runs were on the same machine, by what their records say of it.

With a new kernel or engine it stays the same machine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

#: What distinguishes machines, as a record's fingerprint calls it; ``on`` is where targets were started.
KEYS = ("cpu_model", "logical_cpus", "memory", "hypervisor", "architecture", "emulated", "on")


def identity(fingerprint: Mapping[str, str] | None) -> dict[str, str]:
    """What distinguishes a machine; its memory in whole GiB, since each kernel takes another part of it."""
    facts = fingerprint or {}
    found = {key: facts.get(key, "") for key in KEYS}
    found["memory"] = found["memory"].partition(".")[0]
    return found


def differences(
    one: Mapping[str, str] | None, other: Mapping[str, str] | None
) -> list[tuple[str, str, str]]:
    """What differs between two machines: the key, and its value on each as the record has it."""
    ours, theirs = identity(one), identity(other)
    return [
        (key, (one or {}).get(key, ""), (other or {}).get(key, ""))
        for key in KEYS
        if ours[key] != theirs[key]
    ]


def changes(
    one: Mapping[str, str] | None, other: Mapping[str, str] | None
) -> list[tuple[str, str, str]]:
    """What differs between two records of one machine: its kernel, its distribution, its microcode."""
    ours, theirs = one or {}, other or {}
    return [
        (key, ours.get(key, ""), theirs.get(key, ""))
        for key in sorted(ours.keys() | theirs.keys())
        if key not in KEYS and ours.get(key, "") != theirs.get(key, "")
    ]
