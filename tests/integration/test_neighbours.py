"""A project with the plug-ins that many have, and with options and fixtures of everyday names: nothing collides."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.patient

#: Where ``script/bootstrap --tests`` puts those that no other test of ours has beside it.
OTHERS = Path(sys.prefix) / "other-plugins"

#: Names that a project may well have for its own things; many are those of fixtures of ours.
NAMES = (
    *("bench", "lab", "native", "network", "rootfs", "disks", "machine", "systems", "pods", "pod", "guests", "guest"),
    *("containers", "container", "container_runtime", "containers_with", "domus", "domu", "loaded", "crowds"),
    *("procmem", "guestmem", "cpuhog", "other_host", "footprint", "image", "kernel", "client", "database", "run"),
)  # fmt: skip
CONFTEST = f"""
import pytest

OPTIONS = ["on", "lab", "kernel", "machine", "disk", "accelerator", "host-tools", "image", "runtime", "seed", "level",
           "json", "report", "store", "target", "env", "runslow", "hosts-file", "base", "head", "save"]

def pytest_addoption(parser):
    for name in OPTIONS:
        parser.addoption(f"--{{name}}", default=f"my {{name}}")
        parser.addini(name.replace("-", "_"), "mine", default=f"my {{name}}")

def pytest_configure(config):
    config.addinivalue_line("markers", "slow: mine")

def mine(name):
    @pytest.fixture(name=name)
    def make():
        return f"my {{name}}"
    return make

for each in {NAMES}:
    globals()[f"fixture_{{each}}"] = mine(each)
"""
PRODUCT = """
def add(a, b):
    return a + b
"""
TESTS = f"""
import asyncio
import itertools

import allure
import pytest
from flaky import flaky
from product import add

NAMES = {NAMES}
attempts = itertools.cycle([0, 1])

@pytest.mark.parametrize("name", NAMES)
def test_fixtures_are_mine(request, name):
    assert request.getfixturevalue(name) == f"my {{name}}"

def test_arguments_are_mine({", ".join(NAMES)}):
    assert (pods, guests, container_runtime) == ("my pods", "my guests", "my container_runtime")

def test_options_are_mine(pytestconfig):
    assert pytestconfig.getoption("--kernel") == pytestconfig.getini("kernel") == "my kernel"
    assert pytestconfig.getoption("--on") == "somewhere"

@allure.title("a sum")
@pytest.mark.timeout(20)
def test_sum():
    assert add(1, 2) == 3

@pytest.mark.asyncio
async def test_asynchronous():
    await asyncio.sleep(0)

def test_times(benchmark):
    assert benchmark(add, 1, 2) == 3

@flaky
def test_at_the_second_attempt():
    assert next(attempts) > 0

def test_host_of_testinfra(host):
    assert host.file("/etc/passwd").exists

@pytest.mark.slow
def test_with_a_claim(claim, sysbench, limited_host):
    host = limited_host(cpus=1)
    claim("cpu.primes").holds(lambda: sysbench.cpu(host, max_prime=1000, events=50).total_time)
"""
THRESHOLDS = """
hardware:
  name: any
  summary: every machine
  match: {}
claims:
  cpu.primes:
    at_most: 60 s
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for name, text in (("conftest", CONFTEST), ("product", PRODUCT), ("test_product", TESTS)):
        (tmp_path / f"{name}.py").write_text(text)
    (tmp_path / "pytest.ini").write_text(
        "[pytest]\ntimeout = 300\nasyncio_default_fixture_loop_scope = function\n"
    )
    (tmp_path / "thresholds").mkdir()
    (tmp_path / "thresholds" / "any.yaml").write_text(THRESHOLDS)
    return tmp_path


@pytest.fixture
def play(project: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Runs its tests with all plug-ins; returns what was printed."""
    if not OTHERS.is_dir():
        pytest.skip("script/bootstrap --tests has not installed the plug-ins of others here")
    monkeypatch.setenv("PYTHONPATH", str(OTHERS))
    for name in [each for each in os.environ if each.startswith("PYTEST_")]:
        monkeypatch.delenv(name)

    def run(*options: str) -> str:
        words = [sys.executable, "-m", "pytest", "-ra", *options]
        done = subprocess.run(words, cwd=project, capture_output=True, text=True, check=False)
        text = done.stdout + done.stderr
        print(text)
        assert done.returncode == 0, text
        return text

    return run


# Both flaky and pytest-rerunfailures run tests again; with both, only flaky does.
@pytest.mark.parametrize("again", ["", "--reruns=1"], ids=["flaky", "rerunfailures"])
@pytest.mark.parametrize("workers", [[], ["-n2"]], ids=["alone", "xdist"])
def test_a_project_with_many_plugins(
    play: Callable[..., str], project: Path, workers: list[str], again: str
) -> None:
    options = [
        "--on=somewhere",
        "--cov=product",
        "--alluredir=allure",
        "--benchmark-json=times.json",
    ]
    if again:
        options += [again, "-p", "no:flaky"]
    printed = play(*options, "--claims-sessions=1", "--claims-json=claims.json", *workers)
    tests = 7 + len(NAMES)
    assert f"{tests} passed, {'1 rerun, ' * bool(again)}1 held in" in printed
    assert "pytest_vperf" not in printed  # in warnings and tracebacks
    assert "product.py" in printed  # the table of pytest-cov
    results = [json.loads(each.read_text()) for each in (project / "allure").glob("*-result.json")]
    assert len({each["fullName"] + each["name"] for each in results}) == tests + 1
    (claim,) = json.loads((project / "claims.json").read_text())["claims"]
    assert (claim["name"], claim["verdict"]) == ("cpu.primes", "holds")
