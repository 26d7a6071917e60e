"""What a run was asked to measure: by ``VPERF_REQUIRE``, and by the names of runtimes and accelerators."""

from __future__ import annotations

import json

import pytest

from pytest_vperf.results.record import ClaimRecord, unmeasured
from pytest_vperf.run.required import Asked, check, unmet

#: Claims about a container and a pod that are measured, or not; and a test of something else.
TESTS = """
import pytest
from samplers import around
from pytest_vperf.targets.base import Unavailable

def without(target):
    def sample():
        raise Unavailable("there is none", target=target)
    return sample

def test_container(claim): claim("start.quick").holds(without("container rnuc"))
def test_pod(claim): claim("start.quick").holds(without("pod kvm qboot"))
def test_some_container(claim): claim("start.quick").holds(without("container"))
def test_unknown(claim): claim("start.quick").holds(without(""))
def test_held(claim): claim("start.quick").holds(around(350))
def test_plain(): pass
"""

KINDS = ("host", "container", "pod", "guest", "domu")


def record(target: str, *samples: float) -> ClaimRecord:
    made = unmeasured("a", "", target=target, nodeid="", started_at="", budget=1.0, seed=1)
    if samples:
        made["verdict"] = "inconclusive"
        made["samples"] = list(samples)
    return made


@pytest.mark.parametrize(
    ("required", "missing"),
    [
        ("", []),
        ("pod", []),
        ("pod tcg", []),
        ("pod kvm", ["pod kvm"]),
        ("container, pod kvm", ["container", "pod kvm"]),
        ("host", ["host"]),
        ("all", ["container"]),
    ],
)
def test_required_targets(
    monkeypatch: pytest.MonkeyPatch, required: str, missing: list[str]
) -> None:
    monkeypatch.setenv("VPERF_REQUIRE", required)
    records = [
        record("pod kvm qboot"),
        record("pod tcg qboot / pod tcg seabios", 1.1),
        record("container runc"),
    ]
    assert unmet(records, KINDS) == [Asked("VPERF_REQUIRE", (each,)) for each in missing]


@pytest.mark.parametrize(
    ("required", "missing"), [("pod", ["pod"]), ("container", []), ("all", ["all"])]
)
def test_a_claim_not_measured_on_an_unknown_target_counts_as_required(
    monkeypatch: pytest.MonkeyPatch, required: str, missing: list[str]
) -> None:
    monkeypatch.setenv("VPERF_REQUIRE", required)
    records = [record(""), record("container runc", 1.1)]
    assert unmet(records, KINDS) == [Asked("VPERF_REQUIRE", (each,)) for each in missing]


def test_one_of_several_targets_is_enough() -> None:
    kvm = Asked("--vperf-accelerator=kvm", ("pod kvm", "guest kvm"))
    assert unmet([record("pod kvm qboot"), record("guest kvm", 1.1)], KINDS, [kvm]) == []
    assert unmet([record("pod kvm qboot"), record("guest tcg", 1.1)], KINDS, [kvm]) == [kvm]
    assert unmet([record("pod tcg qboot")], KINDS, [kvm]) == []


def test_targets_that_may_be_required(
    monkeypatch: pytest.MonkeyPatch, pytestconfig: pytest.Config
) -> None:
    monkeypatch.setenv("VPERF_REQUIRE", "host, container runsc,pod,guest,domu,all")
    check(pytestconfig)
    monkeypatch.setenv("VPERF_REQUIRE", "container,pods")
    with pytest.raises(pytest.UsageError) as caught:
        check(pytestconfig)
    assert str(caught.value) == (
        "VPERF_REQUIRE: 'pods' is not known; there are host, container, pod, guest, domu and all"
    )


@pytest.mark.parametrize(
    ("required", "which", "missing"),
    [
        ("pod", "pod or plain", "pod"),
        ("pod kvm", "pod or plain", "pod kvm"),
        ("all", "pod or plain", "pod"),
        ("container", "pod or plain", "container"),
        ("pod", "held or plain", "pod"),
        ("pod", "plain", "pod"),
        ("host", "unknown", "host"),
    ],
)
def test_what_is_required_must_be_measured(
    project: pytest.Pytester,
    monkeypatch: pytest.MonkeyPatch,
    required: str,
    which: str,
    missing: str,
) -> None:
    monkeypatch.setenv("VPERF_REQUIRE", required)
    project.makepyfile(TESTS)
    result = project.runpytest("-k", which)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(
        [
            f"claims: VPERF_REQUIRE asks for {missing}, and no claim about it was measured",
            "claims: result: *, exit status 1",
        ]
    )


def test_nothing_is_required_of_a_run_without_tests(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VPERF_REQUIRE", "pod")
    project.makepyfile(TESTS)
    assert project.runpytest("--collect-only").ret == 0
    assert project.runpytest("--fixtures").ret == 0


def test_a_skip_of_a_required_target_is_a_failure(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VPERF_REQUIRE", "container,pod")
    project.makepyfile("from samplers import missing\ndef test_it(): missing()")
    result = project.runpytest()
    result.assert_outcomes(failed=1)


@pytest.mark.parametrize(
    ("options", "which", "asked"),
    [
        (
            "--container-runtime=rnuc",
            "container",
            "--container-runtime=rnuc asks for container rnuc",
        ),
        (
            "--container-runtime=runc,rnuc",
            "container or held",
            "--container-runtime=rnuc asks for container rnuc",
        ),
        (
            "--container-runtime=rnuc",
            "some_container",
            "--container-runtime=rnuc asks for container rnuc",
        ),
        (
            "--vperf-accelerator=kvm",
            "pod or held",
            "--vperf-accelerator=kvm asks for pod kvm or guest kvm",
        ),
    ],
)
@pytest.mark.parametrize("workers", [(), ("-n", "1")], ids=["alone", "xdist"])
def test_what_an_option_names_must_be_measured(
    project: pytest.Pytester, options: str, which: str, asked: str, workers: tuple[str, ...]
) -> None:
    project.makepyfile(TESTS)
    result = project.runpytest("-k", f"({which}) or plain", options, *workers)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines([f"claims: {asked}, and no claim about it was measured"])


def test_a_runtime_in_the_ini_file_must_be_measured(project: pytest.Pytester) -> None:
    project.makeini("[pytest]\ncontainer_runtime = rnuc\n")
    project.makepyfile(TESTS)
    assert project.runpytest("-k", "test_container or plain").ret == pytest.ExitCode.TESTS_FAILED


@pytest.mark.parametrize(
    ("options", "which"),
    [
        ((), "test_container or plain"),
        (("--container-runtime=rnuc",), "pod or plain"),
        (("--container-runtime=rnuc", "--claims-advisory"), "test_container or plain"),
        (("--vperf-accelerator=tcg",), "pod or plain"),
        (("--vperf-accelerator=auto",), "pod or plain"),
    ],
)
def test_what_nobody_asked_for_need_not_be_measured(
    project: pytest.Pytester, options: tuple[str, ...], which: str
) -> None:
    project.makepyfile(TESTS)
    assert project.runpytest("-k", which, *options).ret == 0


@pytest.mark.parametrize("workers", [(), ("-n", "1")], ids=["alone", "xdist"])
def test_a_run_in_which_nothing_was_measured_ends_as_one_without_tests(
    project: pytest.Pytester, workers: tuple[str, ...]
) -> None:
    project.makepyfile(TESTS)
    result = project.runpytest("-k", "test_pod or unknown", "--claims-json=out.json", *workers)
    assert result.ret == pytest.ExitCode.NO_TESTS_COLLECTED
    result.stdout.fnmatch_lines(["claims: result: nothing measured, exit status 5"])
    told = json.loads((project.path / "out.json").read_text())["result"]
    assert told == {"word": "nothing measured", "exit_status": 5, "level": "refuted"}
    assert project.runpytest("-k", "test_pod or plain", *workers).ret == 0
    assert project.runpytest("-k", "test_pod or held", *workers).ret == 0
    assert project.runpytest("-k", "test_pod", "--claims-advisory", *workers).ret == 0
