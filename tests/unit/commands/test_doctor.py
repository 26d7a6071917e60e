"""The doctor's logic: which checks a name selects, and the exit status."""

import json

import pytest

from pytest_vperf.commands import doctor
from pytest_vperf.machine.preflight import Readiness

KNOWN = ["host", "container", "container runc", "container runsc", *doctor.POD_NAMES, "fio"]


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("fio", ["fio"]),
        ("pod", ["pod"]),
        ("kvm", ["accelerator kvm"]),
        ("accelerator kvm", ["accelerator kvm"]),
        ("seabios", ["firmware seabios"]),
        ("runsc", ["container runsc"]),
        ("container", ["container", "container runc"]),
        ("container runsc", ["container runsc"]),
        ("kv", []),
        ("", []),
        ("accelerator", []),
    ],
)
def test_names_stand_for_groups_of_checks(name: str, meant: list[str]) -> None:
    assert doctor.full_names(name, KNOWN, ["runc"]) == meant


def test_container_stands_for_the_runtimes_that_were_named() -> None:
    meant = doctor.full_names("container", KNOWN, ["runc", "runsc"])
    assert meant == ["container", "container runc", "container runsc"]


def test_an_unknown_name_is_a_usage_error_that_lists_the_names(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert doctor.run(["pod", "kvmm"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    lines = err.splitlines()
    assert lines[0] == "vperf doctor: unknown name 'kvmm'. Did you mean 'kvm'? Known names:"
    assert "container runc" in lines[1]
    assert "accelerator kvm" in lines[1]
    assert "sysbench" in lines[1]


def test_only_what_was_asked_for_is_checked(capsys: pytest.CaptureFixture[str]) -> None:
    doctor.run(["fio", "host", "host"], json=True)
    answers = json.loads(capsys.readouterr().out)["checks"]
    assert [answer["name"] for answer in answers] == ["host", "fio"]


def test_the_exit_status_of_named_things_is_0_only_if_all_are_usable() -> None:
    good, bad = Readiness("host", True, ""), Readiness("fio", False, "not installed")
    assert doctor.is_well([good], ["host"])
    assert not doctor.is_well([good, bad], ["host", "fio"])


@pytest.mark.parametrize(
    ("usable", "well"),
    [
        ({"pod"}, True),
        ({"container runsc"}, True),
        ({"container"}, False),  # an engine without a runtime runs nothing
        ({"host", "fio", "accelerator tcg"}, False),
    ],
)
def test_without_names_a_container_or_a_pod_is_enough(usable: set[str], well: bool) -> None:
    answers = [Readiness(name, name in usable, "") for name in KNOWN]
    assert doctor.is_well(answers, []) is well


def test_json_has_every_field(capsys: pytest.CaptureFixture[str]) -> None:
    assert doctor.run(["host"], json=True) == 0
    assert json.loads(capsys.readouterr().out) == {
        "usable": True,
        "checks": [
            {
                "name": "host",
                "usable": True,
                "why": "commands run on this machine itself",
                "remedy": "",
            }
        ],
    }


def test_a_check_that_breaks_is_an_answer_of_its_own() -> None:
    def broken() -> list[Readiness]:
        raise OSError("the disk\nis gone")

    check = doctor.Check(("a", "b"), broken)
    assert doctor.ask([check], []) == [
        Readiness("a", False, "the check failed: the disk is gone"),
        Readiness("b", False, "the check failed: the disk is gone"),
    ]


def test_a_check_without_an_answer_is_not_usable() -> None:
    check = doctor.Check(("a",), list)
    assert doctor.ask([check], ["a"]) == [Readiness("a", False, "its check gave no answer")]
