"""A run that is ended from outside: nothing measured is lost and everything started is ended, also with xdist."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import psutil
import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

#: Each test counts its samples, and has an object of the run whose end takes a moment.
TESTS = """
import os, pathlib, time

import pytest
from samplers import around

@pytest.fixture(scope="session")
def engine(vperf_run):
    pathlib.Path(f"began-{os.getpid()}").touch()
    yield
    time.sleep(0.5)
    pathlib.Path(f"ended-{os.getpid()}").touch()

def sampler(name, scope):
    class Machine:
        def close(self):
            pathlib.Path("closed").open("a").write("x")

    def sample():
        scope.keep(Machine())
        with pathlib.Path(f"sampling-{name}").open("a") as marks:
            marks.write("x")
        return around(350, sleep=0.2)()
    return sample

@pytest.fixture
def together():
    # Nobody measures before all workers are there.
    count, deadline = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")), time.monotonic() + 60
    while len(list(pathlib.Path().glob("began-*"))) < count and time.monotonic() < deadline:
        time.sleep(0.02)

def test_first(claim):
    claim("start.quick").holds(around(350))

def test_long(claim, vperf_scope, engine, together):
    claim("start.alike").compares(sampler("long", vperf_scope), to=sampler("long", vperf_scope))

def test_other(claim, vperf_scope, engine, together):
    claim("start.alike").compares(sampler("other", vperf_scope), to=sampler("other", vperf_scope))
"""


@pytest.fixture
def claiming(project: pytest.Pytester) -> Path:
    project.makepyfile(test_here=TESTS)
    return project.path


def as_at_a_terminal() -> None:
    """A shell without a terminal has its background jobs ignore SIGINT, and this process may be one."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


def no_worker() -> dict[str, str]:
    """The environment of a run that is not an xdist worker, as these tests may be."""
    return {key: each for key, each in os.environ.items() if not key.startswith("PYTEST_XDIST")}


@contextlib.contextmanager
def running(folder: Path, *words: str, **options: Any) -> Iterator[subprocess.Popen[bytes]]:
    """A run in its own session, apart from this process's terminal."""
    command = [sys.executable, "-m", "pytest", "--claims-json=out.json", "-p", "no:cacheprovider"]
    with subprocess.Popen(
        [*command, "--claims-tolerance=0.1 %", *words],
        cwd=folder,
        env=no_worker(),
        preexec_fn=as_at_a_terminal,
        **{"stdout": subprocess.PIPE, "start_new_session": True, **options},
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def wait_for(there: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not there():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def samples(folder: Path, name: str) -> int:
    path = folder / f"sampling-{name}"
    return len(path.read_text()) if path.exists() else 0


def claims(folder: Path) -> dict[str, dict[str, Any]]:
    """The claims of the record, by their test's name."""
    found: list[dict[str, Any]] = json.loads((folder / "out.json").read_text())["claims"]
    return {claim["nodeid"].rpartition("::")[2]: claim for claim in found}


def assert_all_ended(folder: Path, processes: int = 1) -> None:
    assert len(list(folder.glob("ended-*"))) == processes
    opened = sum(samples(folder, name) for name in ("long", "other"))
    assert len((folder / "closed").read_text()) == opened


def test_a_closed_terminal_ends_a_run_in_order(claiming: Path, apart: Path) -> None:
    """As by a terminal emulator: the kernel sends SIGHUP to the session, and writing fails from then on."""
    pid, terminal = pty.fork()
    if pid == 0:
        with contextlib.suppress(BaseException):
            os.chdir(claiming)
            as_at_a_terminal()
            words = ["-m", "pytest", "--claims-json=out.json", "--claims-tolerance=0.1 %"]
            argv = [sys.executable, *words, "-p", "no:cacheprovider"]
            os.execve(sys.executable, argv, no_worker())
        os._exit(99)
    try:

        def read_until_sampled() -> bool:
            while select.select([terminal], [], [], 0)[0]:
                with contextlib.suppress(OSError):
                    if os.read(terminal, 65536):
                        continue
                break
            return samples(claiming, "long") >= 3

        wait_for(read_until_sampled)
    finally:
        os.close(terminal)
        wait_for(lambda: os.waitpid(pid, os.WNOHANG) != (0, 0))
    assert_all_ended(claiming)
    found = claims(claiming)
    assert set(found) == {"test_first", "test_long"}
    assert found["test_long"]["reason"].startswith("error: KeyboardInterrupt: SIGHUP")
    assert len(found["test_long"]["observations"]) >= 2
    assert found["test_first"]["cause"] == "interrupted"  # it waited for its next session
    assert list((apart / "runs").iterdir()) == []


@pytest.mark.parametrize(
    "number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=["ctrl-c", "sigterm", "hangup"]
)
@pytest.mark.parametrize("whom", ["controller", "all"])
def test_workers_of_xdist_end_in_order_and_bring_what_they_measured(
    claiming: Path, apart: Path, number: signal.Signals, whom: str
) -> None:
    pytest.importorskip("xdist")
    (claiming / "test_here.py").rename(claiming / "tests_here.py")
    # A busy machine may need longer for the end of a worker than the 10 s after which xdist kills it.
    (claiming / "conftest.py").write_text(
        "import xdist.workermanage\nxdist.workermanage.NodeManager.EXIT_TIMEOUT = 50\n"
    )
    (claiming / "test_there.py").write_text(
        "import tests_here\nfrom tests_here import engine, together, test_long, test_other\n"
    )
    with running(claiming, "-n2", "--dist=load") as process:
        # Only one measures at a time; the other waits for its turn.
        wait_for(lambda: samples(claiming, "long") + samples(claiming, "other") >= 3)
        send = os.killpg if whom == "all" else os.kill
        send(process.pid, number)
        out, _ = process.communicate(timeout=60)
    assert process.returncode == pytest.ExitCode.INTERRUPTED
    assert_all_ended(claiming, processes=2)
    found = claims(claiming)
    measured = [name for name in ("long", "other") if samples(claiming, name)]
    assert set(found) >= {f"test_{name}" for name in measured}
    for name in measured:
        claim = found[f"test_{name}"]
        complete = len(claim["observations"])
        assert complete >= samples(claiming, name) - 1
        # The one that waited may get its turn when the other ends, and be interrupted in its first sample.
        assert claim["verdict"] == ("inconclusive" if complete else "not measured")
        assert claim["reason"].startswith("error: KeyboardInterrupt")
    undecided = sum(claim["verdict"] == "inconclusive" for claim in found.values())
    assert undecided
    assert f"claims: {undecided} inconclusive" in out.decode()
    assert list((apart / "runs").iterdir()) == []


def test_workers_of_xdist_end_with_a_controller_that_was_killed(
    claiming: Path, apart: Path
) -> None:
    pytest.importorskip("xdist")
    with running(claiming, "-n1", stdout=subprocess.DEVNULL) as process:
        wait_for(lambda: samples(claiming, "long") >= 3)
        workers = psutil.Process(process.pid).children(recursive=True)
        process.kill()
        process.wait()
        began = time.monotonic()
        _, alive = psutil.wait_procs(workers, timeout=60)
        took = time.monotonic() - began
    assert alive == []
    # Without a signal, they are interrupted after 5 s.
    assert took < 4.5
    assert_all_ended(claiming)
    assert list((apart / "runs").iterdir()) == []
