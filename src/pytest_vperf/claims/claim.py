"""A claim: a name, its threshold on this hardware, and the sentence that a test asserts with it."""

from __future__ import annotations

from contextlib import suppress
from contextvars import ContextVar
from typing import TYPE_CHECKING, NoReturn, cast

from pytest_vperf.claims.judgement import Judgement
from pytest_vperf.claims.plan import Verdict
from pytest_vperf.claims.rounds import TakenRounds, is_benchmark
from pytest_vperf.claims.sweep import Sweep
from pytest_vperf.machine import lock
from pytest_vperf.results.levels import MOST_NAME
from pytest_vperf.stats.rule import ROUNDS
from pytest_vperf.targets.base import Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pytest_benchmark.fixture import BenchmarkFixture

    from pytest_vperf.claims.circumstances import Circumstances, Key
    from pytest_vperf.claims.sampling import Sampler
    from pytest_vperf.claims.sweep import LoadSampler, Point
    from pytest_vperf.quantity import Quantity
    from pytest_vperf.results.record import ClaimRecord
    from pytest_vperf.stats.rule import Arm
    from pytest_vperf.thresholds.profile import Threshold

    #: Takes a sample with extra work, given as a share: 0.04 is 4 % more.
    Slower = Callable[[float], Quantity]


#: The claim that this thread is sampling; empty: none.
_JUDGING: ContextVar[str] = ContextVar("judging", default="")


class ClaimError(TypeError):
    """A claim is used in a way that its criterion does not support."""


class Claim:
    """What a test asserts. Made by the ``claim`` fixture.

    Attributes:
        name: as in the threshold files.
        threshold: the one for this hardware; ``None`` where only other hardware has one.
        has_figure: whether the threshold has a figure to judge by; a claim without one is only measured.
        judged: whether it was judged, whatever came of it.
    """

    def __init__(self, name: str, circumstances: Circumstances) -> None:
        """Look the claim up.

        Raises:
            UnknownClaim: no threshold file has this name; the message suggests the nearest one.
            ClaimError: the name is too long for a store.
        """
        __tracebackhide__ = True
        if len(name) > MOST_NAME:
            raise ClaimError(
                f"claim {name[:40]!r}…: a name has at most {MOST_NAME} characters, and this one {len(name)}"
            )
        self.name = name
        self.judged = False
        try:
            self.threshold: Threshold | None = circumstances.selection.find(name)
        except LookupError as error:
            raise error.with_traceback(None) from None  # the message is enough
        self.has_figure = self.threshold is not None and not self.threshold.criterion.reason
        self._circumstances = circumstances

    def holds(
        self, sample: Sampler | BenchmarkFixture, *, slower: Slower | None = None
    ) -> ClaimRecord:
        """Prove that what ``sample`` measures stays on the good side of the claim's limit, or near its value.

        A limit is judged in several sessions, spread over the run: all but the last end the test early, and it is run
        again later.

        Args:
            sample: takes one sample; called until the evidence decides. Targets it starts through a fixture are
                stopped after each call, outside the measured time. Or pytest-benchmark's ``benchmark``, after
                ``benchmark(function)``: its rounds are the samples.
            slower: takes one sample with extra work, given as a share: 0.04 is 4 % more; only ``vperf selfcheck``
                calls it.

        Returns:
            the record; if the verdict fails the test, an exception is raised instead.

        Raises:
            ClaimError: the claim compares two things, or ``benchmark`` was not used yet.
            whatever ``sample`` raises, except `Unavailable`.
        """
        __tracebackhide__ = True
        self._check("holds")
        if self._needs_sides:
            sample = self._without_sides
        if not is_benchmark(sample):
            return self._judge({"a": cast("Sampler", sample)}, paired=False, slower=slower)
        if sample.stats is None and not sample.disabled:
            raise ClaimError(
                f"claim {self.name!r}: the benchmark has no rounds yet: call benchmark(function) before"
            )
        taken = TakenRounds(sample, self._circumstances.seed)
        return self._judge({"a": taken}, paired=False, slower=slower)

    def compares(
        self,
        sample: Sampler,
        *,
        to: Sampler,
        slower: Slower | None = None,
        any_programs: bool = False,
    ) -> ClaimRecord:
        """Prove that what ``sample`` measures, divided by what ``to`` measures, stays within the claim's ratio.

        The two are sampled in pairs; a fair coin, seeded by the run's seed, decides which of a pair goes first.
        ``slower`` is as in `holds`.

        A tool that runs in both must be the same binary, unless ``any_programs`` allows different builds to be
        compared.

        Raises:
            ClaimError: the claim has a limit for a single metric, or a ratio to be near to; or a sampler is
            ``benchmark`` itself, and not `pytest_vperf.rounds` of it.
            whatever the samplers raise, except `Unavailable`.
        """
        __tracebackhide__ = True
        return self._compare("compares", sample, to, slower=slower, any_programs=any_programs)

    def near(
        self,
        sample: Sampler,
        *,
        to: Sampler,
        slower: Slower | None = None,
        any_programs: bool = False,
    ) -> ClaimRecord:
        """Prove that what ``sample`` measures, divided by what ``to`` measures, is near the claim's ratio.

        Sampled as `compares` does, with its ``any_programs``. ``slower`` is as in `holds`.

        Raises:
            ClaimError: the claim has no ratio to be near to.
            whatever the samplers raise, except `Unavailable`.
        """
        __tracebackhide__ = True
        return self._compare("near", sample, to, slower=slower, any_programs=any_programs)

    def saturates(
        self, sample: LoadSampler, *, over: Sequence[Point], rounds: int = ROUNDS
    ) -> ClaimRecord:
        """Prove that what ``sample`` measures flattens as the load grows, near the claim's value.

        Each round takes every point once, in its own random order; the rounds are spread over the sessions of a
        limit. At least three loads have to lie beyond the knee, where the metric flattens, and preferably some below
        it.

        Args:
            sample: takes one sample at a point: a `Load`, with the counts of both ends, or a quantity, in which case
                the point itself is the load.
            over: the points, in any order: packet sizes, rates, numbers of threads.
            rounds: the least number of rounds, all sessions together.

        Raises:
            ClaimError: the claim's criterion is not ``saturates``.
            ValueError: there are fewer than three points.
            whatever ``sample`` raises, except `Unavailable`.
        """
        __tracebackhide__ = True
        self._check("saturates")
        if is_benchmark(sample):
            raise ClaimError(
                f"claim {self.name!r} needs a sample at each load, and the benchmark took its rounds before: sample "
                "with a function of the load"
            )
        sweep = Sweep(sample, over, rounds)
        return self._judge({"a": sweep.take}, paired=False, sweep=sweep)

    def _compare(
        self,
        method: str,
        sample: Sampler,
        to: Sampler,
        *,
        slower: Slower | None,
        any_programs: bool,
    ) -> ClaimRecord:
        __tracebackhide__ = True
        self._check(method)
        self._check_interleaved(method, sample, to)
        return self._judge(
            {"a": sample, "b": to}, paired=True, slower=slower, any_programs=any_programs
        )

    def _check(self, method: str) -> None:
        """Refuse a method that does not fit the claim's criterion, and name the one that does."""
        __tracebackhide__ = True
        own = self.threshold.criterion.method if self.threshold else None
        if self.threshold is None or own is None or own == method:
            return
        if method == "holds" and self.threshold.criterion.of_builds:
            return
        what, more, right = _METHODS[own]
        if method not in ("holds", "saturates"):
            what += more
        raise ClaimError(
            f"claim {self.name!r} is {what} ({self.threshold.criterion}, "
            f"{self.threshold.location}): use claim({self.name!r}).{right}"
        )

    @property
    def _needs_sides(self) -> bool:
        """Whether it is about two builds that are the sides of a gate, and this run is none."""
        criterion = self.threshold.criterion if self.threshold else None
        return bool(criterion and criterion.of_builds) and not self._circumstances.sides

    def _without_sides(self) -> NoReturn:
        raise Unavailable(
            "it compares two builds, and no head is named",
            remedy="--claims-head KEY=VALUE, such as runtime=./build/runc",
        )

    def _check_interleaved(self, method: str, *samples: object) -> None:
        """Refuse a benchmark that has taken its rounds already: they cannot be interleaved with others."""
        __tracebackhide__ = True
        if any(is_benchmark(each) for each in samples):
            raise ClaimError(
                f"claim {self.name!r} needs interleaved rounds, and a benchmark takes all of its own at once: use "
                f"claim({self.name!r}).{method}(rounds(benchmark, function), to=rounds(benchmark, other)), with "
                "pytest_vperf.rounds"
            )

    def _begin(
        self,
        *,
        paired: bool,
        number: int,
        any_programs: bool,
        sweep: Sweep | None,
        warmed_up: bool,
    ) -> Judgement:
        """A new judgement, without any samples."""
        return Judgement(
            self.name,
            self.threshold,
            self._circumstances,
            paired=paired,
            number=number,
            any_programs=any_programs,
            sweep=sweep,
            warmed_up=warmed_up,
        )

    def _judge(
        self,
        samplers: Mapping[Arm, Sampler],
        *,
        paired: bool,
        slower: Slower | None = None,
        any_programs: bool = False,
        sweep: Sweep | None = None,
        tell: bool = True,
    ) -> ClaimRecord:
        """Judge the claim; without ``tell`` the record is kept, and the verdict does not end the test."""
        __tracebackhide__ = True
        if outer := _JUDGING.get():
            raise ClaimError(
                f"claim {self.name!r} is judged inside a sample of claim {outer!r}: judge one after the other"
            )
        within = _JUDGING.set(self.name)
        try:
            return self._judge_alone(
                samplers, paired=paired, any_programs=any_programs, sweep=sweep, tell=tell
            )
        finally:
            _JUDGING.reset(within)
            self.judged = True

    def _judge_alone(
        self,
        samplers: Mapping[Arm, Sampler],
        *,
        paired: bool,
        any_programs: bool,
        sweep: Sweep | None,
        tell: bool,
    ) -> ClaimRecord:
        __tracebackhide__ = True
        context = self._circumstances
        ledger = context.ledger
        key = ledger.key(self.name)
        if (known := ledger.ended.get(key)) is not None:
            # Judged in an earlier visit: the test must go on as it did then.
            if tell:
                context.repeat(known)
            return known
        if (error_then := ledger.failures.get(key)) is not None:
            raise error_then
        judgement = ledger.begun.pop(key, None)
        if judgement is None:
            number = ledger.number(key)
            judgement = self._begin(
                paired=paired,
                number=number,
                any_programs=any_programs,
                sweep=sweep,
                warmed_up=isinstance(samplers["a"], TakenRounds),
            )
        elif sweep is not None and judgement.sweep is not None:
            # In a new visit the targets, and so the sampler, are new; the measurements are kept.
            judgement.sweep.sample, sweep = sweep.sample, judgement.sweep
            samplers = {"a": sweep.take}
        missing: ClaimRecord | None = None
        try:
            judgement.visit(samplers, context)
        except BaseException as error:
            missing = self._missing(judgement, error)
            if missing is None:
                self._keep_failure(key, judgement, error)
                raise
        finally:
            context.progress.done()
        if missing is None and judgement.paused:
            ledger.paused = judgement
            if judgement.decided:
                # Its verdict is told later, and who kills the run until then must not take it away.
                ledger.ended[key] = judgement.conclusion()
                context.keep(ledger.ended[key])
            else:
                ledger.begun[key] = judgement
            context.pause(judgement)
        finished = ledger.ended[key] = missing or judgement.conclusion()
        (context.conclude if tell else context.keep)(finished)
        return finished

    def _missing(self, judgement: Judgement, error: BaseException) -> ClaimRecord | None:
        """The record of a claim that could not be measured; ``None`` if that is not what an error says."""
        if isinstance(error, Unavailable):
            return judgement.record(Verdict.NOT_MEASURED, str(error), target=error.target)
        if isinstance(error, lock.LockTimeout):
            return judgement.record(Verdict.NOT_MEASURED, str(error))
        return None

    def _keep_failure(self, key: Key, judgement: Judgement, error: BaseException) -> None:
        """Keep an error that ended a claim, and what was measured before it."""
        self._circumstances.ledger.failures[key] = error
        measured = bool(judgement.sampling.observations)
        verdict = Verdict.INCONCLUSIVE if measured else Verdict.NOT_MEASURED
        text = f"{type(error).__name__}: {error}".rstrip(": ")
        cause = "interrupted" if isinstance(error, KeyboardInterrupt) else "error"
        target = str(getattr(error, "target", "") or "")
        # A failure to store the record must not hide the error itself.
        with suppress(OSError, ValueError):
            self._circumstances.keep(
                judgement.record(
                    verdict, f"error: {text}", target=target, cause=cause if measured else ""
                )
            )


#: By method: what its claims are, what distinguishes them from other comparisons, and how it is called.
_METHODS = {
    "holds": ("not a comparison", "", "holds(sample)"),
    "saturates": ("a sweep", "", "saturates(sample, over=loads)"),
    "compares": ("a comparison", " with a limit", "compares(sample, to=other)"),
    "near": ("a comparison", " with a value to be near to", "near(sample, to=other)"),
}
