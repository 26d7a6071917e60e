"""A claim about a sweep of loads: its verdict in the call phase, its record with every sample, its table."""

from __future__ import annotations

import json
from typing import Any

import pytest

LOADS = """
import itertools

import pytest
from pytest_vperf.results.record import Busy, Load
from pytest_vperf.quantity import Quantity

noise = itertools.cycle([1, 1.002, 0.998, 1.001, 0.999, 1.003, 0.997])
RATES = [25, 50, 75, 100, 130, 200, 400]


def packets(value):
    return Quantity(value, "packet/s", direction="higher")


def through(plateau, most=1e9, wanted=None):
    def sample(rate):
        offered = min(rate, most)
        busy = (
            Busy("vhost-7 of the sender", 99.0 if rate > plateau else 30.0, 99.0),
            Busy("the sender", wanted or 20.0, wanted or 20.0, source=True),
        )
        carried = min(offered, plateau) * next(noise)
        return Load(packets(rate), packets(offered), packets(carried), busy if wanted != 0 else ())

    return sample
"""


@pytest.fixture
def sweep(project: pytest.Pytester) -> Any:
    project.makepyfile(loads=LOADS)

    def run(body: str, *options: str) -> tuple[dict[str, Any], pytest.RunResult]:
        project.makepyfile(
            f"""
            from loads import *
            def test_it(claim):
                {body}
            """
        )
        result = project.runpytest("--claims-json=out.json", *options)
        (found,) = json.loads((project.path / "out.json").read_text())["claims"]
        return dict(found), result

    return run


def test_a_sweep_that_saturates_holds(sweep: Any) -> None:
    found, result = sweep('claim("copy.plateau").saturates(through(90), over=RATES)', "-v")
    assert result.ret == 0
    result.assert_outcomes()  # held, and not merely passed
    assert found["verdict"] == "holds"
    assert (found["statistic"], found["threshold"], found["unit"]) == ("plateau", 90, "packet/s")
    assert found["criterion"] == "saturates near 90 packet/s ± 5 %"
    assert found["estimate"] == pytest.approx(90, rel=0.01)
    assert found["n"] == len(found["samples"]) == 42
    assert [session["samples"] for session in found["sessions"]] == [15, 15, 15]
    assert found["reason"].endswith(
        "the level is shown inside the band; there, a whole processor was used by vhost-7 of the sender (99 %)"
    )
    result.stdout.fnmatch_lines(
        [
            "holds   *copy.plateau * packet/s [[]*[]]*saturates near 90 packet/s ± 5 % * 42*",
            "sweep * point * asked * offered * carried * n *busiest thread",
            "copy.plateau, packet/s * 75 * 75 * 75 * 7* 6 * vhost-7 of the sender 30 %",
            "copy.plateau, packet/s * 100 * 100 * 100 * [89]* flat * 6 * vhost-7 of the sender 99 %",
        ]
    )


def test_every_sample_is_in_the_record_with_its_load(sweep: Any) -> None:
    found, _ = sweep('claim("copy.plateau").saturates(through(90), over=RATES, rounds=3)')
    observations = found["observations"]
    assert [each["order"] for each in observations] == list(range(24))
    assert [each["warm_up"] for each in observations].count(True) == 3
    each = next(each for each in observations if each["load"]["point"] == "400")
    assert each["load"] == {
        "point": "400",
        "asked": 400,
        "offered": 400,
        "unit": "packet/s",
        "counts": True,
        "held_back": False,
        "busy": {"vhost-7 of the sender": 99, "the sender": 20},
        "wanted": {"vhost-7 of the sender": 99, "the sender": 20},
    }
    shown = found["sweep"]
    assert (shown["shape"], shown["unit"], shown["flat"]) == (
        "plateau",
        "packet/s",
        [100, 130, 200, 400],
    )
    assert shown["knee"] == pytest.approx(90, rel=0.05)
    assert [row["asked"] for row in shown["loads"]] == [25, 50, 75, 100, 130, 200, 400]
    assert shown["loads"][-1] == {
        "point": "400",
        "asked": 400,
        "offered": 400,
        "carried": pytest.approx(90, rel=0.01),
        "n": 3,
        "left_out": 0,
        "busiest": "vhost-7 of the sender 99 %",
    }


@pytest.mark.parametrize(
    ("busy", "said"),
    [
        # On a machine with too few processors no thread has a whole one, yet one has no time left.
        (
            '(Busy("vhost-7", 52.0, 97.0), Busy("other", 60.0, 61.0))',
            "; there, no thread had a whole processor, although one was wanted by vhost-7 (52 %, 97 % with waiting):"
            " there are too few processors",
        ),
        # Who was busy once is not who was busy.
        (
            '(Busy("vhost-7", 70.0, 71.0), *([Busy("kworker", 99.0, 99.0)] if next(turn) == 9 else []))',
            "; there, no thread used a whole processor: the busiest, vhost-7, used 70 %",
        ),
    ],
)
def test_the_bottleneck_is_named(sweep: Any, busy: str, said: str) -> None:
    found, _ = sweep(
        "turn = itertools.count()\n"
        "                sample = lambda n: Load(packets(n), packets(n), packets(min(n, 90) * next(noise)),"
        f" {busy})\n"
        '                claim("copy.plateau").saturates(sample, over=RATES)'
    )
    assert found["verdict"] == "holds"
    assert found["reason"].endswith(said)


def test_another_level_refutes(sweep: Any) -> None:
    found, result = sweep('claim("copy.plateau").saturates(through(70), over=RATES)')
    assert found["verdict"] == "refuted"
    assert result.ret == 1
    result.stdout.fnmatch_lines(
        [
            "*copy.plateau is refuted: measured * packet/s, claimed saturates near 90 packet/s ± 5 %",
            "*measured  plateau * packet/s [[]*[]] at 98 % confidence",
        ]
    )


def test_a_sender_that_cannot_do_more_decides_nothing(sweep: Any) -> None:
    body = 'claim("copy.plateau").saturates(through(1e6, most=90, wanted=99.0), over=RATES)'
    found, _ = sweep(body)
    assert (found["verdict"], found["cause"]) == ("inconclusive", "sender")
    assert found["estimate"] is None
    assert [row["left_out"] for row in found["sweep"]["loads"]] == [0, 0, 0, 6, 6, 6, 6]


def test_a_sender_that_is_held_back_shows_the_plateau(sweep: Any) -> None:
    """The path behind it carries no more: the sender waits, with time left, and offers just what is carried."""
    found, _ = sweep(
        'claim("copy.plateau").saturates(through(1e6, most=90, wanted=40.0), over=RATES)'
    )
    assert found["verdict"] == "holds"
    loads = [each["load"] for each in found["observations"]]
    assert all(each["held_back"] == (each["asked"] > 90) for each in loads)


def test_without_evidence_a_sender_does_not_count_as_held_back(sweep: Any) -> None:
    found, _ = sweep('claim("copy.plateau").saturates(through(1e6, most=90, wanted=0), over=RATES)')
    assert (found["verdict"], found["cause"]) == ("inconclusive", "sender")
    assert found["sweep"]["bottleneck"] == ""


def test_the_point_itself_may_be_the_load(sweep: Any) -> None:
    body = 'claim("copy.plateau").saturates(lambda n: packets(min(9 * n, 90) * next(noise)), over=range(2, 60, 6))'
    found, _ = sweep(body)
    assert found["verdict"] == "holds"
    assert found["sweep"]["unit"] == ""
    assert found["sweep"]["knee"] == pytest.approx(10, rel=0.1)


def test_a_sweep_without_a_figure_is_described(sweep: Any) -> None:
    body = 'claim("copy.graph").saturates(lambda n: Quantity(min(n, 30), "ms"), over=[10, 20, 40, 80, 160])'
    found, _ = sweep(body)
    assert found["verdict"] == "not comparable"
    assert found["estimate"] == 30
    assert len(found["sessions"]) == 1


def test_a_sweep_without_time_left_is_inconclusive(sweep: Any) -> None:
    body = (
        'import time; claim("copy.plateau").saturates('
        "lambda n: (time.sleep(0.02), packets(n))[1], over=RATES)"
    )
    found, _ = sweep(body, "--claims-budget=100 ms")
    assert (found["verdict"], found["cause"]) == ("inconclusive", "budget")


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (
            'claim("copy.plateau").holds(lambda: packets(1))',
            "*claim 'copy.plateau' is a sweep (saturates near 90 packet/s ± 5 %, *here.yaml:*): "
            "use claim('copy.plateau').saturates(sample, over=loads)",
        ),
        (
            'claim("copy.rate").saturates(through(90), over=RATES)',
            "*claim 'copy.rate' is not a comparison (≥ 10 MB/s, *): use claim('copy.rate').holds(sample)",
        ),
        (
            'claim("start.alike").saturates(through(90), over=RATES)',
            "*use claim('start.alike').compares(sample, to=other)",
        ),
    ],
)
def test_the_wrong_method_is_refused(project: pytest.Pytester, body: str, said: str) -> None:
    project.makepyfile(loads=LOADS)
    project.makepyfile(f"from loads import *\ndef test_it(claim):\n    {body}\n")
    result = project.runpytest()
    assert result.ret == 1
    result.stdout.fnmatch_lines([said])


def test_two_points_show_no_plateau(project: pytest.Pytester) -> None:
    project.makepyfile(loads=LOADS)
    project.makepyfile(
        'from loads import *\ndef test_it(claim):\n    claim("copy.plateau").saturates(through(9), over=[1, 2])\n'
    )
    project.runpytest().stdout.fnmatch_lines(["*ValueError: points is 2, less than 3"])
