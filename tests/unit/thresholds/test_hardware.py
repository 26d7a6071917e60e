"""Which profiles judge a run, and what a claim finds in them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_vperf.machine.fingerprint import Fingerprint
from pytest_vperf.quantity import Quantity, QuantityError
from pytest_vperf.thresholds.criterion import Limit
from pytest_vperf.thresholds.hardware import HardwareError, Selection, UnknownClaim, select
from pytest_vperf.thresholds.match import Comparison, Match
from pytest_vperf.thresholds.profile import HardwareProfile, Threshold

TYPE1 = Fingerprint(
    cpu_model="Intel(R) Xeon(R) CPU E3-1240 v3 @ 3.40GHz",
    microcode="0x28",
    logical_cpus=8,
    memory=Quantity(15.55, "GiB"),
    kernel="6.1.0-18-amd64",
    hypervisor="none",
    architecture="x86_64",
    distribution="Debian GNU/Linux 12 (bookworm)",
    emulated=False,
)
LAPTOP = replace(TYPE1, cpu_model="Apple M1", logical_cpus=4, memory=Quantity(7.5, "GiB"))


def memory(text: str) -> Comparison:
    return Comparison.parse(text, ">= 15 GiB")


def cpus(text: str) -> Comparison:
    return Comparison.parse(text, "8")


FULL = Match(cpu_model="E3-1240 v3", logical_cpus=cpus("8"), memory=memory(">= 15 GiB"))


def profile(name: str, match: Match | None = None, *claims: str) -> HardwareProfile:
    return HardwareProfile(
        name=name,
        path=Path("thresholds") / f"{name}.yaml",
        summary="",
        match=match or Match(),
        claims={
            claim: Threshold(
                claim, Limit("at_most", Quantity(1, "ms")), "", None, name, f"{name}.yaml:1"
            )
            for claim in claims
        },
    )


def profiles(*each: HardwareProfile) -> dict[str, HardwareProfile]:
    return {one.name: one for one in each}


def names(selection: Selection) -> list[str]:
    return [each.name for each in selection.profiles]


@pytest.mark.parametrize(
    ("wanted", "model", "fits"),
    [
        ("E3-1240 v3", "Intel(R) Xeon(R) CPU E3-1240 v3 @ 3.40GHz", True),
        ("e3-1240  V3", "Intel(R) Xeon(R) CPU E3-1240 v3 @ 3.40GHz", True),
        ("Intel Xeon E3-1240 v3", "Intel(R) Xeon(R) CPU E3-1240 v3 @ 3.40GHz", True),
        ("Intel(R) Core(TM) i7-8700", "Intel(R) Core(TM) i7-8700 CPU @ 3.20GHz", True),
        ("i7-8700", "Intel(R)  Core(TM)   i7-8700 CPU @ 3.20GHz", True),
        ("i7-870", "Intel(R) Core(TM) i7-8700 CPU @ 3.20GHz", False),
        ("E3-1240 v3", "Intel(R) Xeon(R) CPU E3-1240 v2 @ 3.40GHz", False),
        ("E3-1240 v3", "Intel(R) Xeon(R) Processor", False),
        ("E3-1240 v3", "unknown", False),
        ("AMD EPYC 7763", "AMD EPYC 7763 64-Core Processor", True),
    ],
)
def test_a_model_is_found_in_the_name_that_kernels_print(
    wanted: str, model: str, *, fits: bool
) -> None:
    found = Match(cpu_model=wanted).mismatches(replace(TYPE1, cpu_model=model))
    assert found == (() if fits else (f"cpu_model is {model!r}, not {wanted!r}",))


@pytest.mark.parametrize(
    ("text", "size", "fits"),
    [
        (">= 15 GiB", 15.0, True),
        (">= 15 GiB", 14.9, False),
        ("> 15 GiB", 15.0, False),
        ("<= 16384 MiB", 16.0, True),
        ("< 16 GiB", 16.0, False),
        (">= 16 GB", 15.0, True),
        ("15 GiB .. 17 GiB", 15.0, True),
        ("15 GiB..17 GiB", 17.0, True),
        ("15 GiB .. 17 GiB", 17.1, False),
        ("15000 MiB .. 17 GiB", 14.0, False),
        (">=1TiB", 1024.0, True),
    ],
)
def test_memory_is_compared(text: str, size: float, *, fits: bool) -> None:
    machine = replace(TYPE1, memory=Quantity(size, "GiB"))
    expected = () if fits else (f"memory is {Quantity(size, 'GiB')}, not {text}",)
    assert Match(memory=memory(text)).mismatches(machine) == expected


@pytest.mark.parametrize(
    ("text", "count", "fits"),
    [("8", 8, True), ("8", 9, False), (">= 8", 9, True), ("4 .. 8", 8, True), ("4..8", 3, False)],
)
def test_processors_are_compared(text: str, count: int, *, fits: bool) -> None:
    found = Match(logical_cpus=cpus(text)).mismatches(replace(TYPE1, logical_cpus=count))
    assert found == (() if fits else (f"logical_cpus is {count}, not {text}",))


@pytest.mark.parametrize("text", ["", "=> 8", ">= ", "8 .. ", "1 .. 2 .. 3", "8 GiB", ">= 8 ms"])
def test_bad_comparisons_are_refused(text: str) -> None:
    with pytest.raises(QuantityError):
        cpus(text)


@pytest.mark.parametrize(
    ("wanted", "kernel", "fits"),
    [
        ("6.1", "6.1.0-18-amd64", True),
        ("6.1.0", "6.1.0-18-amd64", True),
        ("6", "6.18.44", True),
        ("6.1", "6.18.44", False),
        ("6.1.0-18-amd64", "6.1.0-18-amd64", True),
        ("6.1.0-18-amd64-x", "6.1.0-18-amd64", False),
    ],
)
def test_a_kernel_is_known_by_whole_parts(wanted: str, kernel: str, *, fits: bool) -> None:
    found = Match(kernel=wanted).mismatches(replace(TYPE1, kernel=kernel))
    assert found == (() if fits else (f"kernel is {kernel!r}, not {wanted!r}",))


def test_names_are_compared_without_case() -> None:
    match = Match(hypervisor="None", architecture="X86_64")
    assert match.mismatches(TYPE1) == ()
    assert match.mismatches(replace(TYPE1, hypervisor="kvm", architecture="aarch64")) == (
        "hypervisor is 'kvm', not 'None'",
        "architecture is 'aarch64', not 'X86_64'",
    )


def test_an_unknown_property_does_not_fit() -> None:
    assert FULL.mismatches(replace(TYPE1, cpu_model="unknown", logical_cpus=None, memory=None)) == (
        "cpu_model is 'unknown', not 'E3-1240 v3'",
        "logical_cpus is unknown, not 8",
        "memory is unknown, not >= 15 GiB",
    )


def test_an_emulated_machine_is_not_the_one_it_calls_itself() -> None:
    emulated = replace(TYPE1, emulated=True)
    assert FULL.mismatches(emulated) == ("the machine is emulated",)
    assert Match().mismatches(emulated) == ()


def test_auto_takes_the_profile_that_fits_and_any() -> None:
    known = profiles(profile("any"), profile("type1", FULL), profile("type3", Match(kernel="9")))
    found = select(known, "auto", TYPE1)
    assert names(found) == ["type1", "any"]
    assert (found.named, found.mismatches) == (False, ())
    assert found.describe() == "type1, any (by fingerprint)"


def test_auto_takes_the_one_with_the_most_conditions() -> None:
    known = profiles(
        profile("wide", Match(architecture="x86_64")),
        profile("type1", FULL),
        profile("wider", Match(cpu_model="Xeon", architecture="x86_64")),
    )
    assert names(select(known, "auto", TYPE1)) == ["type1"]


def test_auto_does_not_choose_between_equals() -> None:
    known = profiles(
        profile("any"),
        profile("zeta", Match(cpu_model="Xeon", kernel="6.1")),
        profile("alpha", Match(cpu_model="Xeon", architecture="x86_64")),
        profile("less", Match(cpu_model="Xeon")),
    )
    with pytest.raises(HardwareError) as caught:
        select(known, "auto", TYPE1)
    assert str(caught.value) == (
        "the profiles alpha and zeta fit this machine equally well, by 2 conditions each: "
        "name one of them, e.g. --hw=alpha"
    )
    assert names(select(known, "zeta", TYPE1)) == ["zeta", "any"]


def test_auto_on_an_unknown_machine_takes_any() -> None:
    known = profiles(profile("any"), profile("type1", FULL))
    assert names(select(known, "auto", LAPTOP)) == ["any"]
    assert select(known, "auto", LAPTOP).describe() == "any (by fingerprint)"
    assert select({}, "auto", LAPTOP).describe() == "no profile (by fingerprint)"


def test_a_named_profile_says_how_the_machine_differs() -> None:
    known = profiles(profile("any"), profile("type1", FULL))
    assert select(known, "type1", TYPE1).describe() == "type1, any (named)"
    found = select(known, "type1", LAPTOP)
    assert names(found) == ["type1", "any"]
    assert found.named
    assert found.mismatches == (
        "cpu_model is 'Apple M1', not 'E3-1240 v3'",
        "logical_cpus is 4, not 8",
        "memory is 7.5 GiB, not >= 15 GiB",
    )
    assert found.describe() == (
        "type1, any (named; this machine differs: cpu_model is 'Apple M1', "
        "not 'E3-1240 v3'; logical_cpus is 4, not 8; memory is 7.5 GiB, not >= 15 GiB)"
    )


def test_the_profile_any_can_be_named() -> None:
    known = profiles(profile("any"), profile("type1", FULL))
    found = select(known, "any", TYPE1)
    assert (names(found), found.mismatches) == (["any"], ())


@pytest.mark.parametrize(
    ("hw", "message"),
    [
        (
            "typo1",
            "there is no hardware profile 'typo1'; did you mean 'type1'? "
            "(there are auto, any, type1)",
        ),
        ("xyz", "there is no hardware profile 'xyz' (there are auto, any, type1)"),
        ("", "there is no hardware profile '' (there are auto, any, type1)"),
    ],
)
def test_an_unknown_profile_is_refused(hw: str, message: str) -> None:
    known = profiles(profile("any"), profile("type1", FULL))
    with pytest.raises(HardwareError) as caught:
        select(known, hw, TYPE1)
    assert str(caught.value) == message


def test_a_claim_is_found_in_the_most_specific_profile() -> None:
    known = profiles(
        profile("any", None, "start.*", "cpu.time"), profile("type1", FULL, "start.pod")
    )
    found = select(known, "auto", TYPE1)

    def origin(claim: str) -> Any:
        threshold = found.find(claim)
        return threshold and (threshold.profile, threshold.name)

    assert origin("start.pod") == ("type1", "start.pod")
    assert origin("start.runc") == ("any", "start.runc")
    assert origin("cpu.time") == ("any", "cpu.time")


def test_an_exact_name_has_precedence_over_a_pattern_whatever_the_profile() -> None:
    known = profiles(profile("any", None, "start.pod"), profile("type1", FULL, "start.*"))
    found = select(known, "type1", TYPE1)
    assert [found.find(name).profile for name in ("start.pod", "start.runc")] == ["any", "type1"]  # type: ignore[union-attr]


def test_a_claim_of_other_hardware_is_not_comparable() -> None:
    known = profiles(
        profile("any"), profile("type3", FULL, "start.pod"), profile("type1", FULL, "start.*")
    )
    found = select(known, "any", LAPTOP)
    assert found.find("start.pod") is None
    assert found.holders("start.pod") == ("type1", "type3")
    assert found.holders("start.runc") == ("type1",)


def test_an_unknown_claim_is_refused_with_near_names() -> None:
    known = profiles(profile("any", None, "cpu.time"), profile("type1", FULL, "start.pod.kvm"))
    with pytest.raises(UnknownClaim) as caught:
        select(known, "any", LAPTOP).find("start.pod.kmv")
    assert str(caught.value) == (
        "no threshold file has a claim 'start.pod.kmv'; did you mean 'start.pod.kvm'? "
        "(looked in thresholds)"
    )
    assert (caught.value.name, caught.value.nearest) == ("start.pod.kmv", ("start.pod.kvm",))
    with pytest.raises(UnknownClaim) as caught:
        select(known, "any", LAPTOP).find("xyz")
    assert str(caught.value) == "no threshold file has a claim 'xyz' (looked in thresholds)"
    with pytest.raises(UnknownClaim) as caught:
        select({}, "auto", LAPTOP).find("xyz")
    assert str(caught.value) == "no threshold file has a claim 'xyz' (there are no threshold files)"
