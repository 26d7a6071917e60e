"""``vperf history`` from the command line: since when a figure is what it is, and which commit is blamed."""

from __future__ import annotations

import json
import random
import re
from typing import TYPE_CHECKING, Any

import pytest
from repositories import git
from stores import save

from pytest_vperf import cli
from pytest_vperf.results.levels import Level
from pytest_vperf.results.store.files import FileStore
from pytest_vperf.results.store.model import StoredRun

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    Keep = Callable[..., None]
    Captured = pytest.CaptureFixture[str]

HERE = {"cpu_model": "One", "logical_cpus": "2", "memory": "23.54 GiB", "kernel": "6.1"}


@pytest.fixture
def keep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Keep:
    """Keeps runs with these figures of one claim, a day each, in the folder that the command reads."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "160")
    store, numbers = FileStore(tmp_path / ".vperf"), iter(range(1000))

    def keep(
        values: Sequence[float],
        commits: Sequence[str] = (),
        *,
        name: str = "main",
        on: dict[str, str] = HERE,
        **level: Any,
    ) -> None:
        for place, value in enumerate(values):
            number = next(numbers)
            kind = {"claim": "start.a", "side": "", "unit": "ms", "better": "lower", "n": 9}
            run = StoredRun(
                mark=f"{number:012x}",
                started=f"2026-{number // 28 + 1:02d}-{number % 28 + 1:02d}T09:00:00+00:00",
                name=name,
                commit=commits[place] if commits else f"{number + 2**150:040x}",
                fingerprint=on,
                levels=(Level(**{**kind, "value": value, **level}),),
            )
            save(store, run)

    return keep


def around(levels: Sequence[float], spread: float = 0.002) -> list[float]:
    source = random.Random(1)
    return [level * (1 + source.gauss(0, spread)) for level in levels]


def history(*words: str) -> int:
    return cli.main(["history", "--store=.vperf", *words])


def shown(capsys: Captured, *words: str) -> list[str]:
    assert history(*words) == 0
    return [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]


@pytest.fixture
def commits(tmp_path: Path) -> list[str]:
    """The commits of a repository in the current folder, the oldest first."""

    git(tmp_path, "init", "--quiet")
    for number in range(40):
        git(tmp_path, "commit", "--quiet", "--allow-empty", f"--message=change {number}")
    return git(tmp_path, "rev-list", "--reverse", "HEAD").split()


def test_ten_slips_that_each_pass_are_named(keep: Keep, capsys: Captured) -> None:
    keep(around([100] * 20 + [100 * 1.01**each for each in range(1, 11)]))
    lines = shown(capsys)
    assert lines[0] == "history: 1 slower"
    (row,) = (line for line in lines if line.startswith("2026-"))
    assert re.fullmatch(
        r"2026-01-21 start\.a 11\d(\.\d)? ms slower \+1\d\.\d+ % in 10 runs, \+(1|0\.9)\S* % each "
        r"\w{9}\.\.\w{9} 30, ±0\.\d+ %",
        row,
    )


def test_the_commit_of_a_step_is_named(keep: Keep, commits: list[str], capsys: Captured) -> None:
    keep(around([100] * 20 + [95] * 20), commits)
    lines = shown(capsys, "start.a")
    row = next(line for line in lines if line.startswith("2026-01-21"))
    assert row.startswith("2026-01-21 start.a 95.0")
    assert "ms faster -4.9" in row
    assert commits[20][:7] in row
    assert lines[-1] == f"start.a: 2026-01-21: the commit is {commits[20][:7]} change 20"


def test_of_several_commits_the_range_is_named(
    keep: Keep, commits: list[str], capsys: Captured
) -> None:
    keep(around([100] * 10 + [105] * 9), commits[::2])
    old, new = commits[18][:9], commits[20][:9]
    lines = shown(capsys)
    assert lines[-1] == f"start.a: 2026-01-11: one of 2 commits: git log {old}..{new}"
    assert any(f"{old}..{new}" in line for line in lines)


def test_a_change_between_runs_of_one_commit_is_not_of_its_making(
    keep: Keep, capsys: Captured
) -> None:
    later = {**HERE, "kernel": "6.12"}
    keep(around([100] * 10), ["ab" * 20] * 10)
    keep(around([110] * 10), ["ab" * 20] * 10, on=later)
    lines = shown(capsys)
    assert lines[-2:] == [
        "start.a: 2026-01-11: the runs before and after are of the same commit, ababababa: "
        "it is not of the code's making",
        "start.a: 2026-01-11: the machine changed too: kernel 6.1 → 6.12",
    ]


def test_the_plot_of_one_claim_fits_a_terminal(
    keep: Keep, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep(around([100] * 20 + [110] * 20))
    assert history("start.a") == 0
    lines = capsys.readouterr().out.splitlines()
    plot = lines[2 : lines.index("runs 1 to 40, 2026-01-01 to 2026-02-12; a line at each change")]
    assert len(plot) >= 14
    assert all(len(line) <= 80 for line in plot)
    assert sum("│" in line[1:40] for line in plot) >= 10


def test_no_change_is_said(keep: Keep, capsys: Captured) -> None:
    keep(around([100] * 30))
    lines = shown(capsys)
    assert lines[0] == "history: 1 without a change"
    assert any(line.startswith("- start.a 100 ms no change - 30, ±0.") for line in lines)


def test_too_few_runs_are_not_green(keep: Keep, capsys: Captured) -> None:
    keep(around([100] * 5))
    assert history() == 5
    assert "start.a:  a step takes 15 runs to show, a steady slip fewer" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("level", "ratio", "word"),
    [
        ({"unit": "Mbit/s", "better": "higher"}, 1.1, "faster"),
        ({"unit": "Mbit/s", "better": "higher"}, 0.9, "slower"),
        ({"unit": "MiB", "better": "lower"}, 1.1, "worse"),
        ({"unit": "", "better": "lower"}, 0.9, "better"),
        ({"unit": "", "better": ""}, 1.1, "changed"),
    ],
)
def test_a_change_is_named_by_what_is_better(
    keep: Keep, capsys: Captured, level: dict[str, str], ratio: float, word: str
) -> None:
    keep(around([100] * 15 + [100 * ratio] * 15), **level)
    assert shown(capsys)[0] == f"history: 1 {word}"


def test_runs_of_other_machines_and_names_are_left_out(keep: Keep, capsys: Captured) -> None:
    keep(around([300] * 10), on={**HERE, "cpu_model": "Two"})
    keep(around([100] * 20))
    keep(around([200] * 20), name="pr")
    lines = shown(capsys, "--runs=main")
    assert lines[0] == "history: 1 without a change"
    assert lines[-1] == "left out: 10 of the runs, which were on other machines"
    assert shown(capsys)[0] == "history: 1 slower"
    assert shown(capsys, "--last=15")[0] == "history: 1 without a change"


def test_figures_in_another_unit_are_converted_or_left_out(keep: Keep, capsys: Captured) -> None:
    keep([1.0], unit="Mbit/s")
    keep([each / 1000 for each in around([100] * 10)], unit="s")
    keep(around([100] * 10))
    lines = shown(capsys)
    assert lines[0] == "history: 1 without a change"
    assert lines[-1] == "start.a: 1 run in another unit is left out"


def test_programs_get_every_run_and_change(
    keep: Keep, commits: list[str], tmp_path: Path, capsys: Captured
) -> None:
    keep(around([100] * 20 + [95] * 20), commits)
    assert history("--json", "--output=out.json") == 0
    (claim,) = json.loads((tmp_path / "out.json").read_text())["claims"]
    assert len(claim["runs"]) == 40
    (change,) = claim["changes"]
    assert change["kind"] == "step"
    assert change["after"] == claim["runs"][20]["run"]
    assert change["commits"] == [f"{commits[20][:7]} change 20"]
    assert history("--markdown") == 0
    assert capsys.readouterr().out.startswith("**history: 1 faster**\n\n| since |")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["start.b"], "none of the runs has a figure of a claim 'start.b'; did you mean 'start.a'?"),
        (["--runs=man"], ".vperf has no run 'man'; did you mean 'main'?"),
        (["--store=none"], "none has no runs: keep one with --claims-save"),
    ],
)  # fmt: skip
def test_what_is_not_there_is_said(
    keep: Keep, capsys: Captured, words: list[str], message: str
) -> None:
    keep([1.0])
    assert history(*words) == 2
    assert capsys.readouterr().err == f"vperf history: {message}\n"


def test_a_commit_that_a_stranger_wrote_is_no_option_of_git(
    keep: Keep, commits: list[str], tmp_path: Path, capsys: Captured
) -> None:
    keep(around([100] * 10), ["--output=written"] * 10)
    keep(around([110] * 10), commits[:10])
    shown(capsys)
    assert not [*tmp_path.glob("*written*")]


def test_a_file_that_is_no_run_is_said(keep: Keep, tmp_path: Path, capsys: Captured) -> None:
    keep(around([100] * 20))
    (tmp_path / ".vperf" / "20261126T091200.000Z-0123456789ab.json").write_text("{")
    assert history() == 0
    said = capsys.readouterr().err
    assert said.startswith(
        "vperf history: left out: .vperf/20261126T091200.000Z-0123456789ab.json: "
    )


def test_a_store_of_damaged_files_alone_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".vperf").mkdir()
    (tmp_path / ".vperf" / "20261126T091200.000Z-0123456789ab.json").write_text("{")
    assert history() == 2
    said = capsys.readouterr().err.splitlines()
    assert said[0].startswith(
        "vperf history: left out: .vperf/20261126T091200.000Z-0123456789ab.json: "
    )
    assert said[1] == "vperf history: .vperf has no runs: keep one with --claims-save"


def test_a_name_that_was_kept_comes_before_a_file_of_it(keep: Keep, tmp_path: Path) -> None:
    keep(around([100] * 5))
    keep(around([120] * 5), name="pr")
    (tmp_path / "main").write_text("a program")
    assert cli.main(["compare", "--store=.vperf", "main", "pr"]) == 1
    assert cli.main(["compare", "--store=.vperf", "./main", "pr"]) == 2
