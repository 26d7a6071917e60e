"""Targets on different machines are not compared, but for machines that the user named to be compared."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_vperf.claims.sampling import check_machines
from pytest_vperf.targets.base import Facts, Program, Unavailable
from pytest_vperf.targets.scope import ToolUse

if TYPE_CHECKING:
    from pytest_vperf.stats.rule import Arm


def facts(name: str, on: str = "") -> Facts:
    kind = "machine" if name.startswith(("machine", "host of")) else name.partition(" ")[0]
    return Facts(kind, name, {"on": on} if on else {})


def uses(*targets: str) -> list[ToolUse]:
    return [ToolUse(each, Program("t", ("t",), "/t", "0" * 64, "image"), "1") for each in targets]


HOST, CONTAINER = facts("host"), facts("container runc")
ESXI, OPENVZ = facts("machine esxi", "root@a"), facts("machine openvz", "root@b")
LOADER = facts("machine esxi, loader 1", "root@c")


def check(targets: list[Facts], a: list[ToolUse], b: list[ToolUse] | None = None) -> None:
    tools: dict[Arm, list[ToolUse]] = {"a": a}
    if b is not None:
        tools["b"] = b
    check_machines("c", targets, tools, len(tools))


def test_targets_of_one_machine_are_compared() -> None:
    check([HOST, CONTAINER], uses("host"), uses("container runc"))


def test_targets_of_two_machines_are_not() -> None:
    there = facts("container runc (root@a)", "root@a")
    with pytest.raises(
        Unavailable,
        match=r"^claim 'c' would compare machines, not targets: host is on this machine and container runc"
        r" \(root@a\) is on root@a \(to mend it: start both on one machine\)$",
    ):
        check([HOST, there], uses("host"))


def test_machines_that_were_named_are_compared_with_a_client_elsewhere() -> None:
    targets = [HOST, ESXI, OPENVZ, LOADER]
    check(targets, uses("machine openvz", "host"))
    check(targets, uses("machine openvz", "host"), uses("machine esxi", "host"))


def test_a_machine_that_was_named_is_not_compared_with_a_target_of_ours() -> None:
    targets = [HOST, ESXI, CONTAINER]
    check(targets, uses("machine esxi", "host"))  # it is the second arm that tells
    with pytest.raises(Unavailable, match="would compare machines, not targets"):
        check(targets, uses("machine esxi", "host"), uses("container runc", "host"))
    with pytest.raises(Unavailable, match="would compare machines, not targets"):
        check([HOST, ESXI], uses("host"), uses("machine esxi"))


def test_machines_that_ran_nothing_that_is_known_are_not_compared() -> None:
    with pytest.raises(Unavailable, match="would compare machines, not targets"):
        check([ESXI, OPENVZ], [], [])
