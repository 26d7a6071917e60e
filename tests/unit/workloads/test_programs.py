"""Our own programs: that they compile, check themselves, and compute what the publications define."""

from __future__ import annotations

import math
import re
import struct
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_vperf.machine import compiler
from pytest_vperf.workloads import programs
from pytest_vperf.workloads.base import Output
from pytest_vperf.workloads.dhrystone import VperfDhrystone
from pytest_vperf.workloads.stream import VperfStream
from pytest_vperf.workloads.system import VperfSwitches, VperfSyscalls
from pytest_vperf.workloads.whetstone import VperfWhetstone

if TYPE_CHECKING:
    from collections.abc import Mapping


SOURCE = Path(programs.__file__).parent / "source"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    if not compiler.check().usable:
        pytest.skip(compiler.check().why)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("VPERF_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        return programs.build()


def run(program: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [program, *arguments], capture_output=True, text=True, check=False, timeout=60
    )


@pytest.mark.parametrize(
    "work",
    [
        VperfDhrystone(0.02),
        VperfDhrystone(0.02, warmup=0.02),
        VperfWhetstone(0.02),
        VperfWhetstone(0.02, warmup=0.02),
        VperfSyscalls(0.02),
        VperfSyscalls(0.02, warmup=0.02),
        VperfSwitches(0.02),
        VperfSwitches(0.02, warmup=0.02),
        VperfStream(10_000, 3),
        VperfStream(10_000, 3, grouped=True),
    ],
    ids=lambda work: work.tool,
)
def test_program_runs_and_is_read(built: Mapping[str, Path], work: Any) -> None:
    program = built[f"/usr/local/bin/{work.tool}"]
    version = work.version_of(Output(run(program, *work.version_argv).stdout))
    done = run(program, *work.argv(version))
    assert (done.returncode, done.stderr) == (0, "")
    assert work.parse(Output(done.stdout, "", version)).implementation == f"{work.tool} {version}"


@pytest.mark.parametrize(
    "name", ["vperf-dhrystone", "vperf-whetstone", "vperf-syscalls", "vperf-switches"]
)
def test_a_warm_up_is_run_and_does_not_count(built: Mapping[str, Path], name: str) -> None:
    began = time.monotonic()
    done = run(built[f"/usr/local/bin/{name}"], "--seconds=0.02", "--warmup=0.4")
    lasted = time.monotonic() - began
    assert (done.returncode, done.stderr) == (0, "")
    counted = re.search(r"^seconds: ([0-9.]+)$", done.stdout, re.MULTILINE)
    assert counted is not None
    assert lasted - float(counted[1]) >= 0.4


def test_a_fixed_number_of_runs_is_run(built: Mapping[str, Path]) -> None:
    done = run(built["/usr/local/bin/vperf-dhrystone"], "--runs=12345", "--warmup=0.02")
    assert "\nruns: 12345\n" in done.stdout
    assert done.stdout.endswith("\nchecked: yes\n")


def test_programs_are_static(built: Mapping[str, Path]) -> None:
    for program in built.values():
        elf = program.read_bytes()
        # elf(5): where the program headers are, how large each is, and how many.
        (start,) = struct.unpack_from("<Q", elf, 32)
        size, count = struct.unpack_from("<HH", elf, 54)
        kinds = {struct.unpack_from("<I", elf, start + size * i)[0] for i in range(count)}
        # PT_LOAD is there; PT_DYNAMIC and PT_INTERP, for a loader, are not.
        assert 1 in kinds
        assert not kinds & {2, 3}


def test_same_sources_are_built_once(
    built: Mapping[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    program = built["/usr/local/bin/vperf-stream"]
    monkeypatch.setenv("VPERF_CACHE_DIR", str(program.parents[2]))
    made = program.stat().st_mtime_ns
    again = programs.build()["/usr/local/bin/vperf-stream"]
    assert (again, again.stat().st_mtime_ns) == (program, made)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--runs=x"], "--runs is 'x', not a number from 1 to 2e+09\n"),
        (["--runs=0"], "--runs is '0', not a number from 1 to 2e+09\n"),
        (["--runs=nan"], "--runs is 'nan', not a number from 1 to 2e+09\n"),
        (["--warmup=6"], "--warmup is '6', not a number from 0 to 5\n"),
        (["--loops=1"], "vperf-dhrystone 1.1: there is no option '--loops=1'\n"),
    ],
)
def test_program_refuses_what_it_does_not_know(
    built: Mapping[str, Path], arguments: list[str], message: str
) -> None:
    done = run(built["/usr/local/bin/vperf-dhrystone"], *arguments)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", message)


@pytest.mark.parametrize(
    ("file", "before", "after", "program", "what"),
    [
        ("dhrystone.c", "lowered -= 1;", "lowered -= 2;", "vperf-dhrystone", "the first local number"),
        ("dhrystone_parts.c", "table[place][place - 1] += 1;", "", "vperf-dhrystone", "an element of the table"),
        ("stream.c", "c[i] = a[i] + b[i];", "c[i] = a[i] - b[i];", "vperf-stream", "an element of a"),
        ("syscalls.c", "SYS_getppid", "SYS_getpid", "vperf-syscalls", "the number of right answers"),
        ("switches.c", "got + 1);", "got + 2);", "vperf-switches", "the token of the first process"),
        ("switches.c", "turn++) {", "turn++, token++) {", "vperf-switches", "the token of the second process"),
        ("switches.c", "int status;", "int status; token *= 3;", "vperf-switches", "the kernel's count of switches"),
        ("whetstone.c", "T2 = 2.0", "T2 = 2.1", "vperf-whetstone", "module 3, array as a parameter"),
    ],
)  # fmt: skip
def test_program_notices_a_wrong_result(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    file: str,
    before: str,
    after: str,
    program: str,
    what: str,
) -> None:
    """A compiler that computes something else is caught; here the source does."""
    if not compiler.check().usable:
        pytest.skip(compiler.check().why)
    monkeypatch.setenv("VPERF_CACHE_DIR", str(tmp_path))
    names = (*programs.PROGRAMS[program], "measure.c", "measure.h")
    sources = {name: (SOURCE / name).read_bytes() for name in names}
    assert before.encode() in sources[file]
    sources[file] = sources[file].replace(before.encode(), after.encode())
    broken = compiler.build("broken", program, sources, programs.FLAGS, ("-lm",))
    short = {
        "vperf-stream": ["--elements=1000", "--repetitions=2"],
        "vperf-whetstone": ["--passes=1"],
        "vperf-syscalls": ["--seconds=0.02"],
        "vperf-switches": ["--seconds=0.02"],
    }
    done = run(broken, *short.get(program, ["--runs=100"]))
    assert done.returncode == 3
    # Where two processes notice it, either may be the first to say so.
    assert f"wrong result: {what} is " in done.stderr, done.stderr
    assert "checked: yes" not in done.stdout


def test_whetstone_expects_what_its_definition_gives() -> None:
    """The modules once more, in Python: the C program's known results do not come from itself alone."""
    t, t1, t2 = 0.499975, 0.50025, 2.0

    def turn(e: list[float], last: float) -> None:
        e[0] = (e[0] + e[1] + e[2] - e[3]) * t
        e[1] = (e[0] + e[1] - e[2] + e[3]) * t
        e[2] = (e[0] - e[1] + e[2] + e[3]) * t
        e[3] = (-e[0] + e[1] + e[2] + e[3]) * last

    elements = [1.0, -1.0, -1.0, -1.0]
    for _ in range(120):
        turn(elements, t)
    parameter = [1.0, -1.0, -1.0, -1.0]
    for _ in range(140 * 6):
        turn(parameter, 1 / t2)
    x = y = 0.5
    for _ in range(320):
        x = t * math.atan(
            t2 * math.sin(x) * math.cos(x) / (math.cos(x + y) + math.cos(x - y) - 1.0)
        )
        y = t * math.atan(
            t2 * math.sin(y) * math.cos(y) / (math.cos(x + y) + math.cos(x - y) - 1.0)
        )
    x1 = t * 2.0
    y1 = t * (x1 + 1.0)
    references = [1.0, 2.0, 3.0]
    for _ in range(6160):
        references[0] = references[1]
        references[1] = references[2]
        references[2] = references[0]
    value = 0.75
    for _ in range(930):
        value = math.sqrt(math.exp(math.log(value) / t1))
    expected = {
        "array_elements": elements[3],
        "array_parameter": parameter[3],
        "trigonometric_functions": x + y,
        "procedure_calls": (x1 + y1) / t2,
        "array_references": references[0] + 10 * references[1] + 100 * references[2],
        "standard_functions": value,
    }
    text = (SOURCE / "whetstone.c").read_text()
    for function, result in expected.items():
        row = re.search(rf'", {function}, [0-9]+, ([-0-9.]+), ', text)
        assert row is not None, function
        assert float(row[1]) == pytest.approx(result, rel=1e-9), function
