"""The judges: stopping rules fed one sample at a time, and three calls that run them to a verdict.

`compare`, `near` and `limit` take samplers, functions without arguments that return a number. The rules behind them
are in `pair`, `limit` and `baseline`, and their common interface in `rule`. Nothing here reads a clock or a file.
"""

from pytest_vperf.stats.decide import Result, compare, limit, near

__all__ = ["Result", "compare", "limit", "near"]
