"""Which machine runs which tests."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pytest_vperf.fleet.engines import FleetMachine
from pytest_vperf.fleet.plan import Shard, made_good_on, plan

TESTS = st.integers(0, 50).map(lambda count: [f"test_it.py::test_{each}" for each in range(count)])
MACHINES = st.lists(st.sampled_from(["a", "b", "c"]), max_size=20).map(
    lambda types: [FleetMachine(f"h{number}", type_) for number, type_ in enumerate(types)]
)


@given(TESTS, MACHINES)
def test_each_type_has_each_test_once_and_the_machines_share_them(
    tests: list[str], machines: list[FleetMachine]
) -> None:
    shards = plan(tests, machines, each=False)
    assert all(shard.tests for shard in shards)
    assert len({shard.machine for shard in shards}) == len(shards)
    for type_ in {machine.type for machine in machines}:
        own = [shard for shard in shards if shard.machine.type == type_]
        assert [test for shard in own for test in shard.tests] == tests
        sizes = [len(shard.tests) for shard in own]
        assert not sizes or max(sizes) - min(sizes) <= 1


@given(TESTS, MACHINES)
def test_each_machine_has_each_test(tests: list[str], machines: list[FleetMachine]) -> None:
    shards = plan(tests, machines, each=True)
    assert [shard.machine for shard in shards] == machines
    assert all(shard.tests == tests for shard in shards)


def test_what_was_under_way_comes_last() -> None:
    machine = FleetMachine("h1", "a")
    shard = Shard(machine, ["one", "two", "three", "four"], done={"one"})
    shard.notes["two"] = [["begun", "two"], ["named", "two", "start.quick"]]
    again = shard.again(machine)
    assert again.tests == ["three", "four", "two"]
    assert again.before is shard


def test_another_machine_of_the_type_makes_a_loss_good_once() -> None:
    first, second, other = (FleetMachine(*each) for each in (("h1", "a"), ("h2", "a"), ("h3", "b")))
    shard = Shard(first, ["one"])
    machines = [other, first, second]
    assert made_good_on(shard, machines, [first], each=False) is second
    assert made_good_on(shard, machines, [first, second], each=False) is None
    assert made_good_on(shard.again(second), machines, [], each=False) is None
    assert made_good_on(shard, machines, [first], each=True) is first
    assert made_good_on(shard.again(first), machines, [], each=True) is None
