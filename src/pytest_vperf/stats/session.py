"""One session of samples against a limit, or two."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_vperf.stats.signs import SignEvidence

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_vperf.stats.rule import Decision, Side


#: A level moves by up to 37 % between sessions minutes apart. Samples below two thirds of the limit, or above one and
#: a half of it, are far enough from it for a short session.
_FAR = 1.5


class _Edge:
    """A limit with what is known about it."""

    def __init__(self, limit: float, side: Side, quantile: float) -> None:
        self._limit, self._at_most = limit, side == "at_most"
        # Of "at least" the mirror image is judged, whose quantile is the other one.
        share = quantile if self._at_most else 1 - quantile
        self.against, self.favour = SignEvidence(share, "above"), SignEvidence(share, "below")

    def is_far(self, value: float) -> bool:
        near, beyond = sorted((self._limit / _FAR, self._limit * _FAR))
        return not near <= value <= beyond

    def add(self, value: float) -> None:
        bad = value > self._limit if self._at_most else value < self._limit
        self.against.add(bad)
        self.favour.add(bad)


class LimitSession:
    """Samples taken one after the other, until their signs decide or the session's share is used up.

    Attributes:
        values: the judged samples.
        warm_up: how many more are left out.
        first_warm_up: how many were to be left out in all.
        decision: what the session shows; ``inconclusive`` until it does.
        over: whether it takes no more samples.
    """

    def __init__(
        self,
        limits: Sequence[tuple[float, Side]],
        quantile: float,
        *,
        to_refute: float,
        to_hold: float,
        far: float,
        least: int,
        most: int,
        warm_up: int,
    ) -> None:
        """Begin.

        Args:
            limits: one, or two that make a band, each with its good side, on which it lies itself.
            quantile: which one is held against the limit.
            to_refute: logarithm of the evidence that refutes.
            to_hold: of the evidence that shows the claim to hold.
            far: the part of both that is enough where the samples lie far from the limits, 1 at most.
            least: judged samples before a decision, unless they lie far from the limits.
            most: judged samples in all, at least one; fewer than ``least`` if need be.
            warm_up: first samples that are left out.
        """
        self.values: list[float] = []
        self.warm_up = self.first_warm_up = warm_up
        self.decision: Decision = "inconclusive"
        self.over = False
        self._edges = [_Edge(limit, side, quantile) for limit, side in limits]
        self._to_refute, self._to_hold, self._part = to_refute, to_hold, far
        self._least, self._most = min(least, most), most

    def add(self, value: float) -> None:
        """Take a sample."""
        if self.warm_up > 0:
            self.warm_up -= 1
            return
        self.values.append(value)
        for edge in self._edges:
            edge.add(value)
        if len(self.values) >= self._least:
            self.decision = self._shown(1.0)
        if self.decision == "inconclusive":
            shown = self._shown(self._part)
            if shown != "inconclusive" and self._far:
                self.decision = shown
        self.over = self.decision != "inconclusive" or len(self.values) >= self._most

    def _shown(self, part: float) -> Decision:
        """What the evidence shows, were a part of it enough."""
        if any(edge.against.log >= part * self._to_refute for edge in self._edges):
            return "refuted"
        if all(edge.favour.log >= part * self._to_hold for edge in self._edges):
            return "holds"
        return "inconclusive"

    @property
    def _far(self) -> bool:
        """Whether the middle of the samples lies far from every limit, on the same side of zero."""
        ordered, size = sorted(self.values), len(self.values)
        middle = {ordered[(size - 1) // 2], ordered[size // 2]}
        return all(edge.is_far(value) for edge in self._edges for value in middle)
