"""Whether two runs were on the same machine, by what their records say of it.

With a new kernel or engine it stays the same machine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

#: Most machines that are named in a line.
_NAMED = 8
#: What distinguishes machines, as a record's fingerprint calls it; ``on`` is where targets were started,
#: ``machine`` its name in a fleet.
KEYS = (
    "cpu_model",
    "logical_cpus",
    "memory",
    "hypervisor",
    "architecture",
    "emulated",
    "on",
    "machine",
)


def identity(fingerprint: Mapping[str, str] | None) -> dict[str, str]:
    """What distinguishes a machine; its memory in whole GiB, since each kernel takes another part of it."""
    facts = fingerprint or {}
    found = {key: facts.get(key, "") for key in KEYS}
    found["memory"] = found["memory"].partition(".")[0]
    return found


def within_types(machines: Mapping[str, Mapping[str, str]]) -> list[str]:
    """What is not the same on all machines of a type, in words: the type, the value, and who has it.

    Args:
        machines: of a fleet, by name, as `pytest_vperf.results.run.RunRecord.machines` has them.
    """
    found = []
    for type_ in dict.fromkeys(each.get("type", "") for each in machines.values()):
        own = {name: each for name, each in machines.items() if each.get("type", "") == type_}
        for key in dict.fromkeys(key for each in own.values() for key in each):
            values: dict[str, list[str]] = {}
            for name, each in own.items():
                values.setdefault(each.get(key, "none"), []).append(name)
            if len(values) > 1:
                told = "; ".join(f"{value} on {named(names)}" for value, names in values.items())
                found.append(f"{type_}: {key.replace('_', ' ')} {told}")
    return found


def named(names: Sequence[str]) -> str:
    """Machines in a few words: their names, or how many there are."""
    return ", ".join(names) if len(names) <= _NAMED else f"{len(names)} machines"


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
