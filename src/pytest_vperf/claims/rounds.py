"""Rounds of pytest-benchmark as samples: those that its fixture has taken, and those that are taken one at a time."""

from __future__ import annotations

import copy
import random
import sys
from typing import TYPE_CHECKING, Any, TypeGuard

from pytest_vperf.claims.sampling import Exhausted
from pytest_vperf.quantity import Quantity
from pytest_vperf.stats.rule import count
from pytest_vperf.targets.base import Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pytest_benchmark.fixture import BenchmarkFixture


def is_benchmark(sample: object) -> TypeGuard[BenchmarkFixture]:
    """Whether a sample is the ``benchmark`` fixture itself; never imports pytest-benchmark."""
    known = sys.modules.get("pytest_benchmark.fixture")
    return known is not None and isinstance(sample, known.BenchmarkFixture)


def rounds(
    benchmark: BenchmarkFixture,
    target: Callable[..., object],
    args: Sequence[object] = (),
    kwargs: Mapping[str, object] | None = None,
    *,
    setup: Callable[[], object] | None = None,
    teardown: Callable[..., object] | None = None,
    iterations: int = 1,
) -> Rounds:
    """A sampler of rounds of ``benchmark.pedantic``, for claims that compare two functions, or need many rounds.

    ``benchmark`` can be used once in a test, and takes all its rounds at once; two samplers of it are interleaved::

        claim("parse.no_slower").compares(rounds(benchmark, parse), to=rounds(benchmark, parse_slowly))

    pytest-benchmark does not list these rounds: they are the claim's, which ``--claims-benchmark-json`` writes.

    Args:
        benchmark: the fixture.
        target: what is timed, called with ``args`` and ``kwargs``.
        args: of each call.
        kwargs: of each call.
        setup: called before each round, outside the measured time; may return ``(args, kwargs)``.
        teardown: called after each round with its arguments, outside the measured time.
        iterations: calls in a round; a sample is their mean.

    Returns:
        a sampler: each call takes a round, and returns the seconds that a call of ``target`` took.

    Raises:
        TypeError: ``benchmark`` is not pytest-benchmark's; other plug-ins have a fixture of this name, too.
    """
    if not is_benchmark(benchmark):
        raise TypeError(f"rounds: {benchmark!r} is not the fixture benchmark of pytest-benchmark")
    options: dict[str, Any] = {"args": tuple(args), "kwargs": dict(kwargs or {})}
    options |= {"setup": setup, "iterations": iterations}
    if teardown is not None:  # older releases have none
        options["teardown"] = teardown
    return Rounds(benchmark, target, options)


class Rounds:
    """Takes rounds of a function, one a call. Made by `rounds`."""

    def __init__(
        self, benchmark: BenchmarkFixture, target: Callable[..., object], options: dict[str, Any]
    ) -> None:
        self._benchmark = benchmark
        self._target = target
        self._options = options

    def __call__(self) -> Quantity:
        """Take a round.

        Raises:
            Unavailable: pytest-benchmark is switched off.
            whatever the function raises.
        """
        __tracebackhide__ = True
        _check_enabled(self._benchmark)
        # A fixture runs once and is then listed; a copy of it has its options, and neither limit.
        one: Any = copy.copy(self._benchmark)
        one._mode, one._add_stats, one.cprofile = None, _unlisted, False
        self._benchmark._mode = "rounds(...)"
        one.pedantic(self._target, rounds=1, **self._options)
        (seconds,) = one.stats.stats.data
        return Quantity(seconds, "s", direction="lower")

    def __eq__(self, other: object) -> bool:
        """Whether both time the same calls."""
        return isinstance(other, Rounds) and self._identity == other._identity

    def __hash__(self) -> int:
        return hash(self._identity)

    @property
    def _identity(self) -> tuple[object, ...]:
        # By identity: arguments, such as arrays, need not be comparable.
        options = self._options
        parts = [*options["args"], *options["kwargs"].values(), options["setup"]]
        parts.append(options.get("teardown"))
        return (self._target, *options["kwargs"], options["iterations"], *map(id, parts))


def _unlisted(_stats: object) -> None:
    """Keep a round out of pytest-benchmark's table."""


class TakenRounds:
    """The rounds that a benchmark has taken, each once, in a random order.

    A claim may need fewer than there are. Drawn at random, those that it is judged by stand for all of them, and not
    for the first ones alone.

    Args:
        benchmark: the fixture, after its use.
        seed: of the order.
    """

    def __init__(self, benchmark: BenchmarkFixture, seed: int) -> None:
        self._benchmark = benchmark
        stats = benchmark.stats
        self._left: list[float] = [] if stats is None else list(stats.stats.data)
        self._taken = len(self._left)
        random.Random(seed).shuffle(self._left)  # nosec B311 # an order, not a secret

    def __call__(self) -> Quantity:
        """The next round.

        Raises:
            Unavailable: pytest-benchmark is switched off.
            Exhausted: there are no more.
        """
        __tracebackhide__ = True
        _check_enabled(self._benchmark)
        if not self._left:
            raise Exhausted(
                f"the benchmark took {count(self._taken, 'round')}, too few: raise its min_rounds or max_time, or "
                "judge rounds(benchmark, function), which takes as many as it needs"
            )
        return Quantity(self._left.pop(), "s", direction="lower")


def _check_enabled(benchmark: BenchmarkFixture) -> None:
    if benchmark.disabled:
        raise Unavailable(
            "pytest-benchmark takes no rounds in this run",
            remedy="leave out --benchmark-disable, and pytest-xdist's -n",
        )
