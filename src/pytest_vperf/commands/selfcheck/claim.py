"""The claims of tests that ``vperf selfcheck`` runs: their metrics are checked, and nothing is judged."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from pytest_vperf.claims.claim import Claim
from pytest_vperf.claims.judgement import Judgement
from pytest_vperf.claims.marks import Result, tally
from pytest_vperf.claims.plan import Verdict
from pytest_vperf.commands.selfcheck.check import Metric, SelfCheck
from pytest_vperf.machine import lock
from pytest_vperf.results.run import now
from pytest_vperf.targets.base import Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from pytest_vperf.claims.circumstances import Circumstances
    from pytest_vperf.claims.claim import Slower
    from pytest_vperf.claims.sampling import Sampler
    from pytest_vperf.claims.sweep import Sweep
    from pytest_vperf.commands.selfcheck.check import Request
    from pytest_vperf.results.record import ClaimRecord
    from pytest_vperf.stats.rule import Arm


def chosen(name: str, patterns: Iterable[str]) -> bool:
    """Whether a claim is requested, by name or shell-style pattern; no patterns request all claims."""
    asked = list(patterns)
    return not asked or any(fnmatchcase(name, each) for each in asked)


class CheckedClaim(Claim):
    """Checks the metric of a claim instead of judging the claim."""

    def __init__(
        self,
        name: str,
        circumstances: Circumstances,
        *,
        request: Request,
        patterns: Iterable[str],
        keep: Callable[[Result], None],
    ) -> None:
        """Look the claim up.

        Args:
            name: the claim's.
            circumstances: of the test.
            request: the parameters of every check.
            patterns: the claims to check.
            keep: receives each result.

        Raises:
            UnknownClaim: no threshold file has this name.
        """
        __tracebackhide__ = True
        super().__init__(name, circumstances)
        self._request = request
        self._asked = chosen(name, patterns)
        self._keep_result = keep

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
        """Check the metric of the first sampler.

        Returns:
            a record of the check, for tests that use the return value; it is not stored.
        """
        __tracebackhide__ = True
        judgement = Judgement(
            self.name, self.threshold, self._circumstances, paired=paired, sweep=sweep
        )
        if sweep is not None:
            # The metric of a sweep is its throughput at the last point.
            samplers = {"a": sweep.take_last}
        text = "not checked: not among the claims that were asked for"
        if self._asked:
            text = f"self-check: {self._check_metric(judgement, samplers['a'], slower)['finding']}"
        return judgement.record(Verdict.INCONCLUSIVE, text)

    def _check_metric(self, judgement: Judgement, sample: Sampler, slower: Slower | None) -> Result:
        __tracebackhide__ = True
        context, request = self._circumstances, self._request
        # The judgement's own allows a percentile more samples, which are no pairs.
        plan = context.plan(self.threshold, 1)
        tolerance = request.tolerance or plan.tolerance or request.usual_tolerance
        # If the direction is unknown, lower is better.
        side = (judgement.criterion.side if judgement.criterion else None) or "at_most"
        result = Result(
            claim=self.name,
            nodeid=context.nodeid,
            started_at=now(),
            finding="not measured",
            reason="",
            injected="scaled" if slower is None else "real",
            tolerance=tolerance,
            decisions=request.decisions,
            pairs=request.pairs,
            pairs_slower=plan.pairs,
            budget_s=request.budget,
            seed=context.seed,
            unit="",
            waited_s=0.0,
            duration_s=0.0,
            decided=[],
        )
        metric = Metric(self.name, sample, slower, side, tolerance, plan.pairs)
        check = SelfCheck(
            metric,
            request,
            result,
            scope=context.scope,
            progress=context.progress,
            seed=context.seed,
        )
        try:
            check.run()
        except (Unavailable, lock.LockTimeout) as error:
            result["reason"] = str(error)
        except BaseException as error:
            result["reason"] = f"error: {type(error).__name__}: {error}".rstrip(": ")
            self._keep_result(result)
            raise
        else:
            counted = tally(result)
            result["finding"] = counted.finding
            result["reason"] = counted.conclusion + ("" if check.discrete else _suspicion(result))
        self._keep_result(result)
        return result


def _suspicion(result: Result) -> str:
    """A warning, if all samples of a metric against itself are equal."""
    values = [
        value for each in result["decided"] if each["about"] == "A/A" for value in each["values"]
    ]
    if len(values) < 3 or min(values) != max(values):
        return ""
    what = f"{values[0]:g} {result['unit']}".rstrip()
    return f"; all {len(values)} samples are exactly {what}: is something cached or constant?"
