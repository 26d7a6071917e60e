"""A gate of real runtimes: a slower shim is found by the claims of any test, whose fixtures need no change."""

from __future__ import annotations

import io
import json
import shutil
import sys
import tarfile
import tempfile
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from pytest_vperf.machine.preflight import find_program
from pytest_vperf.targets.image.rootfs import default_rootfs
from pytest_vperf.targets.kernel.guest_kernel import distribution_kernel

#: A user's own test file, which knows nothing of sides.
OWN = """
import time
import pytest
from pytest_vperf import Quantity

@pytest.fixture
def app(containers):
    with containers.start() as container:
        container.run(["sh", "-c", "echo prepared > /tmp/state"])
        yield container

def test_starts(claim, containers):
    claim("mine.start").holds(lambda: containers.start().startup_time)

def test_execs(claim, app):
    def took():
        began = time.perf_counter()
        assert app.run(["cat", "/tmp/state"]).text == "prepared\\n"
        return Quantity((time.perf_counter() - began) * 1000, "ms", direction="lower")
    claim("mine.exec").holds(took)

def test_another_runtime(claim, containers_with):
    crun = containers_with("crun")
    claim("mine.other").holds(lambda: crun.start().startup_time)
"""


@pytest.fixture
def shim(tmp_path: Path) -> Path:
    """A runtime that takes 60 ms more for each call, with the arguments of its own before runc's."""
    runc = find_program("runc")
    assert runc is not None
    path = tmp_path / "build" / "runc-shim"
    path.parent.mkdir()
    path.write_text(
        f'#!/bin/sh\n[ "$1" = --slow ] || exit 9\nshift\nsleep 0.06\nexec {runc} "$@"\n'
    )
    path.chmod(0o755)
    return path


def slowed(program: str, folder: Path, seconds: float) -> None:
    """A program of the same name that waits before it is the real one."""
    folder.mkdir(exist_ok=True, parents=True)
    path = folder / program
    path.write_text(f'#!/bin/sh\nsleep {seconds}\nexec {find_program(program)} "$@"\n')
    path.chmod(0o755)


@pytest.mark.timeout(300)
def test_a_slower_program_of_the_search_path_is_found(pytester: pytest.Pytester) -> None:
    # Where QEMU's own user may read it.
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        slowed("crun", folder, 0.2)
        slowed("qemu-system-x86_64", folder, 1)
        pytester.makepyfile("""
import pytest

def test_oci(claim, oci):
    crun = oci("crun")
    claim("mine.run").holds(lambda: crun.run().duration)

@pytest.mark.vperf(budget="10s")
def test_pods(claim, pods_on):
    pods = pods_on("tcg")
    claim("mine.pod").holds(lambda: pods.start().startup_time)
""")
        result = pytester.runpytest_subprocess(
            *(f"--claims-head=path={folder}", "--claims-json=out.json", "-p", "no:cacheprovider"),
        )
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    found: list[dict[str, Any]] = json.loads((pytester.path / "out.json").read_text())["claims"]
    assert {each["name"] for each in found if each["verdict"] == "refuted"} >= {"mine.run"}
    for each in found:  # there is no time to decide about pods
        head, base = each["arms"]["a"]["estimate"], each["arms"]["b"]["estimate"]
        assert head - base > 150, each["name"]


@pytest.mark.timeout(300)
def test_a_runtime_that_starts_machines_makes_pods(
    pytester: pytest.Pytester, tmp_path: Path
) -> None:
    program = Path(__file__).parent / "machine_runtime.py"
    kernel = distribution_kernel().image
    # Starts of an emulated machine, of which there is time for a few, differ by half a second.
    for side, seconds in (("base", 0), ("head", 4)):
        path = tmp_path / side / "machine-runtime"
        path.parent.mkdir()
        path.write_text(
            f'#!/bin/sh\ncase "$*" in *\\ create\\ *) sleep {seconds};; esac\n'
            f'exec {sys.executable} -I {program} "$@"\n'
        )
        path.chmod(0o755)
    sides = [
        f"--claims-{side}=runtime={tmp_path}/{side}/machine-runtime --kernel={kernel}"
        for side in ("base", "head")
    ]
    pytester.runpytest_subprocess(
        *("--pyargs", "pytest_vperf.published", "-k", "test_container_starts_in_time", *sides),
        *("--claims-json=out.json", "--claims-budget=20s", "-p", "no:cacheprovider"),
    )
    (found,) = json.loads((pytester.path / "out.json").read_text())["claims"]
    assert found["name"] == "startup.pod.machine-runtime"
    assert found["verdict"] in ("refuted", "inconclusive")  # there is no time to decide
    head, base = found["arms"]["a"], found["arms"]["b"]
    assert head["estimate"] - base["estimate"] > 1000
    for target in found["targets"]:
        assert target["kind"] == "pod"
        assert target["details"]["machine"] == "one for each container"
        assert target["details"]["kernel"] == distribution_kernel().release


@pytest.mark.timeout(300)
def test_a_slower_runtime_is_found_by_any_claim(pytester: pytest.Pytester, shim: Path) -> None:
    pytester.makepyfile(OWN)
    result = pytester.runpytest_subprocess(
        *("--claims-base=runtime=runc", f"--claims-head=runtime={shim} --slow"),
        *("--claims-json=out.json", "-p", "no:cacheprovider", "-p", "no:randomly"),
    )
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    found: list[dict[str, Any]] = json.loads((pytester.path / "out.json").read_text())["claims"]
    assert {each["name"]: each["verdict"] for each in found} == {
        "mine.start": "refuted",
        "mine.exec": "refuted",
        "mine.other": "not comparable",
    }
    start = found[0]
    head, base = start["arms"]["a"], start["arms"]["b"]
    assert head["estimate"] > base["estimate"]
    assert set(head["phases"]) == {"create", "start"}
    details = {arm: each["details"] for each in start["targets"] for arm in each["arms"]}
    assert details["a"]["runtime"].startswith("runc-build-")
    assert found[2]["reason"] == (
        "nothing that it samples depends on what the sides differ in: runtime"
    )


@pytest.mark.timeout(120)
def test_a_side_that_cannot_start_ends_the_run(pytester: pytest.Pytester, tmp_path: Path) -> None:
    broken = tmp_path / "runc-broken"
    broken.write_text('#!/bin/sh\necho "no such flag" >&2\nexit 3\n')
    broken.chmod(0o755)
    pytester.makepyfile(OWN)
    result = pytester.runpytest_subprocess(
        "--claims-base=runtime=runc", f"--claims-head=runtime={broken}", "-p", "no:randomly"
    )
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(
        [
            "side head cannot start containers: container runc (head) did not start: *"
            f"; {broken} --version: no such flag",
        ]
    )


#: What the claims of the next tests are about: commands in what a fixture has started.
EXECS = """
import time
import pytest
from pytest_vperf import Quantity

def took(target):
    began = time.perf_counter()
    target.run(["cat", "/etc/passwd"])
    return Quantity((time.perf_counter() - began) * 1000, "ms")

@pytest.fixture
def machine(pods_on):
    return pods_on("tcg").start()

def test_container(claim, container):
    claim("mine.container").holds(lambda: took(container))

def test_pod(claim, machine):
    claim("mine.pod").holds(lambda: took(machine))
"""


def gate(pytester: pytest.Pytester, *options: str) -> dict[str, dict[str, Any]]:
    """The claims of a gate, by name."""
    pytester.makepyfile(EXECS)
    pytester.runpytest_subprocess("--claims-json=out.json", "-p", "no:cacheprovider", *options)
    found = json.loads((pytester.path / "out.json").read_text())["claims"]
    return {each["name"]: each for each in found}


def details(record: dict[str, Any], key: str) -> dict[str, str]:
    """A detail of the targets of each arm."""
    return {arm: each["details"][key] for each in record["targets"] for arm in each["arms"]}


@pytest.mark.timeout(300)
def test_a_slower_image_is_found_in_containers_and_pods(
    pytester: pytest.Pytester, tmp_path: Path
) -> None:
    base = default_rootfs().path
    head = tmp_path / "head.tar"
    script = b'#!/bin/sh\nsleep 0.06\nexec /bin/busybox cat "$@"\n'
    with tarfile.open(base) as old, tarfile.open(head, "w") as new:
        for entry in old:
            if entry.name.removeprefix("./") != "bin/cat":
                new.addfile(entry, old.extractfile(entry) if entry.isfile() else None)
                continue
            slow = tarfile.TarInfo(entry.name)
            slow.size, slow.mode = len(script), 0o755
            new.addfile(slow, io.BytesIO(script))
    found = gate(pytester, f"--claims-base=image={base}", f"--claims-head=image={head}")
    assert {name: each["verdict"] for name, each in found.items()} == {
        "mine.container": "refuted",
        "mine.pod": "refuted",
    }
    for each in found.values():
        images = details(each, "rootfs_sha256")
        assert images["a"] != images["b"]


@pytest.mark.timeout(300)
def test_kernel_and_qemu_are_those_of_the_side(pytester: pytest.Pytester) -> None:
    qemu = find_program("qemu-system-x86_64")
    assert qemu is not None
    usual = Path(distribution_kernel().image)
    kernel = pytester.mkdir("boot") / usual.name
    kernel.write_bytes(usual.read_bytes() + b"\0" * 16)
    (pytester.path / "lib").symlink_to(usual.parents[1] / "lib")  # its modules
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        prefix = Path(
            folder
        )  # QEMU runs as a user of its own, and finds its modules from where it is
        prefix.chmod(0o755)
        (prefix / "bin").mkdir()
        for name in ("lib", "share"):
            (prefix / name).symlink_to(f"/usr/{name}")
        copy = shutil.copy(qemu, prefix / "bin")
        found = gate(
            pytester,
            f"--claims-head=kernel={kernel}",
            f"--claims-head=qemu={copy}",
            "--claims-budget=3s",
        )
    assert list(found) == ["mine.pod"]  # the container depends on neither
    kernels = details(found["mine.pod"], "guest_kernel_sha256")
    assert kernels["a"] == sha256(kernel.read_bytes()).hexdigest() != kernels["b"]
    assert details(found["mine.pod"], "qemu_path") == {"a": str(copy), "b": qemu}


@pytest.mark.timeout(300)
def test_a_kernel_that_does_not_boot_ends_the_run(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(EXECS)
    broken = pytester.path / "vmlinuz-broken"  # its setup code is whole, what that unpacks is not
    broken.write_bytes(Path(distribution_kernel().image).read_bytes()[: 1 << 20])
    result = pytester.runpytest_subprocess(
        f"--vperf-kernel={broken}", "--start-timeout=15 s", "-p", "no:cacheprovider"
    )
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.assert_outcomes(errors=1, deselected=1)
    result.stdout.fnmatch_lines(["side head cannot start pods (tcg): pod tcg qboot (head)*"])


#: A comparison of two builds that the test names itself.
OF = """
def test_containers(claim, containers):
    slow = containers.of(runtime={shim!r} + " --slow")
    claim("mine.slow").compares(
        lambda: slow.start().startup_time, to=lambda: containers.start().startup_time
    )

def test_pods(claim, pods_on):
    pods = pods_on("tcg")
    other = pods.of(kernel={kernel!r}, qemu={qemu!r})
    claim("mine.kernel").compares(
        lambda: other.start().startup_time, to=lambda: pods.start().startup_time
    )
"""
THRESHOLDS = """
hardware: {name: any, match: {}}
claims:
  mine.slow: {no_worse: lower_is_better}
  mine.kernel: {no_worse: lower_is_better, judge: {budget: 10 s}}
"""


@pytest.mark.timeout(300)
def test_a_test_may_name_both_builds(pytester: pytest.Pytester, shim: Path) -> None:
    usual, qemu = Path(distribution_kernel().image), find_program("qemu-system-x86_64")
    kernel = pytester.mkdir("boot") / usual.name
    kernel.write_bytes(usual.read_bytes() + b"\0" * 16)
    (pytester.path / "lib").symlink_to(usual.parents[1] / "lib")
    pytester.mkdir("thresholds").joinpath("any.yaml").write_text(THRESHOLDS)
    pytester.makepyfile(OF.format(shim=str(shim), kernel=str(kernel), qemu=qemu))
    pytester.runpytest_subprocess("--claims-json=out.json", "-p", "no:randomly")
    slow, other = json.loads((pytester.path / "out.json").read_text())["claims"]
    assert (slow["verdict"], slow["target"]) == (
        "refuted",
        f"container {shim} --slow / container runc",
    )
    kernels = details(other, "guest_kernel_sha256")
    assert kernels["a"] == sha256(kernel.read_bytes()).hexdigest() != kernels["b"]
