"""One stream of noise for both arms: the stationary block bootstrap of a recording.

Source: Politis and Romano, The Stationary Bootstrap, JASA 89 (1994), section 2. Blocks of consecutive samples
are joined; a block begins anywhere with equal chance, its length is geometric, and the recording is a circle.
Inside a block the order of time is kept, so drift and slow spells stay what they were: whoever takes all of arm A
before arm B meets them, whoever takes both in turn shares them.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from verdicts.trace import Trace

_CHUNK = 1024
#: Calls after which the inflation of a cold start has fallen to 1/e.
COLD_CALLS = 3.0


@dataclass(frozen=True)
class Noise:
    """How a stream is made of a recording.

    Attributes:
        seed: of everything drawn.
        block: mean length of the blocks, in samples.
        position: how much slower the second call of each pair is, as a fraction.
        warm_up: how much slower the first call is, as a fraction; it falls by 1/e every `COLD_CALLS` calls.
    """

    seed: int = 1
    block: float = 100.0
    position: float = 0.0
    warm_up: float = 0.0

    def __post_init__(self) -> None:
        if self.block < 1:
            raise ValueError(f"the mean block length is {self.block!r}, less than 1")
        if self.position <= -1 or self.warm_up <= -1:
            raise ValueError("an effect of -100 % or less leaves no positive sample")

    def effects(self, begin: int, end: int) -> NDArray[np.float64]:
        """The factors of the calls ``begin`` to ``end``, counted from the start of a decision."""
        call = np.arange(begin, end)
        factors = 1.0 + self.warm_up * np.exp(-call / COLD_CALLS)
        factors[call % 2 == 1] *= 1.0 + self.position
        return factors


class Draws:
    """The streams of several decisions, one a row; column k is what call k of a sampler meets.

    A row depends on the seed, the name of the trace and its own number alone: not on how many others there are, and
    not on how far it is read. So equal numbers give every rule and every true slowdown the same noise.

    Attributes:
        seeds: one for each row, for a rule that shuffles; different in every trace.
    """

    def __init__(self, trace: Trace, numbers: Sequence[int], noise: Noise) -> None:
        self.trace = trace
        self.numbers = tuple(numbers)
        self.noise = noise
        key = zlib.crc32(trace.name.encode())
        self._generators = [np.random.default_rng((noise.seed, key, n)) for n in self.numbers]
        self.seeds = tuple(int(generator.integers(2**31)) for generator in self._generators)
        # The sample before the first one; the first always begins a block.
        self._last = np.zeros(len(self.numbers), dtype=np.int64)
        self._values: NDArray[np.float64] = np.empty((len(self.numbers), 0))

    def columns(self, begin: int, end: int) -> NDArray[np.float64]:
        """The values of calls ``begin`` to ``end``, of every row."""
        while self._values.shape[1] < end:
            self._grow()
        return self._values[:, begin:end]

    def _grow(self) -> None:
        have, size = self._values.shape[1], len(self.trace.values)
        column = np.arange(_CHUNK)
        rows = []
        for row, generator in enumerate(self._generators):
            begins = generator.random(_CHUNK) < 1.0 / self.noise.block
            starts = generator.integers(size, size=_CHUNK)
            if have == 0:
                begins[0] = True
            # The column in which the block of each column began; -1 where it is that of the last chunk.
            since = np.maximum.accumulate(np.where(begins, column, -1))
            index = np.where(
                since >= 0, starts[since] + column - since, self._last[row] + 1 + column
            )
            index %= size
            self._last[row] = index[-1]
            rows.append(self.trace.values[index])
        fresh = np.stack(rows) * self.noise.effects(have, have + _CHUNK)
        self._values = np.concatenate([self._values, fresh], axis=1)
