"""Things of each side: the sampled side's while there is one, all of them together before."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Any

import pytest

from pytest_vperf.targets.sides import DiffersBetweenSides, EqualSides, Side, Sided, Sides

BASE, HEAD = Side("base", {"runtime": "old"}), Side("head", {"runtime": "new"})


@dataclass
class Machine:
    """A target that notes what was done to it."""

    of: str
    done: list[Any] = field(default_factory=list)
    size: int = 3

    def start(self, *what: Any) -> Machine:
        self.done.append(what)
        return Machine(f"{self.of}'s own")

    def __enter__(self) -> Machine:
        self.done.append("entered")
        return self

    def __exit__(self, *_: object) -> None:
        self.done.append("left")


@pytest.fixture
def sides() -> Sides:
    return Sides(BASE, (HEAD,))


@pytest.fixture
def made() -> dict[str, Machine]:
    return {}


@pytest.fixture
def machine(sides: Sides, made: dict[str, Machine]) -> Machine:
    def make(side: Side) -> Machine:
        made[side.name] = Machine(side.settings["runtime"])
        return made[side.name]

    return sides.each(make, "runtime")


def test_a_sample_is_of_the_side_that_is_sampled(sides: Sides, machine: Machine) -> None:
    for side in (BASE, HEAD, BASE):
        assert sides.sampler(side, lambda: machine.of)() == side.settings["runtime"]
    assert sides.current is None


def test_a_set_up_is_done_on_every_side_and_stands_for_the_sampled_one(
    sides: Sides, machine: Machine, made: dict[str, Machine]
) -> None:
    started = machine.start("a", 1)
    assert [each.done for each in made.values()] == [[("a", 1)], [("a", 1)]]
    assert isinstance(started, Machine)
    assert sides.sampler(HEAD, lambda: started.of)() == "new's own"
    assert sides.sampler(BASE, lambda: started.of)() == "old's own"


def test_what_is_given_to_a_set_up_is_its_own_sides(
    sides: Sides, machine: Machine, made: dict[str, Machine]
) -> None:
    other = sides.each(lambda side: f"disk of {side.name}", "runtime")
    machine.start(other)
    assert [each.done for each in made.values()] == [[("disk of base",)], [("disk of head",)]]


def test_what_is_the_same_on_every_side_is_one_value(machine: Machine) -> None:
    assert machine.size == 3
    assert type(machine.size) is int


def test_an_attribute_is_set_on_every_side(machine: Machine, made: dict[str, Machine]) -> None:
    machine.size = 7
    assert {each.size for each in made.values()} == {7}


def test_a_context_is_entered_on_every_side(machine: Machine, made: dict[str, Machine]) -> None:
    with machine:
        pass
    assert [each.done for each in made.values()] == [["entered", "left"]] * 2


@pytest.mark.parametrize(
    "use",
    [
        lambda name: f"container {name}",
        lambda name: str(name),
        lambda name: name + "!",
        lambda name: "!" + name,
        lambda name: name == "old",
        lambda name: len(name),
        lambda name: list(name),
        lambda name: "o" in name,
        lambda name: hash(name),
    ],
)
def test_what_differs_is_no_single_value_outside_of_a_sample(
    sides: Sides, machine: Machine, use: Any
) -> None:
    with pytest.raises(DiffersBetweenSides) as error:
        use(machine.of)
    assert str(error.value) == (
        "base: 'old'; head: 'new' differs between the sides of this gate, and is used outside of a sample: use it "
        "inside of what is given to claim(…)"
    )
    name = machine.of
    assert sides.sampler(BASE, lambda: use(name))() == use("old")


def test_a_side_that_is_set_up_with_another_ones_error_says_so(sides: Sides) -> None:
    def start() -> None:
        raise RuntimeError(f"no start of {sides.current.name if sides.current else None}")

    machines = sides.each(lambda side: start if side is HEAD else (lambda: None), "runtime")
    with pytest.raises(RuntimeError, match=r"^no start of head$"):
        machines()
    assert sides.current is None


def test_without_a_difference_there_is_one_thing(sides: Sides) -> None:
    names = sides.each(lambda side: [side.name], "kernel")
    assert type(names) is list
    assert names == [""]
    alone = Sides().each(lambda _: object(), "runtime")
    assert type(alone) is object


def test_what_depends_on_something_sided_is_sided(sides: Sides, machine: Machine) -> None:
    pair: Any = sides.each(
        lambda side: (side.name, side.of(machine).of), "kernel", of=(machine, None)
    )
    assert type(pair) is Sided
    assert sides.sampler(HEAD, lambda: pair[1])() == "new"


def test_a_difference_is_noted_where_it_is_used(sides: Sides, machine: Machine) -> None:
    assert not sides.made_a_difference
    sides.sampler(HEAD, lambda: 1)()
    assert not sides.made_a_difference
    sides.sampler(HEAD, lambda: machine.size)()
    assert sides.made_a_difference


def test_variables_are_those_of_the_side(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/bin")
    monkeypatch.delenv("GOGC", raising=False)
    monkeypatch.setenv("MODE", "mine")
    base = Side("base", {"env.MODE": "slow"})
    head = Side("head", {"env.GOGC": "off", "path": "/build/bin"})
    sides = Sides(base, (head,))

    def seen() -> list[str | None]:
        return [os.environ.get(name) for name in ("PATH", "GOGC", "MODE")]

    assert sides.sampler(head, seen)() == ["/build/bin:/bin", "off", "mine"]
    assert sides.sampler(base, seen)() == ["/bin", None, "slow"]
    assert seen() == ["/bin", None, "mine"]
    assert sides.differ_in("env.")
    assert not sides.differ_in("runtime")


class Tool:
    """Serves in a target, or has targets started."""

    def __init__(self) -> None:
        self.used: list[str] = []

    def serve(self, machine: Machine, *, name: str = "") -> Machine:
        self.used.append(f"{machine.of}{name}")
        return Machine(f"server in {machine.of}")

    def load(self, start: Any) -> Machine:
        machine: Machine = start()
        self.used.append(machine.of)
        return Machine(f"load in {machine.of}")


def test_a_tool_is_used_on_each_side(sides: Sides, machine: Machine) -> None:
    own = Tool()
    tool = sides.lifted(own)
    assert isinstance(tool, Tool)
    server = tool.serve(machine, name="!")
    assert own.used == ["old!", "new!"]
    assert sides.sampler(HEAD, lambda: server.of)() == "server in new"
    assert sides.sampler(BASE, lambda: tool.serve(server).of)() == "server in server in old"
    assert own.used[2:] == ["server in old"]


def test_a_tool_that_is_given_nothing_of_the_sides_is_used_once(sides: Sides) -> None:
    own = Tool()
    tool, plain = sides.lifted(own), Machine("host")
    assert tool.serve(plain).of == "server in host"
    assert tool.load(lambda: plain).of == "load in host"
    assert own.used == ["host", "host"]
    assert not sides.made_a_difference
    assert Sides().lifted(own) is own


def test_what_a_tool_starts_by_a_function_is_started_on_each_side(
    sides: Sides, machine: Machine
) -> None:
    own = Tool()
    load = sides.lifted(own).load(lambda: machine.start())
    assert own.used == ["old's own", "new's own"]
    assert sides.sampler(HEAD, lambda: load.of)() == "load in new's own"
    assert sides.current is None


def sides_of(base: dict[str, str], head: dict[str, str]) -> Sides:
    return Sides(Side("base", base), (Side("head", head),))


@pytest.mark.parametrize(
    ("base", "head", "text"),
    [
        (
            {"image": "app:1"},
            {"image": "app:2"},
            "both sides turn out to be the same: base (image=app:1, sha256 012345678901) and head (image=app:2, "
            "sha256 012345678901); to compare them all the same: --same-on-purpose",
        ),
        (
            {},
            {"image": "app:2"},
            "both sides turn out to be the same: base (the usual image, sha256 012345678901) and head "
            "(image=app:2, sha256 012345678901); to compare them all the same: --same-on-purpose",
        ),
        ({"image": "app:1"}, {"image": "app:2", "env.A": "1"}, ""),
        ({"image": "app:1", "env.A": "1"}, {"image": "app:2", "env.A": "2"}, ""),
    ],
)
def test_names_that_stand_for_the_same_make_no_two_sides(
    base: dict[str, str], head: dict[str, str], text: str
) -> None:
    sides, digest = sides_of(base, head), "sha256 01234567890123456789"
    sides.learn(Side(""), "image", digest)  # is of no side
    sides.learn(sides.base, "image", digest)
    if not text:
        return sides.learn(sides.heads[0], "image", digest)
    with pytest.raises(EqualSides) as caught:
        sides.learn(sides.heads[0], "image", digest)
    assert str(caught.value) == text
    sides.same_on_purpose = True
    return sides.learn(sides.heads[0], "image", digest)


def test_names_that_stand_for_different_things_are_two_sides() -> None:
    sides = sides_of({"image": "app:1"}, {"image": "app:2"})
    sides.learn(sides.base, "image", "sha256 1")
    sides.learn(sides.heads[0], "image", "sha256 2")
    assert sides.learnt == {("base", "image"): "sha256 1", ("head", "image"): "sha256 2"}
