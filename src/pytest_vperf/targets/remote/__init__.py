"""Targets on another machine, reached by SSH: ``--vperf-on=ssh://user@host``."""
