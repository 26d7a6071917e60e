"""The command: its tables, its files, its gate, and the work it times."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
from verdicts import goals
from verdicts.cells import Cell, comparison
from verdicts.command_line import main
from verdicts.draws import Noise
from verdicts.record import record
from verdicts.simulation import over_traces, simulate
from verdicts.trace import load
from verdicts.workloads import WORKLOADS, NotHere, stretched

FOLDER = Path(__file__).parents[3] / "benchmarks" / "verdicts"
BENCHSTAT = "benchstat MWU p<.05, n=20"


@pytest.fixture
def quiet(tmp_path: Path) -> Path:
    """A folder with one trace of little noise, so that every rule is fast."""
    folder = tmp_path / "traces"
    folder.mkdir()
    values = [1 + 0.002 * ((place * 7919) % 101) / 101 for place in range(400)]
    found = {"metric": "quiet", "t": [*range(400)], "v": values}
    (folder / "quiet.json").write_text(json.dumps(found))
    return folder


def test_the_help_names_what_there_is() -> None:
    command = [sys.executable, str(FOLDER), "--help"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.startswith("usage: verdicts ")
    for option in ("--traces", "--decisions", "--quick", "--gate", "--plot", "--json", "live"):
        assert option in done.stdout


def test_equal_seeds_give_equal_counts_on_one_processor_and_on_two(quiet: Path) -> None:
    cells = [Cell(comparison(2.0), BENCHSTAT, truth) for truth in (0.0, 5.0)]
    one = simulate(load(quiet), 50, Noise(seed=5), cells, processes=1)
    two = simulate(load(quiet), 50, Noise(seed=5), cells, processes=2)
    assert one == two
    together = over_traces(one)
    assert together[cells[0]].total == together[cells[1]].total == 50
    assert together[cells[1]].refuted == 50


def test_the_command_prints_its_tables_and_writes_its_files(
    quiet: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("matplotlib")
    plot, counts = tmp_path / "plot.svg", tmp_path / "counts.json"
    options = ["--quick", "--decisions", "3", "--processes", "1", "--per-trace"]
    files = ["--plot", str(plot), "--json", str(counts)]
    assert main(["--traces", str(quiet), *options, *files]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("1 traces (quiet), 3 decisions of each cell on each, seed 1")
    for title in ("tolerance 2 %", "tolerance 5 %", "B/A near 0.75 ± 5 %", "A at most a limit"):
        assert title in printed
    assert "by trace" in printed
    assert "false alarm, d = 0" in printed
    assert plot.read_text().lstrip().startswith("<?xml")
    found = json.loads(counts.read_text())
    (cell,) = [
        cell
        for cell in found["cells"]
        if (cell["table"], cell["rule"], cell["truth"]) == (comparison(2.0), "vperf compare", 10.0)
    ]
    assert (cell["trace"], cell["refuted"], cell["holds"]) == ("quiet", 3, 0)


@pytest.mark.parametrize(("must", "status"), [(1e9, 0), (0.5, 1)])
def test_the_gate_is_the_exit_status(
    quiet: Path, monkeypatch: pytest.MonkeyPatch, must: float, status: int
) -> None:
    cell = Cell(comparison(2.0), BENCHSTAT, 5.0)
    monkeypatch.setattr(goals, "RATES", ())
    monkeypatch.setattr(goals, "EFFORTS", (goals.Effort("samples", cell, must, must),))
    options = ["--traces", str(quiet), "--quick", "--decisions", "2", "--processes", "1"]
    assert main([*options, "--gate"]) == status
    assert main(options) == 0


def test_mistakes_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--traces", str(tmp_path)]) == 2
    assert f"verdicts: no trace (*.json) in {tmp_path}" in capsys.readouterr().err
    for argv, message in [
        (["--block", "0"], "the mean block length is 0.0, less than 1"),
        (["--decisions", "0"], "0 is less than 1"),
        (["live", "--what", "spinn"], "'spinn' is none of process, python, spin"),
        (["live", "--slowdowns", "5,x"], "'5,x' is not a list of whole numbers"),
        (["live", "--slowdowns", "-5"], "a slowdown below 0 cannot be made by more work"),
    ]:
        with pytest.raises(SystemExit) as raised:
            main(argv)
        assert raised.value.code == 2
        assert message in capsys.readouterr().err


def test_a_stretch_takes_exactly_so_much_longer() -> None:
    began = time.perf_counter()
    whole = stretched(began - 0.01, 50)
    assert whole >= 0.015
    assert stretched(began, 0) <= time.perf_counter() - began


@pytest.mark.parametrize("name", ["process", "python", "spin", "tcp", "memory"])
def test_work_is_timed_with_and_without_more_of_it(name: str) -> None:
    with WORKLOADS[name]() as sample:
        times = [sample(0), sample(0), sample(100), sample(100)]
    assert min(times) > 0


def test_a_recording_is_a_trace(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert record(["spin"], tmp_path, 25) == 0
    (trace,) = load(tmp_path)
    assert (trace.name, len(trace.values)) == ("spin", 25)
    assert capsys.readouterr().out.startswith("spin: 25 samples in ")


def test_work_that_cannot_run_here_is_left_out_with_its_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NotHere), WORKLOADS["sysbench"]():
        pass
    assert record(["sysbench"], tmp_path) == 1
    assert capsys.readouterr().out == (
        "sysbench: left out: sysbench is not installed: apt-get install sysbench\n"
    )


def test_live_decides_on_work_that_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("VPERF_LOCK", str(tmp_path / "lock"))
    counts = tmp_path / "live.json"
    options = ["--what", "tcp", "--slowdowns", "50", "--decisions", "1", "--json", str(counts)]
    assert main(["live", *options]) == 0
    printed = capsys.readouterr().out
    assert "Tolerance 2 %, 1 decisions of each cell, seed 1" in printed
    assert "tcp: mean seconds of a decision" in printed
    rules = [cell["rule"] for cell in json.loads(counts.read_text())["cells"]]
    assert rules[-1] == "vperf compare"
    assert len(rules) == 4
