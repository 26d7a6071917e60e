"""The sampling loop: measurements are kept, whatever happens."""

from __future__ import annotations

import json
import os
import re
import signal
import statistics
import subprocess
import sys
import time
from typing import Any

import pytest


def record(project: pytest.Pytester) -> dict[str, Any]:
    (found,) = json.loads((project.path / "out.json").read_text())["claims"]
    return dict(found)


def run(project: pytest.Pytester, body: str, *options: str) -> pytest.RunResult:
    project.makepyfile(
        f"""
        from samplers import *
        def test_it(claim, vperf_scope):
            {body}
        """
    )
    return project.runpytest("--claims-json=out.json", *options)


@pytest.mark.usefixtures("clock")
def test_observations_have_order_time_and_parts(project: pytest.Pytester) -> None:
    run(project, 'claim("start.quick").holds(around(0.35, "s", sleep=0.01))')
    found = record(project)
    observations = found["observations"]
    assert [each["order"] for each in observations] == list(range(len(observations)))
    for number in (1, 2, 3):
        warm_up = [each["warm_up"] for each in observations if each["session"] == number]
        assert warm_up == sorted(warm_up, reverse=True)
        assert warm_up[0]
        assert not warm_up[-1]
    assert found["samples"] == [each["value"] for each in observations if not each["warm_up"]]
    times = [each["at"] for each in observations]
    assert times == pytest.approx([0.01 * number for number in range(len(times))])
    assert {each["unit"] for each in observations} == {"ms"}
    assert observations[0]["value"] == pytest.approx(350)
    assert observations[0]["parts"] == {
        "firmware": pytest.approx(87.5),
        "kernel": pytest.approx(262.5),
    }


def test_a_comparison_samples_in_pairs(project: pytest.Pytester) -> None:
    run(project, 'claim("start.alike").compares(around(100), to=around(100))', "--claims-seed=7")
    found = record(project)
    arms = "".join(each["arm"] for each in found["observations"])
    pairs = [arms[start : start + 2] for start in range(0, len(arms), 2)]
    assert set(pairs) == {"ab", "ba"}
    assert found["seed"] == 7
    assert len(found["samples"]) == found["n"] == len(pairs) - 1


def test_the_seed_is_drawn_and_recorded(project: pytest.Pytester) -> None:
    seeds = set()
    for _ in range(2):
        run(project, 'claim("start.quick").holds(around(350))')
        seeds.add(record(project)["seed"])
    assert len(seeds) == 2


@pytest.mark.usefixtures("clock")
@pytest.mark.parametrize("budget", ["100 ms", "0.1 s"])
def test_the_sample_that_passes_the_budget_is_the_last(
    project: pytest.Pytester, budget: str
) -> None:
    result = run(
        project,
        'claim("start.quick").holds(around(350, sleep=0.06))',
        f"--claims-budget={budget}",
        "--claims-sessions=1",
        "-v",
    )
    result.stdout.fnmatch_lines(["*::test_it INCONCLUSIVE *"])
    found = record(project)
    assert found["verdict"] == "inconclusive"
    assert found["cause"] == "budget"
    taken = len(found["observations"])
    assert found["reason"].startswith(f"budget of 0.1 s spent after {taken} samples")
    # The warm-up is not on the budget.
    assert sum(not each["warm_up"] for each in found["observations"]) == 2


@pytest.mark.usefixtures("clock")
def test_how_long_a_sample_takes_is_told_of_those_on_the_budget(project: pytest.Pytester) -> None:
    """The warm-up is not on the budget: its samples must not shorten the average of the others."""
    run(
        project,
        'claim("start.quick").holds(around(350, sleep=0.3))',
        "--claims-budget=0.55 s",
        "--claims-sessions=1",
    )
    found = record(project)
    assert [each["warm_up"] for each in found["observations"]] == [True] * 5 + [False] * 2
    told = re.search(r"; a sample takes (\S+) s: make it shorter", found["reason"])
    assert told is not None
    assert told[1] == "0.3"


@pytest.mark.usefixtures("clock")
def test_each_session_may_use_its_part_of_the_budget(project: pytest.Pytester) -> None:
    result = run(
        project,
        'claim("start.quick").holds(around(350, sleep=0.07))',
        "--claims-budget=0.3 s",
        "-v",
    )
    result.stdout.fnmatch_lines(["*::test_it INCONCLUSIVE *"])
    found = record(project)
    taken = len(found["observations"])
    assert found["reason"].startswith(f"session 1 of 3: 0.1 of 0.3 s spent after {taken} samples")
    assert found["cause"] == "budget"
    assert len(found["sessions"]) == 1
    assert sum(not each["warm_up"] for each in found["observations"]) == 2


@pytest.mark.usefixtures("clock")
def test_later_sessions_may_use_the_budget_that_earlier_ones_left(
    project: pytest.Pytester,
) -> None:
    project.makepyfile(
        """
        from samplers import around
        sleeps = iter([0, 0, 0.2])
        def test_it(claim): claim("start.quick").holds(around(350, sleep=next(sleeps)))
        """
    )
    project.runpytest("--claims-json=out.json", "--claims-budget=1.8 s")
    found = record(project)
    assert found["verdict"] == "holds"
    last = found["sessions"][2]
    assert last["duration_s"] == pytest.approx(0.2 * last["samples"])
    assert last["duration_s"] > 0.6  # its own part


LASTS = """
    from samplers import pause
    from pytest_vperf.quantity import Quantity

    def lasting(*values, slow):
        given, calls = iter(values), iter(range(100))
        def sample():
            pause(0.6 if next(calls) in slow else 0)
            return Quantity(next(given), "ms")
        return sample
"""


@pytest.mark.usefixtures("clock")
@pytest.mark.parametrize(
    ("name", "body", "first_calls"),
    [
        ("start.quick", "holds(lasting(*[350, 351] * 10, slow=[0]))", 3),  # one in each session
        (
            "start.alike",
            "compares(lasting(*[100, 101] * 9, slow=[0]), to=lasting(*[100, 101] * 9, slow=[0]))",
            2,  # one of each arm
        ),
    ],
)
def test_the_warm_up_is_not_on_the_budget(
    project: pytest.Pytester, name: str, body: str, first_calls: int
) -> None:
    """A first call may fetch a kernel or start an engine."""
    project.makepyfile(LASTS + f"\n    def test_it(claim): claim({name!r}).{body}\n")
    result = project.runpytest("--claims-json=out.json", "--claims-budget=0.5 s")
    assert result.ret == 0
    found = record(project)
    assert found["verdict"] == "holds"
    assert found["duration_s"] == pytest.approx(0.6 * first_calls)
    assert found["observations"][1]["at"] == pytest.approx(0.6)  # since sampling began


@pytest.mark.usefixtures("clock")
@pytest.mark.parametrize("judged", [2, 8, 14])
def test_estimate_and_interval_when_the_budget_is_over(
    project: pytest.Pytester, judged: int
) -> None:
    """They cover every judged sample, as after a verdict."""
    values = [400, 390, 410, 395, 405, 400, 380, 420] * 3
    project.makepyfile(
        LASTS
        + f"""
    def test_it(claim):
        values = [500] * 5 + {values}  # the first five are the warm-up
        claim("start.quick").holds(lasting(*values, slow=[5 + {judged} - 1]))
    """
    )
    result = project.runpytest(
        "--claims-json=out.json", "--claims-budget=0.3 s", "--claims-sessions=1"
    )
    assert result.ret == 0
    found = record(project)
    assert found["verdict"] == "inconclusive"
    assert found["cause"] == "budget"
    assert found["n"] == judged
    assert found["samples"] == values[:judged]
    assert found["estimate"] == pytest.approx(statistics.median(values[:judged]), abs=5)
    if found["interval"] is not None:
        low, high = found["interval"]
        assert low <= found["estimate"] <= high
        assert found["confidence"] == pytest.approx(0.98)


IMPOSSIBLE = (
    "See what the sampler measures; if 0 and less are possible, as for a difference or a number of "
    "losses, return Quantity(…, signed=True)"
)


@pytest.mark.parametrize(
    ("body", "error"),
    [
        (
            'claim("start.quick").holds(lambda: 3.5)',
            "TypeError: the sampler of claim 'start.quick' returned 3.5 (float): return a Quantity, "
            "a number with its unit, such as Quantity(3.5, 'ms')",
        ),
        (
            'claim("start.quick").holds(lambda: None)',
            "TypeError: the sampler of claim 'start.quick' returned None (NoneType): "
            "return a Quantity, a number with its unit",
        ),
        (
            'claim("start.quick").holds(around(12, "MB/s"))',
            "*DimensionError: claim 'start.quick': a sample of 12 MB/s cannot be held against "
            "≤ 400 ms: MB/s (*) cannot be compared with ms (*)",
        ),
        (
            'claim("copy.graph").holds(around(12, "MB/s"))',
            "*DimensionError: claim 'copy.graph': a sample of 12 MB/s cannot be held against "
            "the unit its threshold names: MB/s (*) cannot be compared with ms (*)",
        ),
        (
            'claim("start.alike").compares(around(12), to=around(12, "MB"))',
            "*DimensionError: claim 'start.alike': a sample of * cannot be held against "
            "the samples before it: *",
        ),
        (
            'claim("start.alike").compares(around(12), to=around(0))',
            "*QuantityError: claim 'start.alike': sample * (arm b) is 0 ms: no time is 0 or less. *",
        ),
        (
            'claim("start.quick").holds(given(350, 351, 0))',
            f"*QuantityError: claim 'start.quick': sample 3 is 0 ms: no time is 0 or less. {IMPOSSIBLE}",
        ),
        (
            'claim("start.quick").holds(given(-0.005, unit="s"))',
            f"*QuantityError: claim 'start.quick': sample 1 is -0.005 s: no time is 0 or less. {IMPOSSIBLE}",
        ),
        (
            'claim("copy.rate").holds(given(0, unit="MB/s"))',
            f"*QuantityError: claim 'copy.rate': sample 1 is 0 MB/s: no rate is 0 or less. {IMPOSSIBLE}",
        ),
        (
            'claim("start.no_worse").compares(given(0, unit="MiB"), to=given(0, unit="MiB"))',
            "*QuantityError: claim 'start.no_worse': sample 1 (arm *) is 0 MiB: no size is 0 or less. "
            f"{IMPOSSIBLE}",
        ),
        (
            'claim("start.no_worse").compares(given(0, unit="count"), to=given(0, unit="count"))',
            "*QuantityError: claim 'start.no_worse': sample 1 (arm *) is 0 count: no count is 0 or less. "
            f"{IMPOSSIBLE}",
        ),
        (
            'claim("copy.plateau").saturates(lambda n: Quantity(0, "packet/s"), over=[1, 2, 4])',
            "*QuantityError: claim 'copy.plateau': sample 1 is 0 packet/s: no rate is 0 or less. "
            f"{IMPOSSIBLE}",
        ),
        (
            'claim("start.half").near(given(-1, signed=True), to=given(-1, signed=True))',
            "*QuantityError: claim 'start.half': sample 1 (arm *) is -1 ms: a ratio needs numbers above 0. "
            "Judge what may be 0 or less against a limit (holds)",
        ),
        (
            'claim("copy.plateau").saturates(lambda n: Quantity(0, "%", signed=True), over=[1, 2, 4])',
            "*QuantityError: claim 'copy.plateau': sample 1 is 0 %: a sweep needs numbers above 0. "
            "Judge what may be 0 or less against a limit (holds)",
        ),
        (
            'claim("start.quick").holds(given(350, breakdown=(("firmware", 100), ("kernel", 240))))',
            "*QuantityError: claim 'start.quick': sample 1 is 350 ms, but its parts add up to 340 ms. "
            "Name every part in breakdown; a figure that is no part belongs in extra",
        ),
        (
            'claim("start.quick").holds(given(350, breakdown=(("firmware", -1), ("kernel", 351))))',
            "*QuantityError: claim 'start.quick': sample 1 is 350 ms, but its part 'firmware' is -1 ms. "
            "A part is 0 or more, unless its whole is signed",
        ),
    ],
)
def test_a_wrong_sample_fails_the_test_and_is_recorded(
    project: pytest.Pytester, body: str, error: str
) -> None:
    result = run(project, body)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines([f"E *{error}"])
    found = record(project)
    assert found["verdict"] in ("not measured", "inconclusive")
    assert found["reason"].startswith("error: ")


@pytest.mark.parametrize(
    ("sampler", "error"),
    [
        (
            "async def sample(*_): return Quantity(350, 'ms')",
            "TypeError: the sampler of claim '*' is an async function, and nobody awaited it: "
            "sample with a plain function, such as lambda: asyncio.run(sample())",
        ),
        (
            "def sample(*_): yield Quantity(350, 'ms')",
            "TypeError: the sampler of claim '*' is a generator function: return the Quantity, "
            "do not yield it",
        ),
        (
            "async def sample(*_): yield Quantity(350, 'ms')",
            "TypeError: the sampler of claim '*' is a generator function: return the Quantity, "
            "do not yield it",
        ),
    ],
)
@pytest.mark.parametrize(
    "body",
    [
        'claim("start.quick").holds(sample)',
        'claim("start.alike").compares(sample, to=sample)',
        'claim("copy.plateau").saturates(sample, over=[1, 2, 4])',
    ],
)
def test_a_sampler_that_does_not_run_when_called_is_refused(
    project: pytest.Pytester, body: str, sampler: str, error: str
) -> None:
    project.makepyfile(f"from samplers import *\n{sampler}\ndef test_it(claim): {body}\n")
    result = project.runpytest("--claims-json=out.json", "-Wdefault")
    result.assert_outcomes(failed=1, warnings=0)
    result.stdout.fnmatch_lines([f"E *{error}"])
    result.stdout.no_fnmatch_line("*never awaited*")
    assert record(project)["verdict"] == "not measured"


@pytest.mark.parametrize(
    "sampler",
    [
        "given(-3, 0, 2, signed=True)",
        "given(-3, 0, 2, breakdown=lambda value: (('more', 5), ('less', value - 5)), signed=True)",
        "given(300, 301, breakdown=(('firmware', 300.5), ('kernel', 0)))",  # rounded
    ],
)
def test_what_is_possible_is_judged(project: pytest.Pytester, sampler: str) -> None:
    run(project, f'claim("start.quick").holds({sampler})')
    assert record(project)["verdict"] == "holds"


def test_numbers_of_numpy_are_numbers(project: pytest.Pytester) -> None:
    project.makepyfile(
        """
        import itertools
        import numpy
        from pytest_vperf.quantity import Quantity, Series
        values = itertools.count(100)
        def test_it(claim):
            def sample():
                value = numpy.int64(next(values))
                parts = (("one", numpy.float32(1)), ("rest", value - 1))
                beside = (("each", Series(tuple(numpy.array([1, 2])), "s")),)
                return Quantity(value, "ms", parts, extra=beside)
            claim("start.quick").holds(sample)
        """
    )
    assert project.runpytest("--claims-json=out.json").ret == 0
    found = record(project)
    assert found["verdict"] == "holds"
    first = found["observations"][0]
    assert (first["value"], first["parts"]) == (100, {"one": 1, "rest": 99})
    assert first["beside"] == {"each": {"unit": "s", "values": [1, 2]}}


def test_an_error_keeps_the_samples_before_it(project: pytest.Pytester) -> None:
    result = run(project, 'claim("start.quick").holds(broken(3, RuntimeError("it broke")))')
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["E *RuntimeError: it broke", "claims: 1 inconclusive"])
    found = record(project)
    assert found["verdict"] == "inconclusive"
    assert found["reason"] == "error: RuntimeError: it broke"
    assert len(found["observations"]) == 3


def test_an_error_that_cannot_be_written_down_is_seen_all_the_same(
    project: pytest.Pytester,
) -> None:
    project.makepyfile(
        """
        from samplers import *
        def test_it(claim, monkeypatch):
            from pytest_vperf.results import journal
            def refuse(self, line): raise OSError(28, "no such room")
            monkeypatch.setattr(journal.Journal, "append", refuse)
            claim("start.quick").holds(broken(1, RuntimeError("it broke")))
        """
    )
    result = project.runpytest("--claims-json=out.json")
    result.stdout.fnmatch_lines(["E *RuntimeError: it broke"])
    result.stdout.no_fnmatch_line("E *no such room*")


def test_an_error_says_what_it_is_about(project: pytest.Pytester) -> None:
    """The target that the error names, and not one that was started before."""
    project.makepyfile(
        TARGETS
        + """
    from samplers import missing
    def test_it(claim, vperf_scope):
        vperf_scope.own(Machine())
        assert claim("start.quick").holds(missing)["target"] == "pod kvm qboot"
"""
    )
    result = project.runpytest()
    assert " 1 not measured in " in result.outlines[-1]
    result.assert_outcomes()


def test_an_error_at_once_is_not_measured(project: pytest.Pytester) -> None:
    run(project, 'claim("start.quick").holds(broken(0, RuntimeError("it broke")))')
    assert record(project)["verdict"] == "not measured"


TARGETS = """
    from pytest_vperf.quantity import Quantity
    from pytest_vperf.targets.base import Facts

    class Machine:
        name = "pod tcg qboot"
        open = 0
        def __init__(self, firmware="qboot", closes=True):
            self.firmware, self.closes = firmware, closes
            Machine.open += 1
        def facts(self): return Facts("pod", f"pod tcg {self.firmware}", {"firmware": self.firmware})
        def close(self):
            Machine.open -= 1
            if not self.closes:
                raise RuntimeError("it does not end")
"""


def test_targets_of_a_sample_are_ended_before_the_next(project: pytest.Pytester) -> None:
    project.makepyfile(
        TARGETS
        + """
    def test_it(claim, vperf_scope):
        kept = vperf_scope.own(Machine("kept"))
        def sample():
            assert Machine.open == 1
            vperf_scope.own(Machine())
            vperf_scope.own(Machine())
            return Quantity(350 + Machine.open, "ms")
        record = claim("start.quick").holds(sample)
        assert Machine.open == 1
        assert record["target"] == "pod tcg qboot"
        assert [(each["name"], each["arms"]) for each in record["targets"]] == [
            ("pod tcg kept", []), ("pod tcg qboot", ["a"]),
        ]

    def test_after(): assert Machine.open == 0
"""
    )
    result = project.runpytest()
    assert result.ret == 0, result.stdout.str()


def test_both_targets_of_a_comparison_are_named(project: pytest.Pytester) -> None:
    project.makepyfile(
        TARGETS
        + """
    from samplers import around

    def sampler(vperf_scope, firmware):
        next_about_100 = around(100)
        def sample():
            vperf_scope.own(Machine(firmware))
            return next_about_100()
        return sample

    def test_it(claim, vperf_scope):
        record = claim("start.alike").compares(sampler(vperf_scope, "qboot"), to=sampler(vperf_scope, "seabios"))
        assert record["target"] == "pod tcg qboot / pod tcg seabios"
        arms = {each["details"]["firmware"]: each["arms"] for each in record["targets"]}
        assert arms == {"qboot": ["a"], "seabios": ["b"]}

    def test_same(claim, vperf_scope):
        record = claim("start.alike").compares(sampler(vperf_scope, "qboot"), to=sampler(vperf_scope, "qboot"))
        assert [each["arms"] for each in record["targets"]] == [["a", "b"]]
"""
    )
    assert project.runpytest().ret == 0


@pytest.mark.parametrize("error", ["RuntimeError('first')", "KeyboardInterrupt()"])
def test_an_error_ends_what_was_started_and_is_the_one_reported(
    project: pytest.Pytester, error: str
) -> None:
    project.makepyfile(
        TARGETS
        + f"""
    import pytest
    def test_it(claim, vperf_scope):
        def sample():
            vperf_scope.own(Machine(closes=False))
            raise {error}
        with pytest.raises(type({error})) as caught:
            claim("start.quick").holds(sample)
        assert "end" not in str(caught.value)
        assert Machine.open == 0
"""
    )
    result = project.runpytest()
    # An error that a test swallows is no pass.
    assert result.ret == pytest.ExitCode.NO_TESTS_COLLECTED
    assert " 1 not measured in " in result.outlines[-1]


def test_a_target_that_does_not_end_is_an_error_and_its_sample_is_kept(
    project: pytest.Pytester,
) -> None:
    project.makepyfile(
        TARGETS
        + """
    def test_it(claim, vperf_scope):
        def sample():
            vperf_scope.own(Machine(closes=False))
            return Quantity(350, "ms")
        claim("start.quick").holds(sample)
"""
    )
    result = project.runpytest("--claims-json=out.json")
    result.assert_outcomes(failed=1)
    assert len(record(project)["observations"]) == 1


@pytest.mark.parametrize(
    "how", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=["ctrl-c", "sigterm", "hangup"]
)
def test_an_interrupt_keeps_what_was_measured(project: pytest.Pytester, how: int) -> None:
    project.makepyfile(
        """
        from samplers import around
        def test_first(claim): claim("start.alike").compares(around(100), to=around(100))
        def test_limit(claim): claim("start.quick").holds(around(350))
        def test_long(claim, vperf_scope):
            def sample():
                open("sampling", "a").write("x")
                return around(350, sleep=0.05)()
            claim("start.alike").compares(sample, to=sample)
        """
    )
    command = [sys.executable, "-m", "pytest", "--claims-json=out.json", "-p", "no:cacheprovider"]
    with subprocess.Popen(
        command, cwd=project.path, stdout=subprocess.PIPE, text=True, env=dict(os.environ)
    ) as process:
        marks = project.path / "sampling"
        deadline = time.monotonic() + 60
        while not (marks.exists() and len(marks.read_text()) >= 3):
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.01)
        process.send_signal(how)
        out, _ = process.communicate(timeout=60)
    assert process.returncode == pytest.ExitCode.INTERRUPTED
    assert "claims: 1 held, 2 inconclusive" in out
    first, second, third = json.loads((project.path / "out.json").read_text())["claims"]
    assert first["verdict"] == "holds"
    assert second["verdict"] == "inconclusive"
    assert second["reason"].startswith("error: KeyboardInterrupt")
    assert second["cause"] == "interrupted"
    assert len(second["observations"]) >= 2
    # One that waited for its next session keeps the first.
    assert third["verdict"] == "inconclusive"
    assert third["reason"] == "the run ended before session 2 of 3"
    assert third["cause"] == "interrupted"
    assert len(third["observations"]) == third["sessions"][0]["samples"] > 2


@pytest.mark.parametrize(
    "how", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=["ctrl-c", "sigterm", "hangup"]
)
def test_an_interrupt_in_a_later_session_keeps_those_before(
    project: pytest.Pytester, how: int
) -> None:
    project.makepyfile(
        """
        from samplers import around
        def test_it(claim):
            with open("visits", "a+") as visits:
                visits.write("x")
                visits.seek(0)
                again = len(visits.read()) > 1
            claim("start.quick").holds(around(350, sleep=0.2 if again else 0))
        """
    )
    command = [sys.executable, "-m", "pytest", "--claims-json=out.json", "-p", "no:cacheprovider"]
    with subprocess.Popen(
        command, cwd=project.path, stdout=subprocess.PIPE, text=True, env=dict(os.environ)
    ) as process:
        visits = project.path / "visits"
        deadline = time.monotonic() + 60
        while not (visits.exists() and len(visits.read_text()) >= 2):
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.01)
        time.sleep(0.5)  # some samples of the second session
        process.send_signal(how)
        out, _ = process.communicate(timeout=60)
    assert process.returncode == pytest.ExitCode.INTERRUPTED
    assert "claims: 1 inconclusive" in out
    found = record(project)
    assert found["reason"].startswith("error: KeyboardInterrupt")
    assert [session["n"] for session in found["sessions"]] == [1, 2]
    assert sum(session["samples"] for session in found["sessions"]) == len(found["observations"])


def test_an_old_file_is_not_taken_for_this_runs(project: pytest.Pytester) -> None:
    (project.path / "out.json").write_text('{"claims": ["old"]}')
    project.makepyfile("def test_it(): pass")
    project.runpytest("--claims-json=out.json")
    assert json.loads((project.path / "out.json").read_text())["claims"] == []


def test_claims_of_two_processes_take_turns(project: pytest.Pytester) -> None:
    """The second waits for the first one's lock, and its record says how long."""
    project.makepyfile(
        """
        import subprocess, sys, textwrap, time, types
        from pytest_vperf.machine import lock
        from samplers import around

        def test_it(claim, monkeypatch):
            holder = subprocess.Popen(
                [sys.executable, "-c", textwrap.dedent('''
                    import sys
                    from pytest_vperf.machine import lock
                    with lock.measuring():
                        print("held", flush=True)
                        sys.stdin.read()
                ''')], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            holder.stdout.readline()

            def sleep(seconds):
                # Whoever waits has looked: now the other one may end.
                holder.stdin.close()
                time.sleep(seconds)

            clock = types.SimpleNamespace(monotonic=time.monotonic, sleep=sleep)
            monkeypatch.setattr(lock, "time", clock)
            record = claim("start.quick").holds(around(350))
            holder.wait()
            assert holder.stdin.closed
            assert record["waited_s"] > 0
        """
    )
    result = project.runpytest()
    assert result.ret == 0
    result.stdout.fnmatch_lines("*= 1 held in *")
