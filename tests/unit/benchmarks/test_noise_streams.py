"""The simulator: equal seeds give equal noise in order of time, whichever arm asks first."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from verdicts.draws import Draws, Noise
from verdicts.source import Measured, Simulated, Skipping, samplers
from verdicts.trace import SHIPPED, Trace, TraceError, load

if TYPE_CHECKING:
    from pathlib import Path

# Each value is its own index, so that the order can be read from them.
PLACES = Trace("places", np.arange(1.0, 501.0))


def test_equal_seeds_give_equal_streams_whatever_else_is_drawn() -> None:
    alone = Draws(PLACES, [7], Noise(seed=3)).columns(0, 3000)
    among = Draws(PLACES, range(10), Noise(seed=3))
    among.columns(0, 1)  # read in parts, here; at once, above
    assert (among.columns(0, 3000)[7] == alone[0]).all()
    for other in (Noise(seed=4), Noise(seed=3, block=50.0)):
        assert (Draws(PLACES, [7], other).columns(0, 3000) != alone).any()
    renamed = Trace("other", PLACES.values)
    assert (Draws(renamed, [7], Noise(seed=3)).columns(0, 3000) != alone).any()


def test_neighbours_stay_neighbours_inside_blocks_of_the_mean_length_asked() -> None:
    values = Draws(PLACES, range(20), Noise(block=100.0)).columns(0, 5000)
    step = np.diff(values, axis=1)
    follows = (step == 1) | (step == 1 - len(PLACES.values))  # the recording is a circle
    breaks = 1 - follows.mean()
    assert 1 / breaks == pytest.approx(100, rel=0.15)


def test_a_block_goes_on_from_one_part_of_the_stream_to_the_next() -> None:
    values = Draws(PLACES, [0], Noise(block=1e9)).columns(0, 4000)[0]
    assert set(np.diff(values)) == {1.0, 1.0 - len(PLACES.values)}


def test_every_value_is_equally_frequent() -> None:
    values = Draws(PLACES, range(200), Noise(block=20.0)).columns(0, 1000)
    counts = np.bincount(values.astype(int).ravel())[1:]
    assert counts.mean() == 400
    assert (counts > 200).all()


def test_both_arms_draw_from_one_stream_in_the_order_they_are_asked() -> None:
    draws = Draws(PLACES, [0, 1], Noise(block=1e9))
    source = Simulated(draws, 2.0)
    first, second, third = source.take("a", 3), source.take("b", 2), source.take("a", 1)
    expected = draws.columns(0, 6)
    assert (first == expected[:, :3]).all()
    assert (second == 2 * expected[:, 3:5]).all()
    assert (third == expected[:, 5:]).all()


def test_samplers_see_the_stream_that_the_rules_of_the_field_see() -> None:
    draws = Draws(PLACES, [0, 1], Noise())
    sample_a, sample_b = samplers(draws, 1, 1.05)
    seen = [sample_a(), sample_b(), sample_b()] + [sample_a() for _ in range(2500)]
    expected = draws.columns(0, 2503)[1].copy()
    expected[1:3] *= 1.05
    assert seen == expected.tolist()


def test_a_position_effect_slows_every_second_call_and_a_cold_start_fades() -> None:
    still = Trace("still", np.ones(50))
    position = Draws(still, [0], Noise(position=0.2)).columns(0, 1500)[0]
    assert position[::2].tolist() == [1.0] * 750
    assert position[1::2].tolist() == [1.2] * 750
    cold = Draws(still, [0], Noise(warm_up=0.5)).columns(0, 1500)[0]
    assert cold[0] == 1.5
    assert (np.diff(cold) <= 0).all()
    assert cold[-1] == pytest.approx(1)


@pytest.mark.parametrize("effect", [{"block": 0.5}, {"position": -1.0}, {"warm_up": -2.0}])
def test_invalid_noise_is_refused(effect: dict[str, float]) -> None:
    with pytest.raises(ValueError):
        Noise(**effect)  # type: ignore[arg-type]


def test_measured_samples_are_taken_in_the_order_asked() -> None:
    order: list[str] = []
    values = iter(range(1, 100))

    def sampler(arm: str) -> float:
        order.append(arm)
        return float(next(values))

    source = Measured(lambda: sampler("a"), lambda: sampler("b"))
    assert source.take("a", 2).tolist() == [[1.0, 2.0]]
    assert source.take("b", 1).tolist() == [[3.0]]
    assert order == ["a", "a", "b"]


def write(folder: Path, found: Any) -> None:
    (folder / "x.json").write_text(json.dumps(found))


def test_a_trace_is_read(tmp_path: Path) -> None:
    write(tmp_path, {"metric": "spin", "t": [*range(20)], "v": [1.5] * 20, "load": [1]})
    (trace,) = load(tmp_path)
    assert (trace.name, trace.median, len(trace.values)) == ("x", 1.5, 20)


@pytest.mark.parametrize(
    ("found", "message"),
    [
        ({"t": [], "v": []}, "not a trace with t, v and metric"),
        ([1], "not a trace with t, v and metric"),
        ({"metric": "m", "t": [1], "v": [1, 2]}, "t and v must be lists of one length"),
        ({"metric": "m", "t": [1], "v": [1]}, "1 values are too few, 20 is the least"),
        ({"metric": "m", "t": [0] * 20, "v": [0] * 20}, "every value must be a positive number"),
    ],
)
def test_a_file_that_is_not_a_trace_is_named(tmp_path: Path, found: Any, message: str) -> None:
    write(tmp_path, found)
    with pytest.raises(TraceError, match=message) as raised:
        load(tmp_path)
    assert str(tmp_path / "x.json") in str(raised.value)


def test_a_folder_without_traces_is_named(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="no trace"):
        load(tmp_path)


def test_the_traces_that_come_along_are_small_and_of_several_kinds() -> None:
    assert len(load(SHIPPED)) >= 5
    assert sum(path.stat().st_size for path in SHIPPED.rglob("*.json")) < 1_000_000


def test_a_pause_between_sessions_lets_five_blocks_of_the_stream_pass() -> None:
    draws = Draws(PLACES, [0], Noise(block=20.0))
    sampler = Skipping(draws, 0)
    seen = [sampler(), sampler()]
    sampler.pause()
    seen.append(sampler())
    assert seen == draws.columns(0, 103)[0, [0, 1, 102]].tolist()
