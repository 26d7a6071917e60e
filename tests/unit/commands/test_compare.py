"""``vperf compare`` from the command line: runs that were kept, against other ones."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING, Any

import pytest

from pytest_vperf import cli
from pytest_vperf.results.levels import Level
from pytest_vperf.results.store.files import FileStore
from pytest_vperf.results.store.model import StoredRun

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Keep = Callable[..., None]

HERE = {"cpu_model": "One", "logical_cpus": "2", "memory": "23.54 GiB", "kernel": "6.1"}
COMMITS = {"main": "aa" * 20, "pr": "bb" * 20}


@pytest.fixture
def keep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Keep:
    """Keeps runs with these figures, in the folder that the command reads."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "160")
    store, count = FileStore(tmp_path / ".vperf"), iter(range(1000))

    def keep(name: str, *values: float, on: dict[str, str] = HERE, **level: Any) -> None:
        for value in values:
            number = next(count)
            kind = {"claim": "start.a", "side": "", "unit": "ms", "better": "lower", "n": 9}
            run = StoredRun(
                mark=f"{number:012x}",
                started=f"2026-11-26T09:{number // 60:02d}:{number % 60:02d}+00:00",
                name=name,
                commit=COMMITS.get(name, ""),
                fingerprint=on,
                levels=(Level(**{**kind, "value": value, **level}),),
            )
            head = {"format": 1, "run": run.mark, "started": run.started, "vperf": "0"}
            head |= {"fingerprint": on, "stored": run.as_key(), "claims": []}
            store.save(run, [f"{json.dumps(head)[:-2]}\n".encode(), b'], "result": null}\n'])

    return keep


def around(level: float, size: int, spread: float = 0.005) -> list[float]:
    source = random.Random(level)
    return [level * (1 + source.gauss(0, spread)) for _ in range(size)]


def vperf(*words: str) -> int:
    return cli.main(["compare", "--store=.vperf", *words])


def test_a_slower_build_is_said_and_is_the_exit_status(
    keep: Keep, capsys: pytest.CaptureFixture[str]
) -> None:
    keep("main", 100, 101, 99, 100.5, 99.5)
    keep("pr", 120, 121, 119, 120.5, 119.5)
    assert vperf("main", "pr") == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[:3] == [
        "compare: 1 slower",
        "old: 5 runs: main aaaaaaaaaaaa, 2026-11-26 09:00 to main aaaaaaaaaaaa, 2026-11-26 09:00",
        "new: 5 runs: pr bbbbbbbbbbbb, 2026-11-26 09:00 to pr bbbbbbbbbbbb, 2026-11-26 09:00",
    ]
    assert " ".join(lines[5].split()) == (
        "slower start.a 100 ms (99 to 101) 120 ms (119 to 121) +20 % [+18.32, +21.72] 1.4 % 5, 5"
    )
    assert lines[-1] == "start.a:  5 runs against 5: the fresh ones rank beyond the tolerance"


@pytest.mark.parametrize("word", ["main", "aaaaaaa", "last~5", ".vperf"])
def test_runs_are_named_in_several_ways(
    keep: Keep, capsys: pytest.CaptureFixture[str], word: str
) -> None:
    keep("main", *around(100, 5))
    keep("pr", *around(100.1, 5))
    assert vperf(word, "bbbbbbb") in (0, 5)
    assert "start.a" in capsys.readouterr().out


def test_a_build_that_is_no_worse_is_green(keep: Keep, capsys: pytest.CaptureFixture[str]) -> None:
    keep("main", *around(100, 5))
    keep("pr", *around(100.1, 5))
    assert vperf("main", "pr") == 0
    assert capsys.readouterr().out.startswith("compare: 1 not slower (within 5 %)\n")


def test_one_run_against_one_shows_nothing_and_is_not_green(
    keep: Keep, capsys: pytest.CaptureFixture[str]
) -> None:
    keep("main", 100)
    keep("pr", 200)
    assert vperf("last~1", "last") == 5
    text = capsys.readouterr().out
    assert text.startswith("compare: 1 undecided\n")
    assert "start.a:  1 run against 1 show no change of any size: 4 more runs of each would" in text


def test_what_the_runs_cannot_show_is_said(keep: Keep, capsys: pytest.CaptureFixture[str]) -> None:
    keep("main", *around(100, 6, 0.1))
    keep("pr", *around(101, 6, 0.1))
    assert vperf("main", "pr", "--tolerance=1 %", "--json") == 0
    (claim,) = json.loads(capsys.readouterr().out)["claims"]
    assert claim["verdict"] == "inconclusive"
    share = 100 * claim["visible"]
    assert claim["reason"] == (
        f"6 runs against 6: changes below {share:.2g} % are not visible between these runs"
    )


def test_another_machine_is_refused_with_what_differs(
    keep: Keep, capsys: pytest.CaptureFixture[str]
) -> None:
    keep("main", *around(100, 5), on={**HERE, "cpu_model": "Other", "memory": "15.1 GiB"})
    keep("pr", *around(100, 5))
    assert vperf("main", "pr") == 3
    assert capsys.readouterr().err == (
        "vperf compare: main and pr are of different machines: cpu_model: Other / One; "
        "memory: 15.1 GiB / 23.54 GiB\n"
    )


def test_the_runs_of_the_same_machine_are_taken_of_several(
    keep: Keep, capsys: pytest.CaptureFixture[str]
) -> None:
    keep("main", *around(300, 5), on={**HERE, "logical_cpus": "64"})
    keep("main", *around(100, 5), on={**HERE, "memory": "23.6 GiB", "kernel": "5.10"})
    keep("pr", *around(100.1, 5))
    assert vperf("main", "pr") == 0
    lines = capsys.readouterr().out.splitlines()
    assert "also: kernel 5.10 → 6.1" in lines
    assert "left out:  5 of the runs, which were on other machines" in lines


def test_a_rate_is_better_the_higher_it_is(keep: Keep, capsys: pytest.CaptureFixture[str]) -> None:
    keep("main", *around(100, 5), unit="MB/s", better="higher")
    keep("pr", *around(80_000, 5), unit="kB/s", better="higher")
    assert vperf("main", "pr") == 1
    assert "-20" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("new", "why"),
    [
        ({"unit": "MB"}, "one is in ms, the other in MB"),
        ({"unit": ""}, "one is in ms, the other in no unit, as a ratio"),
        ({"value": 0.0}, "a figure is 0 or less: there is no ratio"),
    ],
)
def test_what_has_no_ratio_is_not_comparable(
    keep: Keep, capsys: pytest.CaptureFixture[str], new: dict[str, Any], why: str
) -> None:
    keep("main", *around(100, 5))
    keep("pr", *around(100, 5), **new)
    assert vperf("main", "pr") == 5
    text = capsys.readouterr().out
    assert text.startswith("compare: 1 not comparable\n")
    assert text.endswith(f"start.a:  {why}\n")


def test_claims_that_only_one_has_are_named(keep: Keep, capsys: pytest.CaptureFixture[str]) -> None:
    keep("main", *around(100, 5), claim="gone")
    keep("pr", *around(100, 5), claim="fresh")
    assert vperf("main", "pr") == 5
    assert capsys.readouterr().out.splitlines()[-2:] == [
        "only in old:  gone",
        "only in new:  fresh",
    ]


def test_of_a_gate_the_head_counts_unless_a_side_is_named(
    keep: Keep, capsys: pytest.CaptureFixture[str]
) -> None:
    keep("main", *around(100, 5))
    keep("pr", *around(120, 5), side="head")
    assert vperf("main", "pr") == 1
    assert vperf("main", "pr@base") == 5
    assert "only in old:  start.a" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("main", "mian"), ".vperf has no run 'mian', and there is no such file; did you mean 'main'?"),
        (("main", "zzz"), ".vperf has no run 'zzz', and there is no such file; there are main, pr"),
        (("last~9", "main"), "last~9: .vperf has 2 runs: keep one with --claims-save"),
        (("ccccccc", "main"), ".vperf has no run 'ccccccc', and there is no such file; there are main, pr"),
        (("note.txt", "main"), "note.txt: is not JSON: Expecting value: line 1 column 1 (char 0)"),
    ],
)  # fmt: skip
def test_runs_that_are_not_there_are_said(
    keep: Keep,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    words: tuple[str, str],
    message: str,
) -> None:
    keep("main", 100)
    keep("pr", 100)
    (tmp_path / "note.txt").write_text("no record")
    assert vperf(*words) == 2
    assert capsys.readouterr().err == f"vperf compare: {message}\n"


def test_markdown_is_written_whole(keep: Keep, tmp_path: Path) -> None:
    keep("main", *around(100, 5), claim="a|b<i>")
    keep("pr", *around(130, 5), claim="a|b<i>")
    assert vperf("main", "pr", "--markdown", "--output=out.md") == 1
    text = (tmp_path / "out.md").read_text()
    assert text.startswith("**compare: 1 slower**\n\n- old: 5 runs: ")
    assert "| slower | `a\\|b<i>` | " in text


def test_records_of_runs_are_compared_without_a_store(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("VPERF_LOCK", str(pytester.path / "lock"))
    pytester.mkdir("thresholds").joinpath("any.yaml").write_text(
        "hardware: {name: any, match: {}}\nclaims:\n  start.a: {at_most: 400 ms}\n"
    )
    pytester.makepyfile(
        """
        import itertools, os
        from pytest_vperf import Quantity

        noise = itertools.cycle([1, 1.003, 0.999])

        def test_a(claim):
            level = float(os.environ["LEVEL"])
            claim("start.a").holds(lambda: Quantity(level * next(noise), "ms"))
        """
    )
    for name, level in (("one", "100"), ("two", "130")):
        monkeypatch.setenv("LEVEL", level)
        pytester.runpytest_subprocess("--claims-sessions=1", f"--claims-json={name}.json")
    assert cli.main(["compare", "one.json", "two.json"]) == 5
    text = capsys.readouterr().out
    assert "100 ms" in text
    assert "+30" in text
